"""A task's commands: one session, one directory, one after another, and nothing left of them."""

import re
from typing import Any

import anyio
import pytest

from shelltie import Terminal
from shelltie.contexts.argument_filter import FilterLevel
from shelltie.frontends.reports.terminal_events import as_terminal_event
from shelltie.settings.all_settings import TaskLimits
from tests.conftest import Open
from tests.task_project import Caller, Project
from tests.tree import until

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


# The whole way


@pytest.mark.proves("T4-1", "S4-7", "S4-9", "S4-11", "S4-12", "S4-50", "S4-52")
async def test_a_session_from_its_beginning_to_its_end(call: Caller, project: Project) -> None:
    created = await call("create_session", taskId="BUILD-001", agentId="agent-1")
    session = created["sessionId"]
    executed = await call.execute(session, "echo", "hello", "world")
    status = await call("get_status", sessionId=session)
    closed = await call.close(session)
    after = await call("get_status", sessionId=session)

    assert created["success"] is True
    assert created["workingDirectory"] == str(project.place)
    assert ISO.fullmatch(created["createdAt"])
    assert "warning" not in created
    assert (executed["success"], executed["exitCode"]) == (True, 0)
    assert (executed["stdout"], executed["stderr"]) == ("hello world\n", "")
    assert executed["duration"] > 0
    assert executed["truncated"] is False
    assert "error" not in executed
    assert set(status["session"]) == {
        *("id", "taskId", "agentId", "workingDirectory"),
        *("state", "createdAt", "lastCommandAt", "commandCount"),
    }
    assert (status["session"]["state"], status["session"]["commandCount"]) == ("completed", 1)
    assert (status["session"]["taskId"], status["session"]["agentId"]) == ("BUILD-001", "agent-1")
    assert ISO.fullmatch(status["session"]["lastCommandAt"])
    message = "Session closed and resources freed"
    assert closed == {"success": True, "message": message, "sessionId": session}
    assert (after["success"], after["error"]) == (False, "SESSION_NOT_FOUND")


@pytest.mark.proves("T4-2", "S4-30", "C-36")
@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({}, ["taskId", "agentId"]),
        ({"agentId": "a"}, ["taskId"]),
        ({"taskId": "t"}, ["agentId"]),
        ({"taskId": "", "agentId": ""}, ["taskId", "agentId"]),
        ({"taskId": None, "agentId": None}, ["taskId", "agentId"]),
        ({"taskId": 7, "agentId": ["a"]}, ["taskId", "agentId"]),
        ({"taskId": "t" * 129, "agentId": "a" * 129}, ["taskId", "agentId"]),
        ({"taskId": "a b", "agentId": "a b"}, ["taskId", "agentId"]),
        ({"taskId": "../x", "agentId": "a\n"}, ["taskId", "agentId"]),
        ({"taskId": "ta\0sk", "agentId": "\ud800"}, ["taskId", "agentId"]),
        ({"taskId": "täsk", "agentId": "$(id)"}, ["taskId", "agentId"]),
        ({"taskId": "t\n", "agentId": "a"}, ["taskId"]),
        ({"taskId": "t", "agentId": "a", "workingDirectory": 3}, ["workingDirectory"]),
        ({"taskId": "t", "agentId": "a", "workingDirectory": "a\0b"}, ["workingDirectory"]),
        ({"taskId": "t", "agentId": "a", "workingDirectory": "\ud800"}, ["workingDirectory"]),
        ({"taskId": "t", "agentId": "a", "workingDirectory": "x" * 5000}, ["workingDirectory"]),
        ({"taskId": "t", "agentId": "a", "environment": ["A=b"]}, ["environment"]),
        ({"taskId": "t", "agentId": "a", "environment": {"A": 1}}, ["environment.A"]),
        ({"taskId": "t", "agentId": "a", "environment": {"A": None}}, ["environment.A"]),
        ({"taskId": "t", "agentId": "a", "environment": {"A=": "b"}}, ["environment.A="]),
        ({"taskId": "t", "agentId": "a", "environment": {"A": "\0"}}, ["environment.A"]),
        ({"taskId": "t", "agentId": "a", "environment": {"A": "\ud800"}}, ["environment.A"]),
        ({"taskId": "t", "agentId": "a", "environment": {"A": "x" * 200_000}}, ["environment"]),
        (
            {"taskId": "t", "agentId": "a", "environment": {str(n): "" for n in range(501)}},
            ["environment"],
        ),
        ({"taskId": "t", "agentId": "a", "workdir": "x"}, ["workdir"]),
    ],
    ids=lambda value: repr(value)[:50],
)
async def test_what_is_wrong_with_a_new_session_is_said_by_field(
    call: Caller, arguments: dict[str, object], wrong: list[str]
) -> None:
    answer = await call("create_session", **arguments)

    assert answer["error"] == "INVALID_PARAMETERS"
    assert list(answer["details"]["fields"]) == wrong
    assert all(name in answer["message"] for name in wrong)
    assert not call.contexts.all()


