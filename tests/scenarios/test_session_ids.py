"""The id of a session never means another one, and says what became of it."""

import os
from pathlib import Path

import anyio
import pytest

from shelltie.settings.paths import state_dir
from tests.cli import text_of
from tests.served import Served, served


async def shoot(server: Served) -> None:
    """End a server, as a crash does."""
    server.die()
    with anyio.fail_after(50):
        await server.client.process.wait()


@pytest.mark.proves("T2-21")
@pytest.mark.timeout(120)
async def test_input_for_a_session_of_a_dead_server_reaches_nobody_else() -> None:
    async with served() as first:
        old = await first.start("cat")
        await shoot(first)
    async with served() as second:
        new = await second.start("cat")

        typed = await second.call("terminal_continue", sessionId=old, stdin="for the old one")
        stopped = await second.call("terminal_stop", sessionId=old)
        read = await second.call("terminal_output", sessionId=new)

    assert old != new
    for answer in (typed, stopped):
        assert answer["errorCode"] == "SESSION_NOT_FOUND"
        assert f"Session {old} not found: it ended when its server died at" in answer["error"]
        assert "terminal_output" in answer["error"]
    assert read["output"] == ""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("journal", ["true", "false"])
async def test_no_two_servers_give_the_same_id(journal: str) -> None:
    settings = {"SHELLTIE_AUDIT_ENABLED": journal}
    async with served(**settings) as first, served(**settings) as second:
        ids = [await server.start("cat") for server in (first, second, first, second)]

        foreign = await second.call("terminal_continue", sessionId=ids[0], stdin="mine")

    assert len(set(ids)) == 4
    assert foreign["errorCode"] == "SESSION_NOT_FOUND"


@pytest.mark.timeout(120)
async def test_an_id_stays_that_of_its_session_when_the_file_of_numbers_is_lost() -> None:
    numbers = state_dir() / "session-numbers"
    async with served() as first:
        ids = [await first.start("cat")]
        os.truncate(numbers, 0)
        ids.append(await first.start("cat"))

        listed = (await first.call("terminal_list"))["sessions"]
        numbers.unlink()
    async with served() as second:
        ids.append(await second.start("cat"))

    assert len(set(ids)) == 3
    assert {one["id"] for one in listed} == set(ids[:2])


@pytest.mark.timeout(120)
async def test_an_id_says_how_its_session_ended_also_in_the_next_server() -> None:
    async with served() as first:
        ended = await first.start("exit 3", waitFor="never")
        stopped = await first.start("sleep 60")
        await first.call("terminal_stop", sessionId=stopped)
        here = [await first.call("terminal_continue", sessionId=one) for one in (ended, stopped)]
    async with served() as second:
        there = [await second.call("terminal_continue", sessionId=one) for one in (ended, stopped)]
        unknown = await second.call("terminal_continue", sessionId="term-987654")

    for answers in (here, there):
        assert f"Session {ended} not found: it ended with exit code 3 at" in answers[0]["error"]
        assert f"Session {stopped} not found: it was stopped at" in answers[1]["error"]
    assert unknown["error"] == "Session term-987654 not found"


@pytest.mark.timeout(180)
async def test_every_lost_session_can_be_read_by_its_own_id() -> None:
    async with served() as first:
        ids = [await first.start(f"echo number {n}; sleep 300") for n in range(25)]
        with anyio.fail_after(60):
            while any(
                not one["position"] for one in (await first.call("terminal_list"))["sessions"]
            ):
                await anyio.sleep(0.05)
        await shoot(first)
    async with served() as second:
        listed = (await second.call("terminal_list"))["lost"]
        read = [await second.call("terminal_output", sessionId=one) for one in ids]

    assert {one["id"] for one in listed} <= set(ids)
    assert all(len(one["runId"]) == 26 for one in listed)
    assert [one["output"] for one in read] == [f"number {n}\n" for n in range(25)]
    assert {one["status"] for one in read} == {"lost"}
    assert text_of("logs", ids[0]) == "number 0\n"


@pytest.mark.timeout(120)
async def test_what_was_lost_elsewhere_is_not_listed_here(tmp_path: Path) -> None:
    async with served() as first:
        await first.start("sleep 300", cwd=str(tmp_path))
        here = await first.start("sleep 300")
        await shoot(first)
    async with served() as second:
        listed = await second.call("terminal_list")

    assert [one["id"] for one in listed["lost"]] == [here]


@pytest.mark.timeout(120)
async def test_a_server_without_sessions_repeats_no_id_when_the_file_of_numbers_is_lost() -> None:
    async with served() as first, served() as second:
        ids = [await first.start("cat") for _ in range(3)]
        (state_dir() / "session-numbers").unlink()
        ids += [await second.start("cat") for _ in range(4)]

    assert len(set(ids)) == 7
