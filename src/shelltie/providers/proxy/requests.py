"""HTTP proxy and SOCKS5 requests, parsed as they arrive. Pure.

A client says where it wants to go in one of three ways: CONNECT, a request for an absolute URI
(plain HTTP), or SOCKS5. Which one it is, its first byte tells.
"""

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy
from shelltie.providers.proxy.request_body import RequestBody
from shelltie.settings.network_list import canonical_host, split_port

HEAD_MAX = 32 * 1024  # bytes of a request's head
_SOCKS, _SOCKS_BEFORE = 5, 4
_BARE_LINE_END = lazy(rb"(?<!\r)\n|\r[^\n]")
_TOKEN = lazy(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_HEADER = lazy(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\0\r\n]*)")
# Between client and proxy alone; and the host is the one that was asked about.
_DROPPED = {"host", "connection", "proxy-connection", "proxy-authorization", "keep-alive", "te"}
_DROPPED |= {"upgrade", "trailer", "proxy-authenticate"}
_LENGTHS = {"content-length", "transfer-encoding"}
_SOCKS_CODES = {"refused": 2, "failed": 4, "malformed": 1}
_HTTP_CODES = {
    "refused": "403 Forbidden",
    "failed": "502 Bad Gateway",
    "malformed": "400 Bad Request",
}

Failure = Literal["refused", "failed", "malformed"]


class MalformedRequest(Exception):
    """What the client said is no request. `answer` is what it is told."""

    def __init__(self, why: str, answer: bytes) -> None:
        super().__init__(why)
        self.answer = answer


@frozen
class ProxyTarget:
    """Where a client wants to go, and what to tell it, and its host, once it is there."""

    host: str
    port: int
    socks: bool
    accepted: bytes  # for the client
    first: bytes = b""  # for the host, before anything else

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def failure(self, kind: Failure, why: str) -> bytes:
        """What the client is told instead."""
        return _socks_reply(_SOCKS_CODES[kind]) if self.socks else http_failure(kind, why)


class ProxyRequest:
    """One client's words up to its target; what it says after that is in `rest`.

    Of a request of plain HTTP, `body` tells what still belongs to it; a tunnel has none.
    """

    def __init__(self) -> None:
        self.target: ProxyTarget | None = None
        self.body: RequestBody | None = None
        self.rest = b""
        self._greeted = False

    def feed(self, data: bytes) -> bytes:
        """Hear more; returns what to answer now.

        Raises: MalformedRequest.
        """
        assert self.target is None
        self.rest += data
        if not self.rest:
            return b""
        if self._greeted or self.rest[0] == _SOCKS:
            return self._socks()
        if self.rest[0] == _SOCKS_BEFORE:
            raise MalformedRequest("SOCKS4", b"\0\x5b" + bytes(6))
        return self._http()

    def _take(self, count: int) -> bytes:
        taken, self.rest = self.rest[:count], self.rest[count:]
        return taken

    def _socks(self) -> bytes:
        answer = b""
        if not self._greeted:
            if len(self.rest) < 2 or len(self.rest) < 2 + self.rest[1]:
                return b""
            methods = self._take(2 + self.rest[1])[2:]
            if 0 not in methods:
                raise MalformedRequest("no method without a password", b"\x05\xff")
            self._greeted, answer = True, b"\x05\x00"
        try:
            length = _socks_length(self.rest)
            if length is not None and len(self.rest) >= length:
                self.target = _socks_target(self._take(length))
        except MalformedRequest as error:
            raise MalformedRequest(str(error), answer + error.answer) from error
        return answer

    def _http(self) -> bytes:
        end = self.rest.find(b"\r\n\r\n")
        if _BARE_LINE_END.search(self.rest, 0, end if end >= 0 else len(self.rest)):
            why = "a line ends with CR and LF"
            raise MalformedRequest(why, http_failure("malformed", why))
        if end < 0 and len(self.rest) <= HEAD_MAX:
            return b""
        if not 0 <= end <= HEAD_MAX:
            raise MalformedRequest("the head is too long", _answer("431 Too Large", "too long"))
        head = self._take(end + 4)[:-4]
        try:
            self.target, self.body = _http_target(head.decode("utf-8").split("\r\n"))
        except ValueError as error:  # also what is no UTF-8
            raise MalformedRequest(str(error), http_failure("malformed", str(error))) from error
        return b""


