"""SWE-ReX: its own actions and exceptions, called as SWE-agent calls them. The package ships no
tests, and no model: the loop here is that of SWE-agent's environment.
"""

import asyncio
import shlex
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest
from swerex.exceptions import (
    BashIncorrectSyntaxError,
    CommandTimeoutError,
    DeploymentNotStartedError,
    NonZeroExitCodeError,
    SessionDoesNotExistError,
    SessionExistsError,
    SessionNotInitializedError,
)
from swerex.runtime.abstract import (
    BashAction,
    BashInterruptAction,
    BashObservation,
    CloseBashSessionRequest,
    Command,
    CreateBashSessionRequest,
    ReadFileRequest,
    UploadRequest,
    WriteFileRequest,
)

from shelltie import Config
from shelltie.adapters.swe_rex import ShelltieDeployment, ShelltieRuntime
from tests.adapters.conftest import HOSTILE, run_example
from tests.adapters.hostile_command import Hostile
from tests.tree import QUICK, new_tag, tagged, until

pytestmark = pytest.mark.anyio
T = TypeVar("T")


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[ShelltieRuntime]:
    runtime = ShelltieRuntime(cwd=tmp_path, escalation=QUICK)
    yield runtime
    await runtime.close()


@pytest.fixture
async def session(runtime: ShelltieRuntime) -> ShelltieRuntime:
    await runtime.create_session(CreateBashSessionRequest())
    return runtime


async def run(runtime: ShelltieRuntime, command: str, **more: Any) -> BashObservation:
    return await runtime.run_in_session(BashAction(command=command, **{"timeout": 60, **more}))


def in_new_loop(call: Coroutine[Any, Any, T]) -> T:
    """As SWE-agent calls everything."""
    return asyncio.run(call)


@pytest.mark.usefixtures("nobody_left")
def test_an_agent_goes_on_after_hostile_commands(tmp_path: Path) -> None:
    hostile, told = Hostile(), list[str]()
    stubborn = f"bash -c {shlex.quote(HOSTILE)}"  # ctrl-c does not end this one
    steps = [f"cd {tmp_path} && X=kept", hostile.text, "echo $X; pwd", stubborn, "echo still $X"]
    (tmp_path / "rc").write_text("alias greet='echo hello'\n")
    deployment = ShelltieDeployment(cwd=tmp_path)
    in_new_loop(deployment.start())
    start = CreateBashSessionRequest(startup_source=[str(tmp_path / "rc")], startup_timeout=30)
    in_new_loop(deployment.runtime.create_session(start))

    for step in steps:
        try:
            seen = in_new_loop(run(deployment.runtime, step, timeout=1.5, check="silent"))
            told.append(seen.output)
        except CommandTimeoutError as late:
            told.append(str(late))
            in_new_loop(deployment.runtime.run_in_session(BashInterruptAction()))
    assert hostile.left  # what a command leaves in its session is of the session
    in_new_loop(deployment.stop())

    assert hostile.left == []
    assert "begun" in told[1]
    assert "characters are left out" in told[1]
    assert told[2] == f"kept\n{tmp_path}\n"
    assert "timeout while running" in told[3]
    assert told[4] == "still kept\n"


@pytest.mark.usefixtures("nobody_left")
async def test_closing_a_session_ends_what_cannot_be_interrupted(session: ShelltieRuntime) -> None:
    with pytest.raises(CommandTimeoutError):
        await run(session, "trap '' INT TERM; while :; do sleep 300 & wait; done", timeout=0.5)
    with pytest.raises(CommandTimeoutError, match="before still runs"):
        await run(session, "echo next")

    await session.close_session(CloseBashSessionRequest())
    await session.create_session(CreateBashSessionRequest())

    assert (await run(session, "echo next")).output == "next\n"


async def test_a_program_is_typed_to_until_it_quits(session: ShelltieRuntime) -> None:
    prompt: dict[str, Any] = {"is_interactive_command": True, "expect": [">>> "]}

    first = await run(session, "PYTHON_BASIC_REPL=1 python3", **prompt)
    second = await run(session, "print(6 * 7)", **prompt)
    await run(session, "quit()\n", is_interactive_quit=True)
    after = await run(session, "echo after")

    assert first.expect_string == second.expect_string == ">>> "
    assert second.output.endswith("42")
    assert (after.output, after.exit_code) == ("after\n", 0)


async def test_a_session_has_the_exceptions_of_swe_rex(session: ShelltieRuntime) -> None:
    with pytest.raises(SessionExistsError):
        await session.create_session(CreateBashSessionRequest())
    with pytest.raises(SessionDoesNotExistError):
        await run(session, "true", session="other")
    with pytest.raises(SessionDoesNotExistError):
        await session.close_session(CloseBashSessionRequest(session="other"))
    with pytest.raises(BashIncorrectSyntaxError) as wrong:
        await run(session, "echo before; (a")
    with pytest.raises(NonZeroExitCodeError, match=r"too bad: .*exit code 3"):
        await run(session, "(exit 3)", error_msg="too bad")
    silent = await run(session, "(exit 3)", check="silent")
    ignored = await run(session, "(exit 3)", check="ignore")
    left = await run(session, "exit 4", check="silent")
    with pytest.raises(SessionNotInitializedError, match="close this session"):
        await run(session, "true")

    assert "syntax error" in wrong.value.extra_info["bash_stderr"]
    assert (silent.exit_code, ignored.exit_code, left.exit_code) == (3, None, 4)


