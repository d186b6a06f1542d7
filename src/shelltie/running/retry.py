"""Retry of failed runs, and a circuit breaker that pauses after N failed spawns in a row."""

from dataclasses import replace

import anyio

from shelltie.errors import InvalidParameters
from shelltie.model import Limits, Outcome, State
from shelltie.running.options import RunOptions
from shelltie.running.run import Run
from shelltie.verdict import Rating

RETRIES_MAX = 2
_FIRST_BACKOFF = 0.5  # seconds before what could not be started is tried again; then twice as long
_CAP = 3600.0


_ELSEWHERE = (
    "it was rated safe, and a read-only view kept it from something that safe commands do not do;"
    " nothing was changed there, and so it ran again, as an unknown command"
)


class Attempts:
    """A command that may be run again, `again` times at most, and `runs`, the one that counts last.

    While `next()` says with what options: start it, wait for it, and add it to `runs`.
    `longest` is what the policy allows at most.
    """

    def __init__(self, options: RunOptions, again: int, longest: float | None) -> None:
        self.runs: list[Run] = []
        self._options = options
        self._again = min(again, RETRIES_MAX)
        self._longest = longest
        self._pause = _FIRST_BACKOFF

    async def next(self) -> RunOptions | None:
        """With what to start it now, after a pause where it could not be started; or nothing."""
        if not self.runs:
            return self._options
        if self.runs[-1].stopped:  # it changed nothing, and is unknown now: it runs elsewhere
            return self._options
        if len(self._counted) > self._again:
            return None
        options = _next(self.runs[-1], self._options, self._longest)
        if options is not None and self.runs[-1].state is State.SPAWN_FAILED:
            await anyio.sleep(self._pause)
            self._pause *= 2
        return options

    def notes(self) -> tuple[str, ...]:
        """Why there are fewer attempts after a timeout than were asked for."""
        last = self.runs[-1]
        outcome = last.outcome
        again = (_ELSEWHERE,) if len(self._counted) < len(self.runs) else ()
        late = outcome is not None and outcome.state is State.TIMED_OUT
        if outcome is None or not late or len(self._counted) > self._again:
            return again
        if outcome.leaked:
            why = "some of its processes could not be ended"
        elif _changes_nothing(last):
            why = "its limits are as long as they may be"
        else:
            why = "it is not proved to change nothing, and may have done half of what it does"
        return (*again, f"not run again after its timeout: {why}")

    @property
    def _counted(self) -> list[Run]:
        return [run for run in self.runs if not run.stopped]


def checked(given: object) -> int:
    """How often a caller wants it to be tried again.

    Raises: InvalidParameters.
    """
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given <= RETRIES_MAX:
        raise InvalidParameters(f"retry must be a number from 0 to {RETRIES_MAX}, not {given!r}")
    return given


def _next(ended: Run, options: RunOptions, longest: float | None) -> RunOptions | None:
    """With what it is worth another try; nothing if it is not, or if nobody knows what it did."""
    outcome = ended.outcome
    if outcome is None:
        return None
    if outcome.state is State.SPAWN_FAILED:
        return options if outcome.may_pass else None
    if outcome.state is not State.TIMED_OUT or outcome.leaked or not _changes_nothing(ended):
        return None
    limits = ended.rules.limits
    more = _doubled(limits, longest)
    return (
        None
        if (more.total, more.silence) == (limits.total, limits.silence)
        else replace(options, limits=more)
    )


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


class CircuitBreaker:
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
