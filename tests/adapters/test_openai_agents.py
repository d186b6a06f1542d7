"""OpenAI Agents SDK with its own scripted model: whole agent loops in our sandbox sessions."""

import asyncio
import io
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from agents import RunConfig, Runner, set_tracing_disabled
from agents.sandbox import Manifest, SandboxAgent, SandboxPathGrant, SandboxRunConfig
from agents.sandbox.entries import File
from agents.sandbox.errors import (
    ExecNonZeroError,
    ExecTimeoutError,
    ExecTransportError,
    InvalidManifestPathError,
    PtySessionNotFoundError,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
    WorkspaceStartError,
)
from agents.sandbox.manifest import Environment
from agents.sandbox.session import SandboxSession
from agents.sandbox.snapshot import LocalSnapshotSpec
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

from shelltie.adapters.openai_agents import ShelltieSandboxClient
from shelltie.approval.question import Question
from tests.adapters.conftest import HOSTILE, run_example
from tests.tree import new_tag, nobody_left, tagged, until

pytestmark = pytest.mark.anyio
ISOLATED = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bwrap")


@pytest.fixture(scope="module", autouse=True)
def _offline() -> None:
    set_tracing_disabled(True)


@pytest.fixture
def left_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Fails a test that leaves a session's directory behind."""
    places = tmp_path / "places"
    places.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(places))
    yield places
    assert list(places.glob("sandbox-local-*")) == []


@asynccontextmanager
async def opened(client: ShelltieSandboxClient, **more: Any) -> AsyncIterator[SandboxSession]:
    session = await client.create(**more)
    try:
        async with session:
            yield session
    finally:
        await client.delete(session)


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[SandboxSession]:
    """In a directory of this machine, without isolation."""
    root = tmp_path / "root"
    root.mkdir()
    client = ShelltieSandboxClient(isolation="none")
    async with opened(client, manifest=Manifest(root=str(root))) as session:
        yield session


def call(number: int, tool: str, **arguments: Any) -> list[Any]:
    return [function_call(tool, arguments, call_id=f"c{number}")]


async def run_agent(client: ShelltieSandboxClient, *calls: Any, **more: Any) -> list[str]:
    """What the tools answered."""
    model = ScriptedModel([*calls, [assistant_message("done")]])
    agent = SandboxAgent(name="tester", model=model, instructions="try")
    config = RunConfig(sandbox=SandboxRunConfig(client=client, **more))
    result = await Runner.run(agent, "try it", run_config=config)
    model.assert_complete()
    assert result.final_output == "done"
    return [item.output for item in result.new_items if item.type == "tool_call_output_item"]


@ISOLATED
@pytest.mark.usefixtures("nobody_left", "left_over")
async def test_an_agent_goes_on_after_a_hostile_command() -> None:
    answers = await run_agent(
        ShelltieSandboxClient(timeout=3),
        call(1, "exec_command", cmd="echo one > file; pwd; ls given"),
        call(2, "exec_command", cmd=HOSTILE, yield_time_ms=30_000, max_output_tokens=200),
        call(3, "exec_command", cmd="cat file; rm -rf file; ls"),
        manifest=Manifest(entries={"given": File(content=b"text")}),
    )

    first, hostile, last = answers
    assert "sandbox-local-" in first
    assert first.endswith("given\n")
    assert "[a time limit ended it with all it started: exec_timeout]" in hostile
    assert len(hostile) < 5000
    assert "one\n" in last
    assert last.endswith("given\n")


@pytest.mark.usefixtures("nobody_left")
async def test_an_agent_types_on_a_terminal(tmp_path: Path) -> None:
    def type_it(model_call: Any) -> list[Any]:
        (running,) = re.findall(r"session ID (\d+)", str(model_call.input))
        return call(2, "write_stdin", session_id=int(running), chars="me\n", yield_time_ms=30_000)

    begin = call(1, "exec_command", cmd="read -p 'who? ' x; echo hello $x", shell="bash", tty=True)
    first, last = await run_agent(
        ShelltieSandboxClient(isolation="none"),
        begin,
        ModelStep.respond(type_it),
        manifest=Manifest(root=str(tmp_path)),
    )

    assert first.endswith("who? ")
    assert "exited with code 0" in last
    assert last.endswith("hello me\r\n")


async def test_exec_has_both_streams_the_workspace_and_the_exit_code(
    session: SandboxSession,
) -> None:
    result = await session.exec("pwd; echo $HOME; echo e >&2; exit 3")

    root = session.state.manifest.root
    assert result.stdout.decode() == f"{root}\n{root}\n"
    assert (result.stderr, result.exit_code) == (b"e\n", 3)
    assert (await session.exec("no-such-program", shell=False)).exit_code == 127


async def test_a_limit_ends_a_child_with_a_session_of_its_own(session: SandboxSession) -> None:
    tag = new_tag()

    with pytest.raises(ExecTimeoutError) as raised:
        await session.exec(f"echo begun; setsid sleep 300.{tag} & sleep 301.{tag}", timeout=2)

    assert raised.value.timeout_s == 2
    assert "begun" in str(raised.value.context["output"])
    assert tagged(tag) == []


