"""An id is free again when its answer is all there, not when the server is done with it."""

import json
from collections.abc import Iterator

from starlette.types import Message, Receive, Scope, Send

from shelltie.frontends.mcp.http.request_ids import UniqueRequestIds

SCOPE = {"type": "http", "method": "POST", "headers": [(b"mcp-session-id", b"s")]}
BODY = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call"}).encode()


async def ask() -> Message:
    return {"type": "http.request", "body": BODY, "more_body": False}


async def test_who_has_all_of_an_answer_may_use_its_id_again() -> None:
    states: list[object] = []
    depth: Iterator[int] = iter(range(3))

    async def inside(_: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x"})
        if next(depth) < 2:  # this one is still at work when the next comes
            await one_id(dict(SCOPE), ask, hear)

    async def hear(message: Message) -> None:
        states.append(message.get("status"))

    one_id = UniqueRequestIds(inside, 1000)
    await one_id(dict(SCOPE), ask, hear)

    assert [state for state in states if state is not None] == [200, 200, 200]


async def test_while_it_has_no_answer_its_id_is_taken_also_after_an_earlier_one() -> None:
    states: list[object] = []

    async def inside(_: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await one_id(dict(SCOPE), ask, hear)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": False})

    async def hear(message: Message) -> None:
        states.append(message.get("status"))

    one_id = UniqueRequestIds(inside, 1000)
    for _ in range(2):
        await one_id(dict(SCOPE), ask, hear)

    assert [state for state in states if state is not None] == [400, 200, 400, 200]
