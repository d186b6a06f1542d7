"""A session that stays outlives its server, and the next server of its client goes on with it."""

import json
import signal
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import psutil
import pytest

from shelltie.keeper.stay_folder import ABOUT, TOKEN, stay_folder
from shelltie.record.queries import verify
from shelltie.settings.config import Config
from tests import server_kills
from tests.cli import SHELLTIE
from tests.conformance.http_mcp import http_client, http_server
from tests.conformance.raw_mcp import INITIALIZED, raw_server, request
from tests.served import Served, person, served
from tests.staying import end_what_stays
from tests.tree import new_tag, nobody_left, tagged, until

_LINES = 200
_PRINT = (
    f"i=0; while [ $i -lt {_LINES} ]; do echo line $i; i=$((i+1)); sleep 0.01; done; echo all"
    " printed; read a; echo got $a; exit 7"
)


@pytest.fixture(autouse=True)
def nothing_stays(tmp_path: Path) -> Iterator[None]:
    """Whatever a test that fails has left is ended."""
    yield
    end_what_stays(tmp_path)


def state(tmp_path: Path) -> Config:
    return Config.of(state_dir=str(tmp_path / "xdg-state" / "shelltie"))


async def all_output(server: Served, session: str) -> str:
    """From its first byte on, page by page."""
    text, start = "", 0
    while True:
        page = await server.call("terminal_output", sessionId=session, **{"from": start})
        text += str(page["output"]).removesuffix("\n[...Output truncated...]")
        if "readFrom" not in page:
            return text
        start = page["readFrom"]


async def continued(server: Served, session: str, **arguments: object) -> dict[str, Any]:
    return await server.call("terminal_continue", sessionId=session, **arguments)


@asynccontextmanager
async def killed_server(**settings: str) -> AsyncIterator[Served]:
    async with served(**settings) as server:
        yield server
        server.die()
        with anyio.fail_after(40):
            await server.client.process.wait()


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("line ")]


@pytest.mark.proves("S1-36")
async def test_the_next_server_goes_on_with_the_session_of_a_killed_one(tmp_path: Path) -> None:
    async with killed_server() as server:
        started = await server.call(
            "terminal_start", command=_PRINT, stays=True, waitFor="line 20$", maxWait=40
        )
        session = started["id"]

    async with served() as server:
        listed = (await server.call("terminal_list"))["sessions"]
        told = await continued(server, session, waitFor="all printed", maxWait=40)
        text = await all_output(server, session)
        typed = await continued(server, session, stdin="hello", waitFor="got hello", maxWait=40)
        end = await continued(server, session, maxWait=40) if typed.get("running") else typed

    assert started["stays"]
    assert [(one["id"], one["stays"], one["running"]) for one in listed] == [(session, True, True)]
    assert "line 20\n" not in told["output"]  # that was read before
    assert end["exitCode"] == 7
    assert lines(text) == [f"line {number}" for number in range(_LINES)]
    await until(lambda: not list(stay_folder(state(tmp_path)).iterdir()))
    with closing(sqlite3.connect(state(tmp_path).journal)) as journal:
        rows = journal.execute(
            "SELECT entries.kind, entries.body FROM entries JOIN runs ON run = id WHERE session = ?"
            " ORDER BY seq",
            (session,),
        ).fetchall()
    kinds = [kind for kind, _ in rows]
    assert [kind for kind in kinds if kind in ("held", "released", "ended", "lost")] == [
        "held",
        "ended",
    ]
    assert json.loads(rows[kinds.index("held")][1])["client"] == "test 1"


@pytest.mark.parametrize("how", ["end of input", "SIGTERM"])
async def test_a_server_that_leaves_lets_go_of_what_stays(tmp_path: Path, how: str) -> None:
    tag = new_tag()
    async with served() as server:
        session = await server.start(f"echo on; sleep 300.{tag}", stays=True)
        other = await server.start(f"sleep 301.{tag}")
        await until(lambda: len(tagged(tag)) >= 2)
        if how == "SIGTERM":
            server.client.process.send_signal(signal.SIGTERM)
        else:
            await server.client.hang_up()
        with anyio.fail_after(40):
            await server.client.process.wait()
    await until(lambda: len(tagged(tag)) == 1)

    async with served() as server:
        listed = (await server.call("terminal_list"))["sessions"]
        stopped = await server.call("terminal_stop", sessionId=session)
    assert [one["id"] for one in listed] == [session]
    assert other != session
    assert stopped["stopped"]
    await nobody_left(tag)
    await until(lambda: not list(stay_folder(state(tmp_path)).iterdir()))


# The command line


