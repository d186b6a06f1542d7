"""The door of the HTTP server: who may come in, and how many are inside."""

from collections.abc import Callable

import anyio
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shelltie.frontends.mcp.binding import PATH, Names
from shelltie.frontends.mcp.guests import GUEST, Guest, Guests

Known = Callable[[str], str | None]  # who has a token, if anybody
_REALM = 'Bearer realm="shelltie"'
_STREAM = "subscriptions/listen"
METRICS = "/metrics"
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class Door:
    """An ASGI application before another one, which sees only who may come in."""

    def __init__(
        self,
        inside: ASGIApp,
        known: Known,
        names: Names,
        guests: Guests,
        figures: Callable[[], str] | None = None,
    ) -> None:
        self._inside = AuthContextMiddleware(inside)
        self._known = known
        self._names = names
        self._guests = guests
        self._figures = figures
        self._closed = False
        self._calls = 0
        self._moved = anyio.Event()

    def close(self) -> None:
        """Nobody comes in any more; who is inside stays."""
        self._closed = True

    async def quiet(self) -> None:
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
        if scope["path"] == METRICS:
            await self._measured(scope)(scope, receive, send)
            return
        with self._guests.receive(_key(credential, headers)) as guest:
            scope[GUEST] = guest
            # For the SDK: sessions and sealed states are used with the credential they began with.
            known = AccessToken(token="", client_id=credential, scopes=[])
            scope["user"] = AuthenticatedUser(known)
            await self._serve(scope, receive, send, headers)

    def _refusal(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        host, origin = headers.get("host"), headers.get("origin")
        if not self._names.host(host):
            return _refuse(421, f"{host} is no name of this server; --allow-host makes it one")
        if not self._names.origin(origin):
            return _refuse(403, f"pages of {origin} may not use this server")
        if scope["path"].rstrip("/") != PATH and scope["path"] != METRICS:
            return _refuse(404, f"there is nothing here; MCP is at {PATH}")
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
                send = self._watched(scope[GUEST], send)
            await self._inside(scope, receive, send)
        finally:
            self._calls -= counts
            self._moved.set()
            self._moved = anyio.Event()

    def _watched(self, guest: Guest, send: Send) -> Send:
        """Who ends their session has left."""

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                self._guests.leave(guest)
            await send(message)

        return watch


def _token(headers: Headers) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _key(credential: str, headers: Headers) -> str:
    """The version that has no sessions ignores what a client says about one."""
    session = headers.get("mcp-session-id")
    if session is None or headers.get("mcp-protocol-version") in MODERN_PROTOCOL_VERSIONS:
        return credential
    return f"{credential}/{session}"


def _refuse(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": message}, status, headers)


def _unknown(*, given: bool) -> JSONResponse:
    told = "this token is not known here" if given else "a token is needed: Authorization: Bearer …"
    challenge = f'{_REALM}, error="invalid_token"' if given else _REALM
    said = {"error": "invalid_token", "error_description": told}
    return JSONResponse(said, 401, {"WWW-Authenticate": challenge})