async def test_nothing_and_a_comment_are_commands(session: ShelltieRuntime) -> None:
    for text in ("", "\n\n", "# nothing"):
        seen = await run(session, text)
        assert (seen.output, seen.exit_code) == ("", 0)


async def test_what_is_refused_is_not_run_and_says_why(tmp_path: Path) -> None:
    asked = []

    def approve(question: Any) -> bool:
        asked.append(question.command.text)
        return "again" in question.command.text

    runtime = ShelltieRuntime(cwd=tmp_path, approve=approve)
    await runtime.create_session(CreateBashSessionRequest())

    no = await run(runtime, "rm -rf ~/Documents", check="silent")
    executed = await runtime.execute(Command(command="rm -rf ~/Documents", shell=True))
    yes = await run(runtime, "rm -rf ~/again-and-never", check="silent")
    with pytest.raises(NonZeroExitCodeError):
        await run(runtime, "rm -rf ~/Documents")
    await runtime.close()

    assert no.exit_code == executed.exit_code == 126
    assert no.output.startswith("[not run: ")
    assert no.failure_reason
    assert executed.stderr.startswith("[not run: ")
    assert yes.exit_code == 0
    assert len(asked) == 4


@pytest.mark.usefixtures("nobody_left")
async def test_execute_is_as_subprocess_has_it(runtime: ShelltieRuntime, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    words = await runtime.execute(Command(command=["printf", "%s", "a  b"]))
    text = await runtime.execute(
        Command(command="pwd; echo $WHO >&2; exit 3", shell=True, cwd="inner", env={"WHO": "me"})
    )
    both = "echo 1; echo 2 >&2; echo 3"
    one = await runtime.execute(Command(command=both, shell=True, merge_output_streams=True))
    nothing = await runtime.execute(Command(command="\n", shell=True, check=True))

    with pytest.raises(FileNotFoundError):
        await runtime.execute(Command(command=["there-is-no-such-program"]))
    with pytest.raises(NonZeroExitCodeError, match=r"so: .*exit code 1"):
        await runtime.execute(Command(command=["false"], check=True, error_msg="so"))
    with pytest.raises(CommandTimeoutError, match="begun"):
        await runtime.execute(
            Command(command="echo begun; setsid sleep 300 & sleep 300", shell=True, timeout=1)
        )

    assert (words.stdout, nothing.exit_code) == ("a  b", 0)
    assert (text.stdout, text.stderr, text.exit_code) == (f"{tmp_path}/inner\n", "me\n", 3)
    assert (one.stdout, one.stderr) == ("1\n2\n3\n", "")


async def test_a_cancelled_call_ends_its_command(runtime: ShelltieRuntime) -> None:
    tag = new_tag()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(
                runtime.execute, Command(command=f"setsid sleep 300.{tag} & wait", shell=True)
            )
            await until(lambda: bool(tagged(tag, "sleep")))
            group.cancel_scope.cancel()

    assert tagged(tag) == []


async def test_files_are_read_written_and_uploaded(
    runtime: ShelltieRuntime, tmp_path: Path
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "file").write_text("told")

    await runtime.upload(UploadRequest(source_path=str(source), target_path=str(target)))
    await runtime.upload(
        UploadRequest(source_path=str(source / "deep" / "file"), target_path=str(target / "more"))
    )
    await runtime.write_file(WriteFileRequest(path=str(target / "new" / "file"), content="é"))
    read = [
        (await runtime.read_file(ReadFileRequest(path=str(target / name)))).content
        for name in ("deep/file", "more", "new/file")
    ]

    assert read == ["told", "told", "é"]
    with pytest.raises(FileNotFoundError):
        await runtime.read_file(ReadFileRequest(path=str(target / "missing")))


async def test_a_deployment_is_alive_between_start_and_stop() -> None:
    deployment = ShelltieDeployment()
    with pytest.raises(DeploymentNotStartedError):
        _ = deployment.runtime
    before = await deployment.is_alive()
    await deployment.start()
    meanwhile = await deployment.is_alive()
    refused = ShelltieDeployment(config=Config.of(safety_profiles_run_unknown="deny"))
    await refused.start()
    answer = await refused.runtime.execute(Command(command=["./unknown"]))
    await refused.stop()
    await deployment.stop()

    assert [bool(before), bool(meanwhile), bool(await deployment.is_alive())] == [0, 1, 0]
    assert "refuses" in answer.stderr


def test_the_example_on_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWE_REX_LOG_STREAM_LEVEL", "WARNING")  # it logs to stdout
    assert run_example("SWE-ReX") == "still here"
