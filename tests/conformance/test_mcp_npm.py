"""The real npm: the commands whose users waited for ever while nothing ended what was stuck."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute
from mcp import Client

from shelltie import Config
from shelltie.frontends.service.service import TerminalService
from shelltie.frontends.service.terminal_provider import ExecuteCommandOptions
from tests.cli import carriers
from tests.conformance.servers import server_of
from tests.conftest import Open
from tests.node_tools import NODE, NPM
from tests.tree import new_tag

DEV = """
console.log('ready')
require('readline').createInterface({input: process.stdin}).on('line', it => console.log(`<${it}>`))
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package without dependencies, where we are, and npm on the path."""
    tools, place = tmp_path / "bin", tmp_path / "package"
    tools.mkdir()
    place.mkdir()
    (tools / "npm").write_text(f'#!/bin/sh\nexec {NODE} {NPM} "$@"\n', encoding="utf-8")
    (tools / "npm").chmod(0o755)
    about = {"name": "sample", "version": "1.0.0", "scripts": {"dev": "node dev.js"}}
    (place / "package.json").write_text(json.dumps(about), encoding="utf-8")
    (place / "dev.js").write_text(DEV, encoding="utf-8")
    settings = f"audit=false\nfund=false\nupdate-notifier=false\ncache={tmp_path}/cache\n"
    (place / ".npmrc").write_text(settings, encoding="utf-8")
    monkeypatch.setenv("PATH", f"{tools}:{NODE.parent}:{os.environ['PATH']}")
    monkeypatch.chdir(place)
    return place


@pytest.fixture
async def client(open_terminal: Open, package: Path) -> AsyncIterator[Client]:
    assert Path.cwd() == package
    settings: dict[str, Any] = {
        "safety_profiles_session_unknown": "allow",
        "environment_path": "inherit",
    }
    async with open_terminal(**settings) as terminal:
        async with Client(server_of(terminal, Config.of(**settings))) as client:
            yield client


async def ask(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    with anyio.fail_after(120):
        result = await client.call_tool(tool, arguments)
    return cast(dict[str, Any], result.structured_content)


@pytest.mark.timeout(180)
@pytest.mark.proves("S0-43", "S0-49", "T0-4")
async def test_a_dry_run_of_an_install_succeeds_within_its_limit(
    client: Client, package: Path
) -> None:
    answer = await ask(client, "run", command="npm install --dry-run", timeout_sec=300)

    assert (answer["status"], answer["exitCode"]) == ("success", 0), answer
    assert "up to date" in answer["stdout"]
    assert (answer["limits"]["execSec"], answer["timeoutReason"]) == (300, None)
    assert answer["durationMs"] < 300_000
    assert not (package / "package-lock.json").exists()


@pytest.mark.timeout(180)
@pytest.mark.proves("S0-1")
async def test_an_install_that_is_stuck_does_not_hang_the_agent(
    client: Client, package: Path
) -> None:
    tag, connected = f"TAG_{new_tag()}", anyio.Event()

    async def say_nothing(stream: ByteStream) -> None:
        connected.set()
        async with stream:
            await anyio.sleep_forever()

    registry = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    address = f"http://127.0.0.1:{registry.extra(SocketAttribute.local_port)}/"
    with (package / ".npmrc").open("a", encoding="utf-8") as settings:
        settings.write(f"registry={address}\n")
    async with registry, anyio.create_task_group() as tasks:
        tasks.start_soon(registry.serve, say_nothing)
        limits = {"timeout_sec": 100, "no_output_timeout_sec": 20}
        install = {"command": "npm install left-pad", "env": {tag: "1"}, **limits}
        answer = await ask(client, "run", **install)
        tasks.cancel_scope.cancel()

    assert connected.is_set(), answer
    assert (answer["status"], answer["timeoutReason"]) == ("timeout", "no_output_timeout")
    assert (answer["exitCode"], answer.get("leaked", False)) == (-1, False)
    assert carriers(tag) == []


@pytest.mark.timeout(180)
@pytest.mark.proves("S2-74")
async def test_a_service_installs_and_has_the_output(package: Path, tmp_path: Path) -> None:
    config = Config.of(state_dir=str(tmp_path / "state"), environment_path="inherit")
    terminal = {"agentDefaults": {"provider": "local"}, "providers": {"local": {"type": "local"}}}
    async with TerminalService(terminal, config, package) as service:
        service.attach("agent")
        options = ExecuteCommandOptions(timeout_seconds=120)
        result = await service.execute_command("npm install", [], options, "agent")

    assert (result.ok, result.exit_code) == (True, 0), result
    assert "up to date" in result.output
    assert (package / "package-lock.json").exists()


@pytest.mark.timeout(180)
@pytest.mark.proves("S2-79", "S2-10", "S2-63")
async def test_a_dev_server_is_started_spoken_to_listed_and_stopped(client: Client) -> None:
    tag = f"TAG_{new_tag()}"

    command = f"{tag}=1 npm run dev"
    started = await ask(client, "terminal_start", command=command, waitFor="ready", maxWait=60)
    typed: dict[str, object] = {"sessionId": "term-1", "stdin": "y\n", "waitFor": "<y>"}
    said = await ask(client, "terminal_continue", **typed)
    listed = await ask(client, "terminal_list")
    alive = len(carriers(tag))
    await ask(client, "terminal_stop", sessionId="term-1")
    left = await ask(client, "terminal_list")

    assert (started["id"], started["complete"]) == ("term-1", False), started
    assert started["output"].endswith("ready\n")
    assert (said["complete"], said["output"].count("<y>")) == (False, 1)
    assert said["position"] > started["position"] >= len("ready\r\n")
    assert [(one["id"], one["running"]) for one in listed["sessions"]] == [("term-1", True)]
    assert alive >= 2  # npm, and the server that it started
    assert (left["sessions"], carriers(tag)) == ([], [])
