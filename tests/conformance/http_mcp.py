"""The server on HTTP, and a client that says exactly what a test wants it to say."""

import itertools
import json
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
from anyio.abc import Process

from tests.conformance.raw_mcp import ENVELOPE, INITIALIZED, SERVER, hello, server_environment
from tests.served import ALLOWED
from tests.tree import until

MODERN = "2026-07-28"
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@dataclass
class HttpServer:
    """Where a server is, and who may come in."""

    url: str
    tokens: Path

    @property
    def token(self) -> str:
        return self.tokens.read_text(encoding="ascii").splitlines()[-1]


@dataclass
class OwnServer(HttpServer):
    """A server that a test may end."""

    process: Process

    async def exit_code(self) -> int:
        with anyio.fail_after(50):
            return await self.process.wait()


@contextmanager
def shared_server(directory: Path) -> Iterator[HttpServer]:
    """A server for the tests of a module, which leave it as it is."""
    tokens = directory / "tokens"
    command = [*SERVER, "--http", "127.0.0.1:0", "--token-file", str(tokens)]
    own = {f"XDG_{kind}_HOME": str(directory) for kind in ("CONFIG", "STATE")}
    (directory / "run").mkdir(mode=0o700)
    env = {**server_environment(), **ALLOWED, **own, "SHELLTIE_RUNTIME_DIR": str(directory / "run")}
    log = directory / "stderr"
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stderr=stderr)
    try:
        deadline = time.monotonic() + 90
        while b"\n" not in log.read_bytes() and time.monotonic() < deadline:
            time.sleep(0.05)
        yield HttpServer(_url(log), tokens)
    finally:
        process.terminate()
        process.wait(20)


def _url(log: Path) -> str:
    """What the server says first."""
    return log.read_text(encoding="utf-8").split(" at ")[1].split(",")[0]


@asynccontextmanager
async def listening(
    command: Sequence[str], tokens: Path, **settings: str
) -> AsyncIterator[OwnServer]:
    """A server that says where it listens."""
    env = {**server_environment(), **ALLOWED, **settings}
    log = tokens.with_name("stderr")  # a pipe that nobody reads would hold the server
    with log.open("wb") as stderr:
        process = await anyio.open_process(
            command, stdin=subprocess.DEVNULL, stdout=None, stderr=stderr, env=env
        )
    try:
        await until(lambda: b"\n" in log.read_bytes())
        yield OwnServer(_url(log), tokens, process)
    finally:
        if process.returncode is None:
            process.kill()
        with anyio.CancelScope(shield=True):
            await process.aclose()


@asynccontextmanager
async def http_server(
    tmp_path: Path, *args: str, at: str = "127.0.0.1:0", **settings: str
) -> AsyncIterator[OwnServer]:
    """A server of its own, on a port of its own."""
    tokens = tmp_path / "tokens"
    command = [*SERVER, "--http", at, "--token-file", str(tokens), *args]
    async with listening(command, tokens, **settings) as server:
        yield server


@dataclass
class HttpClient:
    """One client; with a `session` it speaks the protocol that has one."""

    http: httpx2.AsyncClient
    url: str
    token: str
    name: str = "test"
    session: str | None = None
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    @property
    def headers(self) -> dict[str, str]:
        common = {**JSON, "Authorization": f"Bearer {self.token}"}
        if self.session is None:
            return {**common, "MCP-Protocol-Version": MODERN}
        return {**common, "Mcp-Session-Id": self.session, "MCP-Protocol-Version": "2025-11-25"}

    async def greet(self) -> None:
        """Open a session."""
        opening = hello()
        opening["params"]["clientInfo"]["name"] = self.name
        headers = {**JSON, "Authorization": f"Bearer {self.token}"}
        answer = await self.http.post(self.url, json=opening, headers=headers)
        assert answer.status_code == 200, answer.text
        self.session = answer.headers["mcp-session-id"]
        assert (await self.post(INITIALIZED)).status_code == 202

    async def post(
        self, message: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> httpx2.Response:
        """Send one message."""
        sent = self.headers if headers is None else headers
        return await self.http.post(self.url, json=message, headers=sent)

    def request(self, tool: str, **arguments: object) -> tuple[dict[str, Any], dict[str, str]]:
        """A tool call, and the headers it needs."""
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        headers = self.headers
        if self.session is None:
            me = {"name": self.name, "version": "1"}
            params["_meta"] = {**ENVELOPE, "io.modelcontextprotocol/clientInfo": me}
            headers |= {"Mcp-Method": "tools/call", "Mcp-Name": tool}
        number = next(self.numbers)
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        return message, headers

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """What a tool answers, for programs."""
        said = answer_of(await self.post(*self.request(tool, **arguments)))
        return dict(said["result"]["structuredContent"])

    async def listed(self) -> list[str]:
        """The ids of the sessions it sees."""
        return [one["id"] for one in (await self.call("terminal_list"))["sessions"]]


def answer_of(response: httpx2.Response) -> dict[str, Any]:
    """The answer in a response, which may be a stream of events that ends with it."""
    assert response.status_code == 200, (response.status_code, response.text)
    if response.headers["content-type"].startswith("application/json"):
        return dict(response.json())
    lines = [line for line in response.text.splitlines() if line.startswith("data: ")]
    return dict(json.loads(lines[-1].removeprefix("data: ")))


@asynccontextmanager
async def http_client(
    server: HttpServer, era: str, *, name: str = "test", token: str | None = None
) -> AsyncIterator[HttpClient]:
    """A client of the era, greeted where there are greetings."""
    async with httpx2.AsyncClient(timeout=20, trust_env=False) as http:
        client = HttpClient(http, server.url, token or server.token, name)
        if era == "legacy":
            await client.greet()
        yield client
