"""Terminals that an agent embeds are seen in the editor, and every word is as the schema says."""

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import pytest
from jsonschema import Draft202012Validator

from tests.acp_pair import LIMIT, SESSION, End, Message, Pair, pair
from tests.node_tools import node_package

pytestmark = pytest.mark.timeout(600)  # the first one to come installs what it needs
SHOWS = "while [ ! -e go ]; do sleep 0.05; done; printf 'one\\ntwo'; exit 3"


def embedding(terminal: str, kind: str = "tool_call", **more: object) -> Message:
    content = [{"type": "terminal", "terminalId": terminal}]
    update = {"sessionUpdate": kind, "toolCallId": "call_1", "content": content, **more}
    params = {"sessionId": SESSION, "update": update}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


async def updates(editor: End, last: str) -> list[Message]:
    """What the editor is shown, up to an update with that in it."""
    found: list[Message] = []
    with anyio.fail_after(LIMIT):
        while not found or last not in json.dumps(found[-1], ensure_ascii=False):
            message = await editor.hear()
            assert message["method"] == "session/update"
            found.append(message["params"])
    return found


async def embedded(both: Pair, place: Path, last: str) -> list[Message]:
    """An agent runs something, shows it, and releases it; what the editor got."""
    terminal = await both.agent.terminal("sh", "-c", SHOWS)
    started = {
        "sessionUpdate": "tool_call",
        "toolCallId": "call_1",
        "title": "T",
        "kind": "execute",
    }
    params = {"sessionId": SESSION, "update": started}
    await both.agent.say({"jsonrpc": "2.0", "method": "session/update", "params": params})
    await both.agent.say(embedding(terminal, "tool_call_update", status="in_progress"))
    seen = [(await both.editor.hear())["params"] for _ in ("tool call", "embedded")]
    (place / "go").touch()
    await both.agent.of(terminal, "wait_for_exit")
    await both.agent.of(terminal, "release")
    return seen + await updates(both.editor, last)


