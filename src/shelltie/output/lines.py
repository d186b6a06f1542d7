"""The events a command prints, one JSON object a line. Pure."""

import json
from collections import deque
from typing import Any

from shelltie.frozen import frozen

_LINE_MAX = 1024 * 1024
_KEPT_MAX = 1024 * 1024  # of the lines of all kept events together

Event = dict[str, Any]


@frozen
class Seen:
    """What a chunk brought."""

    events: int = 0
    heartbeats: int = 0


class EventLines:
    """Finds events in chunks of output and keeps the last `keep`; anything else is passed over.

    Fewer are kept if their lines have more than `room` bytes together.
    """

    def __init__(self, keep: int = 50, room: int = _KEPT_MAX) -> None:
        self.count = 0
        self._keep = keep
        self._room = room
        self._kept: deque[tuple[int, Event]] = deque()
        self._kept_size = 0
        self._partial = bytearray()
        self._too_long = False

    @property
    def events(self) -> list[Event]:
        """The last events, oldest first."""
        return [event for _, event in self._kept]

    @property
    def dropped(self) -> int:
        """How many events are no longer kept."""
        return self.count - len(self._kept)

    def feed(self, data: bytes) -> Seen:
        """Take the next bytes; lines may be split anywhere."""
        *lines, rest = data.split(b"\n")
        if not lines:
            self._hold(rest)
            return Seen()
        self._hold(lines[0])
        first = b"" if self._too_long else bytes(self._partial)
        self._partial.clear()
        self._too_long = False
        self._hold(rest)
        return self._take([first, *lines[1:]])

    def flush(self) -> Seen:
        """The end of the output: the last line may lack its newline."""
        return self.feed(b"\n")

    def _hold(self, part: bytes) -> None:
        if self._too_long or len(self._partial) + len(part) > _LINE_MAX:
            self._too_long = True
            self._partial.clear()
        else:
            self._partial += part

    def _take(self, lines: list[bytes]) -> Seen:
        found = [(len(line), event) for line in lines if (event := parse(line)) is not None]
        heard = [entry for entry in found if entry[1].get("type") != "heartbeat"]
        for entry in heard:
            self._keep_event(entry)
        return Seen(len(heard), len(found) - len(heard))

    def _keep_event(self, entry: tuple[int, Event]) -> None:
        self.count += 1
        self._kept.append(entry)
        self._kept_size += entry[0]
        while len(self._kept) > self._keep or self._kept_size > self._room:
            self._kept_size -= self._kept.popleft()[0]


def parse(line: bytes) -> Event | None:
    """The JSON object that a line is, or `None`."""
    line = line.strip()
    if not line.startswith(b"{") or len(line) > _LINE_MAX:
        return None
    try:
        event: Event = json.loads(line.decode("utf-8", "replace"))
        # What cannot be sent on is no event: lone surrogates, infinite numbers, endless nesting.
        json.dumps(event, allow_nan=False, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        return None
    return event
