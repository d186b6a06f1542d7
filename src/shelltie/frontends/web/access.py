"""Access control of the web page: Host, Origin, Sec-Fetch-Site, two bearer tokens, CSP.

A page of another site can make a browser send requests here, and can have its own name point here.
It can hide neither its name nor its origin, and it has no token: there is no cookie to ride on.
"""

import hmac
import os
import secrets
import time
from enum import StrEnum

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shelltie.frontends.web.tcp_peer import other_end

BODY_MAX = 64 * 1024
_CODE_LIVES = 120.0
_NAMES = ("127.0.0.1", "localhost")
_API = "/api/"
_ENTER = "/api/enter"  # where a code is changed for a token
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), clipboard-read=()",
    "cache-control": "no-store",
}


class PageRole(StrEnum):
    """What a token is for."""

    VIEW = "view"
    STEER = "steer"


class PageTokens:
    """The two tokens and the codes of links. They are in our memory, and nowhere else.

    A link that is opened for a person is on the command line of their browser, where every process
    can read it: so it has a code that works once, for two minutes.
    """

    def __init__(self, *, steers: bool) -> None:
        roles = (PageRole.VIEW, PageRole.STEER) if steers else (PageRole.VIEW,)
        self._tokens = {role: secrets.token_urlsafe(24) for role in roles}
        self._codes: dict[str, tuple[PageRole, float]] = {}

    def token(self, role: PageRole) -> str | None:
        """The token of a role; there may be none to steer with."""
        return self._tokens.get(role)

    def role(self, token: str) -> PageRole | None:
        """What it is for."""
        given = token.encode()
        matches = [r for r, t in self._tokens.items() if hmac.compare_digest(t.encode(), given)]
        return matches[0] if matches else None

    def new_code(self) -> str:
        """A code for the best role that there is."""
        role = PageRole.STEER if PageRole.STEER in self._tokens else PageRole.VIEW
        code = secrets.token_urlsafe(16)
        self._codes[code] = (role, time.monotonic() + _CODE_LIVES)
        return code

    def take_code(self, code: str) -> PageRole | None:
        """What it is good for; afterwards it is good for nothing."""
        role, until = self._codes.pop(code, (None, 0.0))
        return role if time.monotonic() < until else None


class PageAccess:
    """An ASGI application before another one, which sees only who may come in."""

    def __init__(self, inside: ASGIApp, tokens: PageTokens) -> None:
        self._inside = inside
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = [(k.encode(), v.encode()) for k, v in _HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        headers = Headers(scope=scope)
        refusal = _foreign(scope, headers) or self._unknown(scope, headers)
        await (refusal or self._inside)(scope, receive, with_headers)

    def _unknown(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        """Why this may not be seen. The page itself has nothing in it that is anybody's."""
        path = scope["path"]
        if not path.startswith(_API) or path == _ENTER:
            return None
        kind, _, token = headers.get("authorization", "").partition(" ")
        role = self._tokens.role(token) if kind.lower() == "bearer" else None
        if role is None:
            return refuse(401, "TOKEN", "open the link that `shelltie web` prints: it has a token")
        scope.setdefault("state", {})["role"] = role
        return None


def _foreign(scope: Scope, headers: Headers) -> JSONResponse | None:
    """Why this is not a request of our own page, by a browser or a program of our user."""
    host = headers.get("host", "")
    if host.partition(":")[0].lower() not in _NAMES:
        return refuse(421, "HOST", "this page is at 127.0.0.1 only")
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is not None and origin.lower() != f"http://{host.lower()}":
        return refuse(403, "ORIGIN", "this is a request of another page")
    if site not in (None, "same-origin", "none"):
        return refuse(403, "SITE", "this is a request of another site")
    if scope["method"] == "POST":
        return _no_post(headers)
    if scope["method"] != "GET":
        return refuse(405, "METHOD", "GET and POST are all there is")
    return _not_ours(scope)


def _no_post(headers: Headers) -> JSONResponse | None:
    """A form of another page can be sent anywhere, but not as JSON, and not without an origin."""
    kind = headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/json" or headers.get("origin") is None:
        return refuse(403, "FORM", "a request must be JSON, and say its origin")
    length = headers.get("content-length", "")
    if not length.isdecimal() or int(length) > BODY_MAX:
        return refuse(413, "SIZE", "a request has at most 64 KiB, and says how many")
    return None


def _not_ours(scope: Scope) -> JSONResponse | None:
    """Other users of this machine reach our port, too; where the kernel tells, they are refused."""
    if scope["path"] != "/" or scope.get("client") is None:
        return None
    end = other_end(tuple(scope["client"]), tuple(scope["server"]))
    if end is not None and end.uid not in (0, os.geteuid()):
        return refuse(403, "USER", "this page is another user's")
    return None


def refuse(status: int, code: str, message: str) -> JSONResponse:
    """An answer that nothing was done, and why."""
    return JSONResponse({"error": code, "message": message}, status)


def role_of(request: Request) -> PageRole:
    """What whoever sent it may do."""
    return PageRole(request.state.role)
