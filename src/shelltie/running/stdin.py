"""stdin writer with backpressure: input as fast as the command reads."""

import asyncio
import fcntl
import os
import termios
from contextlib import suppress

from shelltie.errors import InputFull

QUEUE_MAX = 1024 * 1024
_END_OF_FILE = b"\x04"
_INTERRUPTS = (b"\x03", b"\x1c")
_TIOCGPTPEER = 0x5441  # opens the other side of a terminal
_WRITE_SIZE = 4096  # what a terminal takes at once


class StdinWriter:
    """Queues bytes for a terminal or for the pipe that is a command's input.

    The terminal's descriptor belongs to its reader. A pipe is ours: to close it ends the input.
    """

    def __init__(self, fd: int, data: bytes, *, terminal: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd: int | None = fd
        self._terminal = terminal
        self._queue = bytearray(data)
        self._ends = False
        os.set_blocking(fd, False)
        self._watch()

    @property
    def pending(self) -> int:
        """How many bytes nobody has read yet; what the kernel holds is not counted."""
        return len(self._queue)

    @property
    def open(self) -> bool:
        """Whether it takes more."""
        return self._fd is not None and not self._ends

    def write(self, data: bytes) -> None:
        """Queue it, all or nothing.

        Raises: InputFull.
        """
        if self._terminal and any(key in data for key in _INTERRUPTS):
            self.forget()  # as the kernel would, if these keys could pass what is before them
        if len(self._queue) + len(data) > QUEUE_MAX:
            raise InputFull(
                f"{len(self._queue)} bytes wait already, and {QUEUE_MAX} may:"
                " the command does not read its input; write less, or stop it"
            )
        self._queue += data
        self._watch()

    def forget(self) -> None:
        """Drop what nobody has read yet, in a terminal also what the kernel holds."""
        self._queue.clear()
        if self._fd is None or not self._terminal:
            return
        with suppress(OSError):  # a kernel before 4.13, or it has hung up
            flags = os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC
            other = fcntl.ioctl(self._fd, _TIOCGPTPEER, flags)
            try:
                termios.tcflush(other, termios.TCIFLUSH)
                termios.tcflush(self._fd, termios.TCOFLUSH)
                termios.tcflush(other, termios.TCIFLUSH)
            finally:
                os.close(other)

    def end(self) -> None:
        """After what is queued comes the end: of a pipe, or the key that stands for it."""
        if not self.open:
            return
        if self._terminal:
            # In the middle of a line the first end-of-file key only flushes; the second one ends.
            middle = self._queue and not self._queue.endswith(b"\n")
            self._queue += _END_OF_FILE * (2 if middle else 1)
            self._watch()
            return
        self._ends = True
        if not self._queue:
            self.close()

    def close(self) -> None:
        """Write no more."""
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        self._loop.remove_writer(fd)
        if not self._terminal:
            os.close(fd)

    def _watch(self) -> None:
        if self._fd is not None and self._queue:
            self._loop.add_writer(self._fd, self._write)

    def _write(self) -> None:
        assert self._fd is not None
        try:
            written = os.write(self._fd, self._queue[:_WRITE_SIZE])
        except BlockingIOError:
            return
        except OSError:  # nobody reads any more
            self._queue.clear()
            self.close()
            return
        del self._queue[:written]
        if not self._queue:
            self._loop.remove_writer(self._fd)
            if self._ends:
                self.close()
