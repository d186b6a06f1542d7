"""How late a timeout is decided while two hundred other commands talk."""

import asyncio
import json
import sys
from collections.abc import Sequence

from benchmarks.measuring import fresh_terminal, percentile
from benchmarks.rows import Goal, Of, Row
from shelltie import Terminal
from shelltie.events import Event, LimitReached

_COUNT = 200
_LIMITS = [2 + 0.015 * turn for turn in range(_COUNT)]
# About 50 lines a second, and no process for each: it waits at a pipe on which nobody writes.
_CHATTER = "exec 3<> <(:); while :; do echo a line of output; read -rt 0.02 -u 3; done"
# The same timers in a loop that does nothing else say what the machine is worth at this moment.
_BARE = """
import asyncio, json, sys, time
async def late(limit):
    begun = time.monotonic()
    await asyncio.sleep(limit)
    return time.monotonic() - begun - limit
async def main(): return await asyncio.gather(*map(late, json.loads(sys.argv[1])))
print(json.dumps(asyncio.run(main())))
"""


def measure() -> list[Row]:
    """Lateness of the decision against a bare timer's, and until everybody is proved gone."""
    bare, decided, gone = asyncio.run(_measure())
    what = f"timeout decided late, p99, beside {_COUNT} chatty runs"
    return [
        _row(what, bare, decided, Goal(Of.OURS, 50)),
        _row("the same until all of it is proved gone, p99", bare, gone, None),
    ]


def _row(what: str, floor: Sequence[float], ours: Sequence[float], goal: Goal | None) -> Row:
    return Row(what, "ms", percentile(ours, 99) * 1000, percentile(floor, 99) * 1000, goal=goal)


async def _measure() -> tuple[list[float], list[float], list[float]]:
    decided: list[float] = []

    def watch(event: Event) -> None:
        """Measured when the decision is told: later than what the outcome says."""
        if isinstance(event, LimitReached):
            run = terminal.supervisor.runs[event.run]
            assert run.rules.limits.total is not None
            decided.append(run.elapsed - run.rules.limits.total)

    async with fresh_terminal(watch) as terminal:
        chatty = [await terminal.start(_CHATTER, timeout=600) for _ in range(_COUNT)]
        while any(run.output.total == 0 for run in chatty):
            await asyncio.sleep(0.01)
        bare, gone = await asyncio.gather(_bare(), _gone(terminal))
        assert all(run.outcome is None for run in chatty)
    assert len(decided) == _COUNT
    return bare, decided, gone


async def _gone(terminal: Terminal) -> list[float]:
    runs = [await terminal.start(["sleep", "600"], timeout=limit, silence=0) for limit in _LIMITS]
    outcomes = [await run.wait() for run in runs]
    return [outcome.duration - limit for outcome, limit in zip(outcomes, _LIMITS, strict=True)]


async def _bare() -> list[float]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _BARE, json.dumps(_LIMITS), stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    return [float(late) for late in json.loads(printed)]