@pytest.mark.parametrize("name", ["exec", "pty_exec_start"])
async def test_cancel_ends_the_tree(session: SandboxSession, name: str) -> None:
    tag, start = new_tag(), getattr(session, name)
    task = asyncio.ensure_future(start(f"setsid sleep 300.{tag} & sleep 301.{tag}"))
    await until(lambda: len(tagged(tag)) >= 2)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    await nobody_left(tag)


async def test_a_child_that_holds_the_pipe_is_not_waited_for(session: SandboxSession) -> None:
    tag = new_tag()

    result = await session.exec(f"sleep 300.{tag} & echo started", timeout=60)
    update = await session.pty_exec_start(f"sleep 300.{tag} & echo started", yield_time_s=30)

    assert (result.stdout, result.exit_code) == (b"started\n", 0)
    assert (update.output, update.exit_code, update.process_id) == (b"started\n", 0, None)
    assert tagged(tag) == []


async def test_output_is_bounded(tmp_path: Path) -> None:
    client = ShelltieSandboxClient(isolation="none", max_output=1000)
    flood = "head -c 20000000 /dev/zero | tr '\\0' x; echo end"
    async with opened(client, manifest=Manifest(root=str(tmp_path))) as session:
        result = await session.exec(flood)
        update = await session.pty_exec_start(flood, yield_time_s=30)

    assert len(result.stdout) == 1000
    assert result.stdout.endswith(b"xend\n")
    assert len(update.output) < 1100
    assert b"characters are left out" in update.output
    assert update.output.endswith(b"xend\n")


async def test_a_process_is_read_typed_into_and_ended(session: SandboxSession) -> None:
    tag = new_tag()
    begun = await session.pty_exec_start("python3 -q -i", tty=True, yield_time_s=30)
    assert begun.process_id is not None
    more = {"session_id": begun.process_id, "yield_time_s": 30}

    answer = await session.pty_write_stdin(chars="print(6 * 7)\n", **more)
    ended = await session.pty_write_stdin(chars="exit(3)\n", **more)
    with pytest.raises(PtySessionNotFoundError):
        await session.pty_write_stdin(chars="x", **more)
    await session.pty_exec_start(f"setsid sleep 300.{tag} & sleep 301.{tag}", yield_time_s=0)
    await until(lambda: len(tagged(tag)) >= 2)
    await session.pty_terminate_all()

    assert b"42\r\n" in answer.output
    assert answer.exit_code is None
    assert (ended.process_id, ended.exit_code) == (None, 3)
    assert tagged(tag) == []


async def test_a_process_without_a_terminal_is_polled_and_has_its_limit(
    session: SandboxSession,
) -> None:
    script = "while [ ! -e go ]; do sleep 0.05; done; echo gone; sleep 300"
    begun = await session.pty_exec_start(script, yield_time_s=0.25, timeout=60)
    late = await session.pty_exec_start("echo here; sleep 300", yield_time_s=30, timeout=2)
    assert begun.process_id is not None

    with pytest.raises(RuntimeError, match=r"^stdin is not available for this process$"):
        await session.pty_write_stdin(session_id=begun.process_id, chars="x")
    await session.write(Path("go"), io.BytesIO(b""))
    polled = await session.pty_write_stdin(session_id=begun.process_id, chars="")

    assert (polled.process_id, polled.exit_code) == (begun.process_id, None)
    assert polled.output == b"gone\n"
    assert late.output.startswith(b"here\n\n[a time limit ended it")
    assert late.exit_code not in (0, None)


async def test_the_policy_refuses_and_a_person_is_asked(tmp_path: Path) -> None:
    asked = list[str]()

    def approve(question: Question) -> bool:
        asked.append(question.command.text)
        return False

    client = ShelltieSandboxClient(isolation="none", approve=approve)
    async with opened(client, manifest=Manifest(root=str(tmp_path))) as session:
        result = await session.exec("rm -rf /")
        update = await session.pty_exec_start("rm -rf /")
        shell = await session.pty_exec_start("bash", "--norc", tty=True, shell=False)
        assert shell.process_id is not None
        typed = await session.pty_write_stdin(session_id=shell.process_id, chars="rm -rf /\n")

    assert len(asked) == 3
    assert (result.exit_code, update.exit_code, update.process_id) == (126, 126, None)
    assert b"not run" in result.stderr
    assert b"not run" in update.output
    assert b"not typed" in typed.output
    assert typed.process_id == shell.process_id


