"""Index file of a spool: which stream each stretch of it is of, and its offset in that stream.

Only beside the spool of what outlives its server: whoever holds it next goes on behind the last
byte that is on record. A line is written before the bytes that it is about, so that a server which
is killed in between leaves no byte of which nobody knows whose it is.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from shelltie.basics.frozen import frozen
from shelltie.model import Stream

ORIGINS = ".origins"
_NUMBERS = {Stream.STDOUT: 1, Stream.STDERR: 2}  # as a keeper that stays counts them
_STREAMS = {number: stream for stream, number in _NUMBERS.items()}
_LINES_MAX = 1_000_000  # about 20 MB


@frozen
class Stretch:
    """Bytes of a spool from `start` to `end`; `offset` is the place of the first in its stream,
    or None where words of ours are shown in it.
    """

    start: int
    end: int
    stream: Stream
    offset: int | None


class StreamOrigins:
    """Counts each stream, and notes where in the spool which of its bytes are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ends = dict.fromkeys(Stream, 0)  # how far each was taken
        self._noted: tuple[Stream, int] | None = None  # what needs no line: this goes on
        self._lines = 0
        self._fd: int | None = None

    def take(self, stream: Stream, size: int) -> int:
        """So many bytes more have come; the offset of the first."""
        offset = self.ends[stream]
        self.ends[stream] = offset + size
        return offset

    def note(self, position: int, stream: Stream, offset: int | None, size: int) -> None:
        """From this position on the spool has that stream, from that offset on; without an offset
        it is something that we say in it.

        Raises: OSError; then those bytes may not be written.
        """
        if offset is None or self._noted != (stream, offset):
            if self._lines >= _LINES_MAX:
                raise OSError(errno.EFBIG, "the two streams took turns too often to keep both")
            own = offset is None
            number, place = (0, _NUMBERS[stream]) if own else (_NUMBERS[stream], offset)
            line = f"{position} {number} {place}\n".encode("ascii")
            if os.write(self._file, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._lines += 1
        self._noted = None if offset is None else (stream, offset + size)

    @property
    def _file(self) -> int:
        if self._fd is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._fd = os.open(self.path, flags, 0o600)
        return self._fd

    def resume(self, size: int) -> list[Stretch]:
        """What a spool of that size has, by what another server has noted; counts go on there.

        Raises: OSError, ValueError if that cannot be.
        """
        found = list(_stretches(self.path.read_text(encoding="ascii"), size))
        for one in found:
            if one.offset is None:
                continue
            if one.offset < self.ends[one.stream]:
                raise ValueError("a stretch begins before the end of the last one of its stream")
            self.ends[one.stream] = one.offset + one.end - one.start
        return found

    def close(self) -> None:
        """Note no more."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            with suppress(OSError):
                os.close(fd)


def _stretches(text: str, size: int) -> Iterator[Stretch]:
    """The last line may be of bytes that were never written."""
    rows = [tuple(map(int, line.split())) for line in text.splitlines()]
    starts = [start for start, _, _ in rows]
    if starts != sorted(starts) or (size and starts[:1] != [0]):
        raise ValueError("these are not the stretches of a file")
    for (start, number, offset), end in zip(rows, [*starts[1:], size], strict=True):
        stop = min(end, size)
        if start < stop:
            own = number == 0
            yield Stretch(start, stop, _STREAMS[offset if own else number], None if own else offset)
