"""What a task's command answers: in time or not, with all it printed, however it ended."""

import sys
from pathlib import Path
from time import monotonic

import anyio
import pytest

from shelltie import Terminal
from shelltie.settings.all_settings import TaskLimits
from tests.task_project import Caller, Project
from tests.tree import new_tag, nobody_left, tagged

MIB = 1024 * 1024


# Time


@pytest.mark.proves("T4-9", "S4-28", "S4-56", "C-37", "C-30", "C-77")
async def test_a_timeout_ends_the_tree_and_keeps_what_was_printed(
    call: Caller, project: Project
) -> None:
    tag = new_tag()
    # It comes back before the sleeper would end, or there would be "after", too.
    project.tool("slow", f"echo before; sleep 300.{tag} & sleep 60.{tag}; echo after")
    session = await call.create()
    answer = await call.execute(session, "slow", timeout=6000)
    state = await call.state(session)
    next_one = await call.execute(session, "echo", "usable")

    assert (answer["success"], answer["error"]) == (False, "TIMEOUT_EXCEEDED")
    assert (answer["exitCode"], answer["stdout"]) == (-1, "before\n")
    assert answer["duration"] >= 6000
    assert answer["details"] == {"kind": "deadline", "timeout": 6000}
    assert answer["message"]
    await nobody_left(tag)
    assert state == "failed"
    assert next_one["stdout"] == "usable\n"


@pytest.mark.proves("S4-56")
async def test_a_timeout_is_a_sigterm_first(call: Caller, project: Project) -> None:
    project.tool("polite", "trap 'echo asked to end; exit 0' TERM; echo on; sleep 60 & wait")
    answer = await call.execute(await call.create(), "polite", timeout=6000)

    assert (answer["success"], answer["error"]) == (False, "TIMEOUT_EXCEEDED")
    assert (answer["exitCode"], answer["stdout"]) == (-1, "on\nasked to end\n")


@pytest.mark.proves("T4-10", "S4-8", "S4-20", "S4-45", "C-22", "S4-53", "S4-2", "C-1")
@pytest.mark.parametrize(
    ("asked", "held", "clamped"),
    [
        (None, 60_000, False),
        (120_000, 120_000, False),
        (300_000, 300_000, False),
        (600_000, 300_000, True),
        (1e300, 300_000, True),
        (1500.5, 1500, False),
        (1000, 1000, False),
    ],
)
async def test_the_limit_that_held_is_reported(
    call: Caller, asked: float | None, held: int, *, clamped: bool
) -> None:
    answer = await call.execute(await call.create(), "echo", timeout=asked)

    assert answer["limits"]["execMs"] == held
    assert answer["limits"]["clamped"] is clamped
    assert answer["limits"]["idleMs"] is None
    assert ("warning" in answer) is clamped


@pytest.mark.proves("T4-10", "S4-30")
@pytest.mark.parametrize(
    "asked", ["abc", "1000", -1, 0, True, float("nan"), float("inf"), 10**400, [1000], {}]
)
async def test_a_timeout_that_is_none_is_refused(call: Caller, asked: object) -> None:
    session = await call.create()
    answer = await call.execute(session, "echo", timeout=asked)

    assert answer["error"] == "INVALID_PARAMETERS"
    assert list(answer["details"]["fields"]) == ["timeout"]
    assert (await call.status(session))["commandCount"] == 0


@pytest.mark.proves("T4-10")
async def test_the_limits_are_those_of_the_settings(terminal: Terminal, project: Project) -> None:
    async with project.contexts(terminal, TaskLimits(default=7.0, most=9.0, output=5)) as call:
        session = await call.create()
        usual = await call.execute(session, "echo", "123456")
        long = await call.execute(session, "echo", timeout=10_000)

    assert usual["limits"]["execMs"] == 7000
    assert (usual["stdout"], usual["truncated"]) == ("12345", True)
    assert long["limits"]["execMs"] == 9000


# Output and ends


@pytest.mark.proves("T4-11", "S4-46", "S4-54", "S4-53", "S4-2", "S4-20", "C-49")
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize(
    ("size", "shown"), [(MIB, MIB), (MIB + 1, MIB), (2 * MIB, MIB), (MIB - 1, MIB - 1)]
)
async def test_the_first_mebibyte_is_shown_and_the_command_runs_on(
    call: Caller, project: Project, stream: str, size: int, shown: int
) -> None:
    body = (
        "import sys\n"
        f"sys.{stream}.buffer.write(b'x' * {size})\n"  # one chunk
        f"sys.{stream}.flush()\n"
        f"open({str(project.place / 'done')!r}, 'w').close()\n"
        "sys.exit(3)\n"
    )
    project.tool("chatty", body, sys.executable)
    answer = await call.execute(await call.create(), "chatty")

    assert answer[stream] == "x" * shown
    assert answer["truncated"] is (size > MIB)
    assert answer["exitCode"] == 3
    assert (project.place / "done").exists()
    assert ("warning" in answer) is (size > MIB)


