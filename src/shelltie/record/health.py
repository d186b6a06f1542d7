"""Whether everything goes as it should: five figures against their thresholds. Pure."""

from collections.abc import Iterator

from shelltie.frozen import frozen
from shelltie.model import human_duration
from shelltie.record.metrics import Metrics

_LEAST = 20  # commands; a rate of fewer says nothing


@frozen
class Thresholds:
    """What is still well. Rates are of the last hundred commands."""

    sessions: int = 50
    success: float = 0.95
    violations: float = 0.0
    duration: float = 5.0
    truncated: float = 0.01


@frozen
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


def unwell(metrics: Metrics, thresholds: Thresholds) -> set[str]:
    """The names of the figures that have passed their thresholds; quick, as it is asked often."""
    enough = len(metrics.succeeded) >= _LEAST
    wrong = {
        "sessions": metrics.sessions > thresholds.sessions,
        "success": enough and metrics.succeeded.mean() <= thresholds.success,
        "violations": metrics.refused.mean() > thresholds.violations,
        "duration": enough and metrics.durations.mean() >= thresholds.duration,
        "truncated": enough and metrics.truncated.mean() >= thresholds.truncated,
    }
    return {name for name, is_so in wrong.items() if is_so}


def examine(metrics: Metrics, thresholds: Thresholds) -> list[Check]:
    """Every figure, as it stands now."""
    wrong = unwell(metrics, thresholds)
    return [
        Check(name, value, threshold, name not in wrong, message)
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
