"""`shelltie acp` as an editor starts it: what passes untouched, and what it serves itself."""

import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.to_thread
import psutil
import pytest

from tests.acp_pair import DEVNULL, HELLO, LIMIT, PROGRAM, SESSION, Pair, pair
from tests.cli import text_of


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[Pair]:
    async with pair(tmp_path) as both:
        await both.begin(tmp_path)
        yield both


async def test_what_is_not_about_terminals_passes_to_the_byte(both: Pair) -> None:
    odd = b'{"jsonrpc": "2.0",   "method":"session/x", "params":[1e400,"\\u00e9\xc3\xa9"]}\n'

    await both.editor.say_bytes(odd)
    await both.agent.say_bytes(odd)

    assert await both.agent.hear_bytes() + b"\n" == odd
    assert await both.editor.hear_bytes() + b"\n" == odd


async def test_a_message_of_many_megabytes_passes(both: Pair) -> None:
    big = json.dumps({"jsonrpc": "2.0", "method": "session/x", "params": "x" * 20_000_000}).encode()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(both.agent.say_bytes, big + b"\n")
        heard = await both.editor.hear_bytes()

    assert heard == big


async def test_a_line_without_end_is_refused_and_not_kept(both: Pair) -> None:
    piece = b"x" * 1_000_000
    for _ in range(70):
        await both.agent.say_bytes(piece)
    await both.agent.say_bytes(b"\n")

    assert (await both.agent.hear())["error"]["code"] == -32600
    await both.agent.say({"jsonrpc": "2.0", "method": "session/x"})
    assert (await both.editor.hear())["method"] == "session/x"
    assert psutil.Process(both.process.pid).memory_info().rss < 400_000_000


