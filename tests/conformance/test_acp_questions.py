"""Questions and ids between an editor and an agent: whose answer is whose, and what it may do."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.acp_pair import SESSION, Message, Pair, pair
from tests.cli import text_of

DANGEROUS: Message = {"sessionId": SESSION, "command": "git", "args": ["push", "--force"]}
MARKER: Message = {"jsonrpc": "2.0", "method": "session/x"}


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[Pair]:
    async with pair(tmp_path) as both:
        await both.begin(tmp_path)
        yield both


def selected(question: Message, option: str) -> Message:
    outcome = {"outcome": {"outcome": "selected", "optionId": option}}
    return {"jsonrpc": "2.0", "id": question["id"], "result": outcome}


async def test_a_late_answer_to_a_question_that_was_taken_back_stays_here(both: Pair) -> None:
    number = await both.agent.request("terminal/create", **DANGEROUS)
    question = await both.editor.hear()
    cancel = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": number}}
    await both.agent.say(cancel)
    await both.agent.answer_to(number)
    await both.editor.hear()  # that it is taken back

    await both.editor.say(selected(question, "allow-once"))
    await both.editor.say(MARKER)

    assert await both.agent.hear() == MARKER


async def test_the_answer_after_a_persons_yes_elsewhere_stays_here(both: Pair) -> None:
    number = await both.agent.request("terminal/create", **DANGEROUS)
    question = await both.editor.hear()
    (waiting,) = json.loads(await anyio.to_thread.run_sync(text_of, "pending", "--json"))
    await anyio.to_thread.run_sync(text_of, "approve", waiting["id"], "--yes")
    allowed = await both.agent.answer_to(number)
    await both.editor.hear()  # that it is taken back

    error = {"code": -32800, "message": "Request cancelled"}
    await both.editor.say({"jsonrpc": "2.0", "id": question["id"], "error": error})
    await both.editor.say(MARKER)

    assert "result" in allowed
    assert await both.agent.hear() == MARKER


async def test_a_question_ends_with_its_turn(both: Pair) -> None:
    turn = await both.editor.request("session/prompt", sessionId=SESSION, prompt=[])
    await both.agent.hear()
    number = await both.agent.request("terminal/create", **DANGEROUS)
    question = await both.editor.hear()

    result = {"stopReason": "cancelled"}
    await both.agent.say({"jsonrpc": "2.0", "id": turn, "result": result})
    refused = (await both.agent.answer_to(number))["error"]
    heard = [await both.editor.hear(), await both.editor.hear()]
    waiting = json.loads(await anyio.to_thread.run_sync(text_of, "pending", "--json"))

    taken_back = {"requestId": question["id"]}
    assert "the turn was cancelled" in refused["message"]
    assert [one["params"] for one in heard if "method" in one] == [taken_back]
    assert [one["id"] for one in heard if "method" not in one] == [turn]
    assert waiting == []


@pytest.mark.parametrize("said", [{"error": {"code": -32601, "message": "no"}}, {"result": {}}])
async def test_an_editor_that_cannot_ask_refuses_at_once_and_a_person_may_still_allow_it(
    both: Pair, said: Message
) -> None:
    number = await both.agent.request("terminal/create", **DANGEROUS)
    question = await both.editor.hear()

    await both.editor.say({"jsonrpc": "2.0", "id": question["id"], **said})
    refused = (await both.agent.answer_to(number))["error"]
    (waiting,) = json.loads(await anyio.to_thread.run_sync(text_of, "pending", "--json"))
    await anyio.to_thread.run_sync(text_of, "approve", waiting["id"], "--yes")
    again = await both.agent.call("terminal/create", **DANGEROUS)

    assert refused["code"] == -32602
    assert f"shelltie approve {waiting['id']}" in refused["message"]
    assert "result" in again


async def test_a_second_request_with_an_id_that_waits_is_refused(both: Pair) -> None:
    terminal = await both.agent.terminal("sleep", "300")
    ids = {"sessionId": SESSION, "terminalId": terminal}
    wait = {"jsonrpc": "2.0", "id": "w", "method": "terminal/wait_for_exit", "params": ids}

    await both.agent.say(wait, wait)
    refused = await both.agent.hear()
    await both.agent.of(terminal, "kill")
    ended = await both.agent.answer_to("w")

    assert (refused["id"], "one with this id" in refused["error"]["message"]) == ("w", True)
    assert ended["result"]["signal"] == "SIGTERM"


async def test_a_number_and_its_text_are_two_ids(both: Pair) -> None:
    terminal = await both.agent.terminal("sleep", "300")
    ids = {"sessionId": SESSION, "terminalId": terminal}
    wait = {"jsonrpc": "2.0", "method": "terminal/wait_for_exit", "params": ids}

    await both.agent.say({**wait, "id": 77}, {**wait, "id": "77"})
    cancel = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "77"}}
    await both.agent.say(cancel)
    cancelled = await both.agent.hear()
    await both.agent.of(terminal, "kill")
    ended = await both.agent.answer_to(77)

    assert (cancelled["id"], cancelled["error"]["code"]) == ("77", -32800)
    assert ended["result"]["signal"] == "SIGTERM"


@pytest.mark.parametrize(("failed", "open_"), [(True, True), (False, False)])
async def test_a_session_is_closed_only_if_the_agent_closed_it(
    both: Pair, failed: bool, open_: bool
) -> None:
    terminal = await both.agent.terminal("sleep", "300")
    ids = {"sessionId": SESSION, "terminalId": terminal}
    number = await both.editor.request("session/close", sessionId=SESSION)
    await both.agent.hear()

    said: Message = {"error": {"code": -1, "message": "no"}} if failed else {"result": {}}
    await both.agent.say({"jsonrpc": "2.0", "id": number, **said})
    await both.editor.answer_to(number)
    with anyio.move_on_after(2):  # a session that is closed ends its terminal
        await both.agent.call("terminal/wait_for_exit", **ids, _meta={"timeoutMs": 500})
    answer = await both.agent.call("terminal/output", **ids)

    assert ("result" in answer) is open_


@pytest.mark.parametrize("live", [True, False])
async def test_a_permission_request_of_the_agent_shows_our_terminal_as_updates_do(
    tmp_path: Path, live: bool
) -> None:
    async with pair(tmp_path) as both:
        await both.begin(tmp_path, _meta={"terminal_output": live})
        terminal = await both.agent.terminal("sh", "-c", "echo shown; exec sleep 300")
        while not (await both.agent.of(terminal, "output"))["output"]:
            await anyio.sleep(0.02)
        content = [{"type": "terminal", "terminalId": terminal}]
        call = {"toolCallId": "call_1", "title": "T", "content": content}

        await both.agent.request(
            "session/request_permission", sessionId=SESSION, toolCall=call, options=[]
        )

        asked = (await both.editor.hear())["params"]["toolCall"]
        if live:
            assert asked["_meta"]["terminal_info"]["terminal_id"] == terminal
        else:
            assert "shown" in asked["content"][0]["content"]["text"]
        assert (asked["title"], "sessionUpdate" in asked) == ("T", False)
