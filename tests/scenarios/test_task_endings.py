"""How many sessions tasks may have, who may close one, and what is left when it ends."""

from typing import Any

import anyio
import pytest

from shelltie import Terminal
from shelltie.errors import KillFailed
from shelltie.model import Outcome
from shelltie.running.run import Run
from shelltie.settings.all_settings import TaskLimits
from tests.task_project import Caller, Project
from tests.tree import new_tag, nobody_left, tagged, until


@pytest.mark.proves("T4-15", "S4-20", "S4-31", "C-37", "S4-2")
@pytest.mark.parametrize(("limits", "most"), [(TaskLimits(), 50), (TaskLimits(sessions=3), 3)])
async def test_one_session_too_many_is_refused_until_one_is_closed(
    terminal: Terminal, project: Project, limits: TaskLimits, most: int
) -> None:
    async with project.contexts(terminal, limits) as call:
        sessions = [await call.create() for _ in range(most)]
        refused = await call("create_session", taskId="t", agentId="a")
        still = await call.execute(sessions[0], "echo", "unaffected")
        await call.close(sessions[1])
        again = await call("create_session", taskId="t", agentId="a")

    assert refused["error"] == "MAX_SESSIONS_EXCEEDED"
    assert refused["details"] == {"active": most, "max": most}
    assert still["stdout"] == "unaffected\n"
    assert again["success"] is True


@pytest.mark.proves("T4-16", "S4-11", "C-38", "C-25")
async def test_closing_ends_what_runs_and_answers_whoever_waits(
    call: Caller, project: Project
) -> None:
    tag = new_tag()
    project.tool("forever", f"echo begun; sleep 300.{tag} & sleep 300.{tag}")
    session = await call.create()
    answers: list[dict[str, Any]] = []

    async def execute(*words: str) -> None:
        answers.append(await call.execute(session, *words))

    with anyio.fail_after(50):
        async with anyio.create_task_group() as running:
            running.start_soon(execute, "forever")
            await call.until_running(session, tag)
            for _ in range(3):
                running.start_soon(execute, "echo", "queued")
            await anyio.wait_all_tasks_blocked()
            closed = await call.close(session)
            left = tagged(tag)
    again = await call.close(session)
    unknown = await call.close("term-never-1697123456789")

    assert left == []
    assert closed["message"] == "Session closed and resources freed"
    assert [answer["error"] for answer in answers] == ["EXECUTION_ERROR"] * 4
    assert sorted(a["details"]["reason"] for a in answers) == ["ended", *["session_closed"] * 3]
    assert next(a for a in answers if "stdout" in a)["stdout"] == "begun\n"
    assert (again["success"], again["message"]) == (True, "Session already closed")
    assert unknown["error"] == "SESSION_NOT_FOUND"
    assert call.seen() == [
        "terminal:session:created",
        "terminal:command:failed",
        "terminal:session:closed",
    ]


class SlowLogin:
    """A login shell that takes its time to tell the PATH; until then nothing is started."""

    path, source = None, "inherited"

    def __init__(self) -> None:
        self.asked, self.told = anyio.Event(), anyio.Event()

    async def wait(self) -> None:
        self.asked.set()
        await self.told.wait()


async def test_closing_also_ends_what_is_just_being_started(
    call: Caller, terminal: Terminal
) -> None:
    tag = new_tag()
    login = SlowLogin()
    terminal.supervisor._login_path = login  # type: ignore[assignment]  # all it is asked for
    session = await call.create()
    answers = {}

    async def execute() -> None:
        answers["execute"] = await call.execute(session, "sleep", f"300.{tag}")

    async def close() -> None:
        answers["close"] = await call.close(session)

    with anyio.fail_after(50):
        async with anyio.create_task_group() as running:
            running.start_soon(execute)
            await login.asked.wait()
            running.start_soon(close)
            await anyio.wait_all_tasks_blocked()
            login.told.set()

    await nobody_left(tag)
    assert answers["execute"]["error"] == "EXECUTION_ERROR"
    assert answers["close"]["success"] is True


