from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from claude_agent_sdk import (
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    ToolPermissionContext,
    query,
)
from mcp import Client
from mcp.types import TextContent

from shelltie import Config
from shelltie.adapters.claude import TOOL, ClaudeShell
from tests.adapters.conftest import run_example
from tests.adapters.fake_anthropic import ScriptedMessages, scripted_messages
from tests.adapters.hostile_command import Hostile
from tests.tree import QUICK, nobody_left, tagged, until

pytestmark = pytest.mark.anyio

ASKING = Config.of(safety_profiles_run_unknown="ask")
UNKNOWN = "rm -rf gone"


async def call(shell: ClaudeShell, **arguments: Any) -> tuple[str, bool]:
    """What Claude Code reads: a client of the server in this process."""
    async with Client(shell.server()["instance"]) as client:
        answer = await client.call_tool("shell", arguments)
        (content,) = answer.content
        assert isinstance(content, TextContent)
        return content.text, bool(answer.is_error)


async def decide(shell: ClaudeShell, command: str, name: str = TOOL) -> str:
    said = await shell.can_use_tool(name, {"command": command}, ToolPermissionContext())
    return "allow" if isinstance(said, PermissionResultAllow) else said.message


async def test_a_real_claude_code_goes_on_after_a_hostile_command(tmp_path: Path) -> None:
    hostile, asked = Hostile(), list[str]()
    (tmp_path / "gone").mkdir()

    async def ask(_: str, given: dict[str, Any], __: ToolPermissionContext) -> Any:
        asked.append(given["command"])
        return PermissionResultAllow()

    shell = ClaudeShell(ASKING, ask=ask, cwd=tmp_path, escalation=QUICK)
    calls: list[tuple[str, dict[str, Any]]] = [
        (TOOL, {"command": hostile.text, "timeout": 1.5}),
        (TOOL, {"command": UNKNOWN}),
        ("Bash", {"command": "echo from its own shell"}),
        (TOOL, {"command": "echo after"}),
    ]

    with scripted_messages(*calls) as model, anyio.fail_after(150):
        options = shell.agent_options(env=claude_home(model, tmp_path / "home"), cwd=tmp_path)
        said = [message async for message in query(prompt=prompt(), options=options)]
    shell.close()

    assert hostile.left == []
    assert isinstance(said[-1], ResultMessage)
    assert said[-1].result == "done"
    first, second, own, after = model.results
    assert "begun" in first
    assert "timeout (total)" in first
    assert "[exit 0" in second
    assert not (tmp_path / "gone").exists()
    assert asked == [hostile.text, UNKNOWN]
    assert "from its own shell" not in own
    assert "after\\n[exit 0 in " in after


def claude_home(model: ScriptedMessages, home: Path) -> dict[str, str]:
    """Variables with which a Claude Code has that model, and nothing of the person's own."""
    home.mkdir()
    return {
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model.server_port}",
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "HOME": str(home),
    }


async def prompt() -> AsyncIterator[dict[str, Any]]:
    """`can_use_tool` wants a stream of messages."""
    yield {"type": "user", "message": {"role": "user", "content": "go"}}


async def test_a_hostile_command_leaves_nothing(tmp_path: Path) -> None:
    hostile, shell = Hostile(), ClaudeShell(cwd=tmp_path, escalation=QUICK)

    text, failed = await call(shell, command=hostile.text, timeout=1.5)
    after = await call(shell, command="pwd")

    assert hostile.left == []
    assert text.startswith("begun")
    assert "timeout (total)" in text
    assert failed
    assert len(text) < 40_000
    assert after[0].startswith(f"{tmp_path}\n[exit 0 in ")
    assert not after[1]


async def test_a_cancelled_call_ends_its_command(tmp_path: Path) -> None:
    hostile, shell = Hostile(), ClaudeShell(cwd=tmp_path, escalation=QUICK)

    async def endless() -> None:
        await call(shell, command=hostile.text)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(endless)
            await until(lambda: len(tagged(hostile.tag, "sleep")) > 1)
            group.cancel_scope.cancel()

    await nobody_left(hostile.tag)


async def test_a_command_that_needs_a_yes_runs_once_after_the_callback_said_so(
    tmp_path: Path,
) -> None:
    asked = []

    async def ask(name: str, given: dict[str, Any], context: ToolPermissionContext) -> Any:
        asked.append((name, given["command"], context.decision_reason))
        return PermissionResultAllow()

    (tmp_path / "gone").mkdir()
    shell = ClaudeShell(ASKING, ask=ask, cwd=tmp_path)

    refused = await call(shell, command=UNKNOWN)
    decided = await decide(shell, UNKNOWN)
    ran = await call(shell, command=UNKNOWN)
    again = await call(shell, command=UNKNOWN)

    assert refused[0].startswith("[not run: a person must approve")
    assert decided == "allow"
    ((name, command, why),) = asked
    assert (name, command) == (TOOL, UNKNOWN)
    assert "deletes" in why
    assert not ran[1]
    assert not (tmp_path / "gone").exists()
    assert again[1]


async def test_the_callback_asks_nobody_about_what_the_policy_has_decided(tmp_path: Path) -> None:
    async def ask(*_: Any) -> Any:
        raise AssertionError("nobody is to be asked")

    shell = ClaudeShell(Config.of(safety_profiles_run_unknown="deny"), ask=ask, cwd=tmp_path)

    assert await decide(shell, "ls") == "allow"
    assert await decide(shell, "ls", "Bash") == "allow"
    assert "the policy refuses" in await decide(shell, "./unknown")


@pytest.mark.parametrize("name", [TOOL, "Bash", "WebFetch"])
async def test_without_anybody_to_ask_the_answer_is_no(name: str) -> None:
    shell = ClaudeShell(ASKING)

    assert "nobody can be asked" in await decide(shell, UNKNOWN, name)


async def test_what_the_program_refuses_stays_refused(tmp_path: Path) -> None:
    async def ask(*_: Any) -> Any:
        return PermissionResultDeny(message="not today")

    shell = ClaudeShell(ASKING, ask=ask, cwd=tmp_path)

    assert await decide(shell, UNKNOWN) == "not today"
    assert (await call(shell, command=UNKNOWN))[1]


def test_ours_is_the_only_shell_of_the_agent() -> None:
    options = ClaudeShell().agent_options(disallowed_tools=["WebFetch"])

    assert options.disallowed_tools == ["WebFetch", "Bash"]
    assert list(options.mcp_servers) == ["shelltie"]


def test_the_example_on_the_page_runs() -> None:
    assert "timeout" in run_example("Claude Agent SDK")
