"""All of a terminal is told before its call or turn ends, as an editor reads it, in every mode."""

import base64
import json
from pathlib import Path

import anyio
import pytest

from tests.acp_pair import LIMIT, SESSION, End, Message, Pair, pair

QUICK = "printf 'one\\ntwo\\n'"
FLOOD = "yes 0123456789abcde | head -c 3000000; echo last"
MODES = ["text", "meta", "v2"]
ENDS = {"text": "⟨0⟩", "meta": "terminal_exit", "v2": "exitStatus"}


def call_update(**fields: object) -> Message:
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "call_1", **fields}
    params = {"sessionId": SESSION, "update": update}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def terminal_content(terminal: str) -> list[Message]:
    return [{"type": "terminal", "terminalId": terminal}]


async def prompt(both: Pair) -> int:
    """The editor begins a turn; its id."""
    number = await both.editor.request("session/prompt", sessionId=SESSION, prompt=[])
    while (await both.agent.hear()).get("method") != "session/prompt":
        pass
    return number


async def end_turn(both: Pair, number: int) -> None:
    result = {"stopReason": "end_turn"}
    await both.agent.say({"jsonrpc": "2.0", "id": number, "result": result})


async def heard_until(editor: End, number: object) -> list[Message]:
    """Everything that the editor reads, up to the answer with that id."""
    found: list[Message] = []
    with anyio.fail_after(LIMIT):
        while not found or found[-1].get("id") != number:
            found.append(await editor.hear())
    return found


def places(heard: list[Message], what: str) -> list[int]:
    found = (json.dumps(one, ensure_ascii=False) for one in heard)
    return [place for place, text in enumerate(found) if what in text]


@pytest.mark.parametrize("script", [QUICK, FLOOD], ids=["quick", "flood"])
@pytest.mark.parametrize("mode", MODES)
async def test_the_end_of_a_terminal_is_told_before_its_call_and_its_turn_end(
    tmp_path: Path, mode: str, script: str
) -> None:
    async with pair(tmp_path, "--display", mode) as both:
        await both.begin(tmp_path)
        number = await prompt(both)
        terminal = await both.agent.terminal("sh", "-c", script)
        await both.agent.say(call_update(content=terminal_content(terminal)))
        await both.agent.of(terminal, "wait_for_exit")

        await both.agent.say(call_update(status="completed"))
        await end_turn(both, number)
        heard = await heard_until(both.editor, number)
        await both.agent.of(terminal, "release")
        later = {"jsonrpc": "2.0", "method": "session/x"}
        await both.agent.say(later)

        # As text it may stand twice: in the call that shows it, if it has ended by then.
        (*_, end), (completed,) = places(heard, ENDS[mode]), places(heard, '"completed"')
        assert end < completed < len(heard) - 1
        assert await both.editor.hear() == later


@pytest.mark.parametrize("mode", MODES)
async def test_a_call_that_ends_as_it_shows_its_terminal_is_told_at_once(
    tmp_path: Path, mode: str
) -> None:
    async with pair(tmp_path, "--display", mode) as both:
        await both.begin(tmp_path)
        number = await prompt(both)
        terminal = await both.agent.terminal("sh", "-c", QUICK)
        await both.agent.of(terminal, "wait_for_exit")

        await both.agent.say(call_update(content=terminal_content(terminal), status="completed"))
        await both.agent.say({"jsonrpc": "2.0", "method": "session/x"})
        await end_turn(both, number)

        heard = await heard_until(both.editor, number)
        (marker,) = places(heard, "session/x")
        assert places(heard[:marker], ENDS[mode])
        assert not places(heard[marker:], ENDS[mode])


@pytest.mark.parametrize("mode", MODES)
async def test_a_release_is_answered_when_all_has_been_told(tmp_path: Path, mode: str) -> None:
    async with pair(tmp_path, "--display", mode) as both:
        await both.begin(tmp_path)
        number = await prompt(both)
        terminal = await both.agent.terminal("sh", "-c", QUICK)
        await both.agent.of(terminal, "wait_for_exit")
        await both.agent.say(call_update(content=terminal_content(terminal)))

        await both.agent.of(terminal, "release")
        await both.agent.say({"jsonrpc": "2.0", "method": "session/x"})
        await end_turn(both, number)

        heard = await heard_until(both.editor, number)
        (marker,) = places(heard, "session/x")
        assert places(heard[:marker], ENDS[mode])
        assert not places(heard[marker:], ENDS[mode])


@pytest.mark.parametrize("mode", ["meta", "v2"])
async def test_a_flood_is_told_in_order_and_from_the_beginning_of_a_line(
    tmp_path: Path, mode: str
) -> None:
    async with pair(tmp_path, "--display", mode) as both:
        await both.begin(tmp_path)
        number = await prompt(both)
        terminal = await both.agent.terminal("sh", "-c", FLOOD)
        await both.agent.of(terminal, "wait_for_exit")

        await both.agent.say(call_update(content=terminal_content(terminal)))
        await end_turn(both, number)

        text = "".join(map(output_in, await heard_until(both.editor, number)))
        _, gap, rest = text.partition(" bytes are not shown⟩\n")
        *lines, last, after = rest.replace("\r\n", "\n").split("\n")
        assert (gap != "", last, after) == (True, "last", "")
        assert {*lines} == {"0123456789abcde"}


def output_in(message: Message) -> str:
    update = message.get("params", {}).get("update", {})
    meta = update.get("_meta", {}).get("terminal_output", {}).get("data", "")
    return str(meta) + base64.b64decode(update.get("data", "")).decode()


@pytest.mark.parametrize("mode", MODES)
async def test_what_runs_on_between_turns_is_told_in_the_next_one(
    tmp_path: Path, mode: str
) -> None:
    script = "echo early; while [ ! -e go ]; do sleep 0.05; done; echo late"
    async with pair(tmp_path, "--display", mode) as both:
        await both.begin(tmp_path)
        first = await prompt(both)
        terminal = await both.agent.terminal("sh", "-c", script)
        await both.agent.say(call_update(content=terminal_content(terminal)))
        while "early" not in (await both.agent.of(terminal, "output"))["output"]:
            await anyio.sleep(0.02)
        await end_turn(both, first)
        in_first = await heard_until(both.editor, first)

        (tmp_path / "go").touch()
        await both.agent.of(terminal, "wait_for_exit")
        await both.agent.of(terminal, "release")
        between = {"jsonrpc": "2.0", "method": "session/x"}
        await both.agent.say(between)
        heard_between = await both.editor.hear()
        second = await prompt(both)
        await end_turn(both, second)

        assert not places(in_first, ENDS[mode])
        assert heard_between == between
        assert places(await heard_until(both.editor, second), ENDS[mode])