@pytest.mark.proves("T1-20", "C-81", "C-33", "C-32", "T1-13")
async def test_an_editor_without_terminals_gains_them(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        early = await both.agent.refused("terminal/create", sessionId=SESSION, command="true")

        greeting = await both.begin(tmp_path, fs={"readTextFile": True})

        assert greeting["params"]["clientCapabilities"] == {
            "fs": {"readTextFile": True},
            "terminal": True,
        }
        terminal = await both.agent.terminal("echo", "hello")
        assert await both.agent.of(terminal, "wait_for_exit") == {
            "exitCode": 0,
            "signal": None,
            "_meta": {
                "state": "finished",
                "timedOut": False,
                "killed": False,
                "terminationMode": None,
                "timeoutReason": None,
                "leaked": False,
                "survivors": 0,
                "warnings": [],
            },
        }
        assert (await both.agent.of(terminal, "output"))["output"] == "hello\n"
        assert await both.agent.of(terminal, "release") == {}
    assert early["code"] == -32601


@pytest.mark.parametrize(("has", "served"), [(True, False), (False, True)])
async def test_a_flag_leaves_the_editors_own_terminals_alone(
    tmp_path: Path, has: bool, served: bool
) -> None:
    async with pair(tmp_path, "--terminals", "missing") as both:
        await both.begin(tmp_path, terminal=has)

        number = await both.agent.request("terminal/create", sessionId=SESSION, command="true")

        if served:
            assert "result" in await both.agent.answer_to(number)
        else:
            assert (await both.editor.hear())["method"] == "terminal/create"


@pytest.mark.proves("T1-13", "T1-15", "T1-16", "T1-19", "S1-57")
async def test_every_wrong_request_is_told_what_is_wrong(both: Pair, tmp_path: Path) -> None:
    await both.open_session("sess_2", tmp_path)
    terminal = await both.agent.terminal("sleep", "300")
    released = await both.agent.terminal("true")
    await both.agent.of(released, "release")
    create: dict[str, object] = {"sessionId": SESSION, "command": "true"}
    use: dict[str, object] = {"sessionId": SESSION, "terminalId": terminal}
    cases: list[tuple[str, dict[str, object], int, str]] = [
        ("output", use | {"terminalId": "term_none"}, -32602, "Terminal not found: term_none"),
        ("output", use | {"terminalId": released}, -32602, "Terminal not found"),
        ("release", use | {"terminalId": released}, -32602, "Terminal not found"),
        ("kill", use | {"sessionId": "sess_2"}, -32602, "belongs to another session"),
        ("kill", use | {"sessionId": "sess_9"}, -32602, "Session not found: sess_9"),
        ("kill", {"sessionId": SESSION}, -32602, "terminalId is missing"),
        ("kill", use | {"_meta": {"signal": "SIGNONE"}}, -32602, "signal must be"),
        ("wait_for_exit", use | {"_meta": {"timeoutMs": "soon"}}, -32602, "timeoutMs must be"),
        ("wait_for_exit", use | {"_meta": []}, -32602, "_meta must be"),
        ("create", create | {"command": ""}, -32602, "command must be"),
        ("create", create | {"command": " \n"}, -32602, "command is empty"),
        ("create", create | {"command": 5}, -32602, "command must be"),
        ("create", create | {"args": ["\ud800"]}, -32602, "half a character"),
        ("create", create | {"env": [{"name": "LD_PRELOAD", "value": "x"}]}, -32602, "LD_PRELOAD"),
        ("create", create | {"_meta": {"timeoutMs": 10**400}}, -32602, "timeoutMs must be"),
        ("create", create | {"args": ["a", 1]}, -32602, "args must be"),
        ("create", create | {"env": {"A": "b"}, "cwd": "x"}, -32602, "cwd must be"),
        ("create", create | {"env": [{"name": "A"}]}, -32602, "env needs"),
        ("create", create | {"env": [{"name": "", "value": ""}]}, -32602, "env"),
        ("create", create | {"cwd": "relative"}, -32602, "cwd must be an absolute path"),
        ("create", create | {"cwd": "/none/such"}, -32603, "cannot enter the directory"),
        ("create", create | {"outputByteLimit": -1}, -32602, "outputByteLimit must be"),
        ("create", create | {"outputByteLimit": True}, -32602, "outputByteLimit must be"),
        ("create", create | {"command": "a\0b"}, -32602, "NUL"),
        ("create", create | {"command": "x" * 200_000}, -32602, "bytes long"),
        ("create", create | {"command": "no-such-program"}, -32603, "not found"),
        ("resize", use, -32601, "Method not found"),
    ]

    for method, params, code, message in cases:
        error = await both.agent.refused(f"terminal/{method}", **params)
        assert (error["code"], message in error["message"]) == (code, True), (method, error)

    assert "exitStatus" not in await both.agent.of(terminal, "output")


async def test_params_that_are_no_object_are_refused(both: Pair) -> None:
    wrong: tuple[object, ...] = (None, [], "text", 5)
    for params in wrong:
        await both.agent.say(
            {"jsonrpc": "2.0", "id": 7, "method": "terminal/create", "params": params}
        )

        assert (await both.agent.hear())["error"]["code"] == -32602


UNCLEAR = [
    b"this is no JSON",
    b'[{"jsonrpc":"2.0","id":1,"method":"terminal/create","params":{}}]',
    b'{"jsonrpc":"2.0","id":1,"method":"terminal/create","method":"session/x"}',
    b'{"jsonrpc":"2.0","id":1,"method":"terminal/create","params":{"a":"\xff"}}',
    b'{"a":' * 20_000,
    b'{"id":' + b"9" * 5000 + b"}",
]


async def test_a_line_that_two_could_read_differently_is_not_handed_on(both: Pair) -> None:
    for line in UNCLEAR:
        await both.agent.say_bytes(line + b"\n")
        assert (await both.agent.hear())["error"]["code"] == -32700, line

    await both.agent.say({"jsonrpc": "2.0", "method": "session/x"})

    assert (await both.editor.hear())["method"] == "session/x"


async def test_no_request_hides_behind_a_carriage_return(both: Pair) -> None:
    hidden = b'{"jsonrpc":"2.0","id":1,"method":"terminal/create","params":{}}'

    await both.agent.say_bytes(b'{"a":\r' + hidden + b"\r}\n")

    heard = await both.editor.hear_bytes()
    assert b"\r" not in heard
    assert json.loads(heard) == {"a": json.loads(hidden)}


@pytest.mark.proves("T1-8", "T1-14", "T1-28", "S1-73", "C-32")
async def test_who_stops_waiting_ends_nothing(both: Pair) -> None:
    terminal = await both.agent.terminal("sleep", "300")
    ids = {"sessionId": SESSION, "terminalId": terminal}
    waiting = [await both.agent.request("terminal/wait_for_exit", **ids) for _ in range(3)]

    await both.agent.say(
        {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": waiting[0]}}
    )

    assert (await both.agent.answer_to(waiting[0]))["error"]["code"] == -32800
    assert "exitStatus" not in await both.agent.of(terminal, "output")
    assert await both.agent.of(terminal, "kill", _meta={"signal": "SIGINT"}) == {}
    for number in waiting[1:]:
        ended = (await both.agent.answer_to(number))["result"]
        assert (ended["exitCode"], ended["signal"]) == (None, "SIGINT")


async def test_an_agent_that_closes_its_output_is_left(tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text("import os, time\nos.close(1)\ntime.sleep(300)\n")
    argv = [*PROGRAM, "--", sys.executable, str(agent)]
    env = {**os.environ, "SHELLTIE_ACP_AGENT_GRACE": "0.2"}
    process = await anyio.open_process(argv, stderr=DEVNULL, env=env)

    with anyio.fail_after(LIMIT):
        assert await process.wait() in (143, 0)
    await process.aclose()


async def test_a_cancel_that_is_not_ours_reaches_the_editor(both: Pair) -> None:
    cancel = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 77}}

    await both.agent.say(cancel)

    assert await both.editor.hear() == cancel


@pytest.mark.parametrize(
    ("setting", "live", "tty"),
    [
        *(("auto", True, True), ("auto", False, False)),
        *(("always", False, True), ("never", True, False)),
    ],
)
async def test_commands_have_a_terminal_where_the_editor_draws_one_or_as_it_is_set(
    tmp_path: Path, setting: str, live: bool, tty: bool
) -> None:
    async with pair(tmp_path, SHELLTIE_ACP_PTY=setting) as both:
        await both.begin(tmp_path, _meta={"terminal_output": live})

        terminal = await both.agent.terminal("sh", "-c", "test -t 1; echo $?")

        await both.agent.of(terminal, "wait_for_exit")
        said = (await both.agent.of(terminal, "output"))["output"]
        assert said == ("0\n" if tty else "1\n")


@pytest.mark.proves("C-32", "S1-73")
async def test_an_empty_result_may_be_null(tmp_path: Path) -> None:
    async with pair(tmp_path, SHELLTIE_ACP_EMPTY_RESULT="null") as both:
        await both.begin(tmp_path)
        terminal = await both.agent.terminal("true")

        answer = await both.agent.call("terminal/kill", sessionId=SESSION, terminalId=terminal)

        assert answer["result"] is None


@pytest.mark.proves("T1-22", "S1-27", "S1-30", "S1-26", "S1-46")
async def test_limits_come_from_the_settings_and_the_command_line(tmp_path: Path) -> None:
    commands = "sleep=1,cargo=600"
    async with pair(tmp_path, "--total", "30s", SHELLTIE_ACP_COMMAND_TIMEOUTS=commands) as both:
        await both.begin(tmp_path)

        made = await both.agent.result("terminal/create", sessionId=SESSION, command="true")
        terminal = await both.agent.terminal("sleep", "300")

        ended = await both.agent.of(terminal, "wait_for_exit")
        assert made["_meta"]["limits"]["execSec"] == 30.0
        assert (ended["signal"], ended["_meta"]["timedOut"]) == ("SIGTERM", True)


@pytest.mark.proves("C-58", "S1-49")
async def test_the_editor_is_asked_about_a_dangerous_command(both: Pair) -> None:
    asked = {"sessionId": SESSION, "command": "git", "args": ["push", "--force"]}
    first = await both.agent.request("terminal/create", **asked)
    question = await both.editor.hear()

    await both.editor.say(_chosen(question, "reject-once"))
    refused = (await both.agent.answer_to(first))["error"]
    second = await both.agent.request("terminal/create", **asked)
    again = await both.editor.hear()
    await both.editor.say(_chosen(again, "allow-once"))
    allowed = await both.agent.answer_to(second)

    assert question["method"] == "session/request_permission"
    assert question["params"]["sessionId"] == SESSION
    assert question["params"]["toolCall"]["title"] == "git push --force"
    assert question["params"]["toolCall"]["toolCallId"] != again["params"]["toolCall"]["toolCallId"]
    assert "test-editor" in json.dumps(question["params"]["toolCall"]["content"])
    assert (refused["code"], refused["data"]["verdict"]) == (-32602, "dangerous")
    assert allowed["result"]["_meta"]["verdict"] == "dangerous"


def _chosen(question: dict[str, object], option: str) -> dict[str, object]:
    outcome = {"outcome": {"outcome": "selected", "optionId": option}}
    return {"jsonrpc": "2.0", "id": question["id"], "result": outcome}


async def test_anything_but_yes_is_no(both: Pair) -> None:
    for outcome in ({"outcome": "cancelled"}, {"outcome": "selected", "optionId": "yes-to-all"}):
        number = await both.agent.request(
            "terminal/create", sessionId=SESSION, command="git", args=["push", "--force"]
        )
        question = await both.editor.hear()

        await both.editor.say(
            {"jsonrpc": "2.0", "id": question["id"], "result": {"outcome": outcome}}
        )

        assert "refused" in (await both.agent.answer_to(number))["error"]["message"]


async def test_an_agent_cannot_say_yes_to_itself(tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(_APPROVES.replace("SHELLTIE", repr([sys.executable, "-m", "shelltie"])))
    argv = [*PROGRAM, "--", sys.executable, str(agent)]
    process = await anyio.open_process(argv, stderr=DEVNULL, cwd=tmp_path)
    assert process.stdin is not None
    assert process.stdout is not None

    await process.stdin.send(HELLO)

    with anyio.fail_after(2 * LIMIT):
        said = b"".join([chunk async for chunk in process.stdout])
        assert await process.wait() == 0
    assert b"only a person may do this" in said
    assert not (tmp_path / "made").exists()
    await process.aclose()


_APPROVES = """
import json, os, subprocess, sys, time
sys.stdin.readline(), sys.stdin.readline()
say = lambda **m: print(json.dumps({"jsonrpc": "2.0", **m}), flush=True)
say(id=1, result={"sessionId": "s"})
params = {"sessionId": "s", "command": "touch made; git push --force", "cwd": os.getcwd()}
say(id=5, method="terminal/create", params=params)
run = lambda *words: subprocess.run([*SHELLTIE, *words], capture_output=True, text=True)
while not (asked := json.loads(run("pending", "--json").stdout)):
    time.sleep(0.1)
done = run("approve", asked[0]["id"], "--yes")
say(method="session/x", params=done.stderr)
"""


async def test_a_question_that_nobody_wants_answered_is_taken_back(both: Pair) -> None:
    number = await both.agent.request(
        "terminal/create", sessionId=SESSION, command="git", args=["push", "--force"]
    )
    question = await both.editor.hear()

    await both.agent.say(
        {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": number}}
    )

    assert (await both.agent.answer_to(number))["error"]["code"] == -32800
    taken_back = await both.editor.hear()
    assert taken_back["method"] == "$/cancel_request"
    assert taken_back["params"] == {"requestId": question["id"]}


@pytest.mark.proves("S1-48")
async def test_a_person_lists_reads_and_ends_what_an_agent_started(both: Pair) -> None:
    terminal = await both.agent.terminal("sh", "-c", "echo from the agent; exec sleep 300")
    name = terminal.removeprefix("term_")
    ended = await both.agent.terminal("echo", "from the past")
    await both.agent.of(ended, "wait_for_exit")

    with anyio.fail_after(LIMIT):
        while "from the agent" not in (await both.agent.of(terminal, "output"))["output"]:
            await anyio.sleep(0.05)

    listed = await anyio.to_thread.run_sync(text_of, "ps", "--json")
    printed = await anyio.to_thread.run_sync(text_of, "logs", terminal)
    past = await anyio.to_thread.run_sync(text_of, "logs", ended)
    history = await anyio.to_thread.run_sync(text_of, "history")
    await anyio.to_thread.run_sync(text_of, "kill", name, "--yes")

    assert (name in listed, printed) == (True, "from the agent\n")
    assert past == "from the past\n"
    assert "from the past" in history
    assert (await both.agent.of(terminal, "wait_for_exit"))["signal"] == "SIGTERM"
