"""A client that speaks MCP byte by byte, so that a test can say what no SDK would say."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

SERVER = [sys.executable, "-m", "shelltie", "mcp"]
# Tests fork the one above (see tests/fork_server.py); this one imports what it needs.
FRESH_SERVER = [str(Path(sys.executable).with_name("shelltie")), "mcp"]
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}

INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def server_environment() -> Mapping[str, str]:
    """Ours, without questions: neither to the login shell, nor to a person who is not here."""
    return {
        **os.environ,
        "SHELLTIE_ENVIRONMENT_PATH": "inherit",
        "SHELLTIE_SAFETY_PROFILES_RUN_DANGEROUS": "allow",
        "SHELLTIE_SAFETY_UNDELIVERED_TIMEOUT": "60",  # the command line of a test takes its time
    }


def request(number: int | str, method: str, **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def call(number: int, command: str, **arguments: object) -> dict[str, Any]:
    return request(number, "tools/call", name="run", arguments={"command": command, **arguments})


def hello(version: str = "2025-11-25") -> dict[str, Any]:
    me = {"name": "test", "version": "1"}
    return request(0, "initialize", protocolVersion=version, capabilities={}, clientInfo=me)


@dataclass
class RawClient:
    process: Process
    answers: BufferedByteReceiveStream | None

    async def send(self, *messages: Mapping[str, object]) -> None:
        await self.send_bytes(b"".join(json.dumps(m).encode() + b"\n" for m in messages))

    async def send_bytes(self, data: bytes) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send(data)

    async def receive(self) -> dict[str, Any]:
        assert self.answers is not None
        with anyio.fail_after(90):  # a call is answered when its command has ended
            line = await self.answers.receive_until(b"\n", 2**24)
        message = json.loads(line)
        assert isinstance(message, dict)
        return message

    async def greet(self, version: str = "2025-11-25") -> dict[str, Any]:
        await self.send(hello(version))
        answer = await self.receive()
        await self.send(INITIALIZED)
        return answer

    async def hang_up(self) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.aclose()

    async def rest(self) -> list[dict[str, Any]]:
        """Everything that is said until the server closes its end."""
        assert self.answers is not None
        messages = []
        with anyio.fail_after(90):
            while True:
                try:
                    messages.append(json.loads(await self.answers.receive_until(b"\n", 2**24)))
                except (anyio.EndOfStream, anyio.IncompleteRead):
                    return messages

    async def exit_code(self) -> int:
        with anyio.fail_after(90):
            return await self.process.wait()


@asynccontextmanager
async def raw_server(
    directory: Path,
    *,
    cwd: Path | None = None,
    stdin: int = subprocess.PIPE,
    stdout: int = subprocess.PIPE,
    command: Sequence[str] = SERVER,
) -> AsyncIterator[RawClient]:
    """A server of its own. Whatever a test does to it, it has nothing to complain about."""
    complaints = directory / "stderr"
    with complaints.open("wb") as stderr:
        process = await anyio.open_process(
            command, stdin=stdin, stdout=stdout, stderr=stderr, env=server_environment(), cwd=cwd
        )
    try:
        answers = None if process.stdout is None else BufferedByteReceiveStream(process.stdout)
        yield RawClient(process, answers)
    finally:
        if process.returncode is None:
            process.kill()
        with anyio.CancelScope(shield=True):
            await process.aclose()
    assert complaints.read_text(encoding="utf-8") == ""
