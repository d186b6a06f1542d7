"""Ports of the engine (what it wants of others), and the event bus (publish/subscribe)."""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from shelltie.events import Event, Publish
from shelltie.model import Sample


class Memory(Protocol):
    """Who remembers how long commands took."""

    async def recall(self, shape: str, cwd: str) -> tuple[str, Sequence[Sample]]:
        """The project of that directory, and runs of that shape in it, the last one last."""


class Measures(Protocol):
    """What is counted and measured, for whoever shows it."""

    def text(self) -> str:
        """In the words of Prometheus."""

    def to_json(self) -> list[dict[str, object]]:
        """The same, for another process that puts several together."""

    def health(self) -> list[dict[str, object]]:
        """Every figure that has a threshold, and whether it is well."""


_log = logging.getLogger(__name__)


class Bus:
    """One for each supervisor, on its event loop. Who listens must be quick."""

    def __init__(self) -> None:
        self._listeners: tuple[Publish, ...] = ()

    def publish(self, event: Event) -> None:
        """Tell everybody. Somebody who fails at it keeps it from nobody else."""
        for listen in self._listeners:
            try:
                listen(event)
            except Exception:  # noqa: BLE001  anybody's code
                _log.exception("somebody who was told of %s failed", type(event).__name__)

    def subscribe(self, listen: Publish) -> Callable[[], None]:
        """Tell this one, too, from now on; what is returned ends it."""
        self._listeners = (*self._listeners, listen)

        def leave() -> None:
            self._listeners = tuple(one for one in self._listeners if one is not listen)

        return leave
