"""Refuses a request whose id another one of the same session still has.

Before 2026, answers find their way by the id alone: of two requests with one id, one would never be
answered. The SDK makes no difference between 7 and "7", so neither does this.
"""

from collections.abc import Iterable

import pydantic_core
from mcp_types import INVALID_REQUEST
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_REFUSAL = (
    "Invalid Request: this id belongs to a request of this session that has no answer yet; use"
    " each id once"
)


class OneId:
    """An ASGI application before the SDK's, which reads bodies of up to `most` bytes."""

    def __init__(self, inside: ASGIApp, most: int) -> None:
        self._inside = inside
        self._most = most
        self._open: dict[tuple[str, str], Scope] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request. The versions without sessions send no id of one."""
        session = Headers(scope=scope).get("mcp-session-id")
        if scope["method"] != "POST" or session is None:
            await self._inside(scope, receive, send)
            return
        messages = await self._read(receive)
        request = _id(messages)
        again = _again(messages, receive)
        if request is None:
            await self._inside(scope, again, send)
        elif (session, request) in self._open:
            await _refuse(scope, again, send)
        else:
            await self._hold((session, request), scope, again, send)

    async def _hold(self, key: tuple[str, str], scope: Scope, receive: Receive, send: Send) -> None:
        async def told(message: Message) -> None:
            # Whoever has all of an answer may ask again before we are done with it.
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                self._release(key, scope)
            await send(message)

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


def _id(messages: Iterable[Message]) -> str | None:
    """The id of the request that a body is, if it is one."""
    body = b"".join(message.get("body", b"") for message in messages)
    try:
        said = pydantic_core.from_json(body)
    except ValueError:
        return None
    if not isinstance(said, dict) or "method" not in said or said.get("id") is None:
        return None
    return str(said["id"])


def _again(messages: list[Message], receive: Receive) -> Receive:
    """What was read already, and then the rest."""
    read = iter(messages)

    async def next_message() -> Message:
        message = next(read, None)
        return await receive() if message is None else message

    return next_message


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    # Without the id: an answer with it would be taken for the other one's.
    said = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": _REFUSAL}}
    await JSONResponse(said, 400)(scope, receive, send)
