"""A server's first answers come before the SDK is there, and are those that the SDK gives."""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from shelltie import Config
from shelltie.frontends.mcp.early_reader import EarlyReader
from shelltie.frontends.mcp.first_answers import Conversation, FirstAnswers
from tests.conformance.raw_mcp import (
    ENVELOPE,
    FRESH_SERVER,
    INITIALIZED,
    SERVER,
    RawClient,
    call,
    hello,
    raw_server,
    request,
)

# The SDK cannot be imported before somebody opens this FIFO for writing.
GATED = """
import os, sys
class Gate:
    def find_spec(self, name, *_):
        if name == "mcp_types._types":
            os.close(os.open({gate!r}, os.O_RDONLY))
sys.meta_path.insert(0, Gate())
from shelltie.frontends.cli.main import main
sys.exit(main(["mcp"]))
"""

LEGACY = [hello(), request(1, "ping"), request("two", "tools/list")]
UNKNOWN_VERSION = [hello("2031-01-01"), request(1, "tools/list")]
MODERN = [
    request(7, "server/discover", _meta=ENVELOPE),
    request(8, "tools/list", _meta=ENVELOPE),
]
CONVERSATIONS = {"legacy": LEGACY, "unknown version": UNKNOWN_VERSION, "modern": MODERN}
Messages = Sequence[Mapping[str, Any]]


@asynccontextmanager
async def gated_server(directory: Path) -> AsyncIterator[tuple[RawClient, Path]]:
    """A server that cannot import the SDK until its gate is opened."""
    gate = directory / "gate"
    os.mkfifo(gate)
    command = [sys.executable, "-c", GATED.format(gate=str(gate))]
    async with raw_server(directory, command=command) as client:
        yield client, gate


async def open_gate(gate: Path) -> None:
    descriptor = await anyio.to_thread.run_sync(os.open, gate, os.O_WRONLY)
    os.close(descriptor)


async def asked(client: RawClient, messages: Messages) -> list[dict[str, Any]]:
    """One after the other, as clients do."""
    answers = []
    for message in messages:
        await client.send(message)
        answers.append(await client.receive())
    return answers


async def served(
    directory: Path, messages: Messages, command: Sequence[str] = SERVER
) -> list[dict[str, Any]]:
    """The answers of a server that has served nobody else, and kept what it said."""
    async with raw_server(directory, command=command) as client:
        answers = await asked(client, messages)
        await client.hang_up()
        assert await client.exit_code() == 0
    return answers


async def said_all_at_once(
    directory: Path, lines: bytes, count: int, command: Sequence[str]
) -> list[dict[str, Any]]:
    """So many answers of a server to these lines, in the order of their text, and no more."""
    directory.mkdir()
    async with raw_server(directory, command=command) as client:
        await client.send_bytes(lines + b"\n")
        answers = [await client.receive() for _ in range(count)]
        await client.hang_up()
        assert await client.rest() == []
        assert await client.exit_code() == 0
    return sorted(answers, key=json.dumps)


@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_the_second_server_answers_as_the_sdk_does_before_the_sdk_is_there(
    tmp_path: Path, name: str
) -> None:
    messages = CONVERSATIONS[name]
    by_sdk = await served(tmp_path, messages)
    async with gated_server(tmp_path) as (client, gate):
        early = await asked(client, messages)
        await open_gate(gate)
        await client.hang_up()
        late = await client.rest()
        code = await client.exit_code()

    assert early == by_sdk
    assert late == []  # the SDK says nothing a second time
    assert code == 0


@pytest.mark.parametrize("meta", [{}, {"_meta": ENVELOPE}], ids=["legacy", "modern"])
async def test_the_sdk_goes_on_where_the_early_reader_stopped(
    tmp_path: Path, meta: dict[str, Any]
) -> None:
    messages = MODERN if meta else LEGACY
    run = call(20, "echo from a tool")
    run["params"] |= meta
    await served(tmp_path, messages)
    async with gated_server(tmp_path) as (client, gate):
        await asked(client, messages)
        await client.send(*([] if meta else [INITIALIZED]), run)
        await open_gate(gate)
        answer = await client.receive()
        again = request(21, "tools/list", **meta)
        listing = (await asked(client, [again]))[0]

    assert answer["id"] == 20
    assert answer["result"]["structuredContent"]["stdout"] == "from a tool\n"
    assert len(listing["result"]["tools"]) > 1


