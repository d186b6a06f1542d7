"""Event push: sends every event of this process, as a JSON line, to the sockets of monitors.

A monitor listens on a socket of its own beside ours. Who starts connects to it before its first
command, so that nothing is missed of a command that takes a millisecond; who runs already is asked
to. What was sent is read even after we have ended.
"""

import json
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from shelltie.environment import child
from shelltie.events import Event
from shelltie.frontends.control.line_format import MessageFields
from shelltie.frontends.reports.event_report import EventJson
from shelltie.running.interfaces import Bus


class EventPush:
    """Those who watch this process. Nobody is waited for: who does not read misses events."""

    def __init__(
        self, bus: Bus, environ: Mapping[str, str], about: Callable[[], MessageFields]
    ) -> None:
        self._bus = bus
        self._secrets = child.sift(environ).secrets
        self._about = about
        self._watchers: dict[Path, _Watcher] = {}
        self._encoder = EventJson(self._secrets)
        self._leave: Callable[[], None] | None = None

    def connect(self, path: Path) -> bool:
        """Tell the monitor that listens there of everything from now on; false if none does."""
        if path in self._watchers:
            return True
        connection = socket.socket(socket.AF_UNIX)
        connection.setblocking(False)
        try:
            connection.connect(str(path))
        except OSError:  # it has left, or has no room
            connection.close()
            return False
        self._watchers[path] = _Watcher(connection)
        self._watchers[path].send(self._about())
        if self._leave is None:
            self._encoder = EventJson(self._secrets)
            self._leave = self._bus.subscribe(self._hear)
        return True

    def _hear(self, event: Event) -> None:
        if (line := self._encoder.of(event)) is None:
            return
        for path, watcher in tuple(self._watchers.items()):
            if not watcher.send(line):
                del self._watchers[path]
        if not self._watchers:
            self.close()

    def close(self) -> None:
        """Nobody hears any more."""
        if self._leave is not None:
            self._leave()
            self._leave = None
        for watcher in self._watchers.values():
            watcher.close()
        self._watchers.clear()


class _Watcher:
    """One connection: whole lines only, and how many did not fit."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""
        self._missed = 0

    def send(self, fields: MessageFields) -> bool:
        """Send a line, or count it as missed; false if nobody reads any more."""
        try:
            if not self._flush():
                self._missed += 1
                return True
            lines = [fields] if not self._missed else [{"missed": self._missed}, fields]
            self._missed = 0
            self._rest = b"".join(json.dumps(one).encode("ascii") + b"\n" for one in lines)
            self._flush()
        except OSError:
            self.close()
            return False
        return True

    def _flush(self) -> bool:
        """Whether everything went out."""
        try:
            while self._rest:
                self._rest = self._rest[self._connection.send(self._rest) :]
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        self._connection.close()
