"""`ps`, `monitor`, `kill` and `logs` see every run of the user: the command line's, Python's."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from shelltie import InteractiveSessionOptions, Terminal, TerminalService
from shelltie.frontends.cli import find_run
from shelltie.frontends.control import client, socket_dirs
from shelltie.settings.paths import runtime_dirs
from tests.asking import SHELLTIE, not_on_a_leash, shelltie
from tests.conftest import Open


def place() -> Path:
    return runtime_dirs(os.environ)[0]


@asynccontextmanager
async def started(*args: str) -> AsyncIterator[Process]:
    """`shelltie …` in a process of its own, ended with the test."""
    pipe = subprocess.PIPE
    process = await anyio.open_process([*SHELLTIE, *args], stdout=pipe, stderr=pipe)
    try:
        yield process
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.aclose()


async def row_of(command: str) -> dict[str, Any]:
    """What `ps --json` says of a command, once it is there."""
    with anyio.fail_after(60):
        while True:
            found = (await anyio.to_thread.run_sync(partial(find_run.list_runs, look=True)))[1]
            rows = [find_run.as_json(one) for one in found]
            for row in rows:
                if command in str(row["command"]) and row["state"] == "running":
                    return row
            await anyio.sleep(0.05)


@not_on_a_leash
@pytest.mark.timeout(180)
async def test_a_command_of_the_command_line_is_listed_read_and_ended_from_outside() -> None:
    async with started("run", "--", "echo here; sleep 300") as process:
        row = await row_of("sleep 300")
        _, table, _ = await shelltie("ps")
        _, printed, _ = await shelltie("logs", str(row["runId"]))
        code, said, _ = await shelltie("kill", str(row["runId"]))
        with anyio.fail_after(60):
            ended = await process.wait()

    assert (row["client"], row["server"]) == ("shelltie run", process.pid)
    assert "shelltie run" in table
    assert printed == "here\n"
    assert (code, ended) == (0, 143)
    assert "ended (by SIGTERM), nobody is left" in said
    assert list(place().iterdir()) == []


@pytest.mark.timeout(180)
async def test_a_program_in_python_is_seen_with_its_sessions(open_terminal: Open) -> None:
    async with open_terminal() as terminal:
        run = await terminal.start("sleep 301")
        plain = await row_of("sleep 301")
        await run.kill("seen")
    async with TerminalService(
        {"providers": {"local": {"type": "local"}}, "agentDefaults": {"provider": "local"}}
    ) as service:
        service.attach("writer")
        provider = service.require_sessions("writer")
        name = await provider.start_interactive_session(InteractiveSessionOptions("sleep 302"))
        session = await row_of("sleep 302")

    assert plain["runId"] == run.id
    assert str(plain["client"]).startswith("python")
    assert (session["sessionId"], session["server"]) == (name, os.getpid())
    assert list(place().iterdir()) == []


@pytest.mark.timeout(180)
async def test_a_follower_reads_to_the_end_although_the_process_ends_with_its_command(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with started("run", "--", f"echo first; cat {gate}; echo last; exit 4"):
        row = await row_of("echo first")
        async with started("logs", "-f", str(row["runId"])) as follower:
            assert follower.stdout is not None
            assert follower.stderr is not None
            lines = BufferedByteReceiveStream(follower.stdout)
            with anyio.fail_after(60):
                first = await lines.receive_until(b"\n", 100)
                await anyio.to_thread.run_sync(gate.write_bytes, b"")
                last = await lines.receive_until(b"\n", 100)
                told = await BufferedByteReceiveStream(follower.stderr).receive_until(b"\n", 1000)
                code = await follower.wait()

    assert (first, last, code) == (b"first", b"last", 0)
    assert b"has ended: exit code 4" in told


@pytest.mark.timeout(180)
async def test_a_monitor_hears_of_commands_that_take_no_time_at_all() -> None:
    async with started("monitor", "--json") as monitor:
        assert monitor.stdout is not None
        assert monitor.stderr is not None
        events = BufferedByteReceiveStream(monitor.stdout)
        with anyio.fail_after(60):
            await BufferedByteReceiveStream(monitor.stderr).receive_until(b"\n", 1000)
            for code in ("3", "0"):
                assert (await shelltie("run", "--", f"exit {code}"))[0] == int(code)
            heard: list[dict[str, Any]] = []
            while [event["type"] for event in heard].count("run:ended") < 2:
                heard.append(json.loads(await events.receive_until(b"\n", 1 << 20)))

    assert [event["type"] for event in heard] == ["run:ready", "run:started", "run:ended"] * 2
    assert [event["exitCode"] for event in heard if event["type"] == "run:ended"] == [3, 0]
    assert {event["serverClient"] for event in heard} == {"shelltie run"}


@pytest.mark.timeout(180)
async def test_a_monitor_says_exit_codes_and_yes_or_no_in_columns() -> None:
    async with started("monitor") as monitor:
        assert monitor.stdout is not None
        lines = BufferedByteReceiveStream(monitor.stdout)
        shown = []
        with anyio.fail_after(60):
            shown.append((await lines.receive_until(b"\n", 1000)).decode())
            await shelltie("run", "--", "exit 3")
            await shelltie("run", "--", "true")
            await shelltie("run", "--", "rm -rf ./nothing-of-ours")
            while not any("refused" in line for line in shown):
                shown.append((await lines.receive_until(b"\n", 10_000)).decode())

    assert shown[0].split() == ["TIME", "CLIENT", "RUN", "EVENT", "DETAILS"]
    text = "\n".join(shown)
    assert "ended     ✗ exit 3 after" in text
    assert "ended     ✓ exit 0 after" in text
    assert "answer    ✗ no" in text
    assert "refused   ✗ rm -rf ./nothing-of-ours" in text
    at = shown[0].index("EVENT")
    assert {line[at - 1] for line in shown} == {" "}
    assert max(map(len, shown)) <= 80


async def test_who_only_runs_a_command_does_not_load_the_code_that_answers() -> None:
    program = (
        "import shelltie, sys; shelltie.run_sync('true');"
        "print([m for m in sys.modules if m.startswith('shelltie.frontends.control.')])"
    )

    done = await anyio.run_process([sys.executable, "-c", program], stderr=None)

    assert done.stdout.decode().split() == [
        "['shelltie.frontends.control.socket_dirs',",
        "'shelltie.frontends.control.presence']",
    ]


@pytest.mark.timeout(180)
async def test_many_at_once_are_all_seen(open_terminal: Open) -> None:
    async with open_terminal() as one, open_terminal() as two, open_terminal() as three:
        runs = [
            await terminal.start(f"sleep 30{number}")
            for number, terminal in enumerate((one, two, three) * 3)
        ]
        found = (await anyio.to_thread.run_sync(find_run.list_runs))[1]

    assert {one.listed.run_id for one in found} == {run.id for run in runs}


async def test_a_socket_of_the_dead_is_removed_and_the_living_are_not_woken() -> None:
    (folder,) = socket_dirs.prepared(os.environ)
    dead = folder / "999999999-00000000.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(dead))
    living = socket_dirs.bind(folder)
    assert living is not None

    async with Terminal() as terminal:
        result = await terminal.run("true")

    with living[0] as listener, pytest.raises(BlockingIOError):
        listener.accept()
    assert result.exit_code == 0
    assert list(folder.iterdir()) == [living[1]]


async def test_who_leaves_while_it_is_asked_is_no_problem(open_terminal: Open) -> None:
    async with open_terminal():
        (server,) = await anyio.to_thread.run_sync(client.servers, os.environ)

    assert client.ask_all([server], "ps") == []


@pytest.mark.parametrize("wrong", ["/etc/passwd", "/tmp/1-2.watch", "", 5])
async def test_events_are_sent_only_to_a_socket_beside_ours(
    open_terminal: Open, wrong: object
) -> None:
    async with open_terminal():
        (server,) = await anyio.to_thread.run_sync(client.servers, os.environ)
        ask = partial(client.ask_all, [server], "watch", monitor=wrong)
        ((_, said),) = await anyio.to_thread.run_sync(ask)

    assert "monitor must be the path" in str(said)


async def test_without_a_place_for_a_socket_commands_run_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SHELLTIE_RUNTIME_DIR", str(tmp_path / "missing" / "place"))

    async with Terminal() as terminal:
        assert (await terminal.run("echo fine")).stdout == "fine\n"
