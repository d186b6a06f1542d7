"""What a model reads: the tools, and what `run` and the session tools answer."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import CallToolResult, TextContent

from shelltie import Config, Terminal
from tests.conformance.servers import server_of
from tests.conftest import Open

SHOWN_MOST = 9900  # characters of name, description and inputSchema of all tools


@asynccontextmanager
async def client_of(terminal: Terminal, **settings: object) -> AsyncIterator[Client]:
    async with Client(server_of(terminal, Config.of(**settings))) as client:
        yield client


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def test_what_clients_show_a_model_of_the_tools_is_short(terminal: Terminal) -> None:
    async with client_of(terminal) as client:
        tools = (await client.list_tools()).tools

    shown = [
        {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
        for tool in tools
    ]
    assert len(shown) == 10
    assert len(json.dumps(shown, ensure_ascii=False)) < SHOWN_MOST
    assert all(field["description"] for tool in shown for field in _fields(tool))


def _fields(tool: dict[str, Any]) -> list[dict[str, Any]]:
    return list(tool["inputSchema"]["properties"].values())


@pytest.mark.parametrize(
    ("command", "text", "is_error"),
    [
        ("printf 'a \"b\"\\n'", 'a "b"\n[exit 0 in *]', False),
        ("printf no-newline", "no-newline\n[exit 0 in *]", False),
        ("true", "[exit 0 in *]", False),
        ("echo out; echo err >&2; exit 3", "out\nerr\n[exit 3 in *]", True),
        ("grep nothing /dev/null", "[exit 1 (grep: nothing matched) in *]", False),
        ("exit 3", "[exit 3 in *]\nIt failed with code 3 and printed nothing: *", True),
        ("kill -SEGV $$", "[ended by SIGSEGV after *]\nIt died of SIGSEGV, *", True),
        (
            "sleep 60 & echo started",
            "started\n[exit 0 in *]\n1 background process of it was ended with it: *",
            False,
        ),
    ],
)
async def test_the_text_is_the_output_then_a_line_of_facts_then_a_hint(
    terminal: Terminal, command: str, text: str, is_error: bool
) -> None:
    async with client_of(terminal) as client:
        result = await client.call_tool("run", {"command": command})

    assert like(text_of(result), text), text_of(result)
    assert result.is_error is is_error


def like(text: str, pattern: str) -> bool:
    """Whether a text is as a pattern says, in which `*` stands for the rest of a sentence."""
    at = 0
    for piece in pattern.split("*"):
        found = text.find(piece, at)
        if found < 0 or (at == 0 and found):
            return False
        at = found + len(piece)
    return pattern.endswith("*") or at == len(text)


@pytest.mark.proves("D11")
async def test_a_timeout_names_its_clock_and_the_parameter(terminal: Terminal) -> None:
    async with client_of(terminal) as client:
        total = await client.call_tool("run", {"command": "sleep 60", "timeout_sec": 1})
        silence = {"command": "sleep 60", "no_output_timeout_sec": 1}
        silent = await client.call_tool("run", silence)

    assert text_of(total).startswith("[timeout (total) after ")
    assert ", limit from timeout_sec]\n" in text_of(total)
    assert "pass timeout_sec=2" in text_of(total)
    assert text_of(silent).startswith("[timeout (silence) after ")
    assert ", limit from no_output_timeout_sec]\n" in text_of(silent)


async def test_programs_are_told_only_what_is_not_empty(terminal: Terminal) -> None:
    async with client_of(terminal) as client:
        quick = await client.call_tool("run", {"command": "echo hi"})
        session = await client.call_tool("terminal_start", {"command": "echo hi"})

    always = ["status", "stdout", "stderr", "exitCode", "timeoutReason", "terminationMode"]
    answer = quick.structured_content or {}
    assert [*answer][:7] == [*always, "durationMs"]
    assert {*answer} <= {*always, "durationMs", "limits", "verdict", "runId", "stdoutBytes"} | {
        "cpuMs",
        "cwd",
    }
    assert answer["limits"]["source"] == "category quick"
    started = session.structured_content or {}
    assert {"id", "output", "position", "complete", "running", "status"} <= {*started}
    assert not {name for name, value in started.items() if value in (None, [], "")}


async def test_what_goes_on_names_its_session_once(open_terminal: Open) -> None:
    async with (
        open_terminal() as terminal,
        client_of(terminal, mcp_patience=0.5) as client,
    ):
        result = await client.call_tool("run", {"command": "echo begun; sleep 60"})

    lines = text_of(result).splitlines()
    *printed, facts, advice = lines  # it may not have printed anything yet
    assert printed in ([], ["begun"])
    assert facts == "[running, as session term-1]"
    assert "terminal_continue" in advice
    assert not result.is_error


async def test_a_warning_about_a_session_is_told_once(open_terminal: Open) -> None:
    async with open_terminal() as terminal, client_of(terminal) as client:
        secret = {"command": "cat", "env": {"API_KEY": "hunter2"}, "maxWait": 1}
        first = await client.call_tool("terminal_start", secret)
        with anyio.fail_after(30):
            typed = {"sessionId": "term-1", "stdin": "hi", "waitFor": "hi"}
            second = await client.call_tool("terminal_continue", typed)

    assert text_of(first).count("API_KEY of the call was withheld") == 1
    assert "API_KEY" not in text_of(second)
    assert "warnings" not in (second.structured_content or {})


async def test_a_call_that_cannot_be_understood_says_so_in_one_sentence(
    terminal: Terminal,
) -> None:
    async with client_of(terminal) as client:
        result = await client.call_tool("run", {"cmd": "ls"})

    assert text_of(result) == "Not run: unknown parameter cmd: did you mean command?"
    assert (result.structured_content or {})["error"] == text_of(result).removeprefix("Not run: ")
