"""`python -m benchmarks.soak [MINUTES]`: a server works for long, and must not grow.

Commands that succeed, fail, time out, are cancelled, print a lot or leave something behind, and
sessions, in rounds. After each round, when nothing should be left, its memory, descriptors,
threads, processes and zombies are counted. The exit code is 1 if any of them grew.
"""

import argparse
import ctypes
import gc
import json
import random
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import anyio
import psutil

from benchmarks.measuring import memory
from shelltie import Config, Terminal
from shelltie.errors import TerminalError
from shelltie.model import Command, Limits, TerminalSize
from shelltie.record import queries
from shelltie.running.options import RunOptions
from shelltie.sessions.registry import Sessions
from shelltie.sessions.shell import open_shell
from shelltie.settings.all_settings import Waiting

_AT_ONCE = 12
_SETTLED = 20.0  # seconds for the last process of a round to be gone
_LEFT = {"processes": 0, "zombies": 0}
_WARM = 5  # rounds that do not count: caches are filled, and memory is taken for good


@dataclass(frozen=True, slots=True)
class Figures:
    """What one server has after a round; keepers and parser are none of its `processes`."""

    memory: int
    descriptors: int
    threads: int
    processes: int
    zombies: int


def main() -> int:
    """Print what was counted at the beginning and at the end."""
    parser = argparse.ArgumentParser(prog="benchmarks.soak", description=__doc__)
    parser.add_argument("minutes", nargs="?", type=float, default=30.0, metavar="MINUTES")
    parser.add_argument("--growth", type=int, default=8, metavar="MB", help="of memory, at most")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="to do it again")
    args = parser.parse_args()
    with TemporaryDirectory() as place:
        rounds, calls = anyio.run(_work, Path(place), args.minutes * 60, args.seed)
        broken = list(queries.verify(Path(place) / "journal.db").problems)
    early, late = _middle(rounds[: len(rounds) // 3]), _middle(rounds[-(len(rounds) // 3) :])
    wrong = [*_grown(early, late, args.growth * 1024 * 1024), *broken]
    said = {"seed": args.seed, "rounds": len(rounds), "calls": calls, "wrong": wrong}
    print(json.dumps({**said, "early": asdict(early), "late": asdict(late)}))
    return 1 if wrong else 0


def _middle(rounds: list[Figures]) -> Figures:
    names = [field.name for field in fields(Figures)]
    return Figures(*(int(median(getattr(one, name) for one in rounds)) for name in names))


def _grown(early: Figures, late: Figures, growth: int) -> list[str]:
    wrong = []
    # Threads that wait for more work are kept, as many as were needed at once.
    for name, allowed in (("memory", growth), ("descriptors", 1), ("threads", _AT_ONCE)):
        before, after = getattr(early, name), getattr(late, name)
        if after - before > allowed:
            wrong.append(f"{name} grew from {before} to {after}")
    left = [name for name in ("processes", "zombies") if getattr(late, name) > _LEFT[name]]
    return wrong + [f"{getattr(late, name)} {name} are left after a round" for name in left]


async def _work(place: Path, span: float, seed: int) -> tuple[list[Figures], int]:
    chance, seen, calls = random.Random(seed), list[Figures](), 0
    deadline = time.monotonic() + span
    allowed = {"safety_profiles_run_dangerous": "allow", "safety_profiles_session_unknown": "allow"}
    config = Config.of(state_dir=str(place), limits_grace=0.2, **allowed)
    async with Terminal(config) as terminal:
        work = _Work(terminal, chance)
        for text in ("echo safe", "no-such-program"):  # one has a keeper of its own
            await terminal.run(text)
        keepers = psutil.Process().children(recursive=True)
        while time.monotonic() < deadline or len(seen) < _WARM + 6:
            async with anyio.create_task_group() as tasks:
                for _ in range(_AT_ONCE):
                    tasks.start_soon(chance.choice(work.kinds))
            calls += _AT_ONCE
            seen.append(await _count(terminal, keepers))
    return seen[_WARM:], calls


class _Work:
    """What is done in a round."""

    def __init__(self, terminal: Terminal, chance: random.Random) -> None:
        self._terminal = terminal
        self._chance = chance
        self._sessions = Sessions(terminal.supervisor)
        self.kinds: list[Callable[[], Coroutine[None, None, None]]] = [
            self._run,
            self._time_out,
            self._cancel,
            self._session,
            self._shell,
        ]

    async def _run(self) -> None:
        commands = (
            "echo fine",
            "exit 7",
            "head -c 2000000 /dev/zero",
            "(setsid sleep 60 >/dev/null 2>&1 &); echo left",
            "no-such-program-anywhere",
            "for i in 1 2 3; do echo $i; echo $i >&2; done",
        )
        await self._terminal.run(self._chance.choice(commands), timeout=20)

    async def _time_out(self) -> None:
        await self._terminal.run("trap '' TERM; sleep 60 & wait", timeout=0.1, silence=0.1)

    async def _cancel(self) -> None:
        with anyio.move_on_after(self._chance.uniform(0.0, 0.1)):
            await self._terminal.run("sleep 60")

    async def _session(self) -> None:
        command = Command("cat", stays_open=True, pty=TerminalSize())
        wish = RunOptions("session", Limits(None, None, "soak"))
        session = await self._sessions.open(command, wish, "soak", Waiting(most=2))
        with suppress(TerminalError):
            await session.exchange(b"hello\n", Waiting(most=0.2))
            await self._sessions.stop(session.id, "soak")

    async def _shell(self) -> None:
        shell = await open_shell(self._sessions, self._terminal.supervisor, "soak", "echo one")
        with suppress(TerminalError):
            await shell.follow(Waiting(most=1))
            await self._sessions.stop(shell.session.id, "soak")


async def _count(terminal: Terminal, keepers: list[psutil.Process]) -> Figures:
    """Once everything has settled, or should have."""
    own = psutil.Process()
    deadline = time.monotonic() + _SETTLED
    while terminal.supervisor.runs and time.monotonic() < deadline:
        await anyio.sleep(0.01)
    parser, found = _others(own, keepers)
    while found and time.monotonic() < deadline:
        await anyio.sleep(0.01)
        parser, found = _others(own, keepers)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what is free, but not given back, is no growth
    return Figures(
        memory=memory("self", "VmRSS"),
        # The parser that waits has a pipe each way, and need not be there yet.
        descriptors=len(list(Path("/proc/self/fd").iterdir())) - 2 * len(parser),
        threads=own.num_threads(),
        processes=len(found),
        zombies=sum(_is_zombie(one) for one in found),
    )


_Processes = list[psutil.Process]


def _others(own: psutil.Process, keepers: _Processes) -> tuple[_Processes, _Processes]:
    """The one shfmt that waits for its text, and what else is below us but for the keepers."""
    found = [one for one in own.children(recursive=True) if one not in keepers]
    parser = [one for one in found if _name(one) == "shfmt"][:1]
    return parser, [one for one in found if one not in parser]


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


if __name__ == "__main__":
    sys.exit(main())
