"""Adaptive timeouts: quantiles of past durations, and what follows from them. Pure.

Report early, kill late, on evidence: what is slower than nineteen of twenty runs were is told at
once; it is ended only far beyond everything that was ever seen. A limit is never made shorter than
the policy's, and one that a caller gave is never touched. Who gives a total limit only leaves the
silence limit to the policy, and so to experience.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from shelltie.basics.frozen import frozen
from shelltie.basics.times import human_duration
from shelltie.model import Limits, Sample

KEPT = 200  # runs of one shape; older ones say nothing about the project as it is now
_FACTOR = 3.0
_SLACK_MAX, _DECAY = 4.0, 0.9
_SILENCE_MAX = 900.0
_CAP = 3600.0
_LEAST_IDLE, _LEAST_SILENT, _LEAST_SLOW = 3.0, 10.0, 5.0


@frozen
class Usual:
    """What runs of one shape have been like, of the last `n` that ended by themselves.

    `slack` grows with each run that a limit ended, and shrinks with each that went well.
    """

    shape: str
    n: int
    p50: float
    p95: float
    longest: float
    silence_p95: float
    silence_longest: float
    idle_p95: float
    slack: float = 1.0


class Experience:
    """What is known of commands of one shape in one project; fewer than `least` say nothing."""

    def __init__(
        self, shape: str = "", project: str = "", samples: Sequence[Sample] = (), least: int = 20
    ) -> None:
        self.shape = shape
        self.project = project
        self._samples = samples
        self._least = least

    @cached_property
    def usual(self) -> Usual | None:
        """What is usual. Made when it is asked for: most commands are over before."""
        found = usual(self.shape, self._samples) if len(self._samples) >= self._least else None
        return found if found is not None and found.n >= self._least else None


@frozen
class Expected:
    """From when on a run is worth a word: seconds of silence without work, of silence, in all."""

    idle: float
    silent: float
    slow: float


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least that share does not exceed; of sorted values."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def usual(shape: str, samples: Sequence[Sample]) -> Usual | None:
    """What is usual, from runs in the order in which they ended; nothing without a good one."""
    good = [sample for sample in samples[-KEPT:] if not sample.by_limit]
    if not good:
        return None
    durations = sorted(sample.duration for sample in good)
    silences = sorted(sample.silence for sample in good)
    return Usual(
        shape,
        len(good),
        quantile(durations, 0.5),
        quantile(durations, 0.95),
        durations[-1],
        quantile(silences, 0.95),
        silences[-1],
        quantile(sorted(sample.idle for sample in good), 0.95),
        _slack(samples),
    )


def _slack(samples: Sequence[Sample]) -> float:
    slack = 1.0
    for sample in samples[-KEPT:]:
        slack = min(_SLACK_MAX, slack * 2) if sample.by_limit else max(1.0, slack * _DECAY)
    return slack


def expected(known: Usual) -> Expected:
    """When to say that a run is not as usual."""
    return Expected(
        idle=max(_LEAST_IDLE, known.idle_p95),
        silent=max(_LEAST_SILENT, known.silence_p95),
        slow=max(_LEAST_SLOW, known.p95),
    )


def proposed(limits: Limits, known: Usual, cap: float | None = None) -> Limits:
    """The limits that experience suggests; the same ones where they are long enough, or not ours.

    `cap` is the longest that the policy allows.
    """
    if limits.literal:
        return limits
    beyond = _FACTOR * (1 + 2 / math.sqrt(known.n)) * known.slack
    total, silent = limits.total, min(_SILENCE_MAX, beyond * known.silence_longest)
    if limits.by_policy:
        total = _raised(total, min(cap or _CAP, beyond * known.longest))
    elif total is not None:
        silent = min(silent, total)
    silence = _raised(limits.silence, silent)
    if (total, silence) == (limits.total, limits.silence):
        return limits
    source = (
        f"learned from {known.n} runs of {known.shape!r} (95 % took {_said(known.p95)} or less)"
    )
    # Before a run has lasted as long as others do, its silence says little.
    limits = replace(limits, silence_from=known.p95)
    if not limits.by_policy:
        return limits.with_silence(silence, source)
    return replace(limits, total=total, silence=silence, source=source)


def _raised(limit: float | None, suggested: float) -> float | None:
    """Whole seconds, and never shorter than it was."""
    return None if limit is None else max(limit, float(math.ceil(suggested)))


def _said(span: float) -> str:
    return human_duration(span)


def summary(known: Usual) -> str:
    """For people: how long such commands take."""
    return (
        f"Of the last {known.n} runs of {known.shape!r} half took {_said(known.p50)} or less,"
        f" and 95 % {_said(known.p95)} or less."
    )


def slower(known: Usual, elapsed: float) -> str:
    """For people: it takes longer than such commands do."""
    return (
        f"slower than usual: {_said(elapsed)} so far, and of the last {known.n} runs of"
        f" {known.shape!r} 95 % took {_said(known.p95)} or less"
    )


def stuck(known: Usual, silent: float, *, works: bool) -> str:
    """For people: it is silent for longer than such commands are."""
    and_work = "" if works else " and no work"
    return (
        f"no output{and_work} for {_said(silent)}: of the last {known.n} runs of {known.shape!r}"
        f" 95 % were never silent for longer than {_said(known.silence_p95)}"
    )
