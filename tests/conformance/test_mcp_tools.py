"""What the tools take and answer, through the SDK's own client, in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent

from shelltie import Config, Result, Terminal
from shelltie.events import Event
from shelltie.frontends.mcp.request import ToolCall
from shelltie.frontends.mcp.tools import run
from shelltie.frontends.mcp.tools.schema import GOES_ON, answer_fields
from shelltie.limits.policy import TimeoutPolicy
from shelltie.running.options import Requester
from tests.conformance.any_json import JSON
from tests.conformance.servers import answer as answer_of
from tests.conformance.servers import filled, server_of, tools_of
from tests.conftest import Open

SEVEN = {
    "status": str,
    "stdout": str,
    "stderr": str,
    "exitCode": int,
    "timeoutReason": str | None,
    "terminationMode": str | None,
    "durationMs": int,
}


def called(arguments: dict[str, object]) -> ToolCall:
    return ToolCall("run", arguments, "", Requester())


@asynccontextmanager
async def client_of(terminal: Terminal, shown: int = 40_000) -> AsyncIterator[Client]:
    async with Client(server_of(terminal, Config.of(output_shown=shown))) as client:
        yield client


async def call(terminal: Terminal, **arguments: object) -> dict[str, Any]:
    async with client_of(terminal) as client:
        return checked(await client.call_tool("run", arguments))


def checked(result: CallToolResult) -> dict[str, Any]:
    """The answer, after everything that holds for all answers."""
    schema = run.RUN.output_schema or {}
    answer = cast(dict[str, Any], result.structured_content)
    assert list(answer)[:7] == list(SEVEN)
    assert all(answer[name] for name in [*answer][7:])
    for name, kind in SEVEN.items():
        assert isinstance(answer[name], kind)
        assert not isinstance(answer[name], bool)
    jsonschema.Draft202012Validator(schema).validate(answer)
    (content,) = result.content
    assert isinstance(content, TextContent)
    if "error" in answer:
        assert content.text.count(answer["error"]) == 1
        assert answer["stderr"] == ""
    assert result.is_error == (answer["status"] != "success" and "exitMeaning" not in answer)
    return filled(schema, answer)


@pytest.mark.proves("S0-19")
async def test_run_is_listed_first_and_says_the_truth_about_itself(terminal: Terminal) -> None:
    async with client_of(terminal) as client:
        tool, *_ = (await client.list_tools()).tools

    assert tool.name == "run"
    assert tool.annotations is not None
    assert tool.annotations.destructive_hint is True
    assert tool.annotations.read_only_hint is False
    assert tool.annotations.idempotent_hint is False
    assert tool.annotations.open_world_hint is True
    jsonschema.Draft202012Validator.check_schema(tool.input_schema)
    jsonschema.Draft202012Validator.check_schema(tool.output_schema or {})
    assert tool.input_schema["required"] == ["command"]
    assert tool.input_schema["properties"]["command"]["type"] == "string"
    assert tool.input_schema["properties"]["timeout_sec"]["type"] == "number"
    assert tool.input_schema["additionalProperties"] is False


@pytest.mark.proves("T0-1", "S0-31", "S0-32", "C-39", "S0-19")
async def test_a_quick_command_answers_in_full(terminal: Terminal) -> None:
    answer = await call(terminal, command="echo 'timeout test 1'", timeout_sec=30)

    assert answer["status"] == "success"
    assert (answer["exitCode"], answer["stdout"]) == (0, "timeout test 1\n")
    assert (answer["timeoutReason"], answer["terminationMode"]) == (None, None)
    assert answer["limits"]["execSec"] == 30
    assert 0 <= answer["durationMs"] < 30_000


def test_the_output_schema_is_that_of_a_result() -> None:
    """Which fields there are, and of which type: what else is said of one only narrows it."""
    properties = (run.RUN.output_schema or {})["properties"]
    made = answer_fields(Result)

    assert {*made, "errorCode", "details", *GOES_ON} == {*properties}
    for name, schema in made.items():
        told = properties[name]
        assert "enum" in told or "anyOf" in told or told["type"] == schema["type"], name
        items, others = schema.get("items", {}), told.get("items", {})
        assert "enum" in others or items.get("type") == others.get("type"), name


@pytest.mark.proves("T0-21", "T0-22", "T0-25", "T0-28", "T0-30", "TX-10", "C-29", "C-30", "T2-5")
@pytest.mark.proves("C-39")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"command": "exit 3"}, {"status": "error", "exitCode": 3, "timeoutReason": None}),
        ({"command": "kill -SEGV $$"}, {"status": "error", "exitCode": 139, "signal": "SIGSEGV"}),
        ({"command": "no-such-program-here"}, {"status": "error", "exitCode": 127}),
        ({"command": "true", "cwd": "/no/such/place"}, {"status": "error", "exitCode": 126}),
        ({"command": "sleep 30 & echo done"}, {"status": "success", "stdout": "done\n"}),
        ({"command": "cat"}, {"status": "success", "stdout": ""}),
        ({"command": "cat", "stdin": "täxt\0"}, {"status": "success", "stdoutBytes": 6}),
        ({"command": "echo $A", "env": {"A": "b c"}}, {"stdout": "b c\n"}),
        ({"command": "test -t 1", "pty": True}, {"status": "success"}),
        ({"command": "pwd", "cwd": "/usr"}, {"stdout": "/usr\n", "cwd": "/usr"}),
        ({"command": "printf '\\xff'"}, {"stdout": "\ufffd"}),
        ({"command": "&&"}, {"status": "error", "exitCode": 2, "verdict": "unknown"}),
    ],
)
async def test_every_kind_of_end_is_answered_as_the_schema_says(
    terminal: Terminal, arguments: dict[str, object], expected: dict[str, object]
) -> None:
    answer = await call(terminal, **arguments)

    assert {name: answer[name] for name in expected} == expected


@pytest.mark.proves("T0-20", "T0-25", "TX-10", "S0-33", "S0-34", "S0-35", "S0-1", "C-30")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"command": "echo on; sleep 600", "timeout_sec": 6}, "exec_timeout"),
        ({"command": "echo on; sleep 600", "no_output_timeout_sec": 5}, "no_output_timeout"),
        ({"command": "while :; do echo on; sleep 0.1; done", "timeout_sec": 6}, "exec_timeout"),
    ],
)
async def test_a_timeout_is_answered_as_the_schema_says(
    terminal: Terminal, arguments: dict[str, object], reason: str
) -> None:
    answer = await call(terminal, **arguments)

    assert (answer["status"], answer["timeoutReason"]) == ("timeout", reason)
    assert (answer["exitCode"], answer["terminationMode"]) == (-1, "soft")
    assert answer["stdout"].startswith("on\n")
    assert answer["hint"]


@pytest.mark.proves("T0-23", "T0-25", "C-39", "T2-5", "C-3", "C-29")
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"command": ""},
        {"command": " \n"},
        {"command": None},
        {"command": 7},
        {"command": ["ls"]},
        {"command": "a\0b"},
        {"command": "x" * 200_000},
        {"command": "true", "timeout_sec": -1},
        {"command": "true", "timeout_sec": float("nan")},
        {"command": "true", "timeout_sec": float("inf")},
        {"command": "true", "timeout_sec": 10**400},
        {"command": "true", "timeout_sec": True},
        {"command": "true", "timeout_sec": "10"},
        {"command": "true", "no_output_timeout_sec": -0.1},
        {"command": "true", "timeout": 10},
        {"command": "true", "cwd": 1},
        {"command": "true", "cwd": "a\0b"},
        {"command": "true", "env": {"A": 1}},
        {"command": "true", "env": {"A=B": "c"}},
        {"command": "true", "env": {"A": "\0"}},
        {"command": "true", "env": ["A=b"]},
        {"command": "true", "stdin": 1},
        {"command": "true", "pty": "yes"},
    ],
    ids=lambda arguments: repr(arguments)[:60],
)
async def test_wrong_parameters_are_answered_and_start_nothing(
    open_terminal: Open, arguments: dict[str, object]
) -> None:
    events: list[Event] = []
    async with open_terminal(events.append) as terminal:
        # Not through the SDK's client: it sends NaN as null.
        answer = checked(await answer_of(tools_of(terminal)["run"], called(arguments)))

    assert (answer["status"], answer["errorCode"]) == ("error", "INVALID_PARAMETERS")
    assert (answer["exitCode"], answer["durationMs"]) == (125, 0)
    assert events == []


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("timeout_secs", "timeout_sec"),
        ("timeout", "timeout_sec"),
        ("cmd", "command"),
        ("workdir", "cwd"),
        ("working_directory", "cwd"),
        ("idle_timeout", "no_output_timeout_sec"),
        ("environment", "env"),
        ("Input", "stdin"),
        ("tty", "pty"),
    ],
)
async def test_an_unknown_parameter_is_told_with_the_one_that_was_meant(
    terminal: Terminal, wrong: str, meant: str
) -> None:
    answer = await call(terminal, command="true", **{wrong: 5})

    assert answer["error"] == f"unknown parameter {wrong}: did you mean {meant}?"


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    arguments=st.fixed_dictionaries(
        {},
        optional={
            "command": st.sampled_from(["true", "exit 3", " ", "\0"])
            | JSON.filter(lambda value: not isinstance(value, str)),
            "timeout_sec": st.floats() | JSON,
            "no_output_timeout_sec": st.floats(min_value=0) | JSON,
            "cwd": st.sampled_from(["/", ".", "/nowhere"]) | JSON,
            "env": st.dictionaries(st.text(max_size=5), st.text(max_size=5)) | JSON,
            "stdin": JSON,
            "pty": st.booleans() | JSON,
            "more": JSON,
        },
    )
)
@pytest.mark.proves("TX-10", "T0-25")
async def test_any_arguments_get_an_answer_that_the_schema_knows(
    terminal: Terminal, arguments: dict[str, object]
) -> None:
    checked(await answer_of(tools_of(terminal)["run"], called(arguments)))


@pytest.mark.parametrize("nothing", [0, 0.0, None])
@pytest.mark.proves("T0-24")
async def test_no_timeout_means_the_limits_of_the_policy(
    terminal: Terminal, nothing: object
) -> None:
    answer = await call(terminal, command="ls /", timeout_sec=nothing)

    assert (answer["limits"]["execSec"], answer["limits"]["silenceSec"]) == (30, 10)
    assert answer["limits"]["category"] == "quick"


async def test_long_output_fits_a_models_context_and_all_of_it_is_in_a_file(
    terminal: Terminal,
) -> None:
    answer = await call(terminal, command="seq 1 200000")

    assert answer["truncated"]
    assert len(answer["stdout"]) < 45_000
    assert answer["stdout"].startswith("1\n2\n")
    assert answer["stdout"].endswith("\n199999\n200000\n")
    whole = Path(answer["outputFile"]).read_text(encoding="utf-8")
    assert len(whole) == answer["stdoutBytes"] == 1_288_895


async def test_an_unknown_tool_is_a_protocol_error(terminal: Terminal) -> None:
    async with client_of(terminal) as client:
        with pytest.raises(MCPError, match="Unknown tool: walk") as caught:
            await client.call_tool("walk", {})

    assert caught.value.code == -32602


async def test_a_fault_of_ours_is_an_answer_and_the_next_call_works(
    terminal: Terminal, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> TimeoutPolicy:
        raise RuntimeError("no policy today")

    supervisor = terminal.supervisor
    working, supervisor._policy = supervisor._policy, broken
    first = await call(terminal, command="true")
    supervisor._policy = working
    second = await call(terminal, command="true")

    assert (first["status"], first["errorCode"]) == ("error", "EXECUTION_ERROR")
    assert "no policy today" in caplog.text
    assert second["status"] == "success"


async def test_a_secret_that_the_call_sets_is_withheld_and_that_is_said(
    open_terminal: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "ours")
    command = "echo ${#API_KEY} $MINE"
    async with open_terminal() as terminal:
        told = await call(terminal, command=command, env={"API_KEY": "hunter2", "MINE": "y"})
        silent = await call(terminal, command=command, env={"MINE": "y"})

    (warning,) = told["warnings"]
    assert told["stdout"] == "0 y\n"
    assert warning.startswith("API_KEY of the call was withheld")
    assert "environment.pass" in warning
    assert silent["warnings"] == []