async def test_a_changed_setting_changes_the_first_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await served(tmp_path, LEGACY)
    monkeypatch.setenv("SHELLTIE_TOOLS_SESSIONS_ENABLED", "false")
    first = await served(tmp_path, LEGACY)
    second = await served(tmp_path, LEGACY, FRESH_SERVER)

    def names(answers: list[dict[str, Any]]) -> set[str]:
        return {tool["name"] for tool in answers[-1]["result"]["tools"]}

    assert names(before) - names(first) >= {"terminal_start"}
    assert second == first


async def test_a_server_whose_rules_are_broken_answers_nothing_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    rules = tmp_path / "config" / "shelltie" / "rules"
    rules.mkdir(parents=True)
    await served(tmp_path, LEGACY)  # so that there is something to be given early
    (rules / "own.toml").write_text("[[rule]]\nnonsense = 1\n", encoding="utf-8")

    async with raw_server(tmp_path) as client:
        await client.send(LEGACY[0])
        assert await client.rest() == []
        assert await client.exit_code() == 125
        complaints = tmp_path / "stderr"
        assert "own.toml" in complaints.read_text(encoding="utf-8")
        complaints.write_text("", encoding="utf-8")  # others have none


NO_ID = b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}'
BATCH = json.dumps([LEGACY[0]]).encode()
STRANGE: dict[str, list[Any]] = {
    "garbage first": [b"garbage", LEGACY[0], LEGACY[2]],
    "an id twice": [LEGACY[0], request(1, "tools/list"), request(1, "ping")],
    "too early, then all at once": [LEGACY[2], b"", LEGACY[0], request(5, "tools/list")],
    "wrong parameters": [request(0, "initialize", protocolVersion=5), LEGACY[2]],
    "two eras": [LEGACY[0], MODERN[1], BATCH, LEGACY[2], NO_ID],
    "half a line": [LEGACY[0], b'{"jsonrpc":"2.0","id":9,"method":"too'],
}
ANSWERS = {"wrong parameters": 2, "two eras": 5, "half a line": 2}  # 3 to the others


@pytest.mark.parametrize("name", STRANGE)
async def test_a_strange_beginning_is_answered_the_second_time_as_it_was_the_first(
    tmp_path: Path, name: str
) -> None:
    lines = b"\n".join(
        part if isinstance(part, bytes) else json.dumps(part).encode() for part in STRANGE[name]
    )
    count = ANSWERS.get(name, 3)
    first = await said_all_at_once(tmp_path / "first", lines, count, SERVER)
    second = await said_all_at_once(tmp_path / "second", lines, count, FRESH_SERVER)

    assert second == first


async def test_a_request_that_is_cancelled_early_is_answered_once_at_most(tmp_path: Path) -> None:
    cancel = {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": "two"},
    }
    await served(tmp_path, LEGACY)
    async with gated_server(tmp_path) as (client, gate):
        await client.send(*LEGACY, cancel)
        await open_gate(gate)
        await client.hang_up()
        answers = await client.rest()
        code = await client.exit_code()

    assert [answer["id"] for answer in answers] == [0, 1, "two"]
    assert code == 0


async def test_sigterm_ends_a_server_that_has_only_answered_early(tmp_path: Path) -> None:
    await served(tmp_path, LEGACY)
    async with gated_server(tmp_path) as (client, _):
        await asked(client, LEGACY)
        client.process.terminate()
        code = await client.exit_code()

    assert code == -signal.SIGTERM


