"""Everything that was counted and measured here, in the forms in which it is shown."""

from shelltie.frozen import frozen
from shelltie.record.alerts import Alerts
from shelltie.record.instruments import exposition, to_json
from shelltie.record.metrics import Metrics


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
