"""How late a timeout is decided, and anything else begins, while two hundred sessions talk."""

import asyncio
import json
import sys
import time
from collections.abc import Sequence

from benchmarks.measuring import fresh_terminal, percentile
from benchmarks.rows import Goal, Of, Row
from shelltie import Terminal
from shelltie.events import Event, LimitReached
from shelltie.model import Command, Limits, TerminalSize
from shelltie.running.options import RunOptions
from shelltie.sessions.registry import Sessions
from shelltie.sessions.session import Session
from shelltie.settings.all_settings import SessionLimits, Waiting

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
async def lag(): return [await late(0.01) for _ in range(300)]
async def main():
    return await asyncio.gather(lag(), asyncio.gather(*map(late, json.loads(sys.argv[1]))))
print(json.dumps(asyncio.run(main())))
"""


def measure() -> list[Row]:
    """Lateness of the decision against a bare timer's, and until everybody is proved gone."""
    (bare_lag, bare), lag, decided, gone = asyncio.run(_measure())
    beside = f"beside {_COUNT} chatty sessions"
    return [
        _row(f"timeout decided late, p99, {beside}", bare, decided, Goal(Of.OURS, 50)),
        _row("the same until all of it is proved gone, p99", bare, gone, None),
        _row(f"event loop lags, p99, {beside}", bare_lag, lag, None),
    ]


def _row(what: str, floor: Sequence[float], ours: Sequence[float], goal: Goal | None) -> Row:
    return Row(what, "ms", percentile(ours, 99) * 1000, percentile(floor, 99) * 1000, goal=goal)


async def _measure() -> tuple[list[list[float]], list[float], list[float], list[float]]:
    decided: list[float] = []

    def watch(event: Event) -> None:
        """Measured when the decision is told: later than what the outcome says."""
        if isinstance(event, LimitReached):
            run = terminal.supervisor.runs[event.run]
            assert run.rules.limits.total is not None
            decided.append(run.elapsed - run.rules.limits.total)

    async with fresh_terminal(watch) as terminal:
        chatty = await _chatty(terminal)
        while any(session.position == 0 for session in chatty):
            await asyncio.sleep(0.01)
        bare, gone, lag = await asyncio.gather(_bare(), _gone(terminal), _lag())
        assert not any(session.complete for session in chatty)
    assert len(decided) == _COUNT
    return bare, lag, decided, gone


async def _chatty(terminal: Terminal) -> list[Session]:
    sessions = Sessions(terminal.supervisor, SessionLimits(_COUNT))
    command = Command(_CHATTER, stays_open=True, pty=TerminalSize())
    wish = RunOptions(None, Limits(None, None, "sessions have no limit"))
    return [await sessions.open(command, wish, "me", Waiting()) for _ in range(_COUNT)]


async def _lag() -> list[float]:
    """How late a task has its turn that only wants to sleep for 10 ms."""
    late = []
    for _ in range(300):
        begun = time.monotonic()
        await asyncio.sleep(0.01)
        late.append(time.monotonic() - begun - 0.01)
    return late


async def _gone(terminal: Terminal) -> list[float]:
    runs = [await terminal.start(["sleep", "600"], timeout=limit, silence=0) for limit in _LIMITS]
    outcomes = [await run.wait() for run in runs]
    return [outcome.duration - limit for outcome, limit in zip(outcomes, _LIMITS, strict=True)]


async def _bare() -> list[list[float]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _BARE, json.dumps(_LIMITS), stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    figures: list[list[float]] = json.loads(printed)
    return figures
