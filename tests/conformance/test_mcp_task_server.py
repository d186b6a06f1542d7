"""Task sessions of a real server: set up by its environment, and gone when it is switched off."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.raw_mcp import RawClient, raw_server, request
from tests.tree import new_tag, tagged, until

WHO = {"taskId": "BUILD-001", "agentId": "agent-1"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose allowlist has three programs; the flag is on."""
    path = tmp_path / "project"
    path.mkdir()
    (path / "allow.json").write_text('["echo", "sleep", "seq"]', encoding="utf-8")
    monkeypatch.setenv("ENABLE_TERMINAL_ACCESS", "true")
    monkeypatch.setenv("TERMINAL_ALLOWLIST_PATH", "./allow.json")
    return path


async def ask(client: RawClient, name: str, arguments: Mapping[str, object]) -> dict[str, Any]:
    await client.send(request(1, "tools/call", name=f"terminal_{name}", arguments=arguments))
    answer: dict[str, Any] = (await client.receive())["result"]["structuredContent"]
    return answer


async def tools(client: RawClient) -> set[str]:
    await client.send(request(2, "tools/list"))
    return {tool["name"] for tool in (await client.receive())["result"]["tools"]}


@pytest.mark.proves("S4-39", "S4-40", "S4-41", "S4-42", "S4-43", "T4-10", "T4-15", "S4-1", "S4-3")
async def test_a_server_keeps_to_what_its_environment_says(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "TERMINAL_DEFAULT_TIMEOUT": "30000",
        "TERMINAL_MAX_TIMEOUT": "120000",
        "TERMINAL_MAX_OUTPUT_SIZE": "5",
        "TERMINAL_MAX_SESSIONS": "1",
    }.items():
        monkeypatch.setenv(name, value)

    async with raw_server(tmp_path, cwd=place) as client:
        await client.greet()
        created = await ask(client, "create_session", WHO)
        refused = await ask(client, "create_session", WHO)
        session = {"sessionId": created["sessionId"]}
        usual = await ask(client, "execute_command", {**session, "command": "seq", "args": ["9"]})
        echo = {**session, "command": "echo", "timeout": 600_000}
        clamped = await ask(client, "execute_command", echo)
        denied = await ask(client, "execute_command", {**session, "command": "cat"})
        status = await ask(client, "get_status", session)
        closed = await ask(client, "close_session", session)

    assert (refused["error"], refused["details"]["max"]) == ("MAX_SESSIONS_EXCEEDED", 1)
    assert (usual["stdout"], usual["truncated"]) == ("1\n2\n3", True)
    assert (usual["exitCode"], usual["limits"]["execMs"]) == (0, 30_000)
    assert (clamped["limits"]["execMs"], clamped["limits"]["clamped"]) == (120_000, True)
    assert denied["error"] == "COMMAND_NOT_ALLOWED"
    assert denied["details"]["allowedCommands"] == ["echo", "sleep", "seq"]
    assert status["session"]["commandCount"] == 2
    assert closed["success"]


@pytest.mark.proves("S4-59", "S4-4", "T4-21")
async def test_after_the_flag_was_taken_back_nothing_is_left(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tag = new_tag()
    async with raw_server(tmp_path, cwd=place) as client:
        await client.greet()
        session = (await ask(client, "create_session", WHO))["sessionId"]
        long = {"sessionId": session, "command": "sleep", "args": [f"600.{tag}"]}
        await client.send(request(3, "tools/call", name="terminal_execute_command", arguments=long))
        await until(lambda: bool(tagged(tag, "sleep")))
        offered = await tools(client)
        await client.hang_up()
        await client.rest()
        code = await client.exit_code()
    left = tagged(tag)

    monkeypatch.setenv("ENABLE_TERMINAL_ACCESS", "false")
    async with raw_server(tmp_path, cwd=place) as client:
        await client.greet()
        after = await tools(client)
        status = {"name": "terminal_get_status", "arguments": {"sessionId": session}}
        await client.send(request(4, "tools/call", **status))
        refusal = await client.receive()

    ours = {"terminal_create_session", "terminal_execute_command", "terminal_get_status"}
    assert (ours <= offered, ours & after) == (True, set())
    assert (code, left) == (0, [])
    assert "Unknown" in json.dumps(refusal["error"])