def _socks_length(request: bytes) -> int | None:
    """How many bytes a request has; `None` until that is known.

    Raises: MalformedRequest.
    """
    if len(request) < 5:
        return None
    version, command, reserved, kind, first = request[:5]
    if version != _SOCKS or reserved != 0:
        raise MalformedRequest("no request of SOCKS5", _socks_reply(1))
    if command != 1:
        raise MalformedRequest("only connections are made", _socks_reply(7))
    lengths = {1: 4, 3: 1 + first, 4: 16}
    if kind not in lengths:
        raise MalformedRequest("no kind of address", _socks_reply(8))
    return 4 + lengths[kind] + 2


def _socks_target(request: bytes) -> ProxyTarget:
    kind, port = request[3], int.from_bytes(request[-2:], "big")
    address = request[4:-2]
    try:
        if kind == 3:
            host = canonical_host(address[1:].decode("utf-8"))
        else:
            host = str(ipaddress.ip_address(address))
        return _checked(host, port, socks=True, accepted=_socks_reply(0))
    except ValueError as error:
        raise MalformedRequest(str(error), _socks_reply(1)) from error


def _socks_reply(code: int) -> bytes:
    return bytes((5, code, 0, 1, 0, 0, 0, 0, 0, 0))


def _checked(host: str, port: int, *, socks: bool = False, accepted: bytes = b"") -> ProxyTarget:
    if not 0 < port < 65536:
        raise ValueError("no such port")
    return ProxyTarget(host, port, socks, accepted)


def _http_target(lines: list[str]) -> tuple[ProxyTarget, RequestBody | None]:
    """Raises: ValueError."""
    words = lines[0].split(" ")
    if len(words) != 3 or not _TOKEN.fullmatch(words[0]):
        raise ValueError("no request of HTTP")
    method, where, version = words
    if version not in ("HTTP/1.0", "HTTP/1.1"):
        raise ValueError("no version of HTTP that is spoken here")
    headers = tuple(_headers(lines[1:]))
    if method == "CONNECT":
        name, port = split_port(where)
        if port is None:
            raise ValueError("CONNECT needs a host and a port")
        established = f"{version} 200 Connection established\r\n\r\n".encode("ascii")
        return _checked(canonical_host(name), port, accepted=established), None
    url = urlsplit(where)
    if url.scheme.lower() != "http" or not url.hostname or url.username is not None:
        raise ValueError("this is a proxy: the request needs a URI as http://host/path")
    name, port = split_port(url.netloc)
    target = _checked(canonical_host(name), port or 80)
    head = "\r\n".join(_forwarded(method, url, version, str(target), headers))
    return replace(target, first=head.encode("utf-8")), RequestBody(headers)


def _headers(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        header = _HEADER.fullmatch(line)
        if header is None:
            raise ValueError("a header that is none")
        yield header[1], header[2]


def _forwarded(
    method: str, url: SplitResult, version: str, host: str, headers: tuple[tuple[str, str], ...]
) -> Iterator[str]:
    """The lines of the request for the host itself. It closes after it, so that one is all."""
    names = {name.lower() for name, _ in headers}
    named = ",".join(value for name, value in headers if name.lower() == "connection")
    hops = {name.strip().lower() for name in named.split(",")}
    if hops & _LENGTHS or (version == "HTTP/1.0" and "transfer-encoding" in names):
        raise ValueError("a body whose length another would read otherwise")
    dropped = _DROPPED | hops
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    if re.search(r"[\s\0]", path):
        raise ValueError("no such path")
    yield f"{method} {path} {version}"
    yield f"Host: {host.removesuffix(':80')}"
    yield "Connection: close"
    for name, value in headers:
        if name.lower() not in dropped:
            yield f"{name}: {value}"
    yield from ("", "")


def http_failure(kind: Failure, why: str) -> bytes:
    """An answer of HTTP that says why not."""
    return _answer(_HTTP_CODES[kind], why)


def _answer(status: str, why: str) -> bytes:
    body = f"shelltie: {why}\n".encode("utf-8", "replace")
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
