"""Anomaly detection: warns early when a run is slower or more silent than usual. Ends nothing.

It looks at the process tree only while there is no output, and more and more seldom.
"""

import time
from functools import partial

from shelltie.events import Publish, Unusual
from shelltie.limits.experience import Expected, Usual, expected, slower, stuck
from shelltie.model import Sighting
from shelltie.running import activity
from shelltie.running.alarms import Alarm, Alarms
from shelltie.running.run import Run

_FIRST = 1.0  # seconds of silence before the first look
_SECOND = 2.0
_STRETCH = 1.5  # how much longer the silence is at each further look


class Lookout:
    """For one run, from its start to its end."""

    def __init__(self, run: Run, alarms: Alarms, publish: Publish) -> None:
        self._run = run
        self._alarms = alarms
        self._publish = publish
        self._alarm = Alarm(self._wake)
        self._told: set[str] = set()
        self._before: tuple[float, Sighting] | None = None  # at which silence, and what was seen
        self._next = _FIRST
        run.on_ended.append(partial(alarms.set, self._alarm, None))
        if run.outcome is None:
            alarms.set(self._alarm, alarms.now() + _FIRST)

    def _wake(self, now: float) -> None:
        run = self._run
        if run.outcome is not None:
            return
        known = run.rules.experience.usual
        if known is not None and run.elapsed >= expected(known).slow:
            self._tell("slow", slower(known, run.elapsed))
        silent = run.idle
        if self._before is not None and silent < self._before[0]:  # it has printed something
            self._before, self._next = None, _FIRST
        if silent >= self._next:
            self._look(silent, known)
        self._alarms.set(self._alarm, self._next_at(now, known))

    def _next_at(self, now: float, known: Usual | None) -> float:
        """When the silence has its next length, or it becomes slow."""
        times = [now + max(0.01, self._next - self._run.idle)]
        if known is not None and "slow" not in self._told:
            times.append(now + max(0.01, expected(known).slow - self._run.elapsed))
        return min(times)

    def _look(self, silent: float, known: Usual | None) -> None:
        seen, before = self._run.look(), self._before
        if seen is None:  # its leash has not said who it is
            self._next = silent + _FIRST
            return
        self._before = silent, seen
        self._next = _SECOND if silent < _SECOND else silent * _STRETCH
        if seen.waits_for_input and silent >= _SECOND:
            self._tell("input", f"it waits for {'a password' if seen.password else 'input'}")
            return
        works = before is None or activity.did_work(before[1], seen, silent - before[0])
        if not works:
            self._run.longest_idle = max(self._run.longest_idle, silent)
        if known is not None:
            self._compare(silent, known, works=works)

    def _compare(self, silent: float, known: Usual, *, works: bool) -> None:
        thresholds: Expected = expected(known)
        if not works and silent >= thresholds.idle:
            self._tell("idle", stuck(known, silent, works=False))
        elif silent >= thresholds.silent:
            self._tell("silent", stuck(known, silent, works=works))
        else:
            # Be there when it becomes too long, and not only when the next look would be due.
            soon = thresholds.silent if works else thresholds.idle
            self._next = min(self._next, soon) if soon > silent else self._next

    def _tell(self, why: str, message: str) -> None:
        """Each thing once."""
        if why in self._told:
            return
        self._told.add(why)
        self._run.warn(message)
        self._publish(Unusual(self._run.id, time.time(), why, message))
