"""Kills the server of sessions that stay, again and again, while they print numbered lines."""

import json
import os
import random
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

from shelltie.environment.child import RUN_MARK
from shelltie.keeper.protocol import LeashWord
from shelltie.keeper.stay_folder import StayFolder
from shelltie.model import Resources
from shelltie.providers.provider import Prepared
from shelltie.providers.staying import StayingProvider
from tests.programs import stay_holder
from tests.staying import end_what_stays

_PRINT = """
import time
for number in range({lines}):
    print("line", number, flush=True)
    if number % {burst} == 0:
        time.sleep({pause})
raise SystemExit(7)
"""
_PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


async def start(
    folder: Path, keeper: str, sessions: int, lines: int, burst: int, pause: float = 0.01
) -> list[str]:
    """Sessions that stay, which their server leaves at once; their names."""
    provider = StayingProvider(
        StayFolder(folder / "stay"), keeper, lease=60, bound=1024 * 1024, most=100
    )
    names = [f"session-{number}" for number in range(sessions)]
    script = _PRINT.format(lines=lines, burst=burst, pause=pause)
    argv = (sys.executable, "-c", script)
    for name in names:
        words: list[LeashWord] = []
        prepared = Prepared(
            argv, {**_PATH, RUN_MARK: name}, "/", None, None, Resources(), one_output=True
        )
        process = provider.spawn(prepared, words.append)
        with anyio.fail_after(30):
            while not words:
                await anyio.sleep(0.01)
        process.release()
    await provider.close()
    return names


def kill_servers(folder: Path, names: list[str], kills: int, pause: tuple[float, float]) -> int:
    """Start one server after the other, kill each in its turn, and let the last one end; how many
    were killed while something still ran.
    """
    chance = random.Random(19)
    command = [sys.executable, stay_holder.__file__, str(folder), *names]
    killed = 0
    for _ in range(kills):
        with subprocess.Popen(command) as server:
            time.sleep(chance.uniform(*pause))
            killed += server.poll() is None
            server.kill()
    subprocess.run(command, check=True, timeout=120)
    return killed


def check(folder: Path, names: list[str], lines: int) -> None:
    """Every line once and in order, the exit status right, and nothing left."""
    expected = "".join(f"line {number}\n" for number in range(lines))
    for name in names:
        assert (folder / name).read_text(encoding="utf-8") == expected, name
        said = (folder / f"{name}.exit").read_text(encoding="utf-8")
        assert f"wait_status={7 << 8}" in said, said


# With real servers, which a client of theirs starts again


class McpServer:
    """`shelltie mcp`, greeted by a client."""

    def __init__(self, folder: Path) -> None:
        env = {name: value for name, value in os.environ.items() if name != RUN_MARK}
        env |= {
            "XDG_STATE_HOME": str(folder / "state"),
            "SHELLTIE_ENVIRONMENT_PATH": "inherit",
            "SHELLTIE_STAY_MAX": "100",
            "SHELLTIE_PERSISTENT_MININTERVAL": "0",
        }
        argv = [sys.executable, "-m", "shelltie", "mcp"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(argv, env=env, stdin=pipe, stdout=pipe, cwd=folder)
        self._number = 0
        me = {"name": "test", "version": "1"}
        self._ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=me)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, name: str, **arguments: object) -> dict[str, Any]:
        """The structured answer of a tool."""
        answer = self._ask("tools/call", name=name, arguments=arguments)
        return dict(answer["structuredContent"])

    def kill(self) -> None:
        """At once, and without a word."""
        self.process.kill()
        self.process.communicate()

    def leave(self) -> None:
        """As a client does."""
        self.process.communicate(timeout=60)

    def _ask(self, method: str, **params: object) -> dict[str, Any]:
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            said = json.loads(line)
            if said.get("id") == self._number and "method" not in said:
                return dict(said["result"])
        raise AssertionError("the server has closed its end")

    def _send(self, message: dict[str, object]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()


@contextmanager
def mcp_server(folder: Path) -> Iterator[McpServer]:
    """One that is killed at the end of the block."""
    server = McpServer(folder)
    try:
        yield server
    finally:
        server.kill()


def kill_mcp_servers(
    folder: Path,
    kills: int,
    after: tuple[float, float],
    *,
    sessions: int,
    lines: int,
    burst: int,
    pause: float = 0.01,
) -> int:
    """Start sessions that stay, kill one server after the other, and look at what the last one has:
    every line once and in order, by position, the exit status right, nothing left. How many servers
    were killed while a session still ran.
    """
    try:
        chance = random.Random(19)
        script = _PRINT.format(lines=lines, burst=burst, pause=pause)
        command = shlex.join([sys.executable, "-c", script])
        with mcp_server(folder) as server:
            started = [
                server.call("terminal_start", command=command, stays=True, pty=False, maxWait=0)
                for _ in range(sessions)
            ]
        names = [str(one["id"]) for one in started]
        killed = 0
        for _ in range(kills):
            with mcp_server(folder) as server:
                listed = server.call("terminal_list")["sessions"]
                assert sorted(one["id"] for one in listed) == sorted(names), listed
                time.sleep(chance.uniform(*after))
                killed += any(one["running"] for one in server.call("terminal_list")["sessions"])
        server = McpServer(folder)
        expected = "".join(f"line {number}\n" for number in range(lines))
        for name in names:
            _wait_for_end(server, name)
            text, end = _whole_output(server, name)
            assert text == expected, name
            assert (end["complete"], end["exitCode"]) == (True, 7), end
        server.leave()
        assert not list((folder / "state" / "shelltie" / "stay").iterdir())
        return killed
    finally:
        end_what_stays(folder)


def _wait_for_end(server: McpServer, name: str) -> None:
    for _ in range(1200):
        (one,) = [one for one in server.call("terminal_list")["sessions"] if one["id"] == name]
        if not one["running"]:
            return
        time.sleep(0.1)
    raise AssertionError(f"{name} does not end")


def _whole_output(server: McpServer, name: str) -> tuple[str, dict[str, Any]]:
    """Page by page, and the last page."""
    text, start = "", 0
    while True:
        page = server.call("terminal_output", sessionId=name, limit=50_000, **{"from": start})
        if "readFrom" not in page:
            return text + str(page["output"]), page
        text += str(page["output"]).removesuffix("\n[...Output truncated...]")
        start = page["readFrom"]
