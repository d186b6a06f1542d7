"""HOST:PORT parsing, safe binding (loopback unless there is TLS) and allowed host names."""

import ipaddress
import re
import socket
from collections.abc import Sequence

from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy
from shelltie.errors import CannotStart, UnsafeAddress

_ADDRESS = lazy(r"(\[[0-9A-Fa-f:.%\w]+\]|[^\s:/\[\]]+):([0-9]{1,5})", re.ASCII)


@frozen
class Address:
    """A host and a port; 0 takes any port that is free."""

    host: str
    port: int


def parse(text: str) -> Address:
    """`127.0.0.1:8765`, `localhost:0`, `[::1]:8765`.

    Raises: ValueError, with what it should look like.
    """
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found[2]) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:8765 or [::1]:8765")
    return Address(found[1].strip("[]"), int(found[2]))


PATH = "/mcp"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104  to know it, not to bind it


def bind(address: Address, *, encrypted: bool, plaintext: bool) -> socket.socket:
    """A socket at that address that nobody can connect to yet.

    Without encryption it is this machine's alone, unless `plaintext` says otherwise.
    Raises: UnsafeAddress, CannotStart.
    """
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        if not (encrypted or plaintext or ipaddress.ip_address(str(place[0])).is_loopback):
            raise UnsafeAddress(
                f"{address.host} can be reached from other machines, and commands and the token"
                " would go there unencrypted: give --tls-cert and --tls-key, listen on 127.0.0.1,"
                " or say --allow-plaintext if something else encrypts"
            )
        # asyncio sends small answers at once only where the protocol is named: 40 ms each.
        return _bound(socket.socket(family, kind, protocol), place)
    except (OSError, UnicodeError) as error:
        raise CannotStart(f"cannot listen on {address.host}:{address.port}: {error}", 125) from None


def _bound(sock: socket.socket, place: tuple[object, ...]) -> socket.socket:
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(place)
    except OSError:
        sock.close()
        raise
    return sock


@frozen
class Names:
    """What a request may say in Host, and in Origin if it comes from a page in a browser.

    A page elsewhere can make its own name point to this machine, but it cannot hide that name.
    """

    hosts: frozenset[str]
    origins: frozenset[str]

    def host(self, header: str | None) -> bool:
        """Whether the name is one of ours; the port may be another's, who forwards to us."""
        name, _, port = (header or "").lower().rpartition(":")
        return (name if name and port.isdecimal() else (header or "").lower()) in self.hosts

    def origin(self, header: str | None) -> bool:
        """Whether it is no page at all, or one of ours."""
        return header is None or header.lower() in self.origins


def names(sock: socket.socket, more: Sequence[str], *, encrypted: bool) -> Names:
    """The names of a bound socket: its own, this machine's to itself, and those that are given."""
    host, port = sock.getsockname()[:2]
    own = f"[{host}]" if ":" in host else host
    known = {*_LOOPBACK, own, *(name.lower() for name in more)} - set(_EVERYWHERE)
    scheme = "https" if encrypted else "http"
    return Names(frozenset(known), frozenset(f"{scheme}://{name}:{port}" for name in known))


def url(sock: socket.socket, *, encrypted: bool) -> str:
    """What a client is told."""
    host, port = sock.getsockname()[:2]
    own = f"[{host}]" if ":" in host else host
    return f"{'https' if encrypted else 'http'}://{own}:{port}{PATH}"