@pytest.mark.proves("T4-3", "C-36", "S4-7")
async def test_ids_are_unique_however_fast_they_come(terminal: Terminal, project: Project) -> None:
    async with project.contexts(terminal, TaskLimits(sessions=1000)) as call:
        ids = [await call.create("T-1.x_y") for _ in range(1000)]

    assert len(set(ids)) == 1000
    assert all(re.fullmatch(r"term-T-1\.x_y-\d{13}", name) for name in ids)


@pytest.mark.proves("T4-4", "S4-55", "S4-1", "S4-2", "S4-6", "S4-50")
async def test_each_session_has_its_own_directory_and_environment(
    call: Caller, project: Project
) -> None:
    (project.place / "one").mkdir()
    default = await call.create()
    one = await call.create(workingDirectory="./one", environment={"WHO": "one"})
    other = await call.create(workingDirectory=str(project.bin), environment={"WHO": "other"})

    places = [(await call.execute(s, "pwd"))["stdout"] for s in (default, one, one, other)]
    names = [(await call.execute(s, "env"))["stdout"] for s in (default, one, one, other)]

    root = project.place
    assert places == [f"{root}\n", f"{root}/one\n", f"{root}/one\n", f"{root}/bin\n"]
    assert ["WHO=one\n" in text for text in names] == [False, True, True, False]
    assert ["WHO=other\n" in text for text in names] == [False, False, False, True]


