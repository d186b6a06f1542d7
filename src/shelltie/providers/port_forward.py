"""Port forwarding: what a sandboxed command listens on, reachable at 127.0.0.1 outside.

A sandbox has a network namespace of its own. Its keeper makes a socket there for each connection
and passes it out, and we connect that one: a socket stays in the namespace in which it was made. So
nothing of this machine can be reached from inside, and from outside only what listens inside.
"""

import asyncio
import errno
import socket
import threading
from collections.abc import Callable
from functools import partial

from shelltie.keeper.link import Link, taken_socket
from shelltie.keeper.protocol import Gone, LeashWord, Lost
from shelltie.model import ForwardedPort
from shelltie.providers.listening_ports import ListeningSocket, listeners
from shelltie.providers.socket_stream import close_watched, join_sockets, reset_on_close
from shelltie.providers.spawn import LeashedProcess

OUTSIDE = "127.0.0.1"
PORTS_MAX = 32  # of one command
CONNECTIONS_MAX = 256  # of one command, at a time; further ones wait
_LOOK_EVERY = 1.0  # seconds; the kernel tells nobody that a socket listens
_CONNECT_TIMEOUT = 10.0  # seconds for a keeper, or whoever listens, to answer
_PRIVILEGED = 1024  # below it a port is a service of the machine: never taken by its number


class _Connection:
    """A connection from outside: a socket inside is asked for, connected, and joined to it."""

    def __init__(
        self, outer: socket.socket, link: Link, listener: ListeningSocket, over: Callable[[], None]
    ) -> None:
        self._outer, self._listener = outer, listener
        self._over: Callable[[], None] | None = over
        self._loop = asyncio.get_running_loop()
        self._inner: socket.socket | None = None  # before it is there, where it will come
        self._timeout = self._loop.call_later(_CONNECT_TIMEOUT, self.abort)
        try:
            self._inner = link.ask_socket(listener.version)
        except OSError:
            self._loop.call_soon(self.abort)
        else:
            self._loop.add_reader(self._inner, self._connect)

    def _connect(self) -> None:
        answer = self._inner
        assert answer is not None
        self._loop.remove_reader(answer)
        self._inner = taken_socket(answer)
        answer.close()
        if self._inner is None:
            self.abort()
            return
        self._inner.setblocking(False)
        if self._inner.connect_ex(self._listener.reached_at) in (0, errno.EINPROGRESS):
            self._loop.add_writer(self._inner, self._join)
        else:
            self.abort()

    def _join(self) -> None:
        inner = self._inner
        assert inner is not None
        self._loop.remove_writer(inner)
        if inner.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.abort()
            return
        self._timeout.cancel()
        join_sockets(self._outer, inner, lambda well: self._close() if well else self.abort())

    def abort(self) -> None:
        """End it at once, and let both sides know that it did not end well."""
        for one in (self._outer, self._inner):
            if one is not None and one.family != socket.AF_UNIX:
                reset_on_close(one)
        self._close()

    def _close(self) -> None:
        self._timeout.cancel()
        close_watched(self._outer, self._inner)
        over, self._over = self._over, None
        if over is not None:
            over()


class PortForwards:
    """What one command listens on in its sandbox: opened as it appears, closed with the command.

    Nothing is opened before `watch`, and if not `enabled`, nothing ever.
    """

    def __init__(self, link: Link, *, enabled: bool, ours: tuple[int, ...] = ()) -> None:
        self._link = link
        self._ours = ours  # ports at which we listen inside
        self._process: LeashedProcess | None = None
        self._enabled = enabled
        self._watching = False
        self._thread = threading.get_ident()
        self._seen: tuple[ForwardedPort, ...] = ()
        self._servers: dict[int, socket.socket] = {}  # by the port inside
        self._listeners: dict[int, ListeningSocket] = {}
        self._connections: set[_Connection] = set()
        self._timer: asyncio.TimerHandle | None = None

    def closing(self, listen: Callable[[LeashWord], None]) -> Callable[[LeashWord], None]:
        """Who listens to the leash of the command; when that is gone, nothing is forwarded."""

        def hear(word: LeashWord) -> None:
            if isinstance(word, Gone | Lost):
                self.close()
            listen(word)

        return hear

    def attached(self, process: LeashedProcess) -> LeashedProcess:
        """The command whose ports these are."""
        self._process, process.ports = process, self
        return process

    def watch(self) -> None:
        """From now on look every now and then, until it is closed."""
        self._watching = True
        if self._timer is None:
            self._tick()

    def _tick(self) -> None:
        self.look()
        if self._watching:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_EVERY, self._tick)

    def look(self) -> tuple[ForwardedPort, ...]:
        """What it listens on now; whatever is new can be reached from here on.

        In another thread than the event loop's, what was seen last.
        """
        leash = 0 if self._process is None else self._process.leash
        if self._watching and leash and threading.get_ident() == self._thread:
            found = [one for one in listeners(leash) if one.port not in self._ours]
            self._listeners |= {one.port: one for one in found}
            self._accept_more()
            self._seen = tuple(map(self._forward, found))
        return self._seen

    def _forward(self, listener: ListeningSocket) -> ForwardedPort:
        inside = str(listener)
        if not self._enabled:
            return ForwardedPort(inside, None, "not forwarded, as sandbox.forward is false")
        if listener.port not in self._servers:
            if len(self._servers) >= PORTS_MAX:
                return ForwardedPort(inside, None, f"not forwarded: {PORTS_MAX} others are")
            try:
                self._servers[listener.port] = outside_server(listener.port)
            except OSError as error:
                return ForwardedPort(inside, None, f"cannot be forwarded: {error.strerror}")
            self._accept_more()
        port = self._servers[listener.port].getsockname()[1]
        return ForwardedPort(inside, f"{OUTSIDE}:{port}")

    def _accept_more(self) -> None:
        loop = asyncio.get_running_loop()
        for port, server in self._servers.items() if self._room else ():
            loop.add_reader(server, partial(self._accept, port))

    @property
    def _room(self) -> bool:
        return len(self._connections) < CONNECTIONS_MAX

    def _accept(self, port: int) -> None:
        try:
            outer, _ = self._servers[port].accept()
        except BlockingIOError:
            return
        except OSError:  # too many descriptors: the next look tries again
            asyncio.get_running_loop().remove_reader(self._servers[port])
            return
        outer.setblocking(False)
        connection: _Connection

        def over() -> None:
            self._connections.discard(connection)
            self._accept_more()

        connection = _Connection(outer, self._link, self._listeners[port], over)
        self._connections.add(connection)
        if not self._room:
            for server in self._servers.values():
                asyncio.get_running_loop().remove_reader(server)

    def close(self) -> None:
        """Nothing of it can be reached any more."""
        self._watching, self._seen = False, ()
        if self._timer is not None:
            self._timer.cancel()
        servers, self._servers = self._servers, {}
        for server in servers.values():
            asyncio.get_running_loop().remove_reader(server)
            server.close()
        for connection in tuple(self._connections):
            connection.abort()


def outside_server(wanted: int) -> socket.socket:
    """Listens at the same number outside, if that is free and no service's of the machine."""
    for port in (wanted, 0) if wanted >= _PRIVILEGED else (0,):
        server = socket.socket()
        try:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((OUTSIDE, port))
            server.listen()
        except OSError:
            server.close()
            if port == 0:
                raise
        else:
            server.setblocking(False)
            return server
    raise AssertionError("the last port is any")
