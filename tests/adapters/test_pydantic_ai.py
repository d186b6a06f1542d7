import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolDenied,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.workspaces import (
    Workspace,
    WorkspaceError,
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceTimeoutError,
)
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

from shelltie import Config
from shelltie.adapters.pydantic_ai import Toolset, WorkspaceBackend
from tests.adapters.conftest import run_example
from tests.adapters.hostile_command import Hostile
from tests.tree import QUICK, new_tag, tagged, until

pytestmark = pytest.mark.anyio


def calls(*commands: dict[str, object]) -> FunctionModel:
    """A model that has each command run in turn, and then says `done`."""
    left = iter(commands)

    def respond(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
        arguments = next(left, None)
        if arguments is None:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("shell", arguments)])

    return FunctionModel(respond)


def answers(messages: list[ModelMessage]) -> list[str]:
    parts = (part for message in messages for part in message.parts)
    return [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]


async def test_a_hostile_command_in_an_agent_loop_leaves_nothing(tmp_path: Path) -> None:
    hostile = Hostile()
    model = calls({"command": hostile.text, "timeout": 1.5}, {"command": "echo after"})
    agent = Agent(model, toolsets=[Toolset(cwd=tmp_path, escalation=QUICK)])

    run = await agent.run("go")

    assert hostile.left == []
    first, second = answers(run.all_messages())
    assert "begun" in first
    assert "timeout (total)" in first
    assert len(first) < 40_000
    assert second.startswith("after\n[exit 0 in ")


async def test_a_cancelled_agent_ends_its_command() -> None:
    hostile = Hostile()
    agent = Agent(calls({"command": hostile.text}), toolsets=[Toolset(escalation=QUICK)])

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(agent.run, "go")
            await until(lambda: len(tagged(hostile.tag, "sleep")) > 1)
            group.cancel_scope.cancel()

    assert hostile.left == []


async def test_what_needs_a_yes_is_deferred_and_runs_once_approved(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    toolset = Toolset(Config.of(safety_profiles_run_unknown="ask"), cwd=tmp_path)
    model = calls({"command": "rm -rf gone"})
    agent = Agent(model, toolsets=[toolset], output_type=[str, DeferredToolRequests])

    first = await agent.run("go")

    assert isinstance(first.output, DeferredToolRequests)
    (asked,) = first.output.approvals
    assert first.output.metadata[asked.tool_call_id]["reasons"]
    assert (tmp_path / "gone").exists()
    yes = DeferredToolResults(approvals={asked.tool_call_id: True})
    second = await agent.run(message_history=first.all_messages(), deferred_tool_results=yes)
    assert second.output == "done"
    assert not (tmp_path / "gone").exists()


async def test_what_a_person_denies_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "stays").mkdir()
    toolset = Toolset(Config.of(safety_profiles_run_unknown="ask"), cwd=tmp_path)
    model = calls({"command": "rm -rf stays"})
    agent = Agent(model, toolsets=[toolset], output_type=[str, DeferredToolRequests])

    first = await agent.run("go")

    assert isinstance(first.output, DeferredToolRequests)
    no = DeferredToolResults(approvals={first.output.approvals[0].tool_call_id: ToolDenied("no")})
    await agent.run(message_history=first.all_messages(), deferred_tool_results=no)
    assert (tmp_path / "stays").exists()


async def test_a_timeout_of_the_workspace_has_what_was_printed(tmp_path: Path) -> None:
    hostile, backend = Hostile(), WorkspaceBackend(tmp_path, escalation=QUICK)

    with pytest.raises(WorkspaceTimeoutError) as late:
        await backend.run(hostile.text.replace("20000000", "2000"), shell=True, timeout=1)

    assert late.value.stdout.startswith("begun\nxxx")
    assert hostile.left == []


async def test_output_over_the_limit_is_an_error_with_its_beginning(tmp_path: Path) -> None:
    backend = WorkspaceBackend(tmp_path, output_max=1000)

    with pytest.raises(WorkspaceOutputLimitError) as long:
        await backend.run("head -c 5000000 /dev/zero | tr '\\0' x", shell=True)

    assert long.value.stdout == "x" * 1000
    assert long.value.limit == 1000


async def test_a_refused_command_of_the_workspace_is_its_error(tmp_path: Path) -> None:
    backend = WorkspaceBackend(tmp_path, Config.of(safety_profiles_run_unknown="deny"))

    with pytest.raises(WorkspaceError, match="refuses"):
        await backend.run(["./unknown"])


class TestWorkspace(WorkspaceBackendSuite):
    """pydantic-ai's own suite, but for a child in the background, which it lets go on.

    Two of its tests skip themselves: one is for environments that are made at the first use, and
    ours is a directory that is there; and as root nothing is forbidden to read.
    """

    @pytest.fixture
    def backend(self, tmp_path: Path) -> WorkspaceBackend:
        return WorkspaceBackend(tmp_path)

    @pytest.fixture
    def attach_backend(self) -> Callable[[WorkspaceRef], WorkspaceBackend]:
        return lambda ref: WorkspaceBackend(ref.id)

    @pytest.fixture
    def destructive_backend(self, tmp_path: Path) -> Callable[[], WorkspaceBackend]:
        place = tmp_path / "destroyed"
        place.mkdir()
        return lambda: WorkspaceBackend(place)

    @pytest.fixture
    def destroy_environment(self) -> Callable[[WorkspaceBackend], object]:
        async def destroy(backend: WorkspaceBackend) -> None:
            root = Path(backend.ref.id)
            for file in root.iterdir():
                file.unlink()
            root.rmdir()

        return destroy

    async def test_background_child_does_not_hold_up_completed_command(
        self, backend: WorkspaceBackend
    ) -> None:
        tag = new_tag()

        result = await backend.run(f"sleep 300.{tag} & printf done", shell=True)

        assert (result.exit_code, result.stdout) == (0, "done")
        assert tagged(tag) == []


async def test_the_workspace_is_one_for_pydantic_ai(tmp_path: Path) -> None:
    workspace = Workspace(WorkspaceBackend(tmp_path))

    await workspace.write_text("a/b.txt", "told\n")

    assert (tmp_path / "a/b.txt").read_text() == "told\n"


async def test_a_link_that_is_swapped_meanwhile_leads_nowhere(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "inner").mkdir(parents=True)
    (root / "inner" / "passwd").write_text("mine")
    backend, stop = WorkspaceBackend(root), threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for target in ("inner", "/etc"):
                (root / "next").unlink(missing_ok=True)
                (root / "next").symlink_to(target)
                (root / "next").rename(root / "link")

    swapper = threading.Thread(target=swap)
    swapper.start()
    read = set()
    try:
        for _ in range(300):
            with suppress(ValueError, OSError):
                read.add(await backend.read_bytes(f"{root}/link/passwd"))
    finally:
        stop.set()
        swapper.join()

    assert read <= {b"mine"}


@pytest.mark.parametrize("path", ["/etc/passwd", "out/passwd", "../beside"])
async def test_files_outside_the_workspace_are_refused(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "beside").write_text("secret")
    (root / "out").symlink_to("/etc")
    workspace = Workspace(WorkspaceBackend(root))

    with pytest.raises(ValueError, match=r"not in the workspace|leads out"):
        await workspace.read_bytes(path)
    with pytest.raises(ValueError, match=r"not in the workspace|leads out"):
        await workspace.write_bytes(path, b"")


def test_the_example_on_the_page_runs() -> None:
    assert run_example("pydantic-ai") == "done"
