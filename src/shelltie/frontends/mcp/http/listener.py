"""Listening socket with a connection limit and a timeout for idle connections (slowloris).

The web server's own limits begin with a whole request: it keeps a connection that never sends one
for ever, and when no descriptor is left it accepts nothing and fills stderr.
"""

import asyncio
import errno
import os
import resource
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

PeerAddress = tuple[str, int]
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)


@dataclass(slots=True, eq=False)
class _Connection:
    """It is silent while no request with a token is being served on it."""

    socket: socket.socket
    until: float  # silent as long as that, it is dropped
    known: bool = False  # has shown a token
    requests: int = 0


class Listener(socket.socket):
    """Accepts at most `most` connections for asyncio, which calls `accept` until that would block.

    One that is silent for `silence` seconds is dropped. When it is full, the one that has been
    silent longest is: of those that never showed a token, if there are any. If every connection
    is being served, the new one is refused.
    """

    def __init__(self, bound: socket.socket, most: int, silence: float) -> None:
        """Takes over a bound socket."""
        super().__init__(bound.family, bound.type, bound.proto, bound.detach())
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if descriptors != resource.RLIM_INFINITY:
            most = min(most, descriptors // 2)  # the other half is for what runs
        self._most = most
        self._silence = silence
        self._loop = asyncio.get_running_loop()
        self._connections: dict[PeerAddress, _Connection] = {}  # those silent longest come first
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._timer: asyncio.TimerHandle | None = None

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection.

        Raises: BlockingIOError if there is no room; asyncio then comes again, and has noticed what
        was dropped.
        """
        self._make_room()
        try:
            connection, address = super().accept()
        except OSError as error:
            if error.errno not in _NO_DESCRIPTOR:
                raise
            self._refuse()
            raise BlockingIOError from None
        self._keep((address[0], address[1]), _Connection(connection, 0))
        return connection, address

    def close(self) -> None:
        """Accept no more; the connections stay."""
        super().close()
        if self._timer is not None:
            self._timer.cancel()
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1

    def began(self, peer: PeerAddress) -> None:
        """A request with a token has arrived there."""
        if (one := self._connections.get(peer)) is not None:
            one.known = True
            one.requests += 1

    def ended(self, peer: PeerAddress) -> None:
        """It has its answer."""
        if (one := self._connections.get(peer)) is not None:
            one.requests -= 1
            self._keep(peer, one)

    def _keep(self, peer: PeerAddress, one: _Connection) -> None:
        one.until = self._loop.time() + self._silence
        self._connections.pop(peer, None)
        self._connections[peer] = one
        self._watch()

    def _make_room(self) -> None:
        if len(self._connections) >= self._most:
            self._forget_closed()
        if len(self._connections) < self._most:
            return
        silent = [peer for peer, one in self._connections.items() if not one.requests]
        if silent:
            self._drop(min(silent, key=lambda peer: self._connections[peer].known))
        else:
            self._refuse()
        raise BlockingIOError

    def _refuse(self) -> None:
        """Close the next connection. That takes a descriptor, and so one is kept for it."""
        os.close(self._spare)
        with suppress(OSError):
            super().accept()[0].close()
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _drop(self, peer: PeerAddress) -> None:
        """Not closed, which is asyncio's to do when it finds the end of the stream."""
        with suppress(OSError):
            self._connections.pop(peer).socket.shutdown(socket.SHUT_RDWR)

    def _forget_closed(self) -> None:
        closed = [peer for peer, one in self._connections.items() if one.socket.fileno() < 0]
        for peer in closed:
            del self._connections[peer]

    def _watch(self) -> None:
        """Come back when the first one has been silent for too long."""
        if self._timer is None:
            silent = (one.until for one in self._connections.values() if not one.requests)
            if (until := next(silent, None)) is not None:
                self._timer = self._loop.call_at(until, self._drop_late)

    def _drop_late(self) -> None:
        self._timer = None
        self._forget_closed()
        now = self._loop.time()
        for peer, one in tuple(self._connections.items()):
            if not one.requests and one.until <= now:
                self._drop(peer)
        self._watch()
