"""The server as a client starts it: a process, and a wire that carries nothing but the protocol."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError

from shelltie.frontends.jsonl import LINE_MAX, Lines
from shelltie.frontends.mcp.tools import agent, contexts, session_schemas
from tests.conformance.raw_mcp import (
    ENVELOPE,
    INITIALIZED,
    RawClient,
    call,
    hello,
    raw_server,
    request,
    server_environment,
)
from tests.tree import new_tag, nobody_left, tagged, until

PARAMETERS = StdioServerParameters(
    command=sys.executable, args=["-m", "shelltie", "mcp"], env=dict(server_environment())
)


def structured(message: dict[str, Any]) -> dict[str, Any]:
    answer = message["result"]["structuredContent"]
    assert isinstance(answer, dict)
    return answer


@pytest.mark.parametrize(
    ("said", "offered"),
    [(None, False), ("false", False), ("true", True), ("1", True), ("yes", True)],
)
@pytest.mark.proves("T4-21", "S4-4", "S4-59", "C-70")
async def test_the_tools_of_tasks_are_there_only_if_that_is_said(
    said: str | None, offered: bool
) -> None:
    flag = {} if said is None else {"ENABLE_TERMINAL_ACCESS": said}
    environ = {**server_environment(), **flag}
    server = StdioServerParameters(command=sys.executable, args=PARAMETERS.args, env=environ)
    async with Client(server) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        unless = contextlib.nullcontext() if offered else pytest.raises(MCPError, match="Unknown")
        with unless:
            await client.call_tool("terminal_create_session", {"taskId": "B-1", "agentId": "me"})

    ours = {tool.name for tool in contexts.TOOLS}
    assert names & ours == (ours if offered else set())


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28", "auto"])
@pytest.mark.proves("TX-4", "T0-1", "T0-29")
async def test_the_sdks_client_works_in_both_eras(mode: Any) -> None:  # noqa: ANN401  the SDK's literal
    async with Client(PARAMETERS, mode=mode) as client:
        tools = (await client.list_tools()).tools
        answers: dict[int, Any] = {}

        async def one(number: int) -> None:
            command = f"echo start {number}; sleep 0.2; echo end {number}"
            result = await client.call_tool("run", {"command": command, "timeout_sec": 30})
            answers[number] = result.structured_content

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(one, number)

    named = [*session_schemas.TOOLS, *agent.TOOLS]
    assert [tool.name for tool in tools] == ["run", "trial", *(tool.name for tool in named)]
    for number, answer in answers.items():
        assert answer["stdout"] == f"start {number}\nend {number}\n"
        assert answer["status"] == "success"
    assert len(answers) == 20


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
@pytest.mark.proves("TX-4")
async def test_every_version_with_a_handshake_is_spoken(tmp_path: Path, version: str) -> None:
    async with raw_server(tmp_path) as client:
        greeting = await client.greet(version)
        await client.send(call(1, "echo hi"))
        answer = await client.receive()

    assert greeting["result"]["protocolVersion"] == version
    assert greeting["result"]["serverInfo"]["name"] == "shelltie"
    assert greeting["result"]["instructions"]
    assert answer["result"]["content"][0]["text"].startswith("hi\n[exit 0 in ")


@pytest.mark.proves("TX-4")
async def test_the_version_without_a_handshake_is_spoken(tmp_path: Path) -> None:
    async with raw_server(tmp_path) as client:
        await client.send(request(1, "server/discover", _meta=ENVELOPE))
        found = await client.receive()
        message = call(2, "echo hi")
        message["params"]["_meta"] = ENVELOPE
        await client.send(message)
        answer = await client.receive()

    assert "2026-07-28" in found["result"]["supportedVersions"]
    assert answer["result"]["resultType"] == "complete"
    assert structured(answer)["stdout"] == "hi\n"


async def test_both_eras_say_the_same_of_what_changes(tmp_path: Path) -> None:
    async with raw_server(tmp_path) as client:
        await client.send(request(1, "server/discover", _meta=ENVELOPE))
        found = (await client.receive())["result"]["capabilities"]
    async with raw_server(tmp_path) as client:
        greeted = (await client.greet())["result"]["capabilities"]

    for told in (found, greeted):
        assert told["tools"] == {"listChanged": False}
        assert told["resources"] == {"subscribe": True, "listChanged": True}


async def test_what_makes_no_sense_is_refused_and_the_server_lives_on(tmp_path: Path) -> None:
    wrong = request(7, "tools/call", name="run", arguments="ls")
    call_with_text = json.dumps(wrong).encode()
    cases: list[tuple[bytes, int | str | None, int]] = [
        (b"this is no JSON", None, -32700),
        (b"\xff\xfe", None, -32700),
        (b'{"jsonrpc": "2.0", "id": 7, "method"', None, -32700),
        (b"[" * 100_000, None, -32700),
        (b"[]", None, -32600),
        (b"null", None, -32600),
        (b'{"jsonrpc": "1.0", "id": 7, "method": "ping"}', 7, -32600),
        (b'{"jsonrpc": "2.0", "id": "seven", "method": 7}', "seven", -32600),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": []}', 7, -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', None, -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', None, -32600),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', None, -32600),
        (b'{"jsonrpc": "2.0", "id": [], "method": "ping"}', None, -32600),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "no/such"}', 7, -32601),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call"}', 7, -32602),
        (call_with_text, 7, -32602),
    ]

    async with raw_server(tmp_path) as client:
        await client.greet()
        for line, number, code in cases:
            await client.send_bytes(line + b"\n")
            refusal = await client.receive()
            assert (refusal["id"], refusal["error"]["code"]) == (number, code), line[:80]
        await client.send(call(8, "echo alive"))
        answer = await client.receive()

    assert structured(answer)["stdout"] == "alive\n"


async def test_empty_lines_and_strange_notifications_are_passed_over(tmp_path: Path) -> None:
    async with raw_server(tmp_path) as client:
        await client.greet()
        await client.send_bytes(b"\n\r\n  \n")
        await client.send({"jsonrpc": "2.0", "method": "notifications/no-such"})
        await client.send({"jsonrpc": "2.0", "id": 99, "result": {}})
        await client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}})
        await client.send(request(1, "ping"))
        answer = await client.receive()

    assert answer == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.proves("T0-23")
async def test_numbers_that_json_does_not_know_are_wrong_parameters(tmp_path: Path) -> None:
    async with raw_server(tmp_path) as client:
        await client.greet()
        for number, value in enumerate([b"NaN", b"1e999", b"1" + b"0" * 400, b'"10"', b"true"]):
            await client.send_bytes(
                b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run",'
                b'"arguments":{"command":"true","timeout_sec":%s}}}\n' % (number, value)
            )
            answer = await client.receive()
            assert answer["result"]["isError"] is True
            assert structured(answer)["errorCode"] == "INVALID_PARAMETERS"


async def test_a_line_without_end_is_dropped_and_told(tmp_path: Path) -> None:
    async with raw_server(tmp_path) as client:
        await client.greet()
        await client.send_bytes(b'{"jsonrpc": "2.0", "method": "' + b"x" * LINE_MAX)
        await client.send_bytes(b'"}\n')
        refusal = await client.receive()
        await client.send(call(1, "wc -c", stdin="x" * 3_000_000))
        answer = await client.receive()

    assert (refusal["id"], refusal["error"]["code"]) == (None, -32600)
    assert structured(answer)["stdout"].strip() == "3000000"


LONG_LINES = {
    '{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"x": "': 7,
    '{"method":"tools/call","id":"sev\\"en","params":{"x":"': 'sev"en',
    # It may stand behind what nobody has read, or be somebody else's.
    '{"method": "tools/call", "params": {"id": 7, "x": "': None,
    '{"jsonrpc": "2.0", "id": 7, "result": {"x": "': None,
    '{"id": 7, "x": "': None,
    '["id", {"id": 7, "method": "ping", "x": "': None,
    '{"method": "ping", "id": 1.5, "x": "': None,
}


async def test_a_line_that_is_too_long_is_answered_if_it_is_certain_whose_it_is(
    tmp_path: Path,
) -> None:
    refusals: dict[str, tuple[object, int]] = {}
    async with raw_server(tmp_path) as client:
        await client.greet()
        for start in LONG_LINES:
            await client.send_bytes(start.encode() + b"x" * LINE_MAX + b"\n")
            refusal = await client.receive()
            refusals[start] = refusal["id"], refusal["error"]["code"]

    assert refusals == {start: (number, -32600) for start, number in LONG_LINES.items()}


def test_lines_are_cut_wherever_the_chunks_end() -> None:
    text = b"one\n\ntwo two\nmuch too long\nlast\nrest"

    for size in range(1, len(text) + 1):
        lines = Lines(8)
        chunks = [text[at : at + size] for at in range(0, len(text), size)]
        cut = [line for chunk in chunks for line in lines.feed(chunk)]
        assert cut == [b"one", b"", b"two two", None, b"last"]


@pytest.mark.proves("T0-28")
async def test_a_command_cannot_touch_the_wire(tmp_path: Path) -> None:
    grab = "cat; for fd in 0 1 2; do echo intruder > /proc/$PPID/fd/$fd; done 2>/dev/null; true"
    async with raw_server(tmp_path) as client:
        await client.greet()
        await client.send(call(1, grab), request(2, "ping"))
        answers = [await client.receive(), await client.receive()]
        await client.hang_up()
        rest = await client.rest()
        (tmp_path / "stderr").write_bytes(b"")  # there the intruder was heard

    assert {answer["id"] for answer in answers} == {1, 2}
    assert rest == []


async def test_a_client_that_reads_late_gets_every_answer(tmp_path: Path) -> None:
    async with raw_server(tmp_path) as client, anyio.create_task_group() as tasks:
        await client.greet()
        tasks.start_soon(client.send, *[request(n, "tools/list") for n in range(1500)])
        await client.send(call(9000, "echo in the flood"))
        answers = [await client.receive() for _ in range(1501)]

    assert sorted(answer["id"] for answer in answers) == [*range(1500), 9000]


@asynccontextmanager
async def altered_server(
    tmp_path: Path, change: str, stdin: int = subprocess.PIPE
) -> AsyncIterator[RawClient]:
    """A server of which a constant is another: nobody waits for it, or has to be as quick."""
    program = f"from shelltie.frontends.mcp import stdio; stdio.{change}"
    start = f"{program}; from shelltie.frontends.cli.main import main; main(['mcp'])"
    command = [sys.executable, "-c", start]
    async with raw_server(tmp_path, command=command, stdin=stdin) as client:
        yield client


@pytest.mark.parametrize("source", ["pipe", "file", "file without a last newline"])
async def test_a_script_that_only_writes_gets_its_quick_answers(
    tmp_path: Path, source: str
) -> None:
    messages = [hello(), INITIALIZED, request(1, "tools/list"), call(2, "echo hi")]
    lines = [json.dumps(message) for message in messages]
    script = tmp_path / "script"
    script.write_text("\n".join(lines) + ("\n" if source != "file without a last newline" else ""))
    with script.open("rb") as file:
        stdin = subprocess.PIPE if source == "pipe" else file.fileno()
        async with altered_server(tmp_path, "_QUICK = 60", stdin) as client:
            if source == "pipe":
                await client.send_bytes(script.read_bytes())
                await client.hang_up()
            answers = await client.rest()
            code = await client.exit_code()

    assert [answer["id"] for answer in answers] == [0, 1, 2]
    assert structured(answers[2])["stdout"] == "hi\n"
    assert code == 0


async def test_it_leaves_at_once_when_nobody_is_there(tmp_path: Path) -> None:
    async with raw_server(tmp_path, stdin=subprocess.DEVNULL) as client:
        said = await client.rest()
        code = await client.exit_code()

    assert (said, code) == ([], 0)


async def test_a_directory_whose_name_is_no_text_can_be_told(tmp_path: Path) -> None:
    strange = tmp_path / os.fsdecode(b"\xff\xfe")
    strange.mkdir()

    async with raw_server(tmp_path, cwd=strange) as client:
        await client.greet()
        await client.send(call(1, "pwd"))
        answer = await client.receive()

    assert structured(answer)["status"] == "success"
    assert structured(answer)["cwd"].endswith("/??")


async def test_a_client_that_stops_reading_does_not_hold_the_server(tmp_path: Path) -> None:
    async with raw_server(tmp_path) as client:
        await client.greet()
        for number in range(20):
            await client.send(call(number, "seq 1 20000"))
        await client.receive()  # the others are more than all the buffers between us take
        client.process.terminate()
        code = await client.exit_code()

    assert code == 0


async def test_what_is_nearly_done_when_the_client_closes_its_end_is_done(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    async with altered_server(tmp_path, "_QUICK = 600") as client:
        await client.greet()
        await client.send(call(1, f"touch {ready}; sleep 1; echo done"))
        await until(ready.exists)
        await client.hang_up()
        answers = await client.rest()
        code = await client.exit_code()

    assert [structured(answer)["stdout"] for answer in answers] == ["done\n"]
    assert code == 0


async def test_what_is_ended_when_the_client_closes_its_end_is_answered(tmp_path: Path) -> None:
    """Also to a client that reads late: five such answers are more than a pipe holds."""
    tag = new_tag()
    async with altered_server(tmp_path, "_QUICK, stdio._LAST_WORDS = 0.1, 600") as client:
        await client.greet()
        await client.send(*[call(n, f"seq 1 6000; sleep 600.{tag}") for n in range(1, 6)])
        await until(lambda: len(tagged(tag, "sleep")) == 5)
        await client.hang_up()
        await nobody_left(tag)
        told = [structured(answer) for answer in await client.rest()]
        code = await client.exit_code()

    assert [(one["cancelled"], one["stdout"][-5:]) for one in told] == [(True, "6000\n")] * 5
    assert code == 0


async def test_a_cancelled_request_is_not_waited_for_at_the_end(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    async with altered_server(tmp_path, "_QUICK = 600") as client:
        await client.greet()
        await client.send(call(1, f"touch {ready}; sleep 600"))
        await until(ready.exists)
        await client.send(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        )
        await client.hang_up()
        answers = await client.rest()
        code = await client.exit_code()

    assert (answers, code) == ([], 0)


async def test_a_client_that_reads_nothing_is_not_read_either(tmp_path: Path) -> None:
    many, sent = 400, 0
    long = "x" * 2000  # an unknown method is named in its refusal: some thirty fill the pipe
    async with altered_server(tmp_path, "_UNANSWERED_MAX = 10") as client:
        await client.greet()
        with anyio.move_on_after(10):
            for number in range(many):
                await client.send(request(number, long))
                sent += 1
        client.process.kill()

    assert 10 < sent < many