SECRETS = (
    *("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "DATABASE_PASSWORD", "DATABASE_URL"),
    *("DB_PASSWORD", "API_KEY", "Api_Key", "AUTH_TOKEN", "GITHUB_TOKEN", "SECRET_KEY"),
)
HARMLESS = ("NODE_ENV", "CI", "KEYBOARD_LAYOUT", "AUTHOR")


@pytest.mark.proves("T4-5", "S4-19", "C-68", "S4-53")
@pytest.mark.parametrize("from_caller", [True, False])
async def test_commands_get_no_secrets_from_anybody(
    open_terminal: Open, project: Project, monkeypatch: pytest.MonkeyPatch, *, from_caller: bool
) -> None:
    given = {name: f"value-of-{name}" for name in (*SECRETS, *HARMLESS)}
    if not from_caller:
        for name, value in given.items():
            monkeypatch.setenv(name, value)

    async with open_terminal() as terminal, project.contexts(terminal) as call:
        environment = given if from_caller else {}
        session = await call.create(environment=environment)
        printed = (await call.execute(session, "env"))["stdout"].splitlines()

    assert {f"{name}=value-of-{name}" for name in HARMLESS} <= set(printed)
    assert not [line for line in printed if line.partition("=")[0] in SECRETS]
    assert not [line for line in printed if any(f"value-of-{name}" in line for name in SECRETS)]


@pytest.mark.proves("T4-5")
async def test_what_is_withheld_is_said(call: Caller) -> None:
    created = await call(
        "create_session",
        taskId="t",
        agentId="a",
        environment={"API_KEY": "x", "CAWS_TASK_ID": "other", "CI": "1"},
    )

    assert "API_KEY" in created["warning"]
    assert "CAWS_TASK_ID" in created["warning"]
    assert "CI" not in created["warning"].replace("CAWS", "")


@pytest.mark.proves("T4-5", "C-68")
async def test_who_asks_is_told_by_us_and_by_nobody_else(
    open_terminal: Open, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAWS_TASK_ID", "the server's own")
    wanted = {"CAWS_TASK_ID": "x", "CAWS_AGENT_ID": "y", "CAWS_SESSION_ID": "z"}

    async with open_terminal() as terminal, project.contexts(terminal) as call:
        session = await call.create("T-1", environment=wanted)
        printed = (await call.execute(session, "env"))["stdout"].splitlines()

    told = {line for line in printed if line.startswith("CAWS_")}
    assert told == {"CAWS_TASK_ID=T-1", "CAWS_AGENT_ID=agent-1", f"CAWS_SESSION_ID={session}"}


@pytest.mark.proves("T4-5")
@pytest.mark.parametrize("name", ["PATH", "LD_PRELOAD", "NODE_OPTIONS", "BASH_ENV", "GIT_SSH"])
async def test_what_decides_which_code_runs_is_refused(call: Caller, name: str) -> None:
    answer = await call("create_session", taskId="t", agentId="a", environment={name: "x", "B": ""})

    assert answer["error"] == "INVALID_PARAMETERS"
    assert list(answer["details"]["fields"]) == [f"environment.{name}"]


# What may not run


@pytest.mark.proves("T4-6", "S4-25", "S4-32", "C-37", "C-77", "S4-2", "S4-53", "S4-1", "S4-13")
@pytest.mark.proves("C-58")
async def test_a_command_that_is_not_allowed_starts_nothing(call: Caller, project: Project) -> None:
    ran = project.place / "ran"
    project.tool("rm", f'echo ran > "{ran}"')
    project.allow("echo")
    session = await call.create()
    answer = await call.execute(session, "rm", "-rf", "/")
    status = await call.status(session)

    assert answer["error"] == "COMMAND_NOT_ALLOWED"
    assert answer["message"] == "Command 'rm' is not allowed"
    assert answer["details"]["command"] == "rm"
    assert answer["details"]["allowedCommands"] == ["echo"]
    assert not ran.exists()
    assert (status["commandCount"], status["lastCommandAt"]) == (0, None)
    assert status["state"] == "idle"
    violation = as_terminal_event(call.events[-1])
    assert violation is not None
    assert violation["type"] == "terminal:security:violation"
    assert (violation["sessionId"], violation["taskId"]) == (session, "BUILD-001")
    assert violation["agentId"] == "agent-1"


@pytest.mark.proves("S4-18", "S4-26", "T4-25", "S4-2", "S4-53")
@pytest.mark.parametrize(
    "argument", ["test; rm -rf /", "$(whoami)", "`whoami`", "$PATH/../../../", "$HOME"]
)
async def test_unsafe_arguments_start_nothing(call: Caller, argument: str) -> None:
    session = await call.create()
    answer = await call.execute(session, "echo", argument)

    assert answer["error"] == "UNSAFE_ARGUMENTS"
    assert (await call.status(session))["commandCount"] == 0
    assert call.seen()[-1] == "terminal:security:violation"


@pytest.mark.proves("T4-25")
async def test_without_the_filter_a_variable_arrives_as_written(
    terminal: Terminal, project: Project
) -> None:
    async with project.contexts(terminal, level=FilterLevel.OFF) as call:
        answer = await call.execute(await call.create(), "echo", "$HOME", "$(id)", "; ls")

    assert answer["stdout"] == "$HOME $(id) ; ls\n"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"command": "echo", "args": ["a\0b"]}, "UNSAFE_ARGUMENTS"),
        ({"command": "echo", "args": ["\ud800"]}, "UNSAFE_ARGUMENTS"),
        ({"command": "echo", "args": ["x" * 10_000]}, "UNSAFE_ARGUMENTS"),
        ({"command": "echo\0"}, "COMMAND_NOT_ALLOWED"),
        ({"command": "\ud800"}, "COMMAND_NOT_ALLOWED"),
        ({"command": "x" * 2000}, "COMMAND_NOT_ALLOWED"),
        ({"command": "./echo"}, "COMMAND_NOT_ALLOWED"),
        ({"command": "echo 'a"}, "INVALID_PARAMETERS"),
        ({"command": ""}, "INVALID_PARAMETERS"),
        ({"command": "  "}, "INVALID_PARAMETERS"),
        ({"command": None}, "INVALID_PARAMETERS"),
        ({}, "INVALID_PARAMETERS"),
        ({"command": ["echo"]}, "INVALID_PARAMETERS"),
        ({"command": "echo", "args": "a"}, "INVALID_PARAMETERS"),
        ({"command": "echo", "args": [1]}, "INVALID_PARAMETERS"),
        ({"command": "echo", "args": {"a": 1}}, "INVALID_PARAMETERS"),
        ({"command": "echo", "queue": "no"}, "INVALID_PARAMETERS"),
        ({"command": "echo", "arguments": ["a"]}, "INVALID_PARAMETERS"),
    ],
    ids=lambda value: repr(value)[:50],
)
async def test_odd_commands_are_answered_and_start_nothing(
    call: Caller, arguments: dict[str, object], code: str
) -> None:
    session = await call.create()
    answer = await call("execute_command", sessionId=session, **arguments)

    assert answer["error"] == code
    assert (await call.status(session))["commandCount"] == 0


async def test_more_arguments_than_a_kernel_takes_is_an_answer(call: Caller) -> None:
    session = await call.create()
    large = await call.execute(session, "echo", *["x" * 4000] * 1000)
    larger = await call.execute(session, "echo", *["x" * 4000] * 3000)
    after = await call.execute(session, "echo", "fine")

    assert (large["error"], larger["error"]) == ("EXECUTION_ERROR", "EXECUTION_ERROR")
    assert large["details"]["reason"] == "cannot_start"
    assert after["stdout"] == "fine\n"


async def test_the_allowlist_that_holds_is_that_of_the_moment_it_runs(
    call: Caller, project: Project
) -> None:
    project.tool("wait_for_it", f'while ! [ -e "{project.place}/go" ]; do sleep 0.02; done')
    session = await call.create()
    answers: dict[str, Any] = {}

    async def second() -> None:
        answers["second"] = await call.execute(session, "echo", "hello")

    with anyio.fail_after(50):
        async with anyio.create_task_group() as waiting:
            waiting.start_soon(call.execute, session, "wait_for_it")
            await until(lambda: call.contexts.get(session, call.owner).running)
            waiting.start_soon(second)
            await anyio.wait_all_tasks_blocked()
            project.allow("cat")
            (project.place / "go").touch()

    assert answers["second"]["error"] == "COMMAND_NOT_ALLOWED"
