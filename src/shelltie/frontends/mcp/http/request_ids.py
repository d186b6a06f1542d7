"""ASGI middleware that refuses a JSON-RPC request whose id is invalid or still in flight.

And one whose body is too long, or whose method cannot exist.

Invalid is an id that is neither text nor a whole number, which the SDK takes for no id at all; in
flight is one that another request of the same session still has. Before 2026, answers find their
way by the id alone: of two requests with one id, one would never be answered. The SDK makes no
difference between 7 and "7", so neither does this.
"""

import math
from collections.abc import Iterable

import anyio
import pydantic_core
from mcp.server.streamable_http import REQUEST_CANCELLED
from mcp_types import INVALID_REQUEST, METHOD_NOT_FOUND
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shelltie.basics.times import human_duration

_TAKEN = (
    "Invalid Request: this id belongs to a request of this session that has no answer yet; use"
    " each id once"
)
_CANCELLED = b'"error":{"code":%d,' % REQUEST_CANCELLED
_METHOD_MAX = 128  # characters; the SDK sends the name of a method that it does not know back
_NO_ID = "Invalid Request: an id must be a string or a whole number"


class UniqueRequestIds:
    """An ASGI application before the SDK's, which reads bodies of up to `most` bytes.

    A body that is not there after `body_timeout` seconds is waited for no longer.
    """

    def __init__(self, inside: ASGIApp, most: int, body_timeout: float = math.inf) -> None:
        self._inside = inside
        self._most = most
        self._body_timeout = body_timeout
        self._open: dict[tuple[str, str], Scope] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["method"] != "POST":
            await self._inside(scope, receive, send)
            return
        messages: list[Message] = []
        with anyio.move_on_after(self._body_timeout) as waiting:
            messages = await self._read(receive)
        if waiting.cancelled_caught:
            await _late(self._body_timeout)(scope, receive, send)
        elif sum(len(message.get("body", b"")) for message in messages) > self._most:
            await _too_long(self._most)(scope, receive, send)
        elif messages[-1]["type"] != "http.disconnect":
            await self._pass_on(messages, scope, _again(messages, receive), send)

    async def _pass_on(
        self, messages: list[Message], scope: Scope, receive: Receive, send: Send
    ) -> None:
        request, session = _request(messages), Headers(scope=scope).get("mcp-session-id")
        if request is None:
            await self._inside(scope, receive, send)
        elif not isinstance(request["id"], int | str) or isinstance(request["id"], bool):
            await _refuse(_NO_ID)(scope, receive, send)
        elif len(str(request["method"])) > _METHOD_MAX:
            await _no_method(request["id"])(scope, receive, send)
        elif session is None:  # the versions without sessions send none
            await self._inside(scope, receive, send)
        elif (key := (session, str(request["id"]))) in self._open:
            await _refuse(_TAKEN)(scope, receive, send)
        else:
            await self._hold(key, scope, receive, send)

    async def _hold(self, key: tuple[str, str], scope: Scope, receive: Receive, send: Send) -> None:
        async def told(message: Message) -> None:
            # Whoever has all of an answer may ask again before we are done with it.
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                self._release(key, scope)
            await send(_unless_cancelled(message))

        self._open[key] = scope
        try:
            await self._inside(scope, receive, told)
        finally:
            self._release(key, scope)

    def _release(self, key: tuple[str, str], scope: Scope) -> None:
        if self._open.get(key) is scope:  # else it is the next one's already
            del self._open[key]

    async def _read(self, receive: Receive) -> list[Message]:
        """The whole body, or more than anybody will look at."""
        messages, size, more = [], 0, True
        while more and size <= self._most:
            message = await receive()
            messages.append(message)
            size += len(message.get("body", b""))
            more = message.get("more_body", False)
        return messages


def _request(messages: Iterable[Message]) -> dict[str, object] | None:
    """The request that a body is, if it is one: somebody waits for an answer."""
    body = b"".join(message.get("body", b"") for message in messages)
    try:
        said = pydantic_core.from_json(body)
    except ValueError:
        return None
    return said if isinstance(said, dict) and {"method", "id"} <= said.keys() else None


def _unless_cancelled(message: Message) -> Message:
    """The protocol answers no cancelled request; the SDK does, because it knows no other end of a
    stream. It ends as well without these words, which no text can hold: its quotes are escaped.
    """
    return {**message, "body": b""} if _CANCELLED in message.get("body", b"") else message


def _again(messages: list[Message], receive: Receive) -> Receive:
    """What was read already, and then the rest."""
    read = iter(messages)

    async def next_message() -> Message:
        message = next(read, None)
        return await receive() if message is None else message

    return next_message


def _refuse(why: str) -> JSONResponse:
    # Without the id: an answer with it would be taken for the other one's.
    said = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": why}}
    return JSONResponse(said, 400)


def _no_method(request: int | str) -> JSONResponse:
    why = f"Method not found: no name of one is longer than {_METHOD_MAX} characters"
    error = {"code": METHOD_NOT_FOUND, "message": why}
    return JSONResponse({"jsonrpc": "2.0", "id": request, "error": error})


def _too_long(most: int) -> JSONResponse:
    why = f"a request may have {most // 2**20} MiB: send less at once"
    # Whoever is still sending is not listened to.
    return JSONResponse({"error": why}, 413, {"Connection": "close"})


def _late(body_timeout: float) -> JSONResponse:
    said = {"error": f"the rest of the request did not come within {human_duration(body_timeout)}"}
    return JSONResponse(said, 408, {"Connection": "close"})
