from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from smolagents import ToolCallingAgent
from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
    Model,
)

from shelltie import Config
from shelltie.adapters.smolagents import ShellTool
from tests.adapters.conftest import run_example
from tests.adapters.hostile_command import Hostile
from tests.tree import QUICK


class Scripted(Model):
    """Calls these tools in turn, and keeps what it was given."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        super().__init__(model_id="scripted")
        self._calls = iter([*calls, ("final_answer", {"answer": "done"})])
        self.read = ""

    def generate(self, messages: list[Any], *_: Any, **__: Any) -> ChatMessage:
        self.read = str(messages)
        name, arguments = next(self._calls)
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        call = ChatMessageToolCall(function=function, id=name, type="function")
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])


def test_a_hostile_command_in_an_agent_loop_leaves_nothing(tmp_path: Path) -> None:
    hostile = Hostile()
    model = Scripted(
        ("shell", {"command": hostile.text, "timeout": 1.5}), ("shell", {"command": "echo after"})
    )
    tool = ShellTool(cwd=tmp_path, escalation=QUICK)

    ended = ToolCallingAgent(tools=[tool], model=model, verbosity_level=0).run("go")

    assert hostile.left == []
    assert ended == "done"
    assert "begun" in model.read
    assert "timeout (total)" in model.read
    assert "after\\n[exit 0 in " in model.read


def test_a_refused_command_is_an_answer(tmp_path: Path) -> None:
    tool = ShellTool(Config.of(safety_profiles_run_unknown="deny"), cwd=tmp_path)

    assert tool("./unknown").startswith("[not run: the policy refuses")


def test_one_terminal_serves_all_threads_and_the_program_is_asked(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    tool = ShellTool(
        Config.of(safety_profiles_run_unknown="ask"), approve=lambda _: True, cwd=tmp_path
    )
    commands = ["rm -rf gone", *(f"echo {number}; echo {number} >&2" for number in range(8))]

    with ThreadPoolExecutor(4) as pool:
        removed, *told = pool.map(tool, commands)
    tool.close()

    assert "[exit 0" in removed
    assert [text.split("[")[0] for text in told] == [f"{n}\n{n}\n" for n in range(8)]
    assert not (tmp_path / "gone").exists()


def test_the_example_on_the_page_runs() -> None:
    assert "timeout" in run_example("smolagents")
