"""Spool file: capped copy on disk of what a run printed."""

import errno
import fcntl
import os
import shutil
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from shelltie.model import Stream
from shelltie.output.head_tail import Window
from shelltie.output.stream_origins import ORIGINS, StreamOrigins, Stretch
from shelltie.output.timing_file import SUFFIX, TimingFile

_GIVEN_BACK = 256 * 1024  # bytes: room for the journal and the files beside it
_SWITCHES_MAX = 16 * 1024  # bounds the index to 128 KiB, however often the streams alternate


class Spool:
    """The bytes of both streams in order of arrival, up to `cap`.

    There is no file until more than `threshold` bytes were printed; `created` is told of it, and
    `wrote` how many bytes it grew by: 0 when it is closed. A disk that fails never disturbs the
    run: spooling stops and `problem` says why. The file is locked until `close`, so that nobody
    takes it for an old one.
    """

    def __init__(
        self,
        path: str | Path,
        cap: int = 64 * 1024 * 1024,
        threshold: int = 1024 * 1024,
        times: TimingFile | None = None,
        created: Callable[[], None] = lambda: None,
        wrote: Callable[[int], None] = lambda _: None,
        origins: StreamOrigins | None = None,
    ) -> None:
        assert origins is None or threshold == 0  # from the first byte on
        self._path = path  # no Path: most runs have no file
        self.cap = cap
        self.threshold = threshold
        self.stored = 0  # the file holds positions 0 up to here
        self.full = False
        self.problem: str | None = None
        self._times = times
        self.origins = origins
        self._tell_created = created
        self._tell_wrote = wrote
        self._fd: int | None = None
        self._over = False
        self._speaker: Stream | None = None
        # Where the streams take turns: even entries begin one of `_first`, odd ones of the other.
        self._first: Stream | None = None
        self._switches = array("Q")
        self._indexed: int | None = None  # the index ends here: it had no room for the next switch

    @property
    def path(self) -> Path:
        """Where the file is, or would be."""
        return Path(self._path)

    def add(self, stream: Stream, data: memoryview, earlier: Window, *, own: bool = False) -> None:
        """Take the next bytes; `earlier` has, still entirely, all that came before a file exists.

        Writes block the loop: a chunk goes to the page cache in less time than a thread would
        need to start.
        """
        origins = self.origins
        offset = None if own or origins is None else origins.take(stream, len(data))
        if self._over:
            return
        self.note_turn(stream, earlier.total)
        if earlier.total + len(data) <= self.threshold:
            return
        try:
            if self._fd is None:
                self._fd = self._create()
                self._write(self._fd, memoryview(earlier.read(0, earlier.total)))
            if origins is not None:
                origins.note(self.stored, stream, offset, len(data))
            self._write(self._fd, data)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                self._give_back()
            self._fail(error.strerror or str(error))

    def _give_back(self) -> None:
        """We have filled the disk on which the end of this very run is to be recorded."""
        with suppress(OSError):
            if self._fd is not None:
                self.stored = max(0, self.stored - _GIVEN_BACK)
                os.ftruncate(self._fd, self.stored)

    def resume(self, age: float) -> list[Stretch]:
        """Go on with the file that another server has left, so many seconds after the start.

        What it has, to be told to `note_turn` in order; nothing if there is none, or if nobody can
        say whose bytes it has. Then it is begun anew.
        Raises: BlockingIOError while that server still writes to it.
        """
        assert self.origins is not None
        try:
            fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            self.forget()
            return []
        try:
            self._lock(fd)
            self.stored = os.fstat(fd).st_size
            stretches = self.origins.resume(self.stored)
        except (OSError, ValueError, KeyError) as error:
            os.close(fd)
            self.stored = 0
            if isinstance(error, BlockingIOError):
                raise
            self.forget()
            return []
        self._fd = fd
        if self._times is not None:
            self._times.resume(age)
        if self.stored >= self.cap:
            self.full = True
            self._stop()
        return stretches

    def part(self) -> None:
        """Have a copy in place of a file to which another server writes that does not let go of it:
        one that is stopped, say. It goes on with its own, which nobody sees any more.

        If it cannot be copied, it is begun anew.
        """
        try:
            for path in (self.path, self.path.with_suffix(ORIGINS)):
                copy = path.with_suffix(f"{path.suffix}.{os.getpid()}")
                shutil.copyfile(path, copy, follow_symlinks=False)
                copy.chmod(0o600)
                copy.replace(path)
        except OSError:
            self.forget()

    def forget(self) -> None:
        """Remove what another server has left of this run."""
        for path in (self.path, self.path.with_suffix(SUFFIX), self.path.with_suffix(ORIGINS)):
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def forget_origins(self) -> None:
        """Nobody will go on with this file."""
        if self.origins is not None:
            self.origins.close()
            with suppress(OSError):
                self.origins.path.unlink(missing_ok=True)

    def note_turn(self, stream: Stream, position: int) -> None:
        """From this position on there are bytes of that stream."""
        if stream is self._speaker or self._indexed is not None:
            return
        if len(self._switches) == _SWITCHES_MAX:
            self._indexed = position
            return
        self._first = self._first or stream
        self._speaker = stream
        self._switches.append(position)

    def _create(self) -> int:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self._path, flags, 0o600)
        with suppress(BlockingIOError):
            self._lock(fd)
        self._tell_created()
        return fd

    def _lock(self, fd: int) -> None:
        """What others may go on with is written by one at a time. Raises: BlockingIOError."""
        how = fcntl.LOCK_SH if self.origins is None else fcntl.LOCK_EX
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # not every file system has locks, and without it can be written
            pass

    def _write(self, fd: int, data: memoryview) -> None:
        rest = data[: self.cap - self.stored]
        self.full = self.full or len(rest) < len(data)
        while rest:
            written = os.write(fd, rest)  # a disk that runs full takes a part first
            self.stored += written
            self._tell_wrote(written)
            rest = rest[written:]
        if self._times is not None and data:
            self._times.note(self.stored)
        if self.full:
            self._stop()

    def _fail(self, reason: str) -> None:
        self.problem = f"the spool file {self.path} cannot be used: {reason}"
        self._stop()

    def stored_of(self, stream: Stream) -> int:
        """How many bytes of one stream, from its beginning, can be read back."""
        return sum(end - start for start, end in self._turns(stream))

    def read(self, start: int, end: int) -> bytes | None:
        """Positions of both streams together; `None` when the file cannot be read any more."""
        return self._read([(start, end)])

    def read_of(self, stream: Stream, start: int, end: int) -> bytes | None:
        """Positions of one stream; `None` when the file cannot be read any more."""
        ranges = []
        position = 0
        for low, high in self._turns(stream):
            first, last = max(start, position), min(end, position + high - low)
            if first < last:
                ranges.append((low + first - position, low + last - position))
            position += high - low
        return self._read(ranges)

    def _turns(self, stream: Stream) -> Iterator[tuple[int, int]]:
        limit = self.stored if self._indexed is None else min(self.stored, self._indexed)
        for turn in range(0 if stream is self._first else 1, len(self._switches), 2):
            start = self._switches[turn]
            end = self._switches[turn + 1] if turn + 1 < len(self._switches) else limit
            if start >= limit:
                return
            yield start, min(end, limit)

    def _read(self, ranges: list[tuple[int, int]]) -> bytes | None:
        try:
            data = self._read_file(ranges)
        except OSError as error:
            self._fail(error.strerror or str(error))
        else:
            if len(data) == sum(end - start for start, end in ranges):
                return data
            self._fail("somebody has shortened it")
        self.stored = 0
        return None

    def _read_file(self, ranges: list[tuple[int, int]]) -> bytes:
        # Opened for each reading: a thousand finished runs must not hold a thousand descriptors.
        fd = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            return b"".join(os.pread(fd, end - start, start) for start, end in ranges)
        finally:
            os.close(fd)

    def _stop(self) -> None:
        if self._times is not None and not self._over:
            self._times.close()
        if self.origins is not None:
            self.origins.close()
        self._over = True

    def close(self) -> None:
        """Write no more; what is stored can still be read."""
        self._stop()
        if self._fd is not None:
            fd, self._fd = self._fd, None
            with suppress(OSError):  # a late write error: what is missing shows when it is read
                os.utime(fd)  # it is as old as its end, however long nothing was printed before
                os.close(fd)
            self._tell_wrote(0)