async def test_files_are_written_read_and_removed(session: SandboxSession) -> None:
    await session.write(Path("a/b.txt"), io.BytesIO(b"text"))
    await session.mkdir("c")
    await session.mv("a/b.txt", "c/d.txt")
    await session.apply_patch(
        [
            {"type": "create_file", "path": "new", "diff": "+one\n+two"},
            {"type": "update_file", "path": "c/d.txt", "diff": "@@\n-text\n+other"},
        ]
    )

    assert (await session.read(Path("c/d.txt"))).read() == b"other"
    assert await session.read_bounded(Path("new"), max_bytes=5) == b"one\nt"
    assert {Path(entry.path).name for entry in await session.ls(".")} >= {"a", "c", "new"}
    with pytest.raises(Exception, match="new"):
        await session.apply_patch({"type": "create_file", "path": "new", "diff": "+x"})
    await session.rm("c", recursive=True)
    await session.rm("c", recursive=True)
    with pytest.raises(WorkspaceReadNotFoundError):
        await session.read(Path("c/d.txt"))
    with pytest.raises(ExecNonZeroError):
        await session.rm("c")
    with pytest.raises(WorkspaceArchiveWriteError):
        await session.mkdir("no/such")
    with pytest.raises(WorkspaceArchiveReadError):
        await session.read(Path("a"))


async def test_no_link_leads_out_of_the_workspace(session: SandboxSession, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("s")
    root = Path(session.state.manifest.root)
    (root / "link").symlink_to(outside)
    (root / "secret").symlink_to(outside / "secret")

    for path in ("link/secret", "secret", "../outside/secret", str(outside / "secret")):
        with pytest.raises(InvalidManifestPathError):
            await session.read(Path(path))
        with pytest.raises(InvalidManifestPathError):
            await session.write(Path(path), io.BytesIO(b"x"))
    for path in ("link/new", "../outside/new"):
        with pytest.raises(InvalidManifestPathError):
            await session.mkdir(path)
        with pytest.raises(InvalidManifestPathError):
            await session.mv("secret", path)
    await session.rm("link", recursive=True)
    await session.rm("secret")

    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_text() == "s"
    assert not list(root.glob("*"))


async def test_files_of_a_link_that_appears_meanwhile_are_not_followed(
    session: SandboxSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of the path is passed before the link is there."""
    (tmp_path / "secret").write_text("s")
    root = Path(session.state.manifest.root)
    (root / "link").symlink_to(tmp_path)
    inner = session._inner
    monkeypatch.setattr(inner, "normalize_path", lambda path, **_: root / path)

    with pytest.raises(InvalidManifestPathError):
        await session.read(Path("link/secret"))
    with pytest.raises(InvalidManifestPathError):
        await session.write(Path("link/secret"), io.BytesIO(b"x"))

    assert (tmp_path / "secret").read_text() == "s"


@ISOLATED
@pytest.mark.usefixtures("left_over")
async def test_a_session_is_resumed_from_its_snapshot(tmp_path: Path) -> None:
    client = ShelltieSandboxClient()
    async with opened(client, snapshot=LocalSnapshotSpec(base_path=tmp_path)) as session:
        await session.exec("echo kept > file")
    state = client.serialize_session_state(session.state)

    again = await client.resume(client.deserialize_session_state(state))
    async with again:
        result = await again.exec("cat file")
    await client.delete(again)

    assert result.stdout == b"kept\n"


@pytest.mark.usefixtures("left_over")
async def test_what_cannot_be_had_is_said_and_starts_nothing(session: SandboxSession) -> None:
    with pytest.raises(ValueError, match="no user="):
        await session.exec("true", user="nobody")
    with pytest.raises(ValueError, match="no user="):
        await session.read(Path("x"), user="nobody")
    with pytest.raises(ValueError, match="no user="):
        await session.same_file("x", "y", user="nobody")
    with pytest.raises(ExecTransportError):
        await session.exec("true", timeout=-1)
    grants = Manifest(extra_path_grants=(SandboxPathGrant(path="/opt"),))
    with pytest.raises(ValueError, match="extra_path_grants"):
        await ShelltieSandboxClient().create(manifest=grants)
    with pytest.raises(ValueError, match="vault"):
        ShelltieSandboxClient(isolation="vault")
    with pytest.raises(WorkspaceStartError, match="nowhere"):
        async with opened(ShelltieSandboxClient(provider="nowhere")):
            pass


async def test_variables_of_a_manifest_are_judged_with_the_command(tmp_path: Path) -> None:
    client = ShelltieSandboxClient(isolation="none")
    harmless = Environment(value={"WHO": "me", "PATH": "/usr/bin:/bin"})
    manifest = Manifest(root=str(tmp_path), environment=harmless)
    async with opened(client, manifest=manifest) as session:
        result = await session.exec("echo $WHO $PATH")
    evil = Environment(value={"LD_PRELOAD": "/tmp/evil.so"})
    manifest = Manifest(root=str(tmp_path), environment=evil)
    async with opened(client, manifest=manifest) as session:
        refused = await session.exec("true")

    assert result.stdout == b"me /usr/bin:/bin\n"
    assert refused.exit_code == 126


def test_the_example_runs_as_it_stands() -> None:
    assert run_example("OpenAI Agents SDK") == "done"
