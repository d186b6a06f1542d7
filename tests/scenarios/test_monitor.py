"""Whoever watches hears what happens: in Python, and live from every server."""

import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from shelltie import InvalidParameters
from shelltie.errors import CommandDenied, NoServerAnswer
from shelltie.events import Event, RunEnded
from shelltie.frontends.cli.main import parse
from shelltie.frontends.control import client
from tests.cli import SHELLTIE
from tests.conftest import Open
from tests.served import served, socket_of


class Watcher:
    """`shelltie monitor --json`, and what it has said."""

    def __init__(self, stream: BufferedByteReceiveStream) -> None:
        self._stream = stream
        self.seen: list[dict[str, Any]] = []

    async def until(self, kind: str, server: int) -> dict[str, Any]:
        """Read on until a server tells of this."""
        with anyio.fail_after(50):
            while True:
                event = json.loads(await self._stream.receive_until(b"\n", 1 << 20))
                self.seen.append(event)
                if (event["type"], event["server"]) == (kind, server):
                    return dict(event)


@asynccontextmanager
async def watching() -> AsyncIterator[Watcher]:
    command = [*SHELLTIE, "monitor", "--json"]
    process = await anyio.open_process(command, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        yield Watcher(BufferedByteReceiveStream(process.stdout))
    finally:
        process.kill()
        with anyio.CancelScope(shield=True):
            await process.aclose()


@pytest.mark.proves("S1-29", "C-57")
@pytest.mark.timeout(120)
async def test_a_monitor_hears_every_server_live_and_no_secret() -> None:
    async with served() as one, watching() as watcher:
        async with served() as two:
            for server in (one, two):
                with anyio.fail_after(50):
                    while True:  # until the monitor has found it
                        await server.call("run", command="echo --password=swordfish")
                        if any(event["server"] == server.pid for event in watcher.seen):
                            break
                        with anyio.move_on_after(1.5):
                            await watcher.until("run:ended", server.pid)
            await one.call("run", command="sleep 60", timeout_sec=1)
            reached = await watcher.until("limit:reached", one.pid)
            ended = await watcher.until("run:ended", one.pid)

    assert (reached["limit"], ended["state"]) == ("total", "timed_out")
    assert "swordfish" not in json.dumps(watcher.seen)
    ready = [event for event in watcher.seen if event["type"] == "run:ready"]
    assert {event["server"] for event in ready} == {one.pid, two.pid}
    # Of the first, the monitor may have met only the end.
    assert ready[-1]["client"] == "test 1"


async def test_events_have_numbers_and_nobody_gets_one_twice() -> None:
    async with served() as server:
        path = socket_of(server.pid)
        start = await anyio.to_thread.run_sync(client.ask, path, "events")
        await server.call("run", command="true")
        first = await _ask(path, after=start["next"])
        again = await _ask(path, after=first["next"])
        same = await _ask(path, after=start["next"])
        for wrong in (-1, 10**9, "x", True, 1.5):
            with pytest.raises(NoServerAnswer, match="after must be"):
                await _ask(path, after=wrong)
        with pytest.raises(NoServerAnswer, match="wait must be"):
            await _ask(path, wait="long")

    types = [event["type"] for event in first["events"]]
    assert types == ["run:ready", "run:started", "run:ended"]
    assert again["events"] == []
    assert same == first


async def _ask(path: os.PathLike[str], **fields: object) -> dict[str, Any]:
    return dict(await anyio.to_thread.run_sync(lambda: client.ask(path, "events", **fields)))  # type: ignore[arg-type]


async def test_a_program_subscribes_and_leaves(open_terminal: Open) -> None:
    heard: list[Event] = []
    async with open_terminal() as terminal:
        leave = terminal.subscribe(heard.append)
        await terminal.run("exit 3")
        leave()
        await terminal.run("true")

    assert [event.outcome.exit.code for event in heard if isinstance(event, RunEnded)] == [3]


@pytest.mark.proves("C-34", "S4-34", "S4-35")
async def test_a_program_hears_the_names_of_s4_whether_long_or_short(open_terminal: Open) -> None:
    heard: list[dict[str, Any]] = []
    names = ("command:executed", "terminal:command:failed", "security:violation")
    async with open_terminal(safety_profiles_run_dangerous="deny") as terminal:
        terminal.subscribe(heard.append, *names)
        await terminal.run("echo hello --token=abcdefgh")
        await terminal.run("exit 3")
        with pytest.raises(CommandDenied):
            await terminal.run("rm -rf /tmp/nothing-of-ours")

    assert [event["type"] for event in heard] == [
        "terminal:command:executed",
        "terminal:command:failed",
        "terminal:security:violation",
    ]
    assert heard[0]["data"]["outputSize"] == len("hello --token=abcdefgh\n")
    assert "abcdefgh" not in json.dumps(heard)
    assert heard[1]["data"]["exitCode"] == 3
    assert heard[2]["data"]["error"] == "COMMAND_DENIED"


async def test_a_name_that_s4_does_not_have_is_refused(open_terminal: Open) -> None:
    async with open_terminal() as terminal:
        with pytest.raises(InvalidParameters, match="terminal:command:failed"):
            terminal.subscribe(print, "terminal:command:faild")


async def test_somebody_who_fails_at_listening_harms_nobody(open_terminal: Open) -> None:
    def fail(_: Event) -> None:
        raise ValueError("not today")

    async with open_terminal() as terminal:
        terminal.subscribe(fail)
        result = await terminal.run("echo fine")

    assert (result.status, result.warnings) == ("success", ())


@pytest.mark.parametrize(
    "words",
    [
        ["monitor", "--jsonn"],
        ["monitor", "everything"],
        ["audit"],
        ["audit", "verfy"],
        ["audit", "verify", "--head", "12"],
        ["audit", "tail", "-n", "-1"],
        ["audit", "export", "--after", "x"],
    ],
)
def test_garbage_on_the_command_line_is_wrong_usage(words: list[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        parse(words)

    assert leaving.value.code == 2
