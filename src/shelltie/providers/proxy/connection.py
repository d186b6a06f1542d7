"""Proxy connection: one client's request, judged by the allow list, connected and carried.

A name is looked up once, every address of it is checked, and the connection goes to one of these:
what the name means a moment later changes nothing (DNS rebinding).
"""

import asyncio
import errno
import ipaddress
import socket
from collections.abc import Callable
from contextlib import suppress

from shelltie.basics.frozen import frozen
from shelltie.model import RefusedHost
from shelltie.providers.proxy.addresses import is_home, is_private_host, is_public
from shelltie.providers.proxy.lookup import Lookups
from shelltie.providers.proxy.requests import (
    HEAD_MAX,
    Failure,
    MalformedRequest,
    ProxyRequest,
    ProxyTarget,
)
from shelltie.providers.socket_stream import (
    SocketStream,
    close_watched,
    join_sockets,
    reset_on_close,
)
from shelltie.settings.network_list import THIS_MACHINE, AllowedHost, entry_for, is_address

_LOOPBACK = ("127.0.0.1", "::1")
_READ_SIZE = 4096


@frozen
class ProxyLimits:
    """Bounds of a proxy, in seconds but for the number of connections at a time."""

    connections: int = 128
    head: float = 20.0  # for a client to say where it wants to go
    connect: float = 20.0  # for a name to be found and a host to answer
    idle: float = 600.0  # without a byte in either direction
    total: float = 6 * 3600.0
    farewell: float = 2.0  # for a client to read why it was refused


def why_refused(entry: AllowedHost, addresses: tuple[str, ...]) -> str | None:
    """Why a name with these addresses is not connected to; `None` if nothing is wrong with it.

    One bad address is enough: who mixes them wants the next look to find another.
    """
    for address in addresses:
        listed = is_address(entry.host) and not entry.subdomains
        if listed or (entry.explicit and (is_home(address) or is_public(address))):
            continue
        if not is_public(address) or _is_ours(address):
            return f"it leads to {address}, which is private"
    return None


