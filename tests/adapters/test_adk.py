from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.environment import EnvironmentToolset
from google.genai import types

from shelltie import CommandDenied, Config
from shelltie.adapters.adk import AdkEnvironment
from tests.adapters.conftest import run_example
from tests.adapters.hostile_command import Hostile
from tests.tree import QUICK, tagged, until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:google"),
]


class Scripted(BaseLlm):
    """Calls these functions in turn, and then says `done`."""

    calls: Iterator[Any]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        call = next(self.calls, None)
        part = types.Part(text="done")
        if call is not None:
            part = types.Part(function_call=types.FunctionCall(name=call[0], args=call[1]))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def responses(environment: AdkEnvironment, *calls: tuple[str, dict[str, str]]) -> list[Any]:
    """What the tools answer in a whole run of an agent."""
    toolset = EnvironmentToolset(environment=environment)
    agent = LlmAgent(name="a", model=Scripted(model="scripted", calls=iter(calls)), tools=[toolset])
    runner = InMemoryRunner(agent, app_name="test")
    session = await runner.session_service.create_session(app_name="test", user_id="u")
    message = types.Content(role="user", parts=[types.Part(text="go")])
    answers = [
        answer.response
        async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message)
        for answer in event.get_function_responses()
    ]
    await runner.close()
    return answers


async def test_a_hostile_command_in_an_agent_loop_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("google.adk.tools.environment._execute_tool.DEFAULT_TIMEOUT", 1.5)
    hostile = Hostile()
    environment = AdkEnvironment(working_dir=tmp_path, escalation=QUICK)

    first, second, third = await responses(
        environment,
        ("Execute", {"command": hostile.text}),
        ("WriteFile", {"path": "a/told", "content": "after"}),
        ("Execute", {"command": "cat a/told; exit 3"}),
    )

    assert hostile.left == []
    assert first["status"] == "error"
    assert "timed out" in first["error"]
    assert first["stdout"].startswith("begun\n")
    assert "bytes left out" in first["stdout"]
    assert second["status"] == "ok"
    assert (third["stdout"], third["exit_code"]) == ("after", 3)


async def test_files_are_those_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/etc")
    environment = AdkEnvironment(working_dir=tmp_path)

    await environment.write_file("a/told", "after")
    read = await environment.read_file(tmp_path / "a" / "told")
    for path in ("/etc/passwd", "out/passwd"):
        with pytest.raises(ValueError, match=r"not in the workspace|leads out"):
            await environment.read_file(path)
    with pytest.raises(FileNotFoundError):
        await environment.read_file("missing")
    await environment.close()

    assert read == b"after"


async def test_a_cancelled_execute_ends_the_command(tmp_path: Path) -> None:
    hostile, environment = Hostile(), AdkEnvironment(working_dir=tmp_path, escalation=QUICK)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(environment.execute, hostile.text)
            await until(lambda: len(tagged(hostile.tag, "sleep")) > 1)
            group.cancel_scope.cancel()

    assert hostile.left == []


async def test_a_timeout_is_told_with_the_output_and_no_exit_code_of_success() -> None:
    environment = AdkEnvironment()
    await environment.initialize()

    result = await environment.execute("echo begun; sleep 300", timeout=0.5)
    place = environment.working_dir
    await environment.close()

    assert (result.timed_out, result.stdout, result.exit_code) == (True, "begun\n", -1)
    assert not place.exists()


async def test_a_refused_command_is_an_error_that_the_model_reads(tmp_path: Path) -> None:
    environment = AdkEnvironment(
        working_dir=tmp_path, config=Config.of(safety_profiles_run_unknown="deny")
    )

    (answer,) = await responses(environment, ("Execute", {"command": "./unknown"}))

    assert answer["status"] == "error"
    assert "the policy refuses" in answer["error"]
    with pytest.raises(CommandDenied):
        await environment.execute("./unknown")


def test_the_example_on_the_page_runs() -> None:
    assert run_example("Google ADK") == "{'status': 'ok', 'stdout': 'here\\n'}"
