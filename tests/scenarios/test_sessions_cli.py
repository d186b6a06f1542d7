"""A person beside running servers: sees what runs, reads it, types into it, and ends it."""

import hashlib
import json
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.abc import ByteReceiveStream

from shelltie.errors import NoServerAnswer
from shelltie.frontends.cli import find_run
from shelltie.frontends.control import client
from shelltie.frontends.control.run_row import INPUT_MAX
from tests.asking import ROOT, SHELLTIE, not_on_a_leash, shelltie
from tests.served import served, socket_of
from tests.tree import new_tag, nobody_left, tagged, until

ULID = 26


async def listed() -> list[dict[str, Any]]:
    """What `ps --json` prints, without a process for it."""
    found = (await anyio.to_thread.run_sync(partial(find_run.list_runs, look=True)))[1]
    return [find_run.as_json(one) for one in found]


async def run_id_of(command: str) -> str:
    """The run of a command that another task starts just now."""
    with anyio.fail_after(50):
        while True:
            for one in await listed():
                if command in str(one["command"]):
                    return str(one["runId"])


async def until_printed(size: int) -> None:
    """Wait until the only session has printed so many bytes."""
    with anyio.fail_after(50):
        while (await listed())[0]["outputBytes"] < size:
            await anyio.sleep(0.05)


async def line_of(stream: ByteReceiveStream) -> bytes:
    """What is written up to the end of a line."""
    read = b""
    while not read.endswith(b"\n"):
        read += await stream.receive()
    return read


async def all_of(stream: ByteReceiveStream) -> bytes:
    """What is written until the end, in however many pieces."""
    return b"".join([chunk async for chunk in stream])


# What runs


async def test_all_runs_and_sessions_of_all_servers_are_listed() -> None:
    async with served() as one, served() as other:
        await one.start("cat")
        await one.start("echo hello; sleep 300")
        await other.start("sleep 300")
        await other.send("run", command="sleep 301")
        await run_id_of("sleep 301")
        with anyio.fail_after(50):  # until cat reads, and echo has printed
            rows = await listed()
            while not rows[0]["waitingForInput"] or rows[1]["outputBytes"] < len("hello\r\n"):
                rows = await listed()

        code, table, told = await shelltie("ps")
        rows = json.loads((await shelltie("ps", "--json"))[1])

    assert code == 0
    assert max(map(len, table.splitlines())) <= 80
    head, *lines = (line.split() for line in table.splitlines())
    assert head == ["ID", "CLIENT", "STATE", "TIME", "IDLE", "COMMAND"]
    assert [line[:5] for line in lines[:3]] == [
        ["term-1", "test", "1", "?", "waiting"],
        ["term-2", "test", "1", "running", lines[1][4]],
        ["term-3", "test", "1", "running", lines[2][4]],
    ]
    assert [row["server"] for row in rows[:3]] == [one.pid, one.pid, other.pid]
    assert [line[-1] for line in lines[0:3:2]] == ["cat", "300"]
    assert "shelltie send ID TEXT" in told
    assert [row["id"] for row in rows[:3]] == ["term-1", "term-2", "term-3"]
    assert [row["waitingForInput"] for row in rows] == [True, False, False, False]
    assert rows[1]["outputBytes"] == len("hello\r\n")
    assert (rows[3]["sessionId"], rows[3]["state"]) == (None, "running")
    assert len(str(rows[3]["id"])) == ULID


