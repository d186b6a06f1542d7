"""A call that takes long becomes a task, for clients that declare it, and for nobody else."""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolResult,
    ElicitResult,
    Implementation,
    Request,
    RequestParams,
    Result,
)
from pydantic import ConfigDict

from shelltie import Config
from shelltie.frontends.mcp import request as call
from shelltie.frontends.mcp import tasks_extension
from shelltie.frontends.mcp.request import RequestContext
from shelltie.frontends.mcp.tasks_extension import EXTENSION
from tests.conformance.raw_mcp import ENVELOPE, raw_server, request
from tests.conformance.servers import server_of
from tests.conftest import Open
from tests.tree import new_tag, nobody_left, tagged, until

DECLARES = {
    **ENVELOPE,
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {EXTENSION: {}}},
}
Connect = Callable[..., Any]


class TaskParams(RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


class Told(Result):
    """Any result, as it came."""

    model_config = ConfigDict(extra="allow")


class Created(Result):
    result_type: Literal["task"]
    task_id: str
    status: str
    ttl_ms: int | None
    poll_interval_ms: int
    created_at: str


async def ask(session: ClientSession, method: str, task: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401  what a test sends
    sent = Request[TaskParams, str](method=method, params=TaskParams(task_id=task, **more))
    return (await session.send_request(sent, Told)).model_dump(by_alias=True)


async def ended(session: ClientSession, task: str) -> dict[str, Any]:
    with anyio.fail_after(50):
        while (told := await ask(session, "tasks/get", task))["status"] == "working":
            await anyio.sleep(0.05)
    return told


class Polling(ClientExtension):
    """What a client that knows tasks does with one."""

    identifier = EXTENSION

    def __init__(self) -> None:
        self.created: list[Created] = []

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=Created, resolve=self._resolve)]

    async def _resolve(self, created: Created, context: ClaimContext) -> CallToolResult:
        self.created.append(created)
        told = await ended(context.session, created.task_id)
        return CallToolResult.model_validate(told["result"], by_name=False)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks_extension, "QUICK", 0.3)


@pytest.fixture
def connect(open_terminal: Open) -> Connect:
    @asynccontextmanager
    async def connected(*extensions: ClientExtension, **more: Any) -> AsyncIterator[Client]:  # noqa: ANN401  as the SDK has them
        settings: dict[str, Any] = {"safety_dangerousCommands": ("launch",), "limits_grace": 0.5}
        async with open_terminal(**settings) as terminal:
            server = server_of(terminal, Config.of(**settings))
            async with Client(server, extensions=extensions, **more) as client:
                yield client

    return connected


async def create(client: Client, command: str) -> str:
    """Start something that takes long; the id of its task."""
    result = await client.session.call_tool("run", {"command": command}, allow_claimed=True)
    assert isinstance(result, Created)
    return result.task_id


async def test_what_takes_long_is_polled_for_and_its_result_is_the_same(connect: Connect) -> None:
    polling = Polling()

    async with connect(polling) as client:
        result = await client.call_tool("run", {"command": "echo one; sleep 2; echo two; exit 3"})
        offered = client.server_capabilities.extensions

    (created,) = polling.created
    assert offered == {EXTENSION: {}}
    assert (created.status, created.ttl_ms, created.poll_interval_ms) == ("working", None, 1000)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", created.created_at)
    assert result.structured_content is not None
    assert (result.structured_content["stdout"], result.is_error) == ("one\ntwo\n", True)


async def test_what_is_quick_is_answered_as_ever(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks_extension, "QUICK", 20)
    polling = Polling()

    async with connect(polling) as client:
        result = await client.call_tool("run", {"command": "echo quick"})

    assert polling.created == []
    assert not result.is_error


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_who_does_not_declare_tasks_gets_none_and_can_ask_for_none(
    connect: Connect, mode: str
) -> None:
    async with connect(mode=mode) as client:
        result = await client.call_tool("run", {"command": "sleep 0.6; echo done"})
        for method in ("tasks/get", "tasks/cancel"):
            with pytest.raises(MCPError) as refused:
                await ask(client.session, method, "any")
            assert refused.value.error.code == MISSING_REQUIRED_CLIENT_CAPABILITY

    assert isinstance(result, CallToolResult)
    assert not result.is_error


async def test_a_task_that_is_cancelled_ends_its_whole_tree(connect: Connect) -> None:
    tag = new_tag()

    async with connect(Polling()) as client:
        task = await create(client, f"setsid sleep 60.{tag} & sleep 60.{tag}")
        acknowledged = await ask(client.session, "tasks/cancel", task)
        told = await ended(client.session, task)
        again = await ask(client.session, "tasks/cancel", task)

    assert acknowledged["resultType"] == again["resultType"] == "complete"
    assert told["status"] == "cancelled"
    assert "result" not in told
    await nobody_left(tag)


