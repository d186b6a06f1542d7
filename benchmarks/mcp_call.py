"""A call of `run` over stdio, from a client that costs nothing: bytes in, one line out."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measuring import TRUE, Samples, Subject, bare_spawn, take_turns
from benchmarks.rows import Goal, Of, Row

_ECHO = [sys.executable, str(Path(__file__).with_name("echo_server.py"))]
_OURS = [sys.executable, "-m", "shelltie", "mcp"]
# `run` takes a text for a shell, so the spawn is that of a shell, too.
_SPAWN = ("/bin/bash", "--noprofile", "--norc", "-c", TRUE)
_ME = {"name": "benchmark", "version": "1"}
_HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": _ME}
_INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def measure() -> list[Row]:
    """Our tool against an echo and a spawn; the echo on a transport like ours and on the SDK's."""
    with ExitStack() as servers:
        started = [servers.enter_context(_server(argv)) for argv in (_OURS, *_echoes())]
        ours, lean, stock, spawn = asyncio.run(_measure(started))
    what = f"MCP run of {TRUE}, p50, against echo"
    return [
        _row(f"{what} (our transport) + spawn", lean, spawn, ours),
        _row(f"{what} (SDK's transport) + spawn", stock, spawn, ours),
    ]


def _echoes() -> list[list[str]]:
    return [[*_ECHO, kind] for kind in ("lean", "stock")]


async def _measure(servers: list[Subject]) -> list[Samples]:
    return await take_turns(*servers, lambda: bare_spawn(*_SPAWN), rounds=24, calls=20)


def _row(what: str, echo: Samples, spawn: Samples, ours: Samples) -> Row:
    return Row(
        what,
        "ms",
        ours=ours.p50,
        floor=echo.p50 + spawn.p50,
        ours_p95=ours.p95,
        goal=Goal(Of.RATIO, 1.5),
    )


@contextmanager
def _server(argv: list[str]) -> Iterator[Subject]:
    """A call that a server has answered well once."""
    with TemporaryDirectory() as state:
        # The question to the login shell is asked once, and is not what is measured.
        extra = {"SHELLTIE_ENVIRONMENT_PATH": "inherit", "SHELLTIE_STATE_DIR": state}
        with subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | extra
        ) as process:
            _ask(process, _request("initialize", _HELLO), json.dumps(_INITIALIZED))
            line = _request("tools/call", {"name": "run", "arguments": {"command": TRUE}})
            assert not json.loads(_ask(process, line))["result"].get("isError")

            async def call() -> None:
                _ask(process, line)

            yield call


def _request(method: str, params: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def _ask(process: "subprocess.Popen[bytes]", line: str, after: str | None = None) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{line}\n".encode())
    process.stdin.flush()
    answer = process.stdout.readline()
    assert answer, "the server has gone"
    if after is not None:
        process.stdin.write(f"{after}\n".encode())
    return answer
