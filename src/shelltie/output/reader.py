"""Non-blocking reader of a pipe or pty master on the event loop (epoll, readv)."""

import asyncio
import fcntl
import mmap
import os
import sys
from collections.abc import Callable

from shelltie.basics.readable import forget, watch

_BUFFER_SIZE = 256 * 1024
# One buffer for all readers: a fresh bytes object for each read costs more than the read itself.
# It begins in the middle of a page: copying to an address that is a few bytes further in its page
# than the source takes up to ten times as long on some processors, the bytes of a pipe begin with
# a page, and bytearrays 16 bytes after that.
_HALF_A_PAGE = mmap.PAGESIZE // 2
_VIEW = memoryview(mmap.mmap(-1, _HALF_A_PAGE + _BUFFER_SIZE))[_HALF_A_PAGE:]
_BUFFERS = (_VIEW,)

_READS_A_TURN = 4  # then the other runs get theirs
_PTY_READ = 4000  # a pty hands out 4095 bytes at once when it has more
_DRAIN_MAX = 1024 * 1024  # no pipe of an ordinary user holds more
_PIPE_SIZE = 64 * 1024
_FULL_READS = 8  # the pipes of one user share 64 MiB: only those that flood get a larger one


class PipeReader:
    """Owns `fd`: hands what arrives to `on_data`, calls `on_end` once at its end, and closes it.

    `on_data` gets a view of a shared buffer and must copy what it keeps. A terminal is to be held
    open until `close`: a command may close its side long before it ends, and when we close ours
    the kernel sends it SIGHUP.
    """

    def __init__(
        self,
        fd: int,
        on_data: Callable[[memoryview], None],
        on_end: Callable[[], None],
        *,
        hold: bool = False,
    ) -> None:
        self._fd: int | None = fd
        self._on_data = on_data
        self._on_end = on_end
        self._hold = hold
        self._ended = False
        self._full_reads = 0
        self._loop = asyncio.get_running_loop()
        os.set_blocking(fd, False)
        watch(self._loop, fd, self._ready)

    def drain(self) -> None:
        """Read what is there now, without waiting for more."""
        count = taken = self._read()
        while count and taken < _DRAIN_MAX:
            count = self._read()
            taken += count

    def close(self) -> None:
        """Stop reading, without a call of `on_end`."""
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        forget(self._loop, fd)
        os.close(fd)

    def _ready(self) -> None:
        for _ in range(_READS_A_TURN):
            if self._read() < _PTY_READ:
                return

    def _read(self) -> int:
        """How many bytes were there; 0 when there is nothing now, or never again."""
        if self._fd is None or self._ended:
            return 0
        try:
            count = os.readv(self._fd, _BUFFERS)
        except BlockingIOError:
            return 0
        except OSError:
            count = 0  # EIO is how a pty says that nobody has its other side open
        if count:
            self._widen(self._fd, count)
            self._on_data(_VIEW[:count])
        else:
            self._ended = True
            if self._hold:
                forget(self._loop, self._fd)
            else:
                self.close()
            self._on_end()
        return count

    def _widen(self, fd: int, count: int) -> None:
        if count < _PIPE_SIZE or self._full_reads == _FULL_READS:
            return
        self._full_reads += 1
        if self._full_reads == _FULL_READS and sys.platform == "linux":
            try:
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _BUFFER_SIZE)
            except OSError:
                return  # EPERM when the user's budget is spent: the small pipe works too
