"""Commands that come at the same time: who is first, who waits, and who is not left waiting."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from shelltie import Terminal
from tests.conftest import Open
from tests.task_project import Caller, Project
from tests.tree import new_tag, nobody_left, tagged, until

DESCRIPTORS = Path("/proc/self/fd")


@pytest.mark.proves("T4-22", "C-76")
async def test_commands_of_one_session_take_turns_in_the_order_they_came(
    call: Caller, project: Project
) -> None:
    log = project.place / "log"
    project.tool("note", f'echo "begin $1" >> "{log}"; sleep 0.05; echo "end $1" >> "{log}"')
    session = await call.create()

    with anyio.fail_after(50):
        async with anyio.create_task_group() as running:
            for number in range(5):
                running.start_soon(call.execute, session, "note", str(number))
                await anyio.wait_all_tasks_blocked()

    lines = [f"{word} {number}" for number in range(5) for word in ("begin", "end")]
    assert log.read_text(encoding="utf-8").splitlines() == lines
    assert (await call.status(session))["commandCount"] == 5


@pytest.mark.proves("T4-22")
async def test_commands_of_different_sessions_run_at_the_same_time(
    call: Caller, project: Project
) -> None:
    meet = f'mkfifo "{project.place}/meet" 2>/dev/null; '
    project.tool("one", meet + f'echo here > "{project.place}/meet"')
    project.tool("other", meet + f'cat "{project.place}/meet"')
    first, second = await call.create(), await call.create()
    answers: dict[str, dict[str, Any]] = {}

    async def execute(session: str, name: str) -> None:
        answers[name] = await call.execute(session, name)

    with anyio.fail_after(50):
        async with anyio.create_task_group() as running:
            running.start_soon(execute, first, "one")
            running.start_soon(execute, second, "other")

    assert answers["one"]["success"] is True
    assert answers["other"]["stdout"] == "here\n"


@pytest.mark.proves("T4-22")
async def test_fifty_sessions_run_a_command_each(call: Caller) -> None:
    sessions = [await call.create(f"T-{number}") for number in range(50)]
    answers: dict[str, dict[str, Any]] = {}

    async def execute(session: str) -> None:
        answers[session] = await call.execute(session, "echo", session)

    with anyio.fail_after(50):
        async with anyio.create_task_group() as running:
            for session in sessions:
                running.start_soon(execute, session)

    assert {name: answer["stdout"] for name, answer in answers.items()} == {
        session: f"{session}\n" for session in sessions
    }


@pytest.mark.proves("C-76")
async def test_whoever_does_not_want_to_wait_is_told_that_it_is_busy(
    call: Caller,
) -> None:
    tag = new_tag()
    session = await call.create()
    with anyio.fail_after(50):
        async with anyio.create_task_group() as running:
            running.start_soon(call.execute, session, "sleep", f"300.{tag}")
            await call.until_running(session, tag)
            busy = await call.execute(session, "echo", queue=False)
            count = (await call.status(session))["commandCount"]
            tagged(tag)[0].terminate()
    free = await call.execute(session, "echo", "free", queue=False)

    assert busy["error"] == "EXECUTION_ERROR"
    assert busy["message"].startswith("session busy")
    assert busy["details"] == {"reason": "busy"}
    assert count == 1
    assert free["stdout"] == "free\n"


@pytest.mark.proves("C-76")
async def test_waiting_for_its_turn_costs_a_command_nothing_of_its_time(
    call: Caller,
) -> None:
    session = await call.create()
    answers: dict[str, dict[str, Any]] = {}

    async def second() -> None:
        answers["second"] = await call.execute(session, "echo", "hello", timeout=2000)

    with anyio.fail_after(50):
        async with anyio.create_task_group() as running:
            running.start_soon(call.execute, session, "sleep", "2.5")
            await until(lambda: call.contexts.get(session, call.owner).running)
            running.start_soon(second)

    assert answers["second"]["stdout"] == "hello\n"


async def test_a_cancelled_call_ends_its_command_and_one_that_waits_never_runs(
    call: Caller, project: Project
) -> None:
    tag = new_tag()
    ran = project.place / "ran"
    project.tool("never", f'touch "{ran}"')
    session = await call.create()

    with anyio.fail_after(50):
        async with anyio.create_task_group() as tasks_of_call:
            tasks_of_call.start_soon(call.execute, session, "sleep", f"300.{tag}")
            await call.until_running(session, tag)
            tasks_of_call.start_soon(call.execute, session, "never")
            await anyio.wait_all_tasks_blocked()
            tasks_of_call.cancel_scope.cancel()
    after = await call.execute(session, "echo", "usable")
    status = await call.status(session)

    await nobody_left(tag)
    assert not ran.exists()
    assert after["stdout"] == "usable\n"
    assert (status["commandCount"], status["state"]) == (2, "completed")
    assert call.seen()[1:] == ["terminal:command:failed", "terminal:command:executed"]


async def test_cancelling_one_that_waits_lets_the_next_one_run(
    call: Caller,
) -> None:
    tag = new_tag()
    session = await call.create()
    answers: dict[str, dict[str, Any]] = {}

    async def third() -> None:
        answers["third"] = await call.execute(session, "echo", "third")

    with anyio.fail_after(50):
        async with anyio.create_task_group() as running:
            running.start_soon(call.execute, session, "sleep", f"300.{tag}")
            await call.until_running(session, tag)
            async with anyio.create_task_group() as second:
                second.start_soon(call.execute, session, "echo", "second")
                await anyio.wait_all_tasks_blocked()
                second.cancel_scope.cancel()
            running.start_soon(third)
            await anyio.wait_all_tasks_blocked()
            tagged(tag)[0].terminate()

    assert answers["third"]["stdout"] == "third\n"
    assert (await call.status(session))["commandCount"] == 2


async def test_what_a_command_leaves_behind_is_ended_whatever_the_settings_say(
    open_terminal: Open, project: Project
) -> None:
    tag = new_tag()
    project.tool("leaves", f"sleep 300.{tag} > /dev/null 2>&1 &")
    async with (
        open_terminal(run_background_survivors="keep") as terminal,
        project.contexts(terminal) as call,
    ):
        answer = await call.execute(await call.create(), "leaves")
        await nobody_left(tag)

    assert answer["success"] is True


@pytest.mark.proves("C-38")
async def test_a_thousand_tombstones_and_no_more_are_kept(
    terminal: Terminal, project: Project
) -> None:
    async with project.contexts(terminal) as call:
        sessions = []
        for _ in range(1001):
            sessions.append(await call.create())
            await call.close(sessions[-1])
        forgotten, kept = await call.close(sessions[0]), await call.close(sessions[1])

    assert forgotten["error"] == "SESSION_NOT_FOUND"
    assert kept["message"] == "Session already closed"


@pytest.mark.proves("S4-11")
@pytest.mark.skipif(not DESCRIPTORS.is_dir(), reason="needs /proc")
async def test_a_hundred_sessions_leave_no_descriptor_behind(call: Caller) -> None:
    async def one() -> None:
        session = await call.create()
        await call.execute(session, "echo", "x")
        await call.close(session)

    await one()
    before = len(list(DESCRIPTORS.iterdir()))
    for _ in range(100):
        await one()

    await until(lambda: len(list(DESCRIPTORS.iterdir())) <= before)
    assert not call.contexts.all()


@pytest.mark.needs("git")
@pytest.mark.proves("S4-22", "S4-23", "S4-24")
async def test_a_pipeline_succeeds_when_each_of_its_commands_does(
    call: Caller, project: Project
) -> None:
    project.allow("git")
    (project.place / "new.txt").touch()
    session = await call.create()
    try:
        for words in ("init -q", "config user.name me", "config user.email me@example.org"):
            await call.execute(session, f"git {words}")
        results = [
            await call.execute(session, "git", "status", "--short"),
            await call.execute(session, "git", "add", "."),
            await call.execute(session, "git", "commit", "-m", "Automated commit", timeout=120_000),
            await call.execute(session, "git", "log", "--format=%s", timeout=300_000),
        ]
    finally:
        await call.close(session)

    assert all(result["success"] for result in results)
    assert "?? new.txt\n" in results[0]["stdout"]
    assert results[3]["stdout"] == "Automated commit\n"
    assert [one["limits"]["execMs"] for one in results] == [60_000, 60_000, 120_000, 300_000]


async def test_a_queue_has_an_end(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shelltie.contexts.context._QUEUE_MAX", 2)
    tag = new_tag()
    session = await call.create()
    with anyio.fail_after(50):
        async with anyio.create_task_group() as running:
            running.start_soon(call.execute, session, "sleep", f"300.{tag}")
            await call.until_running(session, tag)
            for _ in range(2):
                running.start_soon(call.execute, session, "echo")
            await anyio.wait_all_tasks_blocked()
            third = await call.execute(session, "echo")
            tagged(tag)[0].terminate()

    assert third["error"] == "EXECUTION_ERROR"
    assert "2 commands wait" in third["message"]
    assert (await call.status(session))["commandCount"] == 3
