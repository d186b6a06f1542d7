"""Event stream, metrics and health over the control socket."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

import anyio

from shelltie.basics.pulse import Pulse
from shelltie.basics.validate import number_of, whole_number
from shelltie.environment import child
from shelltie.errors import InvalidParameters, parameter
from shelltie.events import Event
from shelltie.frontends.control.event_push import EventPush
from shelltie.frontends.control.line_format import MessageFields
from shelltie.frontends.control.peer import Peer
from shelltie.frontends.control.run_row import WAIT_MAX
from shelltie.frontends.control.server import Perform
from shelltie.frontends.control.socket_dirs import WATCH, existing
from shelltie.frontends.reports.event_report import EventJson
from shelltie.running.interfaces import Bus, Measures

_SECONDS = number_of("seconds")
_KEPT = 2000  # events for a watcher that is slow; older ones are counted as missed
_AT_ONCE = 500
_FORGOTTEN = 60.0  # seconds without a question, after which nobody watches any more


def watch_commands(bus: Bus, environ: Mapping[str, str], push: EventPush) -> dict[str, Perform]:
    """What the socket can do about events."""

    async def watch(_: Peer, fields: MessageFields) -> MessageFields:
        """Send every event to the `monitor` that listens at this path, which must be beside us."""
        path = Path(str(fields.get("monitor")))
        if path.suffix != WATCH or path.parent not in set(existing(environ)):
            raise InvalidParameters("monitor must be the path of a monitor's socket, beside ours")
        return {"watched": push.connect(path)}

    return {"events": _Events(bus, environ).events, "watch": watch}


class _Events:
    """The latest events, numbered. Nothing is kept while nobody watches."""

    def __init__(self, bus: Bus, environ: Mapping[str, str]) -> None:
        self._bus = bus
        self._secrets = child.sift(environ).secrets
        self._teller = EventJson(self._secrets)
        self._kept: deque[dict[str, object]] = deque(maxlen=_KEPT)
        self._next = 0  # the number of the event that comes next
        self._asked = 0.0
        self._news = Pulse()
        self._leave: Callable[[], None] | None = None

    async def events(self, _: Peer, fields: MessageFields) -> MessageFields:
        """Those from number `after` on; where there is none yet, who comes in `wait` seconds.

        Without `after`: from now on.
        """
        self._asked = time.monotonic()
        if self._leave is None:
            self._teller = EventJson(self._secrets)
            self._leave = self._bus.subscribe(self._hear)
        known = whole_number(f"a number up to {self._next}", 0, self._next)
        after = fields.get("after")
        start = self._next if after is None else parameter("after", after, known)
        with anyio.move_on_after(wait_of(fields)):
            while start >= self._next:
                await self._news.wait()
        oldest = self._next - len(self._kept)
        first = max(start, oldest)
        events = list(self._kept)[first - oldest : first - oldest + _AT_ONCE]
        return {"events": events, "next": first + len(events), "missed": first - start}

    def _hear(self, event: Event) -> None:
        if time.monotonic() - self._asked > _FORGOTTEN and self._leave is not None:
            self._leave()
            self._leave = None
            self._kept.clear()
            return
        if (line := self._teller.of(event)) is not None:
            self._kept.append(line)
            self._next += 1
            self._news.beat()


def wait_of(fields: MessageFields) -> float:
    """How many seconds the client waits for news.

    Raises: InvalidParameters.
    """
    return min(parameter("wait", fields.get("wait", 0), _SECONDS), WAIT_MAX)


def figure_commands(measures: Measures | None) -> dict[str, Perform]:
    """What the socket can do about figures."""

    async def metrics(_: Peer, __: MessageFields) -> MessageFields:
        return {"metrics": [] if measures is None else measures.to_json()}

    async def health(_: Peer, __: MessageFields) -> MessageFields:
        return {"checks": [] if measures is None else measures.health()}

    return {"metrics": metrics, "health": health}