def _is_ours(address: str) -> bool:
    """Whether it is one of this machine's own: what is sent there comes from there."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))  # which sends nothing
        return bool(probe.getsockname()[0] == address)
    return False


class ProxyConnection:
    """From a client's first byte to its last. `refused` hears where it may not go."""

    def __init__(
        self,
        client: socket.socket,
        allowed: tuple[AllowedHost, ...],
        lookups: Lookups,
        limits: ProxyLimits,
        refused: Callable[[RefusedHost, int], None],
        over: Callable[["ProxyConnection"], None],
    ) -> None:
        client.setblocking(False)
        self._client = client
        self._allowed, self._lookups, self._limits = allowed, lookups, limits
        self._refused, self._over = refused, over
        self._request = ProxyRequest()
        self._heard = 0
        self._host: socket.socket | None = None
        self._streams: tuple[SocketStream, ...] = ()
        self._moved = -1
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(limits.head, self.abort)
        self._ends_at = self._loop.time() + limits.total
        self._loop.add_reader(client.fileno(), self._read)

    # What it wants

    def _read(self) -> None:
        if (data := self._receive()) is None:
            return
        if not data or self._heard > HEAD_MAX + _READ_SIZE:
            self.abort()
            return
        try:
            answer = self._request.feed(data)
        except MalformedRequest as error:
            self._dismiss(error.answer)
            return
        if answer and not self._say(answer):
            return
        if self._request.target is not None:
            self._judge(self._request.target)

    def _say(self, answer: bytes) -> bool:
        """A few bytes, which a client that listens has room for."""
        with suppress(OSError):
            if self._client.send(answer) == len(answer):
                return True
        self.abort()
        return False

    def _judge(self, target: ProxyTarget) -> None:
        self._loop.remove_reader(self._client.fileno())
        self._again_in(self._limits.connect, lambda: self._fail("failed", "it does not answer"))
        fitting = [one for one in self._allowed if one.matches(target.host, target.port)]
        if not fitting:
            entry = "" if is_private_host(target.host) else entry_for(str(target))
            self._refuse(entry, f"{target} is not in sandbox.network_allow")
            return
        best = max(fitting, key=lambda one: one.explicit)

        def found(addresses: tuple[str, ...]) -> None:
            if self._client.fileno() >= 0:
                self._judge_addresses(best, addresses)

        if is_address(target.host):
            found((target.host,))
        elif target.host == THIS_MACHINE:
            found(_LOOPBACK)
        else:
            self._lookups.ask(target.host, target.port, found)

    def _judge_addresses(self, entry: AllowedHost, addresses: tuple[str, ...]) -> None:
        target = str(self._request.target)
        if not addresses:
            self._fail("failed", f"{target} was not found")
            return
        why = why_refused(entry, addresses)
        if why is None:
            self._connect(addresses)
        else:
            self._refuse("", f"{target}: {why}")

    def _refuse(self, entry: str, why: str) -> None:
        """Not there; with that entry in the list, if there is one, it could."""
        with suppress(OSError):  # it has left meanwhile
            port = self._client.getpeername()[1]
            self._refused(RefusedHost(str(self._request.target), entry), port)
        self._fail("refused", why)

    def _fail(self, kind: Failure, why: str) -> None:
        assert self._request.target is not None
        self._dismiss(self._request.target.failure(kind, why))

    # The way there

    def _connect(self, addresses: tuple[str, ...]) -> None:
        """Try one after the other."""
        target = self._request.target
        assert target is not None
        self._drop_host()
        if not addresses:
            self._fail("failed", f"{target} does not answer")
            return
        address, others = str(ipaddress.ip_address(addresses[0])), addresses[1:]
        try:
            host = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        except OSError:  # too many descriptors
            self._connect(others)
            return
        self._host = host
        host.setblocking(False)

        def answered() -> None:
            self._loop.remove_writer(host.fileno())
            if host.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._connect(others)
            else:
                self._join(host, target)

        with suppress(OSError):
            if host.connect_ex((address, target.port)) in (0, errno.EINPROGRESS):
                self._loop.add_writer(host.fileno(), answered)
                return
        self._connect(others)

    def _join(self, host: socket.socket, target: ProxyTarget) -> None:
        if target.accepted and not self._say(target.accepted):
            return
        body, rest = self._request.body, self._request.rest
        try:
            first = target.first + (rest if body is None else body.admit(rest))
        except ValueError as error:
            self._fail("malformed", str(error))
            return
        self._streams = join_sockets(
            self._client,
            host,
            lambda well: self._close() if well else self.abort(),
            first,
            None if body is None else body.admit,
        )
        self._look_again()

    def _look_again(self) -> None:
        """Whether it stands still, now and then."""
        moved = sum(one.moved for one in self._streams)
        if self._loop.time() >= self._ends_at or moved == self._moved:
            self.abort()
            return
        self._moved = moved
        self._again_in(self._limits.idle, self._look_again)

    # The end

    def _again_in(self, seconds: float, call: Callable[[], None]) -> None:
        self._timer.cancel()
        self._timer = self._loop.call_later(seconds, call)

    def _dismiss(self, answer: bytes) -> None:
        """Say it and go. Who has unread bytes would else be reset before it reads the answer."""
        self._drop_host()
        self._loop.remove_reader(self._client.fileno())
        self._again_in(self._limits.farewell, self._close)
        if not self._say(answer):
            return
        with suppress(OSError):
            self._client.shutdown(socket.SHUT_WR)
        self._loop.add_reader(self._client.fileno(), self._discard)

    def _discard(self) -> None:
        left = self._receive()
        if left == b"" or self._heard > 2 * HEAD_MAX:
            self._close()

    def _receive(self) -> bytes | None:
        """What the client has sent: `None` if nothing has come yet, nothing at its end."""
        try:
            data = self._client.recv(_READ_SIZE)
        except BlockingIOError:
            return None
        except OSError:
            return b""
        self._heard += len(data)
        return data

    def abort(self) -> None:
        """End it at once, and let both sides know that it did not end well."""
        for one in (self._client, self._host):
            if one is not None:
                reset_on_close(one)
        self._close()

    def _drop_host(self) -> None:
        host, self._host = self._host, None
        if host is not None:
            self._loop.remove_writer(host.fileno())
            host.close()

    def _close(self) -> None:
        self._timer.cancel()
        close_watched(self._client, self._host)
        self._over(self)
