"""Ring buffer of the first and last bytes of a stream, with a count of the dropped. Pure."""


class Window:
    """Holds the first `head` and the last `tail` bytes; memory grows only with what was printed."""

    __slots__ = ("_head", "_head_max", "_oldest", "_tail", "_tail_max", "total")

    def __init__(self, head: int, tail: int) -> None:
        self.total = 0
        self._head_max = head
        self._tail_max = tail
        self._head = bytearray()
        self._tail = bytearray()
        self._oldest = 0  # where in `_tail` its oldest byte is; moves once the ring is full

    @property
    def dropped(self) -> int:
        """How many bytes between head and tail are gone."""
        return self.tail_start - self.head_end

    @property
    def head_end(self) -> int:
        """The position after the last byte of the head."""
        return len(self._head)

    @property
    def tail_start(self) -> int:
        """The position of the first byte of the tail."""
        return self.total - len(self._tail)

    def append(self, data: memoryview | bytes) -> None:
        """Take the next bytes of the stream; they are copied."""
        view = memoryview(data)
        self.total += len(view)
        room = self._head_max - len(self._head)
        if room > 0:
            self._head += view[:room]
            view = view[room:]
        room = self._tail_max - len(self._tail)
        if room > 0:
            self._tail += view[:room]
            view = view[room:]
        if view and self._tail_max:
            self._turn(view[max(0, len(view) - self._tail_max) :])

    def _turn(self, view: memoryview) -> None:
        # Through a memoryview: assigning to a slice of a bytearray would copy the bytes twice.
        ring = memoryview(self._tail)
        end = min(self._oldest + len(view), len(ring))
        first = end - self._oldest
        ring[self._oldest : end] = view[:first]
        ring[: len(view) - first] = view[first:]
        self._oldest = (self._oldest + len(view)) % len(ring)

    def holds(self, start: int, end: int) -> bool:
        """Whether every byte from `start` up to `end` can still be read."""
        if not 0 <= start <= end <= self.total:
            return False
        in_one_part = end <= self.head_end or start >= self.tail_start
        return in_one_part or not self.dropped or start == end

    def read(self, start: int, end: int) -> bytes:
        """The bytes at these positions, which must be held."""
        assert self.holds(start, end)
        offset = self.tail_start
        tail = self._read_tail(max(start - offset, 0), max(end - offset, 0))
        return bytes(self._head[start:end]) + tail

    def _read_tail(self, start: int, end: int) -> bytes:
        start, end = start + self._oldest, end + self._oldest
        size = len(self._tail)
        if start >= size:
            return bytes(self._tail[start - size : end - size])
        return bytes(self._tail[start:end] + self._tail[: max(0, end - size)])

    def head_bytes(self) -> bytes:
        """The first bytes of the stream."""
        return bytes(self._head)

    def tail_bytes(self) -> bytes:
        """The last bytes of the stream, without those of the head."""
        return self._read_tail(0, len(self._tail))

    def copy(self) -> "Window":
        """A window of its own with the same content."""
        other = Window(self._head_max, self._tail_max)
        other.total, other._oldest = self.total, self._oldest
        other._head[:] = self._head
        other._tail[:] = self._tail
        return other