async def test_a_request_that_is_cancelled_before_it_is_a_task_ends_its_command(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks_extension, "QUICK", 60)
    tag = new_tag()

    async with connect(Polling()) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "run", {"command": f"sleep 60.{tag}"})
            await until(lambda: bool(tagged(tag)))
            tasks.cancel_scope.cancel()
        await nobody_left(tag)


async def test_a_person_is_asked_before_there_is_a_task(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks_extension, "QUICK", 2)  # also where judging it is slow
    mark, polling = tmp_path / "mark", Polling()
    asked = []

    async def person(_: object, params: Any) -> ElicitResult:  # noqa: ANN401  the SDK's union
        asked.append(params.message)
        return ElicitResult(action="accept", content={"allow": True})

    async with connect(polling, elicitation_callback=person) as client:
        result = await client.call_tool(
            "run", {"command": f"sleep 5; echo launch >> {mark}", "timeout_sec": 50}
        )

    assert (len(asked), len(polling.created)) == (1, 1)
    assert not result.is_error
    assert mark.read_text(encoding="utf-8") == "launch\n"


async def test_an_ended_task_is_forgotten_after_a_while(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(Polling()) as client:
        task = await create(client, "sleep 2")
        told = await ended(client.session, task)
        monkeypatch.setattr(tasks_extension, "KEPT", -1)
        with pytest.raises(MCPError, match="Task not found"):
            await ask(client.session, "tasks/get", task)

    assert told["ttlMs"] >= 600_000


async def test_tasks_are_bounded_and_the_next_call_just_waits(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks_extension, "_TASKS_MAX", 1)
    polling = Polling()

    async with connect(polling) as client:
        first = await create(client, "sleep 60")
        waited = await client.session.call_tool("run", {"command": "sleep 0.6"})
        await ask(client.session, "tasks/cancel", first)
        await ended(client.session, first)
        second = await create(client, "sleep 60")
        with pytest.raises(MCPError, match="Task not found"):
            await ask(client.session, "tasks/get", first)

    assert isinstance(waited, CallToolResult)
    assert second != first


async def test_an_update_that_no_task_waits_for_is_ignored(connect: Connect) -> None:
    async with connect(Polling()) as client:
        task = await create(client, "sleep 60")
        answer = {"allow": {"action": "accept", "content": {"allow": True}}}
        told = await ask(client.session, "tasks/update", task, input_responses=answer)
        still = await ask(client.session, "tasks/get", task)

    assert told["resultType"] == "complete"
    assert still["status"] == "working"


async def test_a_task_is_nobody_elses(open_terminal: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def owner_of(context: RequestContext) -> str:
        return call.client_of(context)

    for module in ("server", "tasks_extension"):
        monkeypatch.setattr(f"shelltie.frontends.mcp.{module}.owner_of", owner_of)
    hers, his = (Implementation(name=name, version="1") for name in ("ada", "bob"))

    async with open_terminal() as terminal:
        server = server_of(terminal, Config())
        async with (
            Client(server, client_info=hers, extensions=[Polling()]) as ada,
            Client(server, client_info=his, extensions=[Polling()]) as bob,
        ):
            task = await create(ada, "sleep 60")
            for method in ("tasks/get", "tasks/cancel"):
                with pytest.raises(MCPError, match="Task not found"):
                    await ask(bob.session, method, task)
            told = await ask(ada.session, "tasks/get", task)

    assert told["status"] == "working"


async def test_wrong_parameters_are_a_protocol_error_and_leaving_ends_tasks(tmp_path: Path) -> None:
    tag = new_tag()
    wrong: list[tuple[str, dict[str, object]]] = [
        ("tasks/get", {}),
        ("tasks/get", {"taskId": 5}),
        ("tasks/get", {"taskId": "☃" * 10_000}),
        ("tasks/cancel", {"taskId": None}),
        ("tasks/update", {"taskId": "x"}),
        ("tasks/update", {"taskId": "x", "inputResponses": "yes"}),
        ("tasks/update", {"taskId": "x", "inputResponses": {}}),
    ]

    async with raw_server(tmp_path) as client:
        arguments = {"command": f"sleep 60.{tag}"}
        await client.send(request(0, "tools/call", name="run", arguments=arguments, _meta=DECLARES))
        created = (await client.receive())["result"]
        codes = []
        for number, (method, params) in enumerate(wrong, 1):
            await client.send(request(number, method, _meta=DECLARES, **params))
            codes.append((await client.receive())["error"]["code"])
        listen = {"taskIds": [created["taskId"]]}
        await client.send(request(20, "subscriptions/listen", notifications=listen, _meta=ENVELOPE))
        undeclared = (await client.receive())["error"]["code"]
        await client.send(request(21, "tasks/get", taskId=created["taskId"], _meta=DECLARES))
        told = (await client.receive())["result"]
        await client.hang_up()
        code = await client.exit_code()

    assert (created["resultType"], told["resultType"]) == ("task", "complete")
    assert told["status"] == "working"
    assert codes == [INVALID_PARAMS] * len(wrong)
    assert (undeclared, code) == (MISSING_REQUIRED_CLIENT_CAPABILITY, 0)
    await nobody_left(tag)
