"""JSON Lines: cuts bytes into lines; takes stdin and stdout away from the rest of the process."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

LINE_MAX = 32 * 1024 * 1024
_HEAD = 4096
READ_SIZE = 64 * 1024  # the capacity of a Linux pipe: one read empties a full one


class Lines:
    """Cuts bytes into lines. One that is longer than `most` is dropped; `None` stands for it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rest = bytearray()
        self._dropping = False
        self.head = b""  # how the last one that was dropped began

    def feed(self, chunk: bytes) -> Iterator[bytes | None]:
        """The lines that are whole now."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._keep(end)
            yield None if self._dropping else bytes(self._rest)
            self._rest.clear()
            self._dropping = False
        self._keep(rest)

    def _keep(self, part: bytes) -> None:
        if self._dropping:
            return
        if len(self._rest) + len(part) > self._most:
            self._dropping = True
            self.head = bytes(self._rest[:_HEAD] + part[:_HEAD])[:_HEAD]
            self._rest.clear()
        else:
            self._rest += part


@contextmanager
def own_wire() -> Iterator[tuple[int, int]]:
    """Stdin and stdout for us alone, while whoever else reads finds the end of a file, and whoever
    prints is heard on stderr: the wire carries nothing but the protocol.
    """
    wire = source, sink = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in (0, 1)]
    blocking = [os.get_blocking(fd) for fd in wire]
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    with suppress(OSError):  # there may be no stderr
        os.dup2(2, 1)
    for fd in wire:
        os.set_blocking(fd, False)
    try:
        yield source, sink
    finally:
        # A terminal is shared with the shell that we return to.
        for fd, (own, blocked) in enumerate(zip(wire, blocking, strict=True)):
            os.set_blocking(own, blocked)
            os.dup2(own, fd)
            os.close(own)