@pytest.mark.needs("bwrap")
@pytest.mark.proves("D16")
async def test_where_a_sandboxed_server_is_reached_is_listed(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    python = Path(sys.executable).resolve()
    settings = {
        "SHELLTIE_SANDBOX_WORKSPACE": str(tmp_path / "project"),
        "SHELLTIE_SANDBOX_READABLE": sys.base_prefix,
    }
    async with served(**settings) as server:
        await server.start(
            f"{python} -u -m http.server 0 --bind 127.0.0.1",
            cwd=str(tmp_path / "project"),
            isolation="sandbox",
            waitFor="Serving HTTP",
        )
        (row,) = await listed()
        _, table, _ = await shelltie("ps")

    (port,) = row["ports"]
    assert re.fullmatch(r"127\.0\.0\.1:\d+ → 127\.0\.0\.1:\d+", port)
    assert f"term-1: {port}\n" in table


async def test_without_anything_ps_says_so() -> None:
    nobody = await shelltie("ps")
    async with served():
        nothing = await shelltie("ps")
        empty = await shelltie("ps", "--json")

    assert nobody[:2] == (0, "Nothing runs; no server running.\n")
    assert nothing[:2] == (0, "Nothing runs; 1 server running.\n")
    assert empty[:2] == (0, "[]\n")


async def test_a_command_cannot_paint_over_the_list() -> None:
    async with served() as server:
        await server.start("sleep 9 # \x1b[2J\u202e\r" + "x" * 500)
        _, table, _ = await shelltie("ps")

    row = table.splitlines()[1]
    assert "sleep 9 # " in row
    assert row.endswith("…")
    assert len(row) <= 80
    assert "\x1b" not in table


async def test_how_an_ended_session_ended_is_listed_until_its_client_has_read_it() -> None:
    async with served() as server:
        await server.start("read line; exit 3")
        await shelltie("send", "term-1", "x")
        with anyio.fail_after(50):
            while (await listed())[0]["state"] == "running":
                pass
        _, table, _ = await shelltie("ps")
        read = await server.call("terminal_continue", sessionId="term-1")
        left = await listed()

    assert "exit 3" in table
    assert (read["complete"], read["exitCode"]) == (True, 3)
    assert left == []


# What was printed


async def test_logs_are_text_or_every_byte() -> None:
    async with served() as server:
        await server.start(r"printf '\033[31mred\033[0m\n10%%\r99%%\nlast\n'; sleep 300")
        await until_printed(len("\x1b[31mred\x1b[0m\r\n10%\r99%\r\nlast\r\n"))

        clean = await shelltie("logs", "term-1")
        raw = await shelltie("logs", "term-1", "--raw")
        tail = [(await shelltie("logs", "term-1", "--tail", str(n)))[1] for n in (0, 1, 2, 9)]
        _, objects, _ = await shelltie("logs", "term-1", "--json")

    assert clean == (0, "red\n99%\nlast\n", "")
    assert raw[1] == "\x1b[31mred\x1b[0m\r\n10%\r99%\r\nlast\r\n"
    assert tail == ["", "last\n", "99%\nlast\n", "red\n99%\nlast\n"]
    lines = [json.loads(line) for line in objects.splitlines()]
    assert [(one["position"], one["skipped"], one["text"]) for one in lines[:-1]] == [
        (0, 0, "red\n99%\nlast\n")
    ]
    assert (lines[-1]["id"], lines[-1]["ended"], lines[-1]["exitCode"]) == ("term-1", False, None)


async def test_reading_takes_nothing_from_the_client() -> None:
    async with served() as server:
        await server.start("read line; echo answer; sleep 300")
        await shelltie("send", "term-1", "question")
        await shelltie("logs", "term-1")
        await until_printed(len("question\r\nanswer\r\n"))
        said = await server.call("terminal_continue", sessionId="term-1", maxWait=0)

    assert said["output"] == "question\nanswer\n"


async def test_follow_goes_on_until_the_end() -> None:
    async with served() as server:
        await server.start("echo before; read -p 'name? ' name; echo hello $name; exit 7")
        async with await anyio.open_process([*SHELLTIE, "logs", "-f", "term-1"]) as follower:
            assert follower.stdout is not None
            assert follower.stderr is not None
            shown = b""
            with anyio.fail_after(50):
                while b"name? " not in shown:  # a prompt has no end of line
                    shown += await follower.stdout.receive()
                await shelltie("send", "term-1", "you")
                async for chunk in follower.stdout:
                    shown += chunk
                told = await all_of(follower.stderr)
                code = await follower.wait()

    assert shown == b"before\nname? you\nhello you\n"
    assert (code, told) == (0, b"term-1 has ended: exit code 7.\n")


async def test_a_run_is_followed_to_its_end_although_its_server_forgets_it_then(
    tmp_path: Path,
) -> None:
    go = tmp_path / "go"
    wait = f"while [ ! -e {go} ]; do sleep 0.1; done"
    async with served() as server:
        await server.send("run", command=f"echo one; {wait}; echo two; exit 4")
        run_id = await run_id_of("echo one")
        follow = [*SHELLTIE, "logs", "-f", run_id[:20].lower()]
        async with await anyio.open_process(follow) as follower:
            assert follower.stdout is not None
            assert follower.stderr is not None
            with anyio.fail_after(50):
                first = await line_of(follower.stdout)
                go.touch()
                await server.answer()
                second = await all_of(follower.stdout)
                told = await all_of(follower.stderr)
                code = await follower.wait()

    assert (first, second, code) == (b"one\n", b"two\n", 0)
    assert told.decode() == f"{run_id} has ended: exit code 4.\n"


@pytest.mark.timeout(120)
async def test_a_flood_is_followed_without_a_gap_and_others_are_served_meanwhile() -> None:
    size = 10_000_000
    async with served() as server:
        await server.start(f"read go; yes 0123456789 | head -c {size}", pty=False)
        command = [*SHELLTIE, "logs", "-f", "--raw", "term-1"]
        async with await anyio.open_process(command) as follower:
            assert follower.stdout is not None
            seen, count = hashlib.sha256(), 0
            await shelltie("send", "term-1", "go")
            with anyio.fail_after(90):
                async for chunk in follower.stdout:
                    seen.update(chunk)
                    count += len(chunk)
                    if count == len(chunk):
                        assert (await server.call("run", command="echo here"))["stdout"] == "here\n"

    line = b"0123456789\n"
    assert count == size
    assert seen.digest() == hashlib.sha256((line * (size // len(line) + 1))[:size]).digest()


async def test_what_is_no_longer_kept_is_counted() -> None:
    small = {"SHELLTIE_OUTPUT_SPOOL_CAP": "2000000", "SHELLTIE_OUTPUT_KEPT_HEAD": "500000"}
    async with served(**small) as server:
        await server.start("head -c 9000000 /dev/zero | tr '\\0' x; echo; sleep 300", pty=False)
        with anyio.fail_after(50):
            while (await listed())[0]["outputBytes"] != 9_000_001:
                pass
        _, out, told = await shelltie("logs", "term-1", "--json")

    pieces = [json.loads(line) for line in out.splitlines()][:-1]
    assert sum(piece["skipped"] for piece in pieces) > 1_000_000
    assert sum(piece["bytes"] + piece["skipped"] for piece in pieces) == 9_000_001
    assert "are no longer kept" in told


async def test_a_follower_whose_server_dies_is_told() -> None:
    async with served() as server:
        await server.start("echo here; sleep 300")
        async with await anyio.open_process([*SHELLTIE, "logs", "-f", "term-1"]) as follower:
            assert follower.stdout is not None
            assert follower.stderr is not None
            with anyio.fail_after(50):
                assert await line_of(follower.stdout) == b"here\n"
                server.die()
                told = await all_of(follower.stderr)
                code = await follower.wait()

    assert code == 125
    assert told.decode() == (
        f"shelltie: the server {server.pid} is gone, and what it ran has ended with it\n"
    )


# Typing


@not_on_a_leash
async def test_lines_and_keys_are_typed() -> None:
    async with served() as server:
        await server.start("python3 -q", waitFor=">>> ")
        sent = [
            await shelltie("send", "term-1", "print('a' +", "'b')"),
            await shelltie("send", "-n", "term-1", "1+1"),
            await shelltie("send", "term-1", "--key", "enter"),
            await shelltie("send", "term-1", "import time; time.sleep(300)"),
        ]
        await server.call("terminal_continue", sessionId="term-1", maxWait=1)
        sent.append(await shelltie("send", "term-1", "--key", "ctrl-c"))
        said = await server.call(
            "terminal_continue", sessionId="term-1", waitFor="KeyboardInterrupt"
        )
        _, out, _ = await shelltie("logs", "term-1")

    assert sent == [(0, "", "")] * 5
    assert said["found"]
    assert "\nab\n" in out
    assert ">>> 1+1\n2\n" in out


@not_on_a_leash
async def test_what_cannot_be_typed_is_explained() -> None:
    explained = [
        (["term-1"], 2, "Give a TEXT, or --key KEY"),
        (["term-1", "x", "--key", "up"], 2, "Give a TEXT, or --key KEY"),
        (["term-1", "--key", "ctr-c"], 2, "unknown key 'ctr-c'"),
        (["term-2", "x"], 1, "did you mean term-1?"),
    ]
    async with served() as server:
        await server.start("cat")
        told = [await shelltie("send", *args) for args, _, _ in explained]

    for (args, code, why), (ended, out, complaint) in zip(explained, told, strict=True):
        assert (ended, out) == (code, ""), args
        assert why in complaint, args


@not_on_a_leash
async def test_who_takes_no_input_is_not_typed_to() -> None:
    async with served() as server:
        await server.start("sleep 300", pty=False)
        await server.send("run", command="sleep 302")
        run_id = await run_id_of("sleep 302")

        closed = await shelltie("send", run_id, "x")
        sleeper = await anyio.to_thread.run_sync(find_run.find, "term-1")
        for _ in range(1024 * 1024 // INPUT_MAX):
            await anyio.to_thread.run_sync(find_run.write, sleeper, b"x" * INPUT_MAX)
        full = await shelltie("send", "term-1", "x" * 120_000)

    assert (closed[0], full[0]) == (1, 1)
    assert f"{run_id}: its input is closed: it takes none" in closed[2]
    assert "only the first" in full[2]
    assert "the command does not read its input" in full[2]


# Ending


@not_on_a_leash
async def test_kill_ends_the_whole_tree_and_says_so() -> None:
    tag = new_tag()
    stubborn = f"trap '' TERM HUP; (setsid sleep 300.{tag} &) ; while :; do sleep 1; done"
    async with served() as server:
        await server.start(stubborn)
        await server.start("sleep 300")
        await server.start("cat")
        await until(lambda: bool(tagged(tag, "sleep")))  # by then nothing but SIGKILL ends it

        code, out, _ = await shelltie("kill", "term-1", "term-2", "term-1")
        await nobody_left(tag)
        again = await shelltie("kill", "term-1")
        said = await server.call("terminal_continue", sessionId="term-2")
        left = [row["id"] for row in await listed() if row["state"] == "running"]

    assert code == 0
    assert [line.partition(",")[0] for line in out.splitlines()] == [
        "term-1 ended (by SIGKILL)",
        "term-2 ended (by SIGTERM)",
    ]
    assert out.count("nobody is left: ") == 2
    assert again[0] == 0
    assert again[1].startswith("term-1 had ended already: trap")
    assert said["hint"] == "it was ended: a person ended it with shelltie kill"
    assert left == ["term-3"]


@not_on_a_leash
async def test_a_hard_kill_asks_nobody_to_leave_first() -> None:
    async with served() as server:
        await server.start("sleep 300")

        code, out, _ = await shelltie("kill", "--hard", "term-1")

    assert code == 0
    assert out.startswith("term-1 ended (by SIGKILL)"), out  # with a grace it is SIGTERM


@not_on_a_leash
async def test_kill_all_ends_everything_in_every_server() -> None:
    tag = new_tag()
    async with served() as one, served() as other:
        await one.start(f"sleep 300.{tag}")
        await one.start(f"sleep 301.{tag}")
        await other.start(f"sleep 302.{tag}")
        await other.send("run", command=f"sleep 303.{tag}")
        await run_id_of("sleep 303")

        code, out, _ = await shelltie("kill", "--all", "--yes")
        await nobody_left(tag)
        run = await other.answer()
        nothing = await shelltie("kill", "--all")

    assert code == 0
    assert out.count("nobody is left: sleep") == 4
    assert (run["status"], run["signal"]) == ("error", "SIGTERM")
    assert nothing[:2] == (0, "Nothing runs.\n")


@pytest.mark.parametrize("args", [(), ("--all", "term-1")])
async def test_kill_wants_ids_or_all(args: tuple[str, ...]) -> None:
    code, _, said = await shelltie("kill", *args)

    assert code == 2
    assert "or --all" in said


# Ids


@not_on_a_leash
async def test_an_id_that_two_servers_have_is_said_with_the_servers_pid(tmp_path: Path) -> None:
    apart = {"XDG_STATE_HOME": str(tmp_path / "another")}  # so that they do not count together
    async with served() as one, served(**apart) as other:
        await one.start("echo first; sleep 300", waitFor="first$")
        await other.start("echo second; sleep 300", waitFor="second$")

        both = [await shelltie(*verb) for verb in (("logs", "term-1"), ("kill", "term-1"))]
        first = await shelltie("logs", f"{one.pid}:term-1")
        second = await shelltie("logs", f"{other.pid}:term-1")
        running = len(await listed())

    for code, out, said in both:
        assert (code, out) == (1, "")
        assert f"{one.pid}:term-1, {other.pid}:term-1: say which" in said
    assert (first[1], second[1], running) == ("first\n", "second\n", 2)


async def test_an_unknown_id_is_explained() -> None:
    nobody = await shelltie("logs", "term-1")
    async with served() as server:
        await server.start("sleep 300")
        run_id = str((await listed())[0]["runId"])
        names = ("term-7", "trem-1", f"{server.pid + 1}:term-1", run_id[:3], "\x1b[2J", "")
        wrong = {name: await shelltie("logs", name) for name in names}
        others = [await shelltie("kill", "term-1", "term-9"), await shelltie("send", "term-9", "x")]
        left = await listed()

    assert nobody[0] == 1
    assert "no run matches 'term-1': nothing runs here" in nobody[2]
    assert {code for code, *_ in (*wrong.values(), *others)} == {1}
    for _, out, said in (wrong["term-7"], wrong["trem-1"], *others):
        assert out == ""
        assert "did you mean term-1?" in said
    assert "at least 4 characters" in wrong[run_id[:3]][2]
    assert "`shelltie ps` lists what runs" in wrong[""][2]
    assert "\x1b" not in wrong["\x1b[2J"][2]
    assert [row["state"] for row in left] == ["running"]


# Who may


async def test_a_command_of_ours_may_read_but_not_steer() -> None:
    me = " ".join(SHELLTIE)
    async with served(PYTHONPATH=str(ROOT)) as server:
        await server.start("echo secretly; cat", waitFor="secretly")
        said = await server.call(
            "run",
            command=f"for c in 'logs term-1' 'send term-1 x' 'kill term-1' 'kill --all';"
            f" do {me} $c 2>&1; echo code=$?; done",
            cwd=str(ROOT),
        )
        left = [row["state"] for row in await listed() if row["sessionId"]]

    codes = [line for line in said["stdout"].splitlines() if line.startswith("code=")]
    assert codes == ["code=0", "code=126", "code=126", "code=126"]
    assert "secretly" in said["stdout"]
    assert said["stdout"].count("only a person may do this") == 3
    assert left == ["running"]


MALFORMED: list[tuple[str, dict[str, object], str]] = [
    ("logs", {}, "id must be"),
    ("logs", {"id": 3}, "id must be"),
    ("logs", {"id": "term-9"}, "no run term-9"),
    ("logs", {"id": "term-1", "from": -1}, "from must be"),
    ("logs", {"id": "term-1", "from": "x"}, "from must be"),
    ("logs", {"id": "term-1", "from": True}, "from must be"),
    ("logs", {"id": "term-1", "from": 10**30}, "from must be at most"),
    ("logs", {"id": "term-1", "to": 1.5}, "to must be"),
    ("logs", {"id": "term-1", "wait": float("nan")}, "wait must be"),
    ("logs", {"id": "term-1", "wait": [1]}, "wait must be"),
    ("send", {"id": "term-1"}, "data must be"),
    ("send", {"id": "term-1", "data": "*"}, "data must be"),
    ("send", {"id": "term-1", "data": "ü"}, "data must be"),
    ("resize", {"id": "term-1"}, "rows must be"),
    ("resize", {"id": "term-1", "rows": 0, "columns": 80}, "rows must be"),
    ("resize", {"id": "term-1", "rows": 24, "columns": 100_000}, "columns must be"),
    ("kill", {}, "ids must be"),
    ("kill", {"ids": "term-1"}, "ids must be"),
    ("kill", {"ids": [1]}, "ids must be"),
    ("kill", {"ids": []}, "ids must be"),
]


async def test_a_malformed_request_is_refused_and_harms_nobody() -> None:
    async with served() as server:
        await server.start("cat")
        for do, fields, said in MALFORMED:
            ask = partial(client.ask, socket_of(server.pid), do, **fields)
            with pytest.raises(NoServerAnswer, match=said):
                await anyio.to_thread.run_sync(ask)
        left = await listed()

    assert [row["state"] for row in left] == ["running"]


async def test_a_screen_is_drawn_in_the_size_that_a_person_gave_it() -> None:
    async with served() as server:
        await server.start("bash --norc")
        ask = partial(
            client.ask, socket_of(server.pid), "resize", id="term-1", rows=30, columns=120
        )
        await anyio.to_thread.run_sync(ask)
        await server.call("terminal_continue", sessionId="term-1", stdin="printf '%0100d\\n' 7")
        screen = await server.call("terminal_output", sessionId="term-1", view="screen")

    assert f"\n{7:0100d}\n" in str(screen["output"])
