"""Clients that others wrote, as people use them: they connect, list, and run something."""

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.cli import SHELLTIE
from tests.conformance.http_mcp import http_server
from tests.conformance.raw_mcp import SERVER, server_environment
from tests.node_tools import NODE, node_environment, node_package

TYPESCRIPT = Path(__file__).parent.parent / "programs" / "typescript_client.mjs"
ERAS = {"legacy": "2025-11-25", "modern": "2026-07-28"}
TITLES = {"claude": "Claude Code", "codex": "Codex", "gemini": "Gemini CLI"}
TOOLS = {"run", "bash", "terminal_start", "terminal_continue", "terminal_list"}
# Nobody is here to answer any.
QUESTIONS = {name: value for name, value in server_environment().items() if "SHELLTIE_" in name}

pytestmark = pytest.mark.timeout(600)
on_linux = pytest.mark.skipif(
    platform.machine() != "x86_64" or platform.system() != "Linux",
    reason="the package for this machine has another name",
)


async def run(
    argv: Sequence[str | Path], tmp_path: Path, **env: str
) -> "subprocess.CompletedProcess[bytes]":
    """Run somebody's program, with a home of its own."""
    environ = {**node_environment(), **QUESTIONS, "HOME": str(tmp_path), **env}
    with anyio.fail_after(300):
        return await anyio.run_process(
            [str(word) for word in argv],
            check=False,
            env=environ,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )


@pytest.mark.proves("TX-4")
async def test_the_inspector_lists_and_calls_in_both_eras(tmp_path: Path) -> None:
    inspector = node_package("@modelcontextprotocol/inspector", "2.12.0")
    command: list[str | Path] = [NODE, inspector / "clients/launcher/build/index.js", "--cli"]
    command += ["--connect-timeout", "90000"]
    asked = ["--tool-name", "run", "--tool-args-json", '{"command": "echo hi"}']
    async with http_server(tmp_path) as server:
        header = ["--header", f"Authorization: Bearer {server.token}"]
        over_http = ["--transport", "http", "--server-url", server.url, *header]

        async def inspect(era: str, target: Sequence[str]) -> None:
            how = [*command, "--protocol-era", era]
            listed = await run([*how, "--strict", "--method", "tools/list", *target], tmp_path)
            called = await run([*how, "--method", "tools/call", *asked, *target], tmp_path)
            assert listed.returncode == called.returncode == 0, (listed, called)
            assert b" across " not in listed.stderr, listed.stderr  # problems across our schemas
            tools = {tool["name"] for tool in json.loads(listed.stdout)["tools"]}
            assert tools >= TOOLS
            assert json.loads(called.stdout)["structuredContent"]["stdout"] == "hi\n"

        for era in ERAS:
            for target in (["--", *SERVER], over_http):
                await inspect(era, target)  # one by one: it gives up early on a busy machine


@pytest.mark.proves("TX-4")
async def test_the_typescript_client_speaks_both_eras_with_us(tmp_path: Path) -> None:
    package = node_package("@modelcontextprotocol/client", "2.4.0")
    async with http_server(tmp_path) as server:
        for mode, version in (("legacy", ERAS["legacy"]), ("auto", ERAS["modern"])):
            for target in (SERVER, [server.url, server.token]):
                ended = await run([NODE, TYPESCRIPT, package, mode, *target], tmp_path)

                assert ended.returncode == 0, ended
                said = json.loads(ended.stdout)
                assert (said["version"], said["stdout"]) == (version, "hi\n")
                assert set(said["tools"]) >= TOOLS


