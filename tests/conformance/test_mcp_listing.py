"""Which tools there are, in which order, and that they say the truth about themselves."""

from typing import Any

import jsonschema
import pytest
from mcp import Client
from mcp_types import Tool

from shelltie import Config, Terminal
from tests.conformance.servers import server_of

SESSIONS = ["terminal_start", "terminal_continue", "terminal_output", "terminal_stop"]
EVERYTHING = [
    "run",
    "trial",
    "bash",
    *SESSIONS,
    "terminal_list",
    "agent_task",
    "agent_wait",
    "terminal_create_session",
    "terminal_execute_command",
    "terminal_close_session",
    "terminal_get_status",
]
FOLLOWING = ["terminal_continue", "terminal_output", "terminal_stop", "terminal_list"]
# Whether a tool only reads, may destroy, may be repeated without harm, and leaves the machine.
ANNOTATED = {
    "run": (False, True, False, True),
    "trial": (False, True, False, True),
    "bash": (False, True, False, True),
    "terminal_start": (False, True, False, True),
    "terminal_continue": (False, True, False, True),
    "terminal_output": (True, False, True, False),
    "terminal_stop": (False, True, True, False),
    "terminal_list": (True, False, True, False),
    "agent_task": (False, True, False, True),
    "agent_wait": (True, False, True, False),
    "terminal_create_session": (False, False, False, False),
    "terminal_execute_command": (False, True, False, True),
    "terminal_close_session": (False, True, True, False),
    "terminal_get_status": (True, False, True, False),
}
NOTHING = {
    "tools_run_enabled": False,
    "tools_bash_enabled": False,
    "tools_sessions_enabled": False,
    "tools_agent_task_enabled": False,
}


async def listed(terminal: Terminal, era: Any = "legacy", **settings: object) -> list[Tool]:  # noqa: ANN401  the SDK's literal
    config = Config.of(**settings)
    async with Client(server_of(terminal, config), mode=era) as client:
        first, again = await client.list_tools(), await client.list_tools()
    assert first.tools == again.tools
    return first.tools


@pytest.mark.proves("TX-2")
async def test_every_tool_has_its_name_and_its_place(terminal: Terminal) -> None:
    legacy = await listed(terminal, tools_access_enabled=True)
    modern = await listed(terminal, "2026-07-28", tools_access_enabled=True)

    assert [tool.name for tool in legacy] == EVERYTHING
    assert [tool.model_dump() for tool in modern] == [tool.model_dump() for tool in legacy]


@pytest.mark.parametrize(
    ("group", "names"),
    [
        ("tools_run_enabled", ["run", "trial", *FOLLOWING]),
        ("tools_bash_enabled", ["bash", *FOLLOWING]),
        ("tools_sessions_enabled", [*SESSIONS, "terminal_list"]),
        ("tools_agent_task_enabled", [*FOLLOWING, "agent_task", "agent_wait"]),
        ("tools_access_enabled", [*FOLLOWING, *EVERYTHING[-4:]]),
        (None, []),
    ],
)
@pytest.mark.proves("TX-2", "T4-21", "C-70")
async def test_each_group_comes_with_what_it_needs_and_nothing_else(
    terminal: Terminal, group: str | None, names: list[str]
) -> None:
    chosen = {} if group is None else {group: True}

    tools = await listed(terminal, **{**NOTHING, **chosen})

    assert [tool.name for tool in tools] == names


async def test_what_a_tool_says_of_itself_is_true(terminal: Terminal) -> None:
    for tool in await listed(terminal, tools_access_enabled=True):
        said = tool.annotations
        assert said is not None
        assert ANNOTATED[tool.name] == (
            said.read_only_hint,
            said.destructive_hint,
            said.idempotent_hint,
            said.open_world_hint,
        ), tool.name
        assert tool.title == said.title
        assert len(tool.description or "") > 40


@pytest.mark.proves("TX-10")
async def test_every_schema_is_one_and_takes_nothing_unknown(terminal: Terminal) -> None:
    for tool in await listed(terminal, tools_access_enabled=True):
        for schema in (tool.input_schema, tool.output_schema or {}):
            jsonschema.Draft202012Validator.check_schema(schema)
        assert tool.input_schema["additionalProperties"] is False
        for name, field in tool.input_schema["properties"].items():
            assert field.get("description"), f"{tool.name}.{name}"
