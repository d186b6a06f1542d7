"""ASGI middleware for access control: Host and Origin (DNS rebinding), bearer tokens."""

import hashlib
import hmac
import logging
import os
import secrets
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shelltie.basics.pulse import Pulse
from shelltie.errors import ConfigWrong
from shelltie.frontends.mcp.http.address import PATH, Names
from shelltie.frontends.mcp.http.clients import CLIENT_KEY, HttpClient, HttpClients
from shelltie.frontends.mcp.http.listener import Listener
from shelltie.settings.files import WatchedFile, read_small_file

TokenLookup = Callable[[str], str | None]  # who has a token, if anybody
Revoked = Callable[[str], bool]  # whether whom we knew is known no more
_REALM = 'Bearer realm="shelltie"'
_STREAM = "subscriptions/listen"
METRICS = "/metrics"
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class _TrackedResponse:
    """The HTTP response to one request, and how far it has come."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._begun = self._whole = False

    async def send(self, message: Message) -> None:
        """Hand it on."""
        self._begun = True
        self._whole = message["type"] == "http.response.body" and not message.get("more_body")
        await self._send(message)

    async def cut_off(self, scope: Scope, receive: Receive) -> None:
        """End it, for a client that has been shut out."""
        if not self._begun:
            await _unknown(given=True)(scope, receive, self._send)
        elif not self._whole:
            await self._send({"type": "http.response.body"})


class AccessControl:
    """An ASGI application before another one, which sees only who may come in."""

    def __init__(
        self,
        inside: ASGIApp,
        known: TokenLookup,
        revoked: Revoked,
        names: Names,
        clients: HttpClients,
        listener: Listener,
        requests_max: int,
        figures: Callable[[], str] | None = None,
    ) -> None:
        self._inside = AuthContextMiddleware(inside)
        self._known = known
        self._revoked = revoked
        self._names = names
        self._clients = clients
        self._listener = listener
        self._requests_max = requests_max
        self._figures = figures
        self._doubtful: set[HttpClient] = set()
        self._closed = False
        self._calls = 0
        self._moved = Pulse()

    def close(self) -> None:
        """Nobody comes in any more; who is inside stays."""
        self._closed = True

    async def wait_idle(self) -> None:
        """Return when every call has its answer. Streams that only listen do not count."""
        while self._calls:
            await self._moved.wait()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        headers = Headers(scope=scope)
        if (refusal := self._refusal(scope, headers)) is not None:
            await refusal(scope, receive, send)
            return
        if (credential := self._known(_token(headers))) is None:
            await _unknown(given="authorization" in headers)(scope, receive, send)
            return
        self._listener.began(scope["client"])
        try:
            await self._let_in(credential, scope, receive, send, headers)
        finally:
            self._listener.ended(scope["client"])

    async def _let_in(
        self, credential: str, scope: Scope, receive: Receive, send: Send, headers: Headers
    ) -> None:
        if scope["path"] == METRICS:
            await self._measured(scope)(scope, receive, send)
            return
        if self._clients.open_requests(credential) >= self._requests_max:
            most = self._requests_max
            busy = f"{most} requests of this token are open (http.requests): wait for one"
            await _refuse(429, busy, {"Retry-After": "1"})(scope, receive, send)
            return
        answer = _TrackedResponse(send)
        with self._clients.request(credential, _session(headers)) as client:
            scope[CLIENT_KEY] = client
            scope["user"] = _user(client)
            await self._serve(scope, receive, answer.send, headers)
            return
        await answer.cut_off(scope, receive)

    async def shut_out_revoked(self) -> None:
        """End what those have and ask for whose token is no longer known.

        Nor was at the last look: a file that is being written is empty for a moment.
        """
        revoked = {one for one in self._clients.all() if self._revoked(one.credential)}
        for client in revoked & self._doubtful:
            self._clients.shut_out(client)
            if client.session is not None:
                # As if they had: the SDK goes on with a request whose connection is lost.
                headers = [(b"mcp-session-id", client.session.encode("latin-1"))]
                scope = {"type": "http", "method": "DELETE", "path": PATH, "headers": headers}
                await self._inside({**scope, "user": _user(client)}, _no_body, _unheard)
        self._doubtful = revoked - self._doubtful

    def _refusal(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        host, origin = headers.get("host"), headers.get("origin")
        if not self._names.host(host):
            return _refuse(421, f"{host} is no name of this server; --allow-host makes it one")
        if not self._names.origin(origin):
            return _refuse(403, f"pages of {origin} may not use this server")
        if scope["path"].rstrip("/") != PATH and scope["path"] != METRICS:
            return _nothing_here()
        if self._closed:
            return _refuse(503, "this server is leaving", {"Connection": "close"})
        return None

    def _measured(self, scope: Scope) -> Response:
        """Whoever has a token may read the figures; they are nobody's session."""
        if scope["method"] not in ("GET", "HEAD") or self._figures is None:
            return _refuse(405, "figures can only be read", {"Allow": "GET, HEAD"})
        return Response(self._figures(), media_type=_PROMETHEUS)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        counts = scope["method"] == "POST" and headers.get("mcp-method") != _STREAM
        self._calls += counts
        try:
            if scope["method"] == "DELETE":
                send = self._watched(scope[CLIENT_KEY], send)
            await self._inside(scope, receive, send)
        finally:
            self._calls -= counts
            self._moved.beat()

    def _watched(self, client: HttpClient, send: Send) -> Send:
        """Who ends their session has left."""

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                self._clients.forget(client)
            await send(message)

        return watch


