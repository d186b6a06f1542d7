"""Socket stream: carries bytes from one non-blocking socket to another, with backpressure."""

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

_CHUNK = 64 * 1024
_RESET = struct.pack("ii", 1, 0)  # closed with a reset: an end of file would be a lie


class SocketStream:
    """Bytes from one socket to another, until the end of file; no more than a chunk is held.

    `first` goes before all. `admit` gives the part of what is read that is passed on, and raises
    ValueError where it must not go on. `moved` counts bytes, for who wants to know whether it
    stands still.
    """

    def __init__(
        self,
        source: socket.socket,
        target: socket.socket,
        ended: Callable[[bool], None],
        first: bytes = b"",
        admit: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self._admit = admit
        self._source, self._target = source, target
        self._ended = ended  # told whether it ended well
        self._held = memoryview(first)
        self.moved = 0
        self._loop = asyncio.get_running_loop()
        self._waits = bool(first)  # for the target to take what is held
        if first:
            self._loop.add_writer(target.fileno(), self._write)
        else:
            self._loop.add_reader(source.fileno(), self._read)

    def _read(self) -> None:
        try:
            data = self._source.recv(_CHUNK)
            passed = self._admit(data) if self._admit else data
        except BlockingIOError:
            return
        except (OSError, ValueError):
            self._ended(False)
            return
        if data:
            self._held = memoryview(passed)
            self._write()
            return
        self._loop.remove_reader(self._source.fileno())
        with suppress(OSError):
            self._target.shutdown(socket.SHUT_WR)
        self._ended(True)

    def _write(self) -> None:
        try:
            sent = self._target.send(self._held)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._ended(False)
            return
        self._held = self._held[sent:]
        self.moved += sent
        if self._held and not self._waits:
            self._waits = True
            self._loop.remove_reader(self._source.fileno())
            self._loop.add_writer(self._target.fileno(), self._write)
        elif self._waits and not self._held:
            self._waits = False
            self._loop.remove_writer(self._target.fileno())
            self._loop.add_reader(self._source.fileno(), self._read)


def join_sockets(
    one: socket.socket,
    other: socket.socket,
    over: Callable[[bool], None],
    first: bytes = b"",
    admit: Callable[[bytes], bytes] | None = None,
) -> tuple[SocketStream, SocketStream]:
    """Carry bytes both ways; `first` and `admit` are for what comes from the one.

    `over` is told true when both ways have ended well, and false as soon as one has not.
    """
    for connection in (one, other):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    left = 2

    def ended(well: bool) -> None:
        nonlocal left
        left -= 1
        if not well or not left:
            over(well)

    return SocketStream(one, other, ended, first, admit), SocketStream(other, one, ended)


def reset_on_close(connection: socket.socket) -> None:
    """Let the other side know that it did not end well."""
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def close_watched(*sockets: socket.socket | None) -> None:
    """Close those that are open; the event loop watches them no longer."""
    loop = asyncio.get_running_loop()
    for one in sockets:
        if one is not None and one.fileno() >= 0:
            loop.remove_reader(one.fileno())
            loop.remove_writer(one.fileno())
            one.close()
