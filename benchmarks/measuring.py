"""How to measure beside others: floor and ours take turns, so that noise meets both."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.rows import Row
from shelltie import Config, Terminal
from shelltie.events import Publish

TRUE = "/bin/true"

Subject = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Samples:
    """What the calls of one subject took: each on the wall, together in CPU of this process."""

    walls: list[float]
    cpu: float

    @property
    def p50(self) -> float:
        """Milliseconds on the wall."""
        return median(self.walls) * 1000

    @property
    def p95(self) -> float:
        """Milliseconds on the wall."""
        return percentile(self.walls, 95) * 1000

    @property
    def cpu_each(self) -> float:
        """Milliseconds of CPU for one call."""
        return self.cpu / len(self.walls) * 1000


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that `percent` of all do not exceed."""
    return sorted(values)[-(-len(values) * percent // 100) - 1]


_most_rounds: list[int] = []  # of this process; empty is as many as each benchmark wants


def limit_rounds(most: int) -> None:
    """Play no more rounds than this: to see that everything runs, not what it costs."""
    _most_rounds[:] = [most]


def rounds_of(wanted: int) -> int:
    """As many as a benchmark wants, or as there may be."""
    return min(wanted, *_most_rounds) if _most_rounds else wanted


async def take_turns(*subjects: Subject, rounds: int, calls: int) -> list[Samples]:
    """Call each subject `calls` times a round, and once more before to warm up.

    What counts is the quietest third of the rounds, the same ones for every subject.
    """
    rounds = rounds_of(rounds)
    played = [[await _time(subject, calls) for subject in subjects] for _ in range(rounds + 1)][1:]
    quietest = sorted(played, key=lambda turns: sum(sum(turn.walls) for turn in turns))
    kept = zip(*quietest[: -(-rounds // 3)], strict=True)
    return [
        Samples([wall for turn in turns for wall in turn.walls], sum(turn.cpu for turn in turns))
        for turns in kept
    ]


async def _time(subject: Subject, calls: int) -> Samples:
    walls = []
    cpu = time.process_time()
    for _ in range(calls):
        begun = time.perf_counter()
        await subject()
        walls.append(time.perf_counter() - begun)
    return Samples(walls, time.process_time() - cpu)


async def bare_spawn(*argv: str) -> None:
    """The least that runs a command from asyncio and has its output and exit code."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    await process.communicate()
    assert process.returncode == 0


@asynccontextmanager
async def fresh_terminal(publish: Publish | None = None) -> AsyncIterator[Terminal]:
    """A terminal with the settings we ship, whose output files vanish with it."""
    with TemporaryDirectory() as state:
        async with Terminal(Config.of(state_dir=state), publish) as terminal:
            yield terminal


def memory(pid: int | str, name: str, file: str = "status") -> int:
    """Bytes, from a line such as `VmRSS: 123 kB` of a file in /proc."""
    text = Path(f"/proc/{pid}/{file}").read_text(encoding="ascii")
    line = next(line for line in text.splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


def measure(name: str) -> list[Row]:
    """The rows of one benchmark."""
    print(f"measuring {name} …", file=sys.stderr)
    rows: list[Row] = import_module(f"benchmarks.{name}").measure()
    return rows