def cli(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [*SHELLTIE, *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=100, check=False)


async def aside(*words: str) -> subprocess.CompletedProcess[str]:
    return await anyio.to_thread.run_sync(partial(cli, *words))


async def test_a_detached_run_outlives_its_terminal_and_is_found_by_all(tmp_path: Path) -> None:
    tag = new_tag()
    script = f"echo ready; read a; echo got $a; exec sleep 300.{tag}"
    async with person("run", "--detach", "--pty", "--", script) as somebody:
        await somebody.sees("it goes on without this terminal")
        assert await somebody.leaves() == 0
    # Its terminal is closed: whoever was in its session has been hung up on.

    (row,) = json.loads((await aside("ps", "--json")).stdout)
    name = row["id"]
    shown = (await aside("ps")).stdout
    typed = await aside("send", name, "hello")
    await until(lambda: bool(tagged(tag)))
    printed = await aside("logs", name)
    async with person("attach", "--write", name) as somebody:
        await somebody.sees("got hello")
        somebody.types("\x1d")
        assert await somebody.leaves() == 0
    told = await aside("history", "show", name)
    ended = await aside("kill", name)

    assert (row["stays"], row["server"], row["client"]) == (True, None, "shelltie run")
    assert "stays" in shown
    assert typed.returncode == 0, typed.stderr
    assert printed.stdout.splitlines() == ["ready", "hello", "got hello"], printed.stderr
    assert "by shelltie send" in told.stdout
    assert "nobody is left" in ended.stdout
    await nobody_left(tag)
    assert (await aside("kill", name)).returncode == 1
    await until(lambda: not list(stay_folder(state(tmp_path)).iterdir()))


async def test_the_total_limit_of_a_detached_run_holds_without_us() -> None:
    tag = new_tag()
    done = await aside(
        "run", "--json", "--detach", "--total", "2s", "--grace", "0.1s", "--", f"sleep 300.{tag}"
    )
    told = json.loads(done.stdout)
    assert (told["status"], told["limits"]["execSec"]) == ("running", 2)
    await nobody_left(tag)
    (row,) = json.loads((await aside("history", "--json", "-n", "1")).stdout)
    assert row["runId"] == told["id"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--stdin", "/dev/null"), "--detach does not go with --stdin"),
        (("--trial",), "--detach does not go with --trial"),
        (("--isolation", "sandbox"), "--detach does not go with --isolation"),
        (("--cwd", "/no/such/place"), "cannot enter the directory"),
    ],
)
def test_what_cannot_be_detached_is_refused(tmp_path: Path, words: list[str], why: str) -> None:
    done = cli("run", "--detach", *words, "--", "sleep 300")
    assert done.returncode
    assert why in done.stderr
    assert not done.stdout
    folder = stay_folder(state(tmp_path))
    assert not folder.exists() or not list(folder.iterdir())


async def test_who_follows_what_nobody_holds_makes_way_for_its_server() -> None:
    async with killed_server() as server:
        session = await server.start(_PRINT, stays=True, waitFor="line 5$")

    logs = [*SHELLTIE, "logs", "-f", session]
    follower = await anyio.open_process(logs, stderr=subprocess.PIPE)
    assert follower.stdout is not None
    seen = (await follower.stdout.receive()).decode()  # by now it holds it
    async with served() as server:
        told = await continued(server, session, waitFor="all printed", maxWait=40)
        await continued(server, session, stdin="bye", waitFor="got bye", maxWait=40)
        with anyio.fail_after(60):
            async for chunk in follower.stdout:
                seen += chunk.decode()
            await follower.wait()

    assert "all printed" in told["output"]
    assert lines(seen) == [f"line {number}" for number in range(_LINES)]
    assert "got bye" in seen
    await follower.aclose()


@pytest.mark.timeout(180)
async def test_a_server_that_is_killed_again_and_again_loses_no_line(tmp_path: Path) -> None:
    how = {"sessions": 3, "lines": 1500, "burst": 5}
    work = partial(server_kills.kill_mcp_servers, tmp_path, 3, (0.0, 0.3), **how)
    assert await anyio.to_thread.run_sync(work)


async def test_an_end_that_was_not_read_is_told_by_the_next_server(tmp_path: Path) -> None:
    async with killed_server() as server:
        session = await server.start("read a; echo got $a; exit 9", stays=True)
        await server.call("terminal_continue", sessionId=session, stdin="it", maxWait=0)
        folder = stay_folder(state(tmp_path))
        (place,) = folder.iterdir()
        await until(lambda: json.loads((place / ABOUT).read_bytes())["ended"])

    (row,) = json.loads((await aside("ps", "--json")).stdout)
    async with served() as server:
        told = await continued(server, session, maxWait=40)
    shown = await aside("history", "show", session, "--json")
    assert shown.returncode == 0, shown.stderr
    history = json.loads(shown.stdout)

    assert row["state"] == "ended"
    assert (told["complete"], told["exitCode"]) == (True, 9)
    assert "got it" in told["output"]
    assert [one["kind"] for one in history["record"]].count("ended") == 1
    assert history["command"] == "read a; echo got $a; exit 9"
    assert verify(state(tmp_path).journal).problems == ()
    await until(lambda: not list(folder.iterdir()))


