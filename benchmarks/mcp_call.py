"""A call of `run` over stdio and HTTP in both eras, from a client that costs next to nothing."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from benchmarks.measuring import TRUE, Samples, Subject, bare_spawn, take_turns
from benchmarks.rows import Goal, Of, Row

_ECHO = [sys.executable, str(Path(__file__).with_name("echo_server.py"))]
_OURS = [sys.executable, "-m", "shelltie", "mcp"]
# `run` takes a text for a shell, so the spawn is that of a shell, too.
_SPAWN = ("/bin/bash", "--noprofile", "--norc", "-c", TRUE)
_ME = {"name": "benchmark", "version": "1"}
_HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": _ME}
_MODERN = "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": _MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": _ME,
}
_CALL = {"name": "run", "arguments": {"command": TRUE}}
_CALLS = {"2025-11-25": _CALL, _MODERN: {**_CALL, "_meta": _META}}
_INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
_Ask = Callable[[str], bytes]


def measure() -> list[Row]:
    """Our tool against an echo and a spawn; on stdio also against the SDK's own transport."""
    rows = []
    with ExitStack() as servers:
        for era in _CALLS:
            kinds = [_OURS, [*_ECHO, "lean"], [*_ECHO, "stock"]]
            calls = [servers.enter_context(_on_stdio(argv, era)) for argv in kinds]
            ours, lean, stock, spawn = asyncio.run(_measure(calls))
            what = f"MCP run of {TRUE}, {era}, stdio, p50, against echo"
            rows.append(_row(f"{what} (our transport) + spawn", lean, spawn, ours))
            rows.append(_row(f"{what} (SDK's transport) + spawn", stock, spawn, ours))
        for era in _CALLS:
            kinds = [[*_OURS, "--http", "127.0.0.1:0"], [*_ECHO, "http"]]
            calls = [servers.enter_context(_on_http(argv, era)) for argv in kinds]
            ours, echo, spawn = asyncio.run(_measure(calls))
            what = f"MCP run of {TRUE}, {era}, HTTP, p50, against echo + spawn"
            rows.append(_row(what, echo, spawn, ours))
    return rows


async def _measure(servers: list[Subject]) -> list[Samples]:
    return await take_turns(*servers, lambda: bare_spawn(*_SPAWN), rounds=15, calls=20)


def _row(what: str, echo: Samples, spawn: Samples, ours: Samples) -> Row:
    return Row(
        what,
        "ms",
        ours=ours.p50,
        floor=echo.p50 + spawn.p50,
        ours_p95=ours.p95,
        goal=Goal(Of.RATIO, 1.3),
    )


@contextmanager
def _on_stdio(argv: list[str], era: str) -> Iterator[Subject]:
    """A call that a server has answered well once."""
    with _started(argv) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def ask(line: str) -> bytes:
            stdin.write(f"{line}\n".encode())
            stdin.flush()
            return stdout.readline()

        if era != _MODERN:
            ask(_request("initialize", _HELLO))
            stdin.write(f"{json.dumps(_INITIALIZED)}\n".encode())
        yield _proved(ask, _request("tools/call", _CALLS[era]))


@contextmanager
def _on_http(argv: list[str], era: str) -> Iterator[Subject]:
    """As above. One connection that is kept, and answers that are read as they come."""
    with _started(argv, stderr=subprocess.PIPE) as process, ExitStack() as closing:
        assert process.stderr is not None
        said = process.stderr.readline().decode()
        url = urlsplit(said.split(" at ")[1].split(",")[0])
        sock = closing.enter_context(socket.create_connection((url.hostname, url.port or 80)))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire = closing.enter_context(sock.makefile("rb"))
        headers = {
            "Host": url.netloc,
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "Authorization": f"Bearer {_token(said)}",
        }

        def ask(line: str) -> bytes:
            head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            size = f"Content-Length: {len(line.encode())}\r\n\r\n"
            sock.sendall(f"POST /mcp HTTP/1.1\r\n{head}{size}{line}".encode())
            answered, body = _response(wire.readline, wire.read)
            if "mcp-session-id" in answered:
                headers["Mcp-Session-Id"] = answered["mcp-session-id"]
            return body

        if era == _MODERN:
            headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "run"}
        else:
            ask(_request("initialize", _HELLO))
            ask(json.dumps(_INITIALIZED))
        headers["MCP-Protocol-Version"] = era
        yield _proved(ask, _request("tools/call", _CALLS[era]))


def _response(
    readline: Callable[[], bytes], read: Callable[[int], bytes]
) -> tuple[dict[str, str], bytes]:
    """The headers of one response, and its body, which may come in pieces."""
    assert readline().split()[1] in (b"200", b"202"), "the server refused"
    headers = {}
    while (line := readline().strip()) != b"":
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    if headers.get("transfer-encoding") != "chunked":
        return headers, read(int(headers.get("content-length", 0)))
    body = b""
    while size := int(readline(), 16):
        body += read(size)
        readline()
    readline()
    data = [line for line in body.splitlines() if line.startswith(b"data: {")]
    return headers, data[-1].removeprefix(b"data: ") if data else b""


def _token(said: str) -> str:
    """Ours needs one, the echo does not."""
    file = re.search(r"/\S*http-tokens", said)
    return "" if file is None else Path(file[0]).read_text(encoding="ascii").split()[-1]


def _proved(ask: _Ask, line: str) -> Subject:
    assert not json.loads(ask(line))["result"].get("isError")

    async def call() -> None:
        assert ask(line), "the server has gone"

    return call


@contextmanager
def _started(argv: list[str], stderr: int | None = None) -> Iterator["subprocess.Popen[bytes]"]:
    with TemporaryDirectory() as state:
        # The question to the login shell is asked once, and is not what is measured.
        extra = {"SHELLTIE_ENVIRONMENT_PATH": "inherit", "SHELLTIE_STATE_DIR": state}
        env = os.environ | extra | {"XDG_CONFIG_HOME": state}
        pipe = subprocess.PIPE
        with subprocess.Popen(argv, env=env, stdin=pipe, stdout=pipe, stderr=stderr) as process:
            try:
                yield process
            finally:
                process.terminate()


def _request(method: str, params: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
