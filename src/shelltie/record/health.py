"""Whether everything goes as it should: five figures against their thresholds. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from shelltie.model import human_duration
from shelltie.record.metrics import Metrics

_LEAST = 20  # commands; a rate of fewer says nothing


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What is still well. Rates are of the last hundred commands."""

    sessions: int = 50
    success: float = 0.95
    violations: float = 0.0
    duration: float = 5.0
    truncated: float = 0.01


@dataclass(frozen=True, slots=True)
class Check:
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


def examine(metrics: Metrics, thresholds: Thresholds) -> list[Check]:
    """Every figure, as it stands now."""
    return [_sessions(metrics.sessions, thresholds.sessions), *_rates(metrics, thresholds)]


def _sessions(active: int, most: int) -> Check:
    message = f"{active} sessions are open; {most} are expected at most"
    return Check("sessions", active, most, active <= most, message)


def _rates(metrics: Metrics, thresholds: Thresholds) -> Iterator[Check]:
    ended, asked = metrics.window, metrics.refusals
    count = len(ended)
    few = count < _LEAST
    success = sum(one.ok for one in ended) / count if count else 1.0
    mean = sum(one.duration for one in ended) / count if count else 0.0
    cut = sum(one.truncated for one in ended) / count if count else 0.0
    refused = sum(asked) / len(asked) if asked else 0.0
    yield Check(
        "success",
        success,
        thresholds.success,
        few or success > thresholds.success,
        f"{success:.0%} of the last {count} commands succeeded",
    )
    yield Check(
        "violations",
        refused,
        thresholds.violations,
        refused <= thresholds.violations,
        f"{sum(asked)} of the last {len(asked)} commands were refused",
    )
    yield Check(
        "duration",
        mean,
        thresholds.duration,
        few or mean < thresholds.duration,
        f"the last {count} commands took {human_duration(mean)} on average",
    )
    yield Check(
        "truncated",
        cut,
        thresholds.truncated,
        few or cut < thresholds.truncated,
        f"{sum(one.truncated for one in ended)} of the last {count} commands printed more than"
        " is shown",
    )