async def test_closing_a_session_whose_command_cannot_be_ended_comes_back(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    tag = new_tag()
    session = await call.create()
    answers = {}
    kill = Run.kill

    async def cannot(*_: object) -> Outcome:
        raise KillFailed("SIGKILL was sent, and [1] are left", (1,))

    async def execute() -> None:
        answers["execute"] = await call.execute(session, "sleep", f"300.{tag}")

    with anyio.fail_after(50):
        async with anyio.create_task_group() as running:
            running.start_soon(execute)
            await call.until_running(session, tag)
            monkeypatch.setattr(Run, "kill", cannot)
            answers["close"] = await call.close(session)
    monkeypatch.setattr(Run, "kill", kill)

    assert answers["close"]["error"] == "EXECUTION_ERROR"
    assert answers["close"]["details"] == {"reason": "not_ended"}
    assert answers["execute"]["error"] == "EXECUTION_ERROR"
    assert (await call.close(session))["message"] == "Session already closed"


@pytest.mark.proves("T4-17", "S4-44", "C-78", "S4-2", "S4-53", "S4-20")
async def test_the_end_of_a_task_closes_its_sessions_and_no_others(
    call: Caller,
) -> None:
    tag = new_tag()
    first, second, other = [await call.create(task) for task in ("T-1", "T-1", "T-2")]
    with anyio.fail_after(50):
        async with anyio.create_task_group() as running:
            running.start_soon(call.execute, first, "sleep", f"300.{tag}")
            await call.until_running(first, tag)
            closed = await call.contexts.close_task("T-1")

    await nobody_left(tag)
    assert closed == 2
    assert (await call.status(second))["error"] == "SESSION_NOT_FOUND"
    assert "its task ended" in (await call.status(second))["message"]
    assert await call.state(other) == "idle"
    assert call.seen().count("terminal:session:closed") == 2
    assert await call.contexts.close_task("T-1") == 0


@pytest.mark.proves("T4-17", "S4-44", "C-78")
async def test_a_session_that_nobody_uses_goes(terminal: Terminal, project: Project) -> None:
    async with project.contexts(terminal, TaskLimits(ttl=0.3)) as call:
        session = await call.create()
        await until(lambda: not call.contexts.all())
        gone = await call.execute(session, "echo")
        closed = await call.close(session)

    assert gone["error"] == "SESSION_NOT_FOUND"
    assert "not used for 300ms" in gone["message"]
    assert closed["message"] == "Session already closed"
    assert call.seen() == ["terminal:session:created", "terminal:session:closed"]


async def test_a_session_at_work_is_not_unused(terminal: Terminal, project: Project) -> None:
    async with project.contexts(terminal, TaskLimits(ttl=1.0)) as call:
        session = await call.create()
        answer = await call.execute(session, "sleep", "1.5")
        state = await call.state(session)
        await until(lambda: not call.contexts.all())

    assert answer["success"] is True
    assert state == "completed"


@pytest.mark.proves("T4-17", "S4-53", "C-78")
async def test_when_the_server_leaves_every_session_is_closed(
    terminal: Terminal, project: Project
) -> None:
    tag = new_tag()
    answers: list[dict[str, Any]] = []

    async def execute(call: Caller, session: str) -> None:
        answers.append(await call.execute(session, "sleep", f"300.{tag}"))

    with anyio.fail_after(50):
        async with anyio.create_task_group() as running, project.contexts(terminal) as call:
            sessions = [await call.create() for _ in range(3)]
            running.start_soon(execute, call, sessions[0])
            await call.until_running(sessions[0], tag)

    await nobody_left(tag)
    assert [answer["error"] for answer in answers] == ["EXECUTION_ERROR"]
    assert call.seen().count("terminal:session:closed") == 3


@pytest.mark.proves("S4-53", "C-78")
async def test_when_its_owner_leaves_only_what_was_its_own_is_closed(call: Caller) -> None:
    other = Caller(call.contexts, call.events, "somebody else")
    mine, theirs = await call.create(), await other.create()
    foreign = [
        await call.execute(theirs, "echo"),
        await call.status(theirs),
        await call.close(theirs),
    ]
    closed = await call.contexts.close_owner(call.owner)
    after = await other.close(mine)

    assert [answer["error"] for answer in foreign] == ["SESSION_NOT_FOUND"] * 3
    assert closed == 1
    assert await other.state(theirs) == "idle"
    assert after["error"] == "SESSION_NOT_FOUND"
    assert "owner" not in after["message"]


@pytest.mark.parametrize(
    ("session", "said"),
    [
        ("term-3", "interactive session; use it with terminal_continue"),
        ("term_01ARZ3NDEKTSV4RRFFQ69G5FAV", "ACP"),
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "run"),
        ("task-1697123456789", "task"),
        ("term-BUILD-001-1697123456789", "not found"),
        ("x" * 100_000, "not found"),
        ("\ud800\n\x1b[31m", "not found"),
    ],
    ids=lambda value: repr(value)[:40],
)
@pytest.mark.proves("TX-3", "S4-27", "C-35")
async def test_an_id_of_another_kind_is_told_from_one_that_never_was(
    call: Caller, session: str, said: str
) -> None:
    for answer in (
        await call.execute(session, "echo"),
        await call.status(session),
        await call.close(session),
    ):
        assert answer["error"] == "SESSION_NOT_FOUND"
        assert said in answer["message"]
        assert len(answer["message"]) < 400
        assert answer["message"].isprintable()


@pytest.mark.parametrize("session", [None, "", 3, ["x"], {}, True])
async def test_an_id_that_is_none_is_a_wrong_parameter(call: Caller, session: object) -> None:
    for name in ("execute_command", "close_session", "get_status"):
        answer = await call(
            name, sessionId=session, **({"command": "echo"} if "exec" in name else {})
        )
        assert answer["error"] == "INVALID_PARAMETERS"
        assert list(answer["details"]["fields"]) == ["sessionId"]
