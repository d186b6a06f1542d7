"""Timeout state machine of the total and silence clocks: given `now`, says what is due. Pure."""

import math
from collections.abc import Sequence

from shelltie.basics.frozen import frozen, replace
from shelltie.model import Escalation, Limit, Limits

_SHORTEST_WARNED = 5.0  # a shorter limit would warn at once, on every quick command


@frozen
class Warn:
    """Say that `limit` ends the run in `left` seconds."""

    limit: Limit
    idle: float
    left: float


@frozen
class Observe:
    """Look at the tree now, so that `LookAtTree` has something to compare with."""


@frozen
class LookAtTree:
    """The silence limit has passed: does the tree work?

    Answer with `extend_silence` or `time_out`.
    """

    idle: float


@frozen
class TimeOut:
    """It is decided: the run timed out. Signals follow."""

    limit: Limit
    idle: float
    elapsed: float


@frozen
class Send:
    """Send this signal to everybody."""

    signal: int


@frozen
class GiveUp:
    """Everything was tried and somebody is still there."""


@frozen
class Deadline:
    """When a limit ends the run as things are, and when it is warned of that; both on our clock.

    `span` is the length of the limit. Output moves the end of a silence.
    """

    limit: Limit
    at: float
    warn_at: float
    span: float


Step = Warn | Observe | LookAtTree | TimeOut | Send | GiveUp


class Watchdog:
    """Watches one run. `last` is the time of the last byte: whoever reads output tells.

    Whatever it decides, it decides once: the first `time_out` or `end` wins.
    """

    __slots__ = (
        "_deadline",
        "_evidence",
        "_extended",
        "_lead",
        "_limits",
        "_observed_for",
        "_steps",
        "_total_warned",
        "_warned_for",
        "last",
        "longest",
        "started",
    )

    def __init__(
        self, limits: Limits, started: float, *, warn_lead: float = 30.0, evidence: bool = True
    ) -> None:
        self.started = self.last = started
        self.longest = 0.0  # the longest silence that a byte has ended
        self._limits = limits
        self._evidence = evidence and not limits.literal
        self._lead = warn_lead
        self._extended = -math.inf  # until when silence is excused, because the tree works
        self._warned_for = self._observed_for = -math.inf  # the `last` it was done for
        self._total_warned = False
        self._steps: Sequence[tuple[float, Step]] | None = None  # set once the end has begun
        self._deadline = math.inf if limits.total is None else started + limits.total

    def heard(self, now: float) -> None:
        """A byte arrived."""
        self.longest = max(self.longest, now - self.last)
        self.last = now

    @property
    def ending(self) -> bool:
        """The end has been decided."""
        return self._steps is not None

    @property
    def next_at(self) -> float | None:
        """When to ask again, if no byte arrives before."""
        if self._steps is not None:
            return self._steps[0][0] if self._steps else None
        ends = self._silence_ends
        soonest = min(self._deadline, ends, self._look_at(ends))
        if not self._total_warned:
            soonest = min(soonest, self._deadline - self._lead_before(self._limits.total))
        return None if soonest == math.inf else soonest

    def due(self, now: float) -> list[Step]:
        """What has to be done at `now`; each thing is said once."""
        if self._steps is not None:
            return self._escalation_due(now)
        if now >= self._deadline:
            return self.time_out(Limit.TOTAL, now)
        idle = now - self.last
        if now >= self._silence_ends:
            return [LookAtTree(idle)] if self._evidence else self.time_out(Limit.SILENCE, now)
        return self._warnings_due(now, idle)

    def extend_silence(self, now: float) -> None:
        """The tree works: let it be silent for as long again, and compare again then."""
        self._extended = now
        self._observed_for = self._silent_since

    @property
    def deadlines(self) -> tuple[Deadline, ...]:
        """The end by each limit that there is, the nearest first; none once the end has begun."""
        limits = self._limits
        found = [
            Deadline(limit, at, at - self._lead_before(span), span)
            for limit, at, span in (
                (Limit.TOTAL, self._deadline, limits.total),
                (Limit.SILENCE, self._silence_ends, limits.silence),
            )
            if span is not None and self._steps is None
        ]
        return tuple(sorted(found, key=lambda one: one.at))

    def lengthen(self, by: float) -> Limits:
        """Make both limits longer by so many seconds; they are warned of again. The new limits."""
        total, silence = self._limits.total, self._limits.silence
        self._limits = replace(
            self._limits,
            total=None if total is None else total + by,
            silence=None if silence is None else silence + by,
        )
        self._deadline += by
        self._total_warned = False
        self._warned_for = self._observed_for = -math.inf
        return self._limits

    def time_out(self, limit: Limit, now: float) -> list[Step]:
        """Decide that the run timed out, unless its end has been decided already."""
        if self._steps is not None:
            return []
        self._steps = ()
        return [TimeOut(limit, now - self.last, now - self.started)]

    def end(self, escalation: Escalation, now: float) -> list[Step]:
        """Begin (or begin anew) to end everybody; the first signals are due at once."""
        at = now
        steps: list[tuple[float, Step]] = []
        for step in escalation:
            steps.append((at, Send(step.signal)))
            at += step.pause
        self._steps = [*steps, (at, GiveUp())]
        return self._escalation_due(now)

    @property
    def _silent_since(self) -> float:
        return max(self.last, self._extended)

    @property
    def _silence_ends(self) -> float:
        silence, first = self._limits.silence, self.started + self._limits.silence_from
        return math.inf if silence is None else max(self._silent_since + silence, first)

    def _look_at(self, silence_ends: float) -> float:
        """When the coming end of silence wants a warning or a first look."""
        looked = self._observed_for == self._silent_since
        if looked or silence_ends >= self._deadline:
            return math.inf
        return silence_ends - self._lead_before(self._limits.silence)

    def _lead_before(self, limit: float | None) -> float:
        return 0.0 if limit is None else min(self._lead, limit / 2)

    def _warnings_due(self, now: float, idle: float) -> list[Step]:
        steps: list[Step] = []
        limits = self._limits
        if not self._total_warned and now >= self._deadline - self._lead_before(limits.total):
            self._total_warned = True
            if limits.total is not None and limits.total >= _SHORTEST_WARNED:
                steps.append(Warn(Limit.TOTAL, idle, self._deadline - now))
        if now >= self._look_at(self._silence_ends):
            self._observed_for = self._silent_since
            if self._evidence:
                steps.append(Observe())
            long = limits.silence is not None and limits.silence >= _SHORTEST_WARNED
            if long and self._warned_for != self.last:
                self._warned_for = self.last
                steps.append(Warn(Limit.SILENCE, idle, self._silence_ends - now))
        return steps

    def _escalation_due(self, now: float) -> list[Step]:
        steps = self._steps or ()
        due = [step for at, step in steps if at <= now]
        self._steps = steps[len(due) :]
        return due