@pytest.mark.proves("S1-49")
async def test_an_editor_that_understands_meta_sees_it_live(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        await both.begin(tmp_path, _meta={"terminal_output": True})

        _, shown, *rest = [one["update"] for one in await embedded(both, tmp_path, "terminal_exit")]

        terminal = shown["content"][0]["terminalId"]
        assert (shown["sessionUpdate"], shown["title"], shown["kind"]) == (
            "tool_call",
            "T",
            "execute",
        )
        assert shown["_meta"] == {"terminal_info": {"terminal_id": terminal, "cwd": str(tmp_path)}}
        data = [one["_meta"]["terminal_output"]["data"] for one in rest[:-1]]
        assert "".join(data) == "one\r\ntwo"  # it is a terminal
        assert rest[-1]["_meta"]["terminal_exit"] == {
            "terminal_id": terminal,
            "exit_code": 3,
            "signal": None,
        }
        for one in (shown, *rest):
            valid("v1", "SessionNotification", {"sessionId": SESSION, "update": one})


async def test_an_editor_that_does_not_reads_it_as_text(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        await both.begin(tmp_path)

        _, first, *rest = [one["update"] for one in await embedded(both, tmp_path, "⟨3⟩")]

        begun, ended = _text(first), _text(rest[-1])
        assert begun.startswith("```console\n$ sh -c ")
        assert ended.endswith("one\ntwo\n⟨3⟩\n```")
        for one in (first, *rest):
            valid("v1", "SessionNotification", {"sessionId": SESSION, "update": one})


def _text(update: Message) -> str:
    (item,) = update["content"]
    return str(item["content"]["text"])


async def test_what_the_agent_shows_later_stays(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        await both.begin(tmp_path)
        terminal = await both.agent.terminal("sh", "-c", SHOWS)
        await both.agent.say(embedding(terminal))
        await updates(both.editor, "console")
        own = embedding(terminal, "tool_call_update")
        own["params"]["update"]["content"] = []

        await both.agent.say(own)
        assert await both.editor.hear() == own
        (tmp_path / "go").touch()
        await both.agent.of(terminal, "wait_for_exit")
        await anyio.sleep(0.5)
        last = {"jsonrpc": "2.0", "method": "session/update", "params": {}}
        await both.agent.say(last)

        assert await both.editor.hear() == last


async def test_the_draft_of_v2_is_fed_by_the_same_store(tmp_path: Path) -> None:
    async with pair(tmp_path, "--display", "v2") as both:
        await both.begin(tmp_path)

        _, untouched, first, *rest = [
            one["update"] for one in await embedded(both, tmp_path, "exitStatus")
        ]

        terminal = untouched["content"][0]["terminalId"]
        assert (first["sessionUpdate"], first["cwd"]) == ("terminal_update", str(tmp_path))
        data = b"".join(base64.b64decode(one["data"]) for one in rest[:-1])
        assert data == b"one\r\ntwo"  # it is a terminal
        assert rest[-1]["exitStatus"] == {"exitCode": 3, "signal": None}
        for one in (first, *rest):
            assert one["terminalId"] == terminal
            valid("v2", "SessionUpdate", one)


async def test_a_flood_is_cut_and_the_cut_is_told(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        await both.begin(tmp_path, _meta={"terminal_output": True})
        terminal = await both.agent.terminal("sh", "-c", "yes | head -c 5000000; echo; echo end")
        await both.agent.of(terminal, "wait_for_exit")

        await both.agent.say(embedding(terminal))

        rest = [one["update"] for one in await updates(both.editor, "terminal_exit")][1:-1]
        text = "".join(one["_meta"]["terminal_output"]["data"] for one in rest)
        assert "bytes are not shown⟩" in text
        assert text.endswith("end\r\n")
        assert len(text) < 1_000_000


async def test_nonsense_about_tool_calls_passes(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        await both.begin(tmp_path)
        odd: list[object] = [
            None,
            {"sessionId": 5, "update": {"toolCallId": "x", "content": 7}},
            {"sessionId": SESSION, "update": []},
            {"sessionId": SESSION, "update": {"toolCallId": "x", "content": 7}},
            {"sessionId": SESSION, "update": {"toolCallId": "x", "content": [None, {"type": 1}]}},
            {
                "sessionId": SESSION,
                "update": {
                    "toolCallId": "x",
                    "content": [{"type": "terminal", "terminalId": "term_none"}],
                },
            },
        ]

        for params in odd:
            message = {"jsonrpc": "2.0", "method": "session/update", "params": params}
            await both.agent.say(message)
            assert await both.editor.hear() == message


@cache
def schema(version: str) -> dict[str, Any]:
    """The one that the TypeScript SDK ships; its `discriminator` is no word of JSON Schema."""
    package = node_package("@agentclientprotocol/sdk", "2.4.0")
    return dict(json.loads((package / "schema" / version / "schema.json").read_bytes()))


def valid(version: str, name: str, message: object) -> None:
    """Fail unless the message is one of these."""
    whole = {"$ref": f"#/$defs/{name}", "$defs": schema(version)["$defs"]}
    Draft202012Validator(whole).validate(message)


@pytest.mark.proves("C-33", "S1-62", "S1-70", "S1-73", "S1-74")
async def test_every_answer_is_as_the_schema_says(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        await both.begin(tmp_path)
        agent = both.agent

        made = await agent.result("terminal/create", sessionId=SESSION, command="sleep 300")
        terminal = made["terminalId"]
        waited = await agent.of(terminal, "wait_for_exit", _meta={"timeoutMs": 1})
        running = await agent.of(terminal, "output")
        killed = await agent.of(terminal, "kill")
        ended = await agent.of(terminal, "output")
        exited = await agent.of(terminal, "wait_for_exit")
        released = await agent.of(terminal, "release")
        refused = await agent.call("terminal/kill", sessionId=SESSION, terminalId=terminal)
        await agent.request(
            "terminal/create", sessionId=SESSION, command="git", args=["push", "--force"]
        )
        asked = await both.editor.hear()

    valid("v1", "CreateTerminalResponse", made)
    valid("v1", "TerminalOutputResponse", running)
    valid("v1", "TerminalOutputResponse", ended)
    valid("v1", "WaitForTerminalExitResponse", waited)
    valid("v1", "WaitForTerminalExitResponse", exited)
    valid("v1", "KillTerminalResponse", killed)
    valid("v1", "ReleaseTerminalResponse", released)
    valid("v1", "Error", refused["error"])
    valid("v1", "RequestPermissionRequest", asked["params"])
    assert "exitStatus" not in running
    assert ended["exitStatus"] == {"exitCode": None, "signal": "SIGTERM"}
    assert ended["_meta"]["killed"] is True
