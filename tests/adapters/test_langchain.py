from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ShellToolMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from shelltie import Config
from shelltie.adapters.langchain import ExecutionPolicy, shell_tool
from tests.adapters.conftest import run_example
from tests.adapters.hostile_command import Hostile
from tests.tree import QUICK, nobody_left, tagged, until

pytestmark = pytest.mark.anyio


class Scripted(GenericFakeChatModel):
    """LangChain's fake model, which has tools as well."""

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> "Scripted":
        return self


def calls(*arguments: dict[str, Any]) -> Scripted:
    """A model that has each command run in turn, and then says `done`."""
    messages = [
        AIMessage("", tool_calls=[{"name": "shell", "args": given, "id": str(number)}])
        for number, given in enumerate(arguments)
    ]
    return Scripted(messages=iter([*messages, AIMessage("done")]))


def answers(state: dict[str, Any]) -> list[str]:
    return [str(one.content) for one in state["messages"] if isinstance(one, ToolMessage)]


GO: Any = {"messages": [("user", "go")]}


async def test_a_hostile_command_in_an_agent_loop_leaves_nothing(tmp_path: Path) -> None:
    hostile = Hostile()
    model = calls({"command": hostile.text, "timeout": 1.5}, {"command": "echo after"})
    agent = create_agent(model, tools=[shell_tool(cwd=tmp_path, escalation=QUICK)])

    first, second = answers(await agent.ainvoke(GO))

    assert hostile.left == []
    assert first.startswith("begun")
    assert "timeout (total)" in first
    assert len(first) < 40_000
    assert second.startswith("after\n[exit 0 in ")


def test_the_tool_runs_in_a_program_without_an_event_loop(tmp_path: Path) -> None:
    agent = create_agent(calls({"command": "pwd"}), tools=[shell_tool(cwd=tmp_path)])

    (answer,) = answers(agent.invoke(GO))

    assert answer.startswith(f"{tmp_path}\n[exit 0 in ")


async def test_a_cancelled_agent_ends_its_command() -> None:
    hostile = Hostile()
    agent = create_agent(calls({"command": hostile.text}), tools=[shell_tool(escalation=QUICK)])

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(agent.ainvoke, GO)
            await until(lambda: len(tagged(hostile.tag, "sleep")) > 1)
            group.cancel_scope.cancel()

    await nobody_left(hostile.tag)


@pytest.mark.parametrize("yes", [True, False])
async def test_what_needs_a_yes_interrupts_the_graph(tmp_path: Path, *, yes: bool) -> None:
    (tmp_path / "gone").mkdir()
    tool = shell_tool(Config.of(safety_profiles_run_unknown="ask"), cwd=tmp_path)
    agent = create_agent(
        calls({"command": "rm -rf gone"}), tools=[tool], checkpointer=InMemorySaver()
    )
    thread: Any = {"configurable": {"thread_id": "1"}}

    asked = await agent.ainvoke(GO, thread)

    (question,) = asked["__interrupt__"]
    assert question.value["command"] == "rm -rf gone"
    assert question.value["reasons"]
    assert (tmp_path / "gone").exists()
    (answer,) = answers(await agent.ainvoke(Command(resume=yes), thread))
    assert (tmp_path / "gone").exists() is not yes
    assert ("[exit 0" in answer) is yes


def test_the_middlewares_shell_ends_with_all_it_started(tmp_path: Path) -> None:
    hostile = Hostile()
    middleware = ShellToolMiddleware(
        tmp_path, execution_policy=ExecutionPolicy(command_timeout=5.0)
    )
    model = calls(
        {"command": "cd / && printf before"}, {"command": "pwd"}, {"command": hostile.text}
    )
    agent = create_agent(model, middleware=[middleware])

    before, kept, late = answers(agent.invoke(GO))

    assert before == "before"
    assert kept == "/\n"
    assert "timed out" in late
    anyio.run(nobody_left, hostile.tag)


def test_the_example_on_the_page_runs() -> None:
    assert run_example("LangChain") == "done"
