"""`python -m benchmarks.crash [ROUNDS]`: a server is killed under load, again and again.

After each time the journal must open, its chain must hold, every command that started must be in
it and settled, and nobody may be left. The exit code is 1 if anything of this is not so.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from shelltie import Config, Terminal
from shelltie.record import queries
from shelltie.record.writer import Terms, Writer

_WORKERS = 6
_PATIENCE = 20.0
_TAG = "CRASH_TEST_OF_SHELLTIE"
# Each tells that it has started before it does anything else; some try to get away.
_COMMANDS = (
    "echo $SHELLTIE_RUN >> {started}; true",
    "echo $SHELLTIE_RUN >> {started}; sleep 0.05; echo done",
    "echo $SHELLTIE_RUN >> {started}; sleep 30",
    "echo $SHELLTIE_RUN >> {started}; (setsid sleep 30 >/dev/null 2>&1 &); sleep 0.1",
    "echo $SHELLTIE_RUN >> {started}; head -c 200000 /dev/zero",
)


@dataclass(slots=True)
class Findings:
    """What was seen over all rounds."""

    rounds: int = 0
    started: int = 0
    lost: int = 0
    ended: int = 0
    leftovers: int = 0
    slowest: float = 0.0  # seconds until nobody was left
    wrong: list[str] = field(default_factory=list)


def main() -> int:
    """Print what was found."""
    parser = argparse.ArgumentParser(prog="benchmarks.crash", description=__doc__)
    parser.add_argument("rounds", nargs="?", type=int, default=200, metavar="ROUNDS")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="to do it again")
    args = parser.parse_args()
    chance = random.Random(args.seed)
    found = Findings()
    with TemporaryDirectory() as place:
        for _ in range(args.rounds):
            _round(Path(place), chance, found)
    print(json.dumps({"seed": args.seed} | {name: getattr(found, name) for name in _names()}))
    return 1 if found.wrong else 0


def _names() -> tuple[str, ...]:
    return tuple(Findings.__dataclass_fields__)


def _round(place: Path, chance: random.Random, found: Findings) -> None:
    tag = f"{os.getpid()}-{found.rounds}"
    server = _start(place, tag, chance.randrange(2**32))
    # In one round something has begun for sure: a busy machine might not come to it in any other.
    while not found.rounds and not (place / "started").exists():
        time.sleep(0.01)
    time.sleep(chance.uniform(0.1, 0.7))
    os.kill(server, signal.SIGKILL)
    os.waitpid(server, 0)
    begun = time.monotonic()
    while (left := _carriers(tag)) and time.monotonic() < begun + _PATIENCE:
        time.sleep(0.005)
    found.slowest = max(found.slowest, round(time.monotonic() - begun, 3))
    found.rounds += 1
    found.wrong += [f"round {found.rounds}: {pid} survived" for pid in left]
    _look(place, found)


def _start(place: Path, tag: str, seed: int) -> int:
    """A server, forked from this process, in which nothing runs yet: so it starts at once."""
    child = os.fork()
    if child:
        return child
    try:
        asyncio.run(_serve(place, tag, random.Random(seed)))
    finally:
        os._exit(0)


async def _serve(place: Path, tag: str, chance: random.Random) -> None:
    started = place / "started"
    config = Config.of(state_dir=str(place), safety_profiles_run_dangerous="allow")
    async with Terminal(config) as terminal:

        async def work() -> None:
            while True:
                command = chance.choice(_COMMANDS).format(started=started)
                limit = chance.choice((0.2, 30))
                await terminal.run(command, env={_TAG: tag}, timeout=limit)

        await asyncio.gather(*(work() for _ in range(_WORKERS)))


def _carriers(tag: str) -> list[int]:
    wanted, found = f"{_TAG}={tag}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def _look(place: Path, found: Findings) -> None:
    """As the next server would: recover, and then look at everything."""
    journal = place / "journal.db"
    writer = Writer(Terms(journal, place / "output"))
    problem = writer.write(patient=True)
    found.lost += len(writer.lost)
    found.leftovers += sum(len(one.ended) for one in writer.lost)
    writer.close()
    checked = queries.verify(journal)
    told = [*checked.problems, *([problem] if problem else [])]
    lines = [(line.entry.kind, line.entry.run) for line in queries.entries(journal)]
    ready = {run for kind, run in lines if kind == "ready"}
    settled = {run for kind, run in lines if kind in ("ended", "lost", "refused")}
    started = (
        set((place / "started").read_text().split()) if (place / "started").exists() else set()
    )
    found.started, found.ended = len(started), sum(kind == "ended" for kind, _ in lines)
    told += [f"{run} started and has no row" for run in started - ready]
    told += [f"{run} was never settled" for run in ready - settled]
    found.wrong += [f"round {found.rounds}: {problem}" for problem in told]


if __name__ == "__main__":
    sys.exit(main())