async def test_both_streams_are_exact_however_often_they_take_turns(
    call: Caller, project: Project
) -> None:
    body = (
        "import os\n"
        "for n in range(60_000):\n"
        "    os.write(1, b'%032d' % n)\n"
        "    os.write(2, b'%032d' % n)\n"
    )
    project.tool("turns", body, sys.executable)
    answer = await call.execute(await call.create(), "turns")

    expected = "".join(f"{number:032}" for number in range(60_000))[:MIB]
    assert answer["stdout"] == expected
    assert answer["stderr"] == expected
    assert answer["truncated"] is True


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (b"\xff" * 400_000, "\ufffd" * (MIB // 3)),
        ("ä".encode() * MIB, "ä" * (MIB // 2)),
        (b"x" + "ä".encode() * MIB, "x" + "ä" * (MIB // 2 - 1)),
        (b"\xff", "\ufffd"),
        (b"a\0\x1b[31mb\r\n", "a\0\x1b[31mb\r\n"),
    ],
    ids=["not text", "two bytes each", "cut in the middle", "one byte", "controls"],
)
async def test_text_is_never_longer_than_the_limit_nor_cut_within_a_character(
    call: Caller, project: Project, printed: bytes, shown: str
) -> None:
    (project.place / "data").write_bytes(printed)
    answer = await call.execute(await call.create(), "cat", "data")

    assert answer["stdout"] == shown
    assert len(answer["stdout"].encode()) <= MIB
    assert answer["truncated"] is (len(shown) > 100)


@pytest.mark.proves("T4-12")
@pytest.mark.parametrize(
    ("body", "code", "name"),
    [("echo oops >&2; exit 42", 42, None), ("echo oops >&2; kill -SEGV $$", 139, "SIGSEGV")],
)
async def test_an_end_of_its_own_is_no_error_of_ours(
    call: Caller, project: Project, body: str, code: int, name: str | None
) -> None:
    project.tool("fails", f"sleep 0.3; {body}")
    session = await call.create()
    began = monotonic()
    answer = await call.execute(session, "fails")
    waited = (monotonic() - began) * 1000

    assert (answer["success"], answer["exitCode"]) == (False, code)
    assert "error" not in answer
    assert answer["stderr"] == "oops\n"
    assert 300 <= answer["duration"] <= waited + 1
    assert answer.get("signal") == name
    assert await call.state(session) == "failed"


@pytest.mark.proves("T4-13", "S4-29", "T4-18", "S4-34")
async def test_a_program_that_is_not_there_is_an_execution_error(
    call: Caller, project: Project
) -> None:
    project.tool("broken", "", "/no/such/interpreter")
    project.allow("absent", "broken")
    session = await call.create()
    absent = await call.execute(session, "absent")
    broken = await call.execute(session, "broken", "x")
    status = await call.status(session)

    assert (absent["error"], absent["details"]) == ("EXECUTION_ERROR", {"reason": "cannot_start"})
    assert (broken["error"], broken["details"]) == ("EXECUTION_ERROR", {"reason": "cannot_start"})
    assert (broken["success"], broken["exitCode"]) == (False, 127)
    assert (status["state"], status["commandCount"]) == ("failed", 2)
    assert call.seen()[1:] == ["terminal:command:failed"] * 2


@pytest.mark.proves("T4-13")
async def test_a_directory_may_come_later_than_its_session(call: Caller, project: Project) -> None:
    created = await call("create_session", taskId="t", agentId="a", workingDirectory="later")
    session = created["sessionId"]
    before = await call.execute(session, "pwd")
    (project.place / "later").mkdir()
    after = await call.execute(session, "pwd")

    assert created["success"] is True
    assert "does not exist" in created["warning"]
    assert before["error"] == "EXECUTION_ERROR"
    assert after["stdout"] == f"{project.place}/later\n"


async def test_what_can_never_be_a_directory_is_refused(call: Caller, project: Project) -> None:
    (project.place / "file").touch()

    answer = await call("create_session", taskId="t", agentId="a", workingDirectory="file")

    assert (answer["success"], answer["error"]) == (False, "INVALID_PARAMETERS")
    assert "is not a directory" in answer["details"]["fields"]["workingDirectory"]


@pytest.mark.parametrize("asked", [1, 0.5, 999])
async def test_a_timeout_below_a_second_is_refused(call: Caller, asked: float) -> None:
    answer = await call.execute(await call.create(), "echo", timeout=asked)

    assert answer["error"] == "INVALID_PARAMETERS"
    assert "at least 1000" in answer["details"]["fields"]["timeout"]


@pytest.mark.proves("T4-14", "S4-51", "C-77")
async def test_the_state_follows_the_command(call: Caller, project: Project) -> None:
    tag = new_tag()
    project.tool("busy", f'sleep 300.{tag} & wait; exit "$1"')
    session = await call.create()
    states = [await call.state(session)]

    with anyio.fail_after(50):
        for code in ("0", "1"):
            async with anyio.create_task_group() as running:
                running.start_soon(call.execute, session, "busy", code)
                await call.until_running(session, tag)
                states.append(await call.state(session))
                tagged(tag, "sleep")[0].kill()
            states.append(await call.state(session))

    assert states == ["idle", "running", "completed", "running", "failed"]


@pytest.mark.proves("T4-23")
async def test_no_answer_tells_where_things_are_inside(call: Caller, project: Project) -> None:
    program = project.tool("broken", "", "/no/such/interpreter")
    project.tool("echo", "true")
    session = await call.create()
    answers = [
        await call.execute(session, "broken"),
        await call.execute(session, "rm"),
        await call.execute(session, "/tmp/evil/echo"),
        await call.execute(session, "echo", "$HOME"),
        await call.execute("term-x-1", "echo"),
        await call("execute_command"),
    ]
    project.file.write_text("{", encoding="utf-8")
    answers.append(await call.execute(session, "echo"))
    project.file.unlink()
    answers.append(await call.execute(session, "echo"))

    for answer in answers:
        assert answer["success"] is False
        for inside in (str(program.parent), str(project.place), str(Path.home()), sys.prefix):
            assert inside not in str(answer)
        assert 'File "' not in str(answer)
