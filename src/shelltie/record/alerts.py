"""Tells at once what a person may want to know: on the bus, and to a command of their own."""

import json
import signal
import time
from collections.abc import Callable, Collection

from shelltie.events import (
    Alerted,
    CommandRefused,
    Escalated,
    Event,
    Leaked,
    LimitReached,
    Publish,
    RunEnded,
    RunReady,
    SessionClosed,
    SessionOpened,
    SessionRan,
)
from shelltie.model import RunId
from shelltie.record.health import Check, Thresholds, examine, unwell
from shelltie.record.metrics import Metrics

_QUIET = 10.0  # seconds in which the same alert calls nobody again

Notify = Callable[[bytes], RunId | None]


class Alerts:
    """Subscribe `hear` behind the metrics. Only `kinds` are told of.

    `notify` starts somebody's command, and says as which run if it runs.
    """

    def __init__(
        self,
        metrics: Metrics,
        thresholds: Thresholds,
        kinds: Collection[str],
        publish: Publish,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.notify: Notify | None = None
        self._metrics = metrics
        self._thresholds = thresholds
        self._kinds = frozenset(kinds)
        self._publish = publish
        self._clock = clock
        self._wrong: set[str] = set()
        self._called: dict[str, float] = {}
        self._own: set[RunId] = set()  # commands that were started to tell somebody

    def examine(self) -> list[Check]:
        """Every figure against its threshold."""
        return examine(self._metrics, self._thresholds)

    def hear(self, event: Event) -> None:
        """Tell, if this is worth it."""
        run = getattr(event, "run", None)
        if run in self._own:  # or a command that hangs would call itself
            if isinstance(event, RunEnded):
                self._own.discard(run)
            return
        match event:
            case LimitReached():
                self._tell(Alerted(event.run, event.at, "timeout", event.message))
            case Escalated() if event.signal == signal.SIGKILL:
                message = "it did not end by itself: SIGKILL was sent"
                self._tell(Alerted(event.run, event.at, "sigkill", message))
            case Leaked():
                message = f"processes {list(event.pids)} could not be ended"
                self._tell(Alerted(event.run, event.at, "leak", message))
            case RunReady() | RunEnded() | SessionRan() | CommandRefused():
                self._compare(event.at)
            case SessionOpened() | SessionClosed():
                self._compare(event.at)
            case _:
                pass

    def _compare(self, at: float) -> None:
        """Each figure is told of when it passes its threshold, and when it is back."""
        wrong = unwell(self._metrics, self._thresholds)
        if wrong == self._wrong:
            return
        changed, self._wrong = wrong ^ self._wrong, wrong
        for check in self.examine():
            if check.name in changed:
                figures = check.value, check.threshold
                self._tell(Alerted(None, at, check.name, check.message, *figures, over=check.ok))

    def _tell(self, alerted: Alerted) -> None:
        if alerted.alert not in self._kinds:
            return
        self._publish(alerted)
        now = self._clock()
        if self.notify is None or now - self._called.get(alerted.alert, -_QUIET) < _QUIET:
            return
        self._called[alerted.alert] = now
        if (run := self.notify(_line(alerted))) is not None:
            self._own.add(run)


def _line(alerted: Alerted) -> bytes:
    said = {
        "alert": alerted.alert,
        "at": alerted.at,
        "message": alerted.message,
        "runId": alerted.run,
        "value": alerted.value,
        "threshold": alerted.threshold,
        "over": alerted.over,
    }
    return json.dumps(said).encode() + b"\n"