def _token(headers: Headers) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _session(headers: Headers) -> str | None:
    """The version that has no sessions ignores what a client says about one."""
    modern = headers.get("mcp-protocol-version") in MODERN_PROTOCOL_VERSIONS
    return None if modern else headers.get("mcp-session-id")


def _user(client: HttpClient) -> AuthenticatedUser:
    """For the SDK: sessions and sealed states are used with the credential they began with."""
    return AuthenticatedUser(AccessToken(token="", client_id=client.credential, scopes=[]))


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _unheard(_: Message) -> None:
    """For a request of our own."""


def _nothing_here() -> JSONResponse:
    """A client without a token looks for OAuth, fails to register, and shows this to its user."""
    told = (
        "this server has no OAuth and registers nobody: give your client a token of the server's"
        f' file, as the header "Authorization: Bearer TOKEN". MCP is at {PATH}'
    )
    return JSONResponse({"error": "not_found", "error_description": told}, 404)


def _refuse(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": message}, status, headers)


def _unknown(*, given: bool) -> JSONResponse:
    told = (
        "this token is not known here"
        if given
        else "a token is needed: Authorization: Bearer TOKEN"
    )
    challenge = f'{_REALM}, error="invalid_token"' if given else _REALM
    said = {"error": "invalid_token", "error_description": told}
    return JSONResponse(said, 401, {"WWW-Authenticate": challenge})


_log = logging.getLogger(__name__)

_SHORTEST = 20  # characters; what a person makes up is shorter, and is guessed
_FILE_MAX = 64 * 1024
_HEAD = "# One token a line. Each is a client of its own; delete a line, and it is shut out.\n"


class Tokens:
    """The tokens in a file, as it is now: it is read again whenever it has changed."""

    def __init__(self, path: Path) -> None:
        """Make the file with a token in it if there is none.

        Raises: ConfigWrong.
        """
        _create(path)
        self._file = WatchedFile(path)
        self._known = _read(path)

    def credential(self, token: str) -> str | None:
        """A name for whoever has this token, which does not give it away; `None` for nobody."""
        self._refresh()
        given = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        found = None
        for known in self._known:  # all of them, so that time tells nothing
            if hmac.compare_digest(known, given):
                found = _name(known)
        return found

    def revoked(self, credential: str) -> bool:
        """Whether whoever was known by this name no longer is."""
        self._refresh()
        return all(_name(known) != credential for known in self._known)

    def _refresh(self) -> None:
        if not self._file.changed():
            return
        try:
            self._known = _read(self._file.path)
        except ConfigWrong as error:
            if self._known:
                _log.warning("nobody can come in any more: %s", error)
            self._known = ()


def _name(known: bytes) -> str:
    return known.hex()[:16]


def _read(path: Path) -> tuple[bytes, ...]:
    content = read_small_file(path, size_max=_FILE_MAX, problem=_open_to_others)
    lines = content.decode("utf-8", "replace").splitlines()
    tokens = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not tokens:
        raise ConfigWrong(f"{path}: there is no token in it; delete it, and a new one is made")
    if short := next((n for n, token in enumerate(tokens, 1) if len(token) < _SHORTEST), None):
        raise ConfigWrong(
            f"{path}: token {short} has fewer than {_SHORTEST} characters and could be guessed;"
            " `openssl rand -hex 32` makes a good one"
        )
    return tuple(hashlib.sha256(token.encode()).digest() for token in tokens)


def _open_to_others(status: os.stat_result) -> str | None:
    if status.st_mode & 0o077 or status.st_uid not in (0, os.geteuid()):
        return "others can read it; chown it to you and `chmod 600` it"
    return None


def _create(path: Path) -> None:
    """Whole and closed to others from its first moment; of two who do this, one is first."""
    if path.exists():
        return
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(f"{_HEAD}{secrets.token_urlsafe(32)}\n")
            with suppress(FileExistsError):
                os.link(draft, path)
        finally:
            Path(draft).unlink()
    except OSError as error:
        raise ConfigWrong(f"{path}: no token can be kept there: {error.strerror}") from error
