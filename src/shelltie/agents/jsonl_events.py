"""JSON Lines parser for the events that an agent prints on stdout. Pure."""

import json
from collections import deque
from collections.abc import Callable
from typing import Any

from shelltie.basics.frozen import frozen

_LINE_MAX = 1024 * 1024
_KEPT_MAX = 1024 * 1024  # of the lines of all kept events together

AgentEvent = dict[str, Any]


@frozen
class ParsedChunk:
    """What a chunk brought; `others` are lines that are neither."""

    events: int = 0
    heartbeats: int = 0
    others: int = 0


class EventLines:
    """Finds events in chunks of output and keeps the last `keep`; anything else is passed over.

    Fewer are kept if their lines have more than `room` bytes together. Heartbeats are events of
    that type, and lines of which `beat` says so.
    """

    def __init__(
        self,
        keep: int = 50,
        room: int = _KEPT_MAX,
        beat: Callable[[str], bool] | None = None,
    ) -> None:
        self.count = 0
        self._beat = beat
        self._keep = keep
        self._room = room
        self._kept: deque[tuple[int, AgentEvent]] = deque()
        self._kept_size = 0
        self._partial = bytearray()
        self._too_long = False

    @property
    def events(self) -> list[AgentEvent]:
        """The last events, oldest first."""
        return [event for _, event in self._kept]

    @property
    def dropped(self) -> int:
        """How many events are no longer kept."""
        return self.count - len(self._kept)

    @property
    def in_text(self) -> bool:
        """The line that is not complete yet will be no event and no heartbeat."""
        begun = self._partial.lstrip()
        return self._too_long or (bool(begun) and not begun.startswith(b"{"))

    def feed(self, data: bytes) -> ParsedChunk:
        """Take the next bytes; lines may be split anywhere."""
        *lines, rest = data.split(b"\n")
        if not lines:
            self._hold(rest)
            return ParsedChunk()
        self._hold(lines[0])
        first = b"" if self._too_long else bytes(self._partial)
        self._partial.clear()
        self._too_long = False
        self._hold(rest)
        return self._take([first, *lines[1:]])

    def flush(self) -> ParsedChunk:
        """The end of the output: the last line may lack its newline."""
        return self.feed(b"\n")

    def _hold(self, part: bytes) -> None:
        if self._too_long or len(self._partial) + len(part) > _LINE_MAX:
            self._too_long = True
            self._partial.clear()
        else:
            self._partial += part

    def _take(self, lines: list[bytes]) -> ParsedChunk:
        events = heartbeats = others = 0
        for line in filter(None, map(bytes.strip, lines)):
            event = parse(line)
            if self._beats(line, event):
                heartbeats += 1
            elif event is None:
                others += 1
            else:
                events += 1
                self.count += 1
                self._kept.append((len(line), event))
                self._kept_size += len(line)
                while len(self._kept) > self._keep or self._kept_size > self._room:
                    self._kept_size -= self._kept.popleft()[0]
        return ParsedChunk(events, heartbeats, others)

    def _beats(self, line: bytes, event: AgentEvent | None) -> bool:
        if event is not None and event.get("type") == "heartbeat":
            return True
        return self._beat is not None and self._beat(line.decode("utf-8", "replace"))


def parse(line: bytes) -> AgentEvent | None:
    """The JSON object that a line is, or `None`."""
    line = line.strip()
    if not line.startswith(b"{") or len(line) > _LINE_MAX:
        return None
    try:
        event: AgentEvent = json.loads(line.decode("utf-8", "replace"))
        # What cannot be sent on is no event: lone surrogates, infinite numbers, endless nesting.
        json.dumps(event, allow_nan=False, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        return None
    return event
