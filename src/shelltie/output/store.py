"""Output store of a run by byte position: in memory, in its spool, or counted as dropped."""

import hashlib
from collections.abc import Mapping

from shelltie.basics.frozen import frozen
from shelltie.model import Printed, Stream
from shelltie.output.head_tail import Window
from shelltie.output.short_output import ShortOutput
from shelltie.output.spool import Spool

_SIZE = 512 * 1024
_PIECE = 1024 * 1024  # bytes of a file that are read at once
_SILENT = Window(0, 0)  # of every stream that has printed nothing


@frozen
class Piece:
    """Bytes from position `start`; the `skipped` bytes before them were asked for but are lost."""

    start: int
    data: bytes
    skipped: int

    @property
    def end(self) -> int:
        """Where to read on."""
        return self.start + len(self.data)


@frozen
class Excerpt:
    """The beginning and the end of what was printed, with `omitted` bytes between them."""

    head: bytes
    tail: bytes
    omitted: int
    total: int


class Store:
    """Takes both streams in order of arrival; any number of readers keep their own positions."""

    def __init__(
        self,
        *,
        head: int = _SIZE,
        tail: int = _SIZE,
        spool: Spool | None = None,
        kept: ShortOutput | None = None,
    ) -> None:
        # The spool writes the beginning from memory when its threshold is passed.
        assert spool is None or spool.threshold <= head + tail
        self.spool = spool
        self._kept = kept
        self._file: tuple[str, int] | None = None  # of a short output that is over
        self._sizes = head, tail
        self._merged = Window(head, tail)
        self._first: Stream | None = None
        # Empty while only one stream has spoken: then the merged window is that stream's.
        self._separate: dict[Stream, Window] = {}

    @property
    def total(self) -> int:
        """How many bytes were printed."""
        return self._merged.total

    def total_of(self, stream: Stream) -> int:
        """How many bytes were printed to one stream."""
        return self._window(stream).total

    @property
    def printed(self) -> Printed:
        """How much there is, and where."""
        out, err = self.total_of(Stream.STDOUT), self.total_of(Stream.STDERR)
        if self.spool is not None and self.spool.stored:
            return Printed(out, err, str(self.spool.path), self.spool.stored)
        if self.total and self._merged.holds(0, self.total):
            digest = hashlib.sha256(self._merged.read(0, self.total)).hexdigest()
            file, kept = self._file or (None, 0)
            return Printed(out, err, file, kept, digest)
        return Printed(out, err)

    def add(self, stream: Stream, data: memoryview) -> None:
        """Take the next bytes; they are copied."""
        if not data:
            return
        if self.spool:
            self.spool.add(stream, data, self._merged)
        self._take(stream, data)

    def skip(self, stream: Stream, size: int, words: bytes) -> None:
        """So many bytes of a stream are lost; have these words of ours in their place."""
        if self.spool is not None:
            if self.spool.origins is not None:
                self.spool.origins.take(stream, size)
            self.spool.add(stream, memoryview(words), self._merged, own=True)
        self._take(stream, memoryview(words))

    def resume(self, age: float) -> Mapping[Stream, int]:
        """Go on with what another server has left of this run, which began so many seconds ago;
        how far each stream is on record.

        Raises: BlockingIOError while that server still writes it down.
        """
        spool = self.spool
        if spool is None or spool.origins is None:
            return dict.fromkeys(Stream, 0)
        for one in spool.resume(age):
            spool.note_turn(one.stream, one.start)
            for start in range(one.start, one.end, _PIECE):
                data = spool.read(start, min(one.end, start + _PIECE))
                if data is not None:
                    self._take(one.stream, memoryview(data))
        return spool.origins.ends

    def _take(self, stream: Stream, data: memoryview) -> None:
        self._first = self._first or stream
        if stream is not self._first and not self._separate:
            self._separate = {self._first: self._merged.copy(), stream: Window(*self._sizes)}
        self._merged.append(data)
        if self._separate:
            self._separate[stream].append(data)
        if self._kept is not None:
            self._kept.note(self.total)

    def keep(self) -> None:
        """It is over: what was too short for a spool is written to its own file."""
        long = self.spool is not None and self.spool.stored
        if self._kept is not None and self.total and not long and self._merged.holds(0, self.total):
            self._file = self._kept.write(self._merged.read(0, self.total))
            self._kept = None

    def close(self) -> None:
        """There will be no more; everything can still be read."""
        if self.spool is not None:
            self.spool.close()

    def read(self, start: int, end: int) -> Piece:
        """What can still be read from `start` on, without a gap and not beyond `end`."""
        end = min(end, self.total)
        front, back = self._edges(None)
        first = start if start < front else max(start, min(back, end))
        last = end if first >= back else min(end, front)
        data = self._bytes(None, first, max(first, last))
        if data is None:
            return self.read(start, end)
        return Piece(first, data, first - start)

    def view(self, stream: Stream | None, limit_head: int, limit_tail: int) -> Excerpt:
        """The first `limit_head` and the last `limit_tail` bytes, as far as they are kept.

        `None` stands for both streams in order of arrival.
        """
        total = self._window(stream).total
        front, back = self._edges(stream)
        head_end = min(limit_head, front)
        tail_start = max(total - limit_tail, head_end, back)
        head = self._bytes(stream, 0, head_end)
        tail = self._bytes(stream, tail_start, total)
        if head is None or tail is None:
            return self.view(stream, limit_head, limit_tail)
        return Excerpt(head, tail, tail_start - head_end, total)

    def _window(self, stream: Stream | None) -> Window:
        if stream is None or (stream is self._first and not self._separate):
            return self._merged
        return self._separate.get(stream, _SILENT)

    def _edges(self, stream: Stream | None) -> tuple[int, int]:
        """`front` and `back`: everything before the one and from the other on can be read."""
        window = self._window(stream)
        front = max(window.head_end, self._on_disk(stream))
        return (window.total, 0) if front >= window.tail_start else (front, window.tail_start)

    def _on_disk(self, stream: Stream | None) -> int:
        if self.spool is None or not self.spool.stored:
            return 0
        return self.spool.stored if stream is None else self.spool.stored_of(stream)

    def _bytes(self, stream: Stream | None, start: int, end: int) -> bytes | None:
        """Bytes without a gap; `None` when the disk failed, and with it the edges moved."""
        window = self._window(stream)
        if window.holds(start, end):
            return window.read(start, end)
        assert self.spool is not None
        stop = min(end, self._on_disk(stream))
        stored = (
            self.spool.read(start, stop)
            if stream is None
            else self.spool.read_of(stream, start, stop)
        )
        return None if stored is None else stored + window.read(stop, end)
