"""Retry of failed runs, and a circuit breaker that pauses after N failed spawns in a row."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import anyio

from shelltie.errors import InvalidParameters
from shelltie.model import Limits, Outcome, State
from shelltie.running.options import RunOptions
from shelltie.running.run import Run
from shelltie.verdict import Rating

MOST = 2
_PAUSE = 0.5  # seconds before what could not be started is tried again; then twice as long
_CAP = 3600.0
# Starts the command and waits for its end, or as long as its caller does.
Attempt = Callable[[RunOptions], Awaitable[Run]]


async def run(attempt: Attempt, wish: RunOptions, again: int, longest: float | None) -> list[Run]:
    """Every attempt, the one that counts last. Whoever is cancelled here ends the command, too.

    `longest` is what the policy allows at most. One that still goes on is the last.
    Raises: InvalidParameters, CommandDenied; and then nothing was started.
    """
    attempts = [await attempt(wish)]
    pause = _PAUSE
    while len(attempts) <= min(again, MOST):
        next_wish = _next(attempts[-1], wish, longest)
        if next_wish is None:
            break
        if attempts[-1].state is State.SPAWN_FAILED:
            await anyio.sleep(pause)
            pause *= 2
        attempts.append(await attempt(next_wish))
    return attempts


def checked(given: object) -> int:
    """How often a caller wants it to be tried again.

    Raises: InvalidParameters.
    """
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given <= MOST:
        raise InvalidParameters(f"retry must be a number from 0 to {MOST}, not {given!r}")
    return given


def _next(ended: Run, wish: RunOptions, longest: float | None) -> RunOptions | None:
    """With what it is worth another try; nothing if it is not, or if nobody knows what it did."""
    outcome = ended.outcome
    if outcome is None:
        return None
    if outcome.state is State.SPAWN_FAILED:
        return wish if outcome.may_pass else None
    if outcome.state is not State.TIMED_OUT or outcome.leaked or not _changes_nothing(ended):
        return None
    limits = ended.rules.limits
    more = _doubled(limits, longest)
    return (
        None
        if (more.total, more.silence) == (limits.total, limits.silence)
        else replace(wish, limits=more)
    )


def notes(attempts: Sequence[Run], again: int) -> tuple[str, ...]:
    """Why there are fewer attempts after a timeout than were asked for."""
    outcome = attempts[-1].outcome
    if outcome is None or outcome.state is not State.TIMED_OUT or len(attempts) > again:
        return ()
    if outcome.leaked:
        why = "some of its processes could not be ended"
    elif _changes_nothing(attempts[-1]):
        why = "its limits are as long as they may be"
    else:
        why = "it is not proved to change nothing, and may have done half of what it does"
    return (f"not run again after its timeout: {why}",)


def _changes_nothing(ended: Run) -> bool:
    verdict = ended.verdict
    return verdict is not None and verdict.rating is Rating.SAFE and verdict.agreed


def _doubled(limits: Limits, longest: float | None) -> Limits:
    most = max(longest or _CAP, limits.total or 0)
    return replace(
        limits,
        total=None if limits.total is None else min(limits.total * 2, most),
        silence=None if limits.silence is None else limits.silence * 2,
        source=f"{limits.source}; doubled for another attempt",
    )


class Breaker:
    """Open after so many commands in a row that could not be started, for `pause` seconds.

    Only what is the machine's fault counts. A command that fails is none of its business.
    """

    def __init__(self, failures: int, pause: float) -> None:
        self._most = failures
        self._pause = pause
        self._failed = 0
        self._open_until = 0.0

    def left(self, now: float) -> float:
        """Seconds in which nothing is started; then one command may try."""
        return max(0.0, self._open_until - now)

    def note(self, outcome: Outcome, now: float) -> None:
        """How a command ended."""
        if outcome.state is not State.SPAWN_FAILED or not outcome.may_pass:
            self._failed = 0
            return
        self._failed += 1
        if self._most and self._failed >= self._most:
            self._open_until = now + self._pause