@on_linux
async def test_claude_code_connects(tmp_path: Path) -> None:
    package = node_package("@anthropic-ai/claude-code", "2.1.325")
    claude = package.parent / "claude-code-linux-x64" / "claude"
    quiet = {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    quiet["MCP_TIMEOUT"] = "90000"  # a server may need longer to start than it usually waits
    env = {**quiet, "CLAUDE_CONFIG_DIR": str(tmp_path / "claude")}
    async with http_server(tmp_path) as server:
        header = f"Authorization: Bearer {server.token}"
        http = ["--transport", "http", "on-http", server.url, "--header", header]
        bare = ["--transport", "http", "no-token", server.url]
        stdio = ["mcp", "add", "on-stdio", "--", *SERVER]
        for args in (stdio, ["mcp", "add", *http], ["mcp", "add", *bare]):
            added = await run([claude, *args], tmp_path, **env)
            assert added.returncode == 0, added
        listed = (await run([claude, "mcp", "list"], tmp_path, **env)).stdout.decode()

    for name in ("on-stdio", "on-http"):
        line = next(line for line in listed.splitlines() if line.startswith(f"{name}:"))
        assert line.endswith("Connected"), listed
    refused = next(line for line in listed.splitlines() if line.startswith("no-token:"))
    assert "give your client a token" in refused, listed


@on_linux
async def test_codex_connects_and_lists_our_tools(tmp_path: Path) -> None:
    package = node_package("@openai/codex", "0.166.0")
    vendor = package.parent / "codex-linux-x64" / "vendor" / "x86_64-unknown-linux-musl"
    codex = vendor / "bin" / "codex"
    (tmp_path / "codex").mkdir()
    async with http_server(tmp_path) as server:
        env = {"CODEX_HOME": str(tmp_path / "codex"), "SHELLTIE_TOKEN": server.token}
        http = ["on-http", "--url", server.url, "--bearer-token-env-var", "SHELLTIE_TOKEN"]
        for args in (["on-stdio", "--", *SERVER], http):
            added = await run([codex, "mcp", "add", *args], tmp_path, **env)
            assert added.returncode == 0, added
        servers = await codex_status(codex, tmp_path, env)

    assert {name: tools >= TOOLS for name, tools in servers.items()} == {
        "on-stdio": True,
        "on-http": True,
    }


@on_linux
async def test_install_uses_the_clients_own_commands_and_they_connect(tmp_path: Path) -> None:
    claude = node_package("@anthropic-ai/claude-code", "2.1.325").parent / "claude-code-linux-x64"
    codex = node_package("@openai/codex", "0.166.0").parent / "codex-linux-x64" / "vendor"
    gemini = node_package("@google/gemini-cli", "0.61.0").parents[1] / ".bin"
    programs = [codex / "x86_64-unknown-linux-musl" / "bin", claude, gemini]
    path = ":".join([*map(str, programs), node_environment()["PATH"]])
    quiet = {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    env = {**quiet, "PATH": path, "MCP_TIMEOUT": "90000"}
    files = {
        "claude": tmp_path / ".claude.json",
        "codex": tmp_path / ".codex" / "config.toml",
        "gemini": tmp_path / ".gemini" / "settings.json",
    }
    (tmp_path / ".codex").mkdir()

    async def do(*words: str) -> str:
        done = await run([*SHELLTIE, *words], tmp_path, **env)
        assert done.returncode == 0, done
        return done.stdout.decode()

    for client, file in files.items():
        printed = await do("install", client, "--print")
        installed = await do("install", client)
        again = await do("install", client)
        assert f"/{client} mcp add " in printed
        assert installed == f"✓ MCP server of {TITLES[client]}: {file}\n"
        assert again == f"· MCP server of {TITLES[client]}: is installed already\n"
    listed = (await run(["claude", "mcp", "list"], tmp_path, **env)).stdout.decode()
    # Another shelltie: Claude Code refuses to add a second one, so the first is removed before.
    text = files["claude"].read_text(encoding="utf-8")
    files["claude"].write_text(text.replace('"mcp"', '"old"'), encoding="utf-8")
    replaced = await do("install", "claude")
    seen = json.loads(files["claude"].read_text(encoding="utf-8"))["mcpServers"]["shelltie"]
    removed = [await do("uninstall", client) for client in files]

    assert "Connected" in next(line for line in listed.splitlines() if line.startswith("shelltie:"))
    assert (replaced[0], seen["args"][-1]) == ("✓", "mcp")
    assert all(said.startswith("✓ MCP server of ") for said in removed), removed
    assert not any("shelltie" in file.read_text(encoding="utf-8") for file in files.values())


async def codex_status(codex: Path, tmp_path: Path, env: dict[str, str]) -> dict[str, set[str]]:
    """The tools of each server, as Codex sees them once it has connected."""
    me = {"name": "test", "title": "test", "version": "1"}
    messages: list[dict[str, Any]] = [
        {"id": 0, "method": "initialize", "params": {"clientInfo": me}},
        {"method": "initialized"},
        {"id": 1, "method": "mcpServerStatus/list", "params": {}},
    ]
    environ = {**os.environ, **QUESTIONS, "HOME": str(tmp_path), **env}
    process = await anyio.open_process(
        [codex, "app-server"], env=environ, cwd=tmp_path, stderr=subprocess.DEVNULL
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        lines = BufferedByteReceiveStream(process.stdout)
        said: dict[str, Any] = {}
        with anyio.fail_after(60):
            for message in messages:
                await process.stdin.send(json.dumps(message).encode() + b"\n")
                while "id" in message and said.get("id") != message["id"]:
                    said = json.loads(await lines.receive_until(b"\n", 2**24))
    finally:
        process.kill()
        with anyio.CancelScope(shield=True):
            await process.aclose()
    return {one["name"]: set(one["tools"]) for one in said["result"]["data"]}
