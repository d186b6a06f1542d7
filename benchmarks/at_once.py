"""Many runs at once: how many end in a second, and how long the slowest of them take."""

import asyncio
import time
from statistics import median

from benchmarks.measuring import (
    TRUE,
    Subject,
    bare_spawn,
    fresh_terminal,
    percentile,
    rounds_of,
)
from benchmarks.rows import Goal, Of, Row

_COUNTS = (50, 200)
_ROUNDS = 9


def measure() -> list[Row]:
    """The library against asyncio's subprocess, both with as many at a time."""
    return [row for count in _COUNTS for row in asyncio.run(_measure(count))]


async def _measure(count: int) -> list[Row]:
    async with fresh_terminal() as terminal:
        rounds = []
        for _ in range(rounds_of(_ROUNDS) + 1):
            floor = await _together(lambda: bare_spawn(TRUE), count)
            ours = await _together(lambda: terminal.run([TRUE]), count)
            rounds.append((floor, ours))
    quiet = sorted(rounds[1:], key=lambda pair: sum(whole for whole, _ in pair))
    quiet = quiet[: -(-len(quiet) // 3)]
    rates = [count / median(pair[who][0] for pair in quiet) for who in (0, 1)]
    slowest = [
        percentile([wall for pair in quiet for wall in pair[who][1]], 99) * 1000 for who in (0, 1)
    ]
    faster = Goal(Of.RATIO, 0.8, at_least=True)
    return [
        Row(f"{count} runs at once, runs per second", "/s", rates[1], rates[0], goal=faster),
        Row(f"{count} runs at once, p99", "ms", slowest[1], slowest[0], goal=Goal(Of.RATIO, 2)),
    ]


async def _together(subject: Subject, count: int) -> tuple[float, list[float]]:
    """Seconds until all have ended, and those of each."""

    async def one() -> float:
        begun = time.perf_counter()
        await subject()
        return time.perf_counter() - begun

    begun = time.perf_counter()
    walls = await asyncio.gather(*(one() for _ in range(count)))
    return time.perf_counter() - begun, list(walls)
