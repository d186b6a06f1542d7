"""The tools for a task's commands, through the SDK's own client, on real programs."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp.client.client import Client
from mcp.server.lowlevel import Server
from mcp_types import CallToolResult, TextContent

from shelltie import Config, Terminal
from shelltie.assemble_parts import policy_file
from shelltie.contexts.registry import Contexts
from shelltie.frontends.mcp.request import ToolCall
from shelltie.frontends.mcp.server import build_server
from shelltie.frontends.mcp.tools import contexts as task_tools
from shelltie.frontends.mcp.tools.registry import context_tools
from shelltie.frontends.mcp.tools.schema import GOES_ON
from shelltie.running.options import Requester
from shelltie.sessions.registry import Sessions
from tests.conformance.any_json import JSON
from tests.conformance.servers import answer as answer_of
from tests.conformance.servers import attendant_of
from tests.task_project import Caller, Project
from tests.tree import new_tag, nobody_left

SCHEMAS = {tool.name: tool.output_schema or {} for tool in task_tools.TOOLS}
OWNER = "stdio"  # as of every client that comes without HTTP


def called(name: str, arguments: dict[str, Any]) -> ToolCall:
    return ToolCall(name, arguments, OWNER, Requester())


def server_of(terminal: Terminal, contexts: Contexts) -> Server[Any]:
    """With these tools, and no others."""
    config = Config.of(
        tools_run_enabled=False,
        tools_bash_enabled=False,
        tools_sessions_enabled=False,
        tools_agent_task_enabled=False,
        tools_access_enabled=True,
        mcp_patience=0,
    )
    return build_server(
        terminal.supervisor,
        config,
        policy_file(config, Path()),
        Sessions(terminal.supervisor),
        contexts,
    )


class Tools:
    """A client that checks what holds for every answer."""

    def __init__(self, client: Client, contexts: Contexts) -> None:
        self.client = client
        self.contexts = contexts

    async def __call__(self, name: str, **arguments: object) -> dict[str, Any]:
        with anyio.fail_after(50):
            return checked(name, await self.client.call_tool(f"terminal_{name}", arguments))

    async def create(self) -> str:
        return str((await self("create_session", taskId="T-1", agentId="a"))["sessionId"])


def checked(name: str, result: CallToolResult) -> dict[str, Any]:
    """The answer, after everything that holds for all answers."""
    answer = cast(dict[str, Any], result.structured_content)
    jsonschema.Draft202012Validator(SCHEMAS[f"terminal_{name}"]).validate(answer)
    (content,) = result.content
    assert isinstance(content, TextContent)
    assert json.loads(content.text) == answer
    assert result.is_error == (not answer["success"])
    assert set(answer) <= set(SCHEMAS[f"terminal_{name}"]["properties"])
    return answer


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@asynccontextmanager
async def connected(terminal: Terminal, caller: Caller) -> AsyncIterator[Tools]:
    async with Client(server_of(terminal, caller.contexts)) as client:
        yield Tools(client, caller.contexts)


@pytest.fixture
async def tools(terminal: Terminal, project: Project) -> AsyncIterator[Tools]:
    async with project.contexts(terminal) as caller, connected(terminal, caller) as tools:
        yield tools


@pytest.mark.proves("S4-6", "S4-8", "S4-11", "S4-12")
async def test_four_tools_are_listed_and_say_the_truth_about_themselves(tools: Tools) -> None:
    listed = {tool.name: tool for tool in (await tools.client.list_tools()).tools}

    assert list(listed) == [
        "terminal_create_session",
        "terminal_execute_command",
        "terminal_close_session",
        "terminal_get_status",
    ]
    for tool in listed.values():
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        jsonschema.Draft202012Validator.check_schema(tool.output_schema or {})
        assert tool.input_schema["additionalProperties"] is False
        assert tool.annotations is not None
    create = listed["terminal_create_session"].input_schema
    execute = listed["terminal_execute_command"].input_schema
    assert create["required"] == ["taskId", "agentId"]
    assert {name: one["type"] for name, one in create["properties"].items()} == {
        "taskId": "string",
        "agentId": "string",
        "workingDirectory": "string",
        "environment": "object",
    }
    assert execute["required"] == ["sessionId", "command"]
    for name, kind in {"command": "string", "args": "array", "timeout": "number"}.items():
        assert execute["properties"][name]["type"] == kind
    assert execute["properties"]["args"]["items"] == {"type": "string"}
    for name in ("terminal_close_session", "terminal_get_status"):
        assert list(listed[name].input_schema["properties"]) == ["sessionId"]
    destructive = [n for n, t in listed.items() if t.annotations and t.annotations.destructive_hint]
    read_only = [n for n, t in listed.items() if t.annotations and t.annotations.read_only_hint]
    assert destructive == ["terminal_execute_command", "terminal_close_session"]
    assert read_only == ["terminal_get_status"]


@pytest.mark.proves("T4-1", "C-39", "S4-2")
async def test_a_session_from_its_beginning_to_its_end(tools: Tools) -> None:
    session = await tools.create()
    executed = await tools(
        "execute_command", sessionId=session, command="echo", args=["hello", "world"]
    )
    status = await tools("get_status", sessionId=session)
    closed = await tools("close_session", sessionId=session)
    after = await tools("get_status", sessionId=session)

    assert executed["stdout"] == "hello world\n"
    assert (status["session"]["state"], status["session"]["commandCount"]) == ("completed", 1)
    assert closed["message"] == "Session closed and resources freed"
    assert after["error"] == "SESSION_NOT_FOUND"


@pytest.mark.proves("C-39", "TX-10", "S4-52", "S4-9")
async def test_every_kind_of_end_is_answered_as_the_schema_says(
    tools: Tools, project: Project
) -> None:
    project.tool("exits", 'exit "$1"')
    project.tool("dies", "kill -SEGV $$")
    project.tool("broken", "", "/no/such/interpreter")
    body = "import sys; sys.stdout.write('x' * 3_000_000); sys.stderr.write('y' * 3_000_000)"
    project.tool("floods", body, sys.executable)
    session = await tools.create()

    async def execute(command: str, *args: str, **more: object) -> dict[str, Any]:
        asked = {"sessionId": session, "command": command, "args": [*args], **more}
        return await tools("execute_command", **asked)

    ends = {
        "exit": await execute("exits", "42"),
        "signal": await execute("dies"),
        "spawn": await execute("broken"),
        "flood": await execute("floods"),
        "timeout": await execute("sleep", "300", timeout=1000),
        "clamped": await execute("echo", timeout=600_000),
        "refused": await execute("rm"),
        "unsafe": await execute("echo", "$HOME"),
        "wrong": await execute("echo", timeout=-1),
    }

    codes = {name: answer.get("error") for name, answer in ends.items()}
    assert codes == {
        "exit": None,
        "signal": None,
        "spawn": "EXECUTION_ERROR",
        "flood": None,
        "timeout": "TIMEOUT_EXCEEDED",
        "clamped": None,
        "refused": "COMMAND_NOT_ALLOWED",
        "unsafe": "UNSAFE_ARGUMENTS",
        "wrong": "INVALID_PARAMETERS",
    }
    known = SCHEMAS["terminal_execute_command"]["properties"]
    only_else = {"status", "hint", *GOES_ON}  # of what goes on
    assert {name for answer in ends.values() for name in answer} | only_else == set(known)


SURROGATES = st.text(st.characters(categories=["Cs", "Cc", "Ll"]), max_size=5)


@settings(
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    name=st.sampled_from(["create_session", "execute_command", "close_session", "get_status"]),
    arguments=st.fixed_dictionaries(
        {},
        optional={
            "taskId": st.just("T") | SURROGATES | JSON,
            "agentId": st.just("a") | SURROGATES | JSON,
            "sessionId": st.just("the session") | SURROGATES | JSON,
            "workingDirectory": st.just(".") | SURROGATES | JSON,
            "environment": st.dictionaries(SURROGATES, SURROGATES, max_size=3) | JSON,
            "command": st.sampled_from(["echo", "rm", "echo 'x"]) | SURROGATES | JSON,
            "args": st.lists(SURROGATES, max_size=3) | JSON,
            "timeout": st.floats() | JSON,
            "queue": st.booleans() | JSON,
            "more": JSON,
        },
    ),
)
@pytest.mark.proves("TX-10", "T4-23")
async def test_any_arguments_get_an_answer_that_the_schema_knows(
    terminal: Terminal, project: Project, name: str, arguments: dict[str, object]
) -> None:
    async with project.contexts(terminal) as caller:
        session = caller.contexts.create("T", "a", owner=OWNER).id
        if arguments.get("sessionId") == "the session":
            arguments = {**arguments, "sessionId": session}
        properties = next(
            tool.input_schema["properties"]
            for tool in task_tools.TOOLS
            if tool.name == f"terminal_{name}"
        )
        fitting = {key: value for key, value in arguments.items() if key in properties}
        made = context_tools(caller.contexts, attendant_of(terminal))
        tools = {tool.listing.name: tool for tool in made}

        for asked in (arguments, fitting):
            # Not through the SDK's client: it sends NaN as null.
            call = called(f"terminal_{name}", asked)
            result = await answer_of(tools[call.name], call)
            assert "Traceback" not in str(checked(name, result))


async def test_a_cancelled_request_ends_its_command(tools: Tools) -> None:
    tag = new_tag()
    session = await tools.create()
    context = tools.contexts.get(session, OWNER)
    with anyio.fail_after(50):
        async with anyio.create_task_group() as calling:
            asked = {"sessionId": session, "command": "sleep", "args": [f"300.{tag}"]}
            calling.start_soon(tools.client.call_tool, "terminal_execute_command", asked)
            while not context.running:
                await anyio.sleep(0.01)
            calling.cancel_scope.cancel()

    await nobody_left(tag)
    again = await tools("execute_command", sessionId=session, command="echo", args=["usable"])
    assert again["stdout"] == "usable\n"


async def test_a_fault_of_ours_is_an_answer_and_the_next_call_works(
    tools: Tools, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no sessions today, says /secret/place")

    with monkeypatch.context() as patched:
        patched.setattr(Contexts, "create", broken)
        first = await tools("create_session", taskId="T", agentId="a")
    second = await tools("create_session", taskId="T", agentId="a")

    assert (first["success"], first["error"]) == (False, "EXECUTION_ERROR")
    assert "secret" not in str(first)
    assert "no sessions today" in caplog.text
    assert second["success"] is True
