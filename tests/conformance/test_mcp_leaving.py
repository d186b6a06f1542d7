"""Whoever leaves, the client or the server: nothing that was started outlives it."""

import os
import signal
from pathlib import Path

import anyio
import pytest

from tests.asking import until_asked
from tests.conformance.raw_mcp import (
    INITIALIZED,
    SERVER,
    RawClient,
    call,
    hello,
    raw_server,
    request,
)
from tests.tree import new_tag, nobody_left, tagged, until

HIDING = "setsid sleep 600.{tag} & (setsid nohup sleep 600.{tag} &) ; echo started; sleep 600.{tag}"


async def start_ten(client: RawClient, tag: str) -> None:
    """Ten commands, each with a process that left its group and one that lost its parent."""
    await client.greet()
    for number in range(1, 11):
        await client.send(call(number, HIDING.format(tag=tag)))
    await until(lambda: len(tagged(tag, "sleep")) == 30)


@pytest.mark.proves("T3-27", "C-48")
async def test_a_cancelled_call_ends_its_tree_and_is_never_answered(tmp_path: Path) -> None:
    tag = new_tag()
    async with raw_server(tmp_path) as client:
        await client.greet()
        await client.send(call(1, HIDING.format(tag=tag)), call(2, "sleep 0.5; echo other"))
        await until(lambda: len(tagged(tag)) >= 3)
        cancelled = {"requestId": 1, "reason": "enough"}
        await client.send(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}
        )
        await nobody_left(tag)
        other = await client.receive()
        await client.send(request(3, "ping"))
        ping = await client.receive()
        await client.hang_up()
        rest = await client.rest()

    assert (other["id"], ping["id"], rest) == (2, 3, [])
    assert other["result"]["structuredContent"]["stdout"] == "other\n"


async def test_a_call_that_is_cancelled_as_soon_as_it_is_made_leaves_nothing(
    tmp_path: Path,
) -> None:
    tag = new_tag()
    async with raw_server(tmp_path) as client:
        await client.greet()
        for number in range(1, 11):
            cancel = {"method": "notifications/cancelled", "params": {"requestId": number}}
            await client.send(call(number, f"sleep 600.{tag}"), {"jsonrpc": "2.0", **cancel})
        await client.send(request(11, "ping"))
        answer = await client.receive()
        await nobody_left(tag)
        await client.hang_up()
        rest = await client.rest()

    assert (answer["id"], rest) == (11, [])


@pytest.mark.parametrize("how", ["end of input", "SIGTERM", "SIGINT", "SIGHUP"])
@pytest.mark.proves("TX-5", "C-48", "C-25")
async def test_ten_trees_end_with_the_server_which_exits_0(tmp_path: Path, how: str) -> None:
    tag = new_tag()
    async with raw_server(tmp_path) as client:
        await start_ten(client, tag)
        longer = await anyio.open_process(["sleep", "7"])  # the grace of 5 s, and 2 more
        if how == "end of input":
            await client.hang_up()
        else:
            client.process.send_signal(signal.Signals[how])
        with anyio.fail_after(50):
            answers = await client.rest()
            code = await client.exit_code()
        in_time = longer.returncode is None
        await longer.aclose()

    assert (code, in_time) == (0, True)
    assert tagged(tag) == []
    assert sorted(answer["id"] for answer in answers) == list(range(1, 11))
    for answer in answers:
        said = answer["result"]["structuredContent"]
        assert (said["cancelled"], said["stdout"]) == (True, "started\n")


@pytest.mark.parametrize("how", ["end of input", "SIGTERM"])
async def test_a_call_that_waits_for_a_yes_is_answered_when_the_server_leaves(
    tmp_path: Path, how: str
) -> None:
    asks = ["env", "SHELLTIE_SAFETY_PROFILES_RUN_DANGEROUS=ask", *SERVER]
    async with raw_server(tmp_path, command=asks) as client:
        await client.greet()
        await client.send(call(1, f"rm -rf {tmp_path}/nothing"))
        await until_asked()
        if how == "end of input":
            await client.hang_up()
        else:
            client.process.terminate()
        answers = await client.rest()
        code = await client.exit_code()

    (answer,) = answers
    said = answer["result"]["structuredContent"]
    assert (code, answer["id"], said["errorCode"]) == (0, 1, "CONFIRMATION_REQUIRED")
    assert "shelltie is leaving" in said["error"]


async def test_a_client_that_closes_only_its_ear_has_left_too(tmp_path: Path) -> None:
    tag = new_tag()
    ear, mouth = os.pipe()
    async with raw_server(tmp_path, stdout=mouth) as client:
        os.close(mouth)
        await client.send(hello(), INITIALIZED, call(1, f"sleep 600.{tag}"))
        await until(lambda: bool(tagged(tag)))
        os.close(ear)
        await client.send(request(2, "ping"))
        code = await client.exit_code()

    assert code == 0
    assert tagged(tag) == []


async def test_who_ignores_sigterm_does_not_keep_the_server(tmp_path: Path) -> None:
    tag = new_tag()
    async with raw_server(tmp_path) as client:
        await client.greet()
        await client.send(call(1, f"trap '' TERM; while :; do sleep 600.{tag}; done"))
        await until(lambda: bool(tagged(tag, "sleep")))  # by then it is deaf
        client.process.terminate()
        with anyio.fail_after(50):
            code = await client.exit_code()

    assert code == 0
    assert tagged(tag) == []


@pytest.mark.proves("C-48")
async def test_a_server_that_is_shot_leaves_nothing(tmp_path: Path) -> None:
    tag = new_tag()
    async with raw_server(tmp_path) as client:
        await start_ten(client, tag)
        os.kill(client.process.pid, signal.SIGKILL)
        await nobody_left(tag)
