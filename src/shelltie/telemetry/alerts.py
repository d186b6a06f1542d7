"""Alert thresholds, health check, and the metrics of this process as JSON and Prometheus text."""

import json
import signal
import time
from collections.abc import Callable, Collection, Iterator
from itertools import compress

from shelltie.basics.frozen import frozen
from shelltie.basics.times import human_duration
from shelltie.events import (
    Alerted,
    CommandRefused,
    ContextClosed,
    ContextOpened,
    ContextRan,
    Escalated,
    Event,
    Leaked,
    LimitReached,
    Publish,
    RunEnded,
    RunReady,
)
from shelltie.model import RunId
from shelltie.settings.all_settings import Thresholds
from shelltie.telemetry.metrics import Metrics
from shelltie.telemetry.prometheus import exposition, to_json

_LEAST = 20  # commands; a rate of fewer says nothing
_NAMES = ("sessions", "success", "violations", "duration", "truncated")


@frozen
class HealthCheck:
    """One figure; `message` says in words what is wrong, or that all is well."""

    name: str
    value: float
    threshold: float
    ok: bool
    message: str

    def to_json(self) -> dict[str, object]:
        """For programs."""
        return {
            "name": self.name,
            "value": round(self.value, 6),
            "threshold": self.threshold,
            "ok": self.ok,
            "message": self.message,
        }


def unwell(metrics: Metrics, thresholds: Thresholds) -> set[str]:
    """The names of the figures that have passed their thresholds; quick, as it is asked often."""
    enough = len(metrics.succeeded) >= _LEAST
    wrong = (
        metrics.sessions > thresholds.sessions,
        enough and metrics.succeeded.mean() <= thresholds.success,
        metrics.refused.mean() > thresholds.violations,
        enough and metrics.durations.mean() >= thresholds.duration,
        enough and metrics.truncated.mean() >= thresholds.truncated,
    )
    return set(compress(_NAMES, wrong))


def examine(metrics: Metrics, thresholds: Thresholds) -> list[HealthCheck]:
    """Every figure, as it stands now."""
    wrong = unwell(metrics, thresholds)
    return [
        HealthCheck(name, value, threshold, name not in wrong, message)
        for name, value, threshold, message in _figures(metrics, thresholds)
    ]


def _figures(metrics: Metrics, thresholds: Thresholds) -> Iterator[tuple[str, float, float, str]]:
    active, most, count = metrics.sessions, thresholds.sessions, len(metrics.succeeded)
    yield "sessions", active, most, f"{active} sessions are open; {most} are expected at most"
    success = metrics.succeeded.mean(1.0)
    told = f"{success:.0%} of the last {count} commands succeeded"
    yield "success", success, thresholds.success, told
    refused = metrics.refused
    told = f"{refused.sum:.0f} of the last {len(refused)} commands were refused"
    yield "violations", refused.mean(), thresholds.violations, told
    mean = metrics.durations.mean()
    told = f"the last {count} commands took {human_duration(mean)} on average"
    yield "duration", mean, thresholds.duration, told
    cut = metrics.truncated
    told = f"{cut.sum:.0f} of the last {count} commands printed more than is shown"
    yield "truncated", cut.mean(), thresholds.truncated, told


_QUIET = 10.0  # seconds in which the same alert calls nobody again

Notify = Callable[[bytes], RunId | None]


class Alerts:
    """Subscribe `hear` behind the metrics. Only `kinds` are told of.

    `notify` starts somebody's command, and says as which run if it runs.
    """

    hears = frozenset(  # kinds of events that `hear` does something about
        (
            *(LimitReached, Escalated, Leaked, RunReady, RunEnded, ContextRan, CommandRefused),
            *(ContextOpened, ContextClosed),
        )
    )

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

    def examine(self) -> list[HealthCheck]:
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
            case RunReady() | RunEnded() | ContextRan() | CommandRefused():
                self._compare(event.at)
            case LimitReached():
                self._tell(Alerted(event.run, event.at, "timeout", event.message))
            case Escalated() if event.signal == signal.SIGKILL:
                message = "it did not end by itself: SIGKILL was sent"
                self._tell(Alerted(event.run, event.at, "sigkill", message))
            case Leaked():
                message = f"processes {list(event.pids)} could not be ended"
                self._tell(Alerted(event.run, event.at, "leak", message))
            case ContextOpened() | ContextClosed():
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


@frozen
class Measured:
    """The figures of this process."""

    metrics: Metrics
    alerts: Alerts

    def text(self) -> str:
        """In the words of Prometheus: what an HTTP server answers to `GET /metrics`."""
        return exposition(self.metrics.families())

    def to_json(self) -> list[dict[str, object]]:
        """The same, for another process that puts several together."""
        return to_json(self.metrics.families())

    def health(self) -> list[dict[str, object]]:
        """Every figure that has a threshold, and whether it is well."""
        return [check.to_json() for check in self.alerts.examine()]
