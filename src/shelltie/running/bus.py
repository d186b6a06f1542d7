"""Where everything that happens is told to everybody who listens."""

import logging
from collections.abc import Callable

from shelltie.events import Event, Publish

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