# Whose it is


async def test_another_window_and_another_client_leave_it_alone(tmp_path: Path) -> None:
    tag, elsewhere = new_tag(), tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with served() as first:
        session = await first.start(f"echo on; exec sleep 300.{tag}", stays=True, waitFor="on")
        async with served() as second:
            listed = (await second.call("terminal_list"))["sessions"]
            busy = await second.call("terminal_output", sessionId=session)
    assert listed == []
    assert "another server holds" in busy["error"]
    assert "test 1" in busy["error"]

    async with raw_server(tmp_path, cwd=elsewhere) as client:
        await client.greet()
        other = Served(client)
        assert (await other.call("terminal_list"))["sessions"] == []  # of another directory
        assert (await other.call("terminal_output", sessionId=session))["output"].startswith("on")
        await client.hang_up()
        await client.exit_code()

    async with raw_server(tmp_path) as client:
        about = {"name": "another", "version": "1"}
        greeting = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about}
        await client.send(request(0, "initialize", **greeting))
        await client.receive()
        await client.send(INITIALIZED)
        stranger = Served(client)
        assert (await stranger.call("terminal_list"))["sessions"] == []
        unknown = await stranger.call("terminal_stop", sessionId=session)
        assert unknown["errorCode"] == "SESSION_NOT_FOUND", unknown
    assert tagged(tag)
    assert (await aside("kill", session)).returncode == 0
    await nobody_left(tag)


# Bad input


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"mode": "shell"}, 'mode "shell" cannot stay'),
        ({"isolation": "sandbox"}, "without isolation"),
        ({"trial": True}, "not on trial"),
        ({"stays": "yes"}, "stays"),
    ],
)
async def test_what_cannot_stay_is_refused(
    tmp_path: Path, arguments: dict[str, object], why: str
) -> None:
    async with served() as server:
        told = await server.call(
            "terminal_start", **{"command": "sleep 300", "stays": True, **arguments}
        )
        assert why in told["error"]
    folder = stay_folder(state(tmp_path))
    assert not folder.exists() or not list(folder.iterdir())


async def test_a_full_house_a_stolen_socket_and_a_dead_keeper_are_told(tmp_path: Path) -> None:
    tag = new_tag()
    folder = stay_folder(state(tmp_path))
    async with killed_server(SHELLTIE_STAY_MAX="2") as server:
        sessions = [
            await server.start(f"echo on; exec sleep 300.{tag}", stays=True, waitFor="on")
            for _ in range(2)
        ]
        full = await server.call("terminal_start", command="sleep 300", stays=True, maxWait=20)
        places = {
            json.loads((place / ABOUT).read_bytes())["session"]: place for place in folder.iterdir()
        }
    assert "stay.max" in full["hint"]

    stolen, dead = (places[session] for session in sessions)
    token = (stolen / TOKEN).read_text()
    (stolen / TOKEN).write_text("not the token")
    for process in psutil.process_iter(["cmdline"]):
        if str(dead) in (process.info["cmdline"] or ()):
            process.kill()
    async with served() as server:
        assert (await server.call("terminal_list"))["sessions"] == []
        busy = await server.call("terminal_output", sessionId=sessions[0])
        (stolen / TOKEN).write_text(token)
        gone = await server.call("terminal_continue", sessionId=sessions[1])
        stopped = await server.call("terminal_stop", sessionId=sessions[0])
    assert stopped["stopped"]
    assert "this is not the token" in busy["error"]
    assert "it ended when its server died" in gone["error"]
    await until(lambda: not list(folder.iterdir()))
    await nobody_left(tag)


async def test_over_http_it_is_whose_token_it_was_in_any_session(tmp_path: Path) -> None:
    tag = new_tag()

    async with http_server(tmp_path) as server, http_client(server, "legacy") as client:
        command = f"echo on; exec sleep 300.{tag}"
        started = await client.call("terminal_start", command=command, stays=True, waitFor="on")
        server.process.kill()
        await server.exit_code()
    session = started["id"]

    (tmp_path / "other").mkdir()
    async with http_server(tmp_path / "other") as server, http_client(server, "legacy") as client:
        assert await client.listed() == []
        unknown = await client.call("terminal_stop", sessionId=session)
        assert "error" in unknown
    async with http_server(tmp_path) as server, http_client(server, "legacy") as client:
        listed = await client.listed()
        stopped = await client.call("terminal_stop", sessionId=session)
    assert (listed, stopped["stopped"]) == ([session], True)
    await nobody_left(tag)