async def test_an_answer_that_was_tampered_with_is_put_right(tmp_path: Path) -> None:
    by_sdk = await served(tmp_path, LEGACY)
    folder = tmp_path / "xdg-state/shelltie/first-answers"
    listing = max(folder.iterdir(), key=lambda file: file.stat().st_size)
    listing.write_text('{"tools":[]}')
    heard: list[dict[str, Any]] = []

    async def converse() -> None:
        async with gated_server(tmp_path) as (client, gate):
            heard.extend(await asked(client, LEGACY))
            await open_gate(gate)
            heard.append(await client.receive())
            heard.extend(await asked(client, [request(9, "tools/list")]))
            await client.hang_up()
            await client.exit_code()

    with pytest.raises(AssertionError):  # it complains, for its log
        await converse()
    complaint = (tmp_path / "stderr").read_text(encoding="utf-8")
    next_time = await served(tmp_path, LEGACY)

    wrong, notice, right = heard[2:]
    assert "out of date" in complaint
    assert wrong["result"] == {"tools": []}
    assert notice["method"] == "notifications/tools/list_changed"
    assert right["result"] == by_sdk[-1]["result"]
    assert next_time == by_sdk


async def test_a_file_that_is_no_json_is_no_answer(tmp_path: Path) -> None:
    by_sdk = await served(tmp_path, LEGACY)
    for file in (tmp_path / "xdg-state/shelltie/first-answers").iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    again = await served(tmp_path, LEGACY, FRESH_SERVER)

    assert again == by_sdk


@pytest.mark.parametrize(
    "line",
    [
        b"garbage",
        BATCH,
        NO_ID,
        b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1.0,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % 2**60,
        b'{"jsonrpc":"2.0","id":"\\u00e4","method":"ping"}',
        b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","more":1}',
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"[" * 100_000,
    ],
)
def test_after_a_line_that_not_everybody_reads_alike_nothing_is_answered_early(
    line: bytes,
) -> None:
    conversation = Conversation("stamp")
    first = conversation.follow(json.dumps(LEGACY[0]).encode())
    odd = conversation.follow(line)
    later = conversation.follow(json.dumps(LEGACY[2]).encode())

    assert first is not None
    assert odd is None
    assert later is None


def test_an_answer_is_that_to_the_same_client_with_the_same_words() -> None:
    def key(stamp: str, *messages: Mapping[str, Any]) -> str | None:
        conversation, last = Conversation(stamp), None
        for message in messages:
            last = conversation.follow(json.dumps(message).encode())
        return None if last is None else last.key

    listing = request(1, "tools/list")
    known = key("stamp", hello(), listing)

    assert known == key("stamp", hello(), request(9, "resources/list"), request(4, "tools/list"))
    assert known != key("another", hello(), listing)
    assert known != key("stamp", hello("2025-06-18"), listing)
    assert known != key("stamp", listing)
    assert known != key("stamp", hello(), request(1, "tools/list", cursor="x"))


def test_without_a_place_to_keep_them_servers_answer_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no directory")
    answers = FirstAnswers(Config.of(state_dir=str(tmp_path / "state")))
    first = Conversation(answers.stamp).follow(json.dumps(LEGACY[0]).encode())
    assert first is not None
    answers.keep(first, "{}")

    assert answers.find(first) is None


def test_answers_are_kept_for_so_many_clients_and_no_more(tmp_path: Path) -> None:
    answers = FirstAnswers(Config.of(state_dir=str(tmp_path)))
    for number in range(100):
        said = json.dumps(request(0, "initialize", client=number)).encode()
        first = Conversation(answers.stamp).follow(said)
        assert first is not None
        answers.keep(first, "{}")

    assert len(list((tmp_path / "first-answers").iterdir())) == 64


def test_a_client_that_reads_nothing_does_not_hold_the_early_reader(tmp_path: Path) -> None:
    answers = FirstAnswers(Config.of(state_dir=str(tmp_path)))
    line = json.dumps(LEGACY[0]).encode() + b"\n"
    first = Conversation(answers.stamp).follow(line)
    assert first is not None
    result = json.dumps({"long": "x" * 1_000_000})
    answers.keep(first, result)
    source, to_server = os.pipe()
    from_server, sink = os.pipe()
    for descriptor in (source, sink):
        os.set_blocking(descriptor, False)
    os.write(to_server, line)
    with EarlyReader(source, sink, answers) as reader:
        begun = os.read(from_server, 10)
    sent = begun + os.read(from_server, 100_000)
    for descriptor in (source, to_server, from_server, sink):
        os.close(descriptor)

    assert reader.exchange.read == line
    assert json.loads(sent + reader.exchange.unsent) == {
        "jsonrpc": "2.0",
        "id": 0,
        "result": json.loads(result),
    }
