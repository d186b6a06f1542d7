"""The part of docs/mcp.md about the tools: real requests, and the answers they got."""

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from mcp import Client
from mcp_types import CallToolResult, TextContent, Tool

from shelltie import Config, Terminal
from tests.conformance.servers import server_of

PAGE = Path(__file__).resolve().parent.parent / "docs" / "mcp.md"
BEGIN, END = "<!-- tools: written by scripts/mcp-tools -->\n", "<!-- end of tools -->\n"
SETTINGS: dict[str, Any] = {
    "tools_access_enabled": True,
    "access_allowlist_path": "builtin",
    "safety_profiles_bash_unknown": "allow",
    "persistent_minInterval": 0.1,
    "persistent_settleInterval": 10.0,
}
# What is never the same twice.
_VARIES = {
    "durationMs": 12,
    "duration": 12,
    "runId": "01KA6T4Y3N0W3V5Q8ZJ2X7M9RC",
    "taskId": "task-1763263800000",
    "createdAt": "2025-11-16T03:30:00.000Z",
    "lastCommandAt": "2025-11-16T03:30:01.000Z",
    "startedAt": "2025-11-16T03:30:00.000Z",
    "lastActivityAt": "2025-11-16T03:30:00.000Z",
    "workingDirectory": "/home/me/project",
    "idleMs": 3,
    "wallClockMs": 9,
    "pid": 4711,
    "uptimeSeconds": 3.2,
}


@dataclass(frozen=True, slots=True)
class Example:
    """A request; `shown` are the fields of its answer that the page has, or all.

    Of an answer that has a text of its own the page has that, and the fields that are named.
    """

    tool: str
    arguments: Mapping[str, object]
    shown: Sequence[str] = ()
    fields: bool = True


_SESSION = "term-BUILD-001-1763263800000"
_SEVEN = ("status", "stdout", "stderr", "exitCode", "timeoutReason", "terminationMode")
EXAMPLES = (
    Example(
        "run",
        {"command": "echo hello; ls /nowhere", "timeout_sec": 30},
        (*_SEVEN, "durationMs", "limits", "verdict"),
    ),
    Example(
        "run",
        {"command": "echo working; sleep 600", "no_output_timeout_sec": 3},
        fields=False,
    ),
    Example("run", {"command": "grep -rn nobody-has-this /etc/hostname"}, fields=False),
    Example("trial", {"id": "t7", "action": "apply"}, fields=False),
    Example("bash", {"command": "echo hello"}, fields=False),
    Example(
        "terminal_start",
        {"command": 'read -p "Name? " name; echo "Hello $name"', "waitFor": "Name"},
        ("id", "command", "output", "position", "running", "found"),
    ),
    Example(
        "terminal_continue",
        {"sessionId": "term-1", "stdin": "Ada"},
        fields=False,
    ),
    Example("terminal_start", {"command": "sleep 60", "maxWait": 0}, fields=False),
    Example("terminal_output", {"sessionId": "term-2", "from": 0, "limit": 2000}, fields=False),
    Example("terminal_list", {}, fields=False),
    Example("terminal_stop", {"sessionId": "term-2"}, fields=False),
    Example(
        "agent_task",
        {
            "command": 'codex() { echo \'{"type": "authentication failed"}\'; return 1; };'
            " codex exec --json -",  # where no codex is, a function stands for it
            "task": "Fix the failing test in tests/test_login.py",
            "mode": "workspace-write",
        },
        (
            "success",
            "status",
            "error",
            "partial",
            "recovery",
            "neverStarted",
            "lastEvent",
            "limits",
        ),
    ),
    Example("agent_wait", {"taskId": "task-1"}),
    Example("terminal_create_session", {"taskId": "BUILD-001", "agentId": "agent-1"}),
    Example(
        "terminal_execute_command",
        {"sessionId": "SESSION", "command": "echo", "args": ["hello", "world"]},
    ),
    Example("terminal_get_status", {"sessionId": "SESSION"}),
    Example("terminal_close_session", {"sessionId": "SESSION"}),
)


@asynccontextmanager
async def _client(terminal: Terminal) -> AsyncIterator[Client]:
    async with Client(server_of(terminal, Config.of(**SETTINGS))) as client:
        yield client


async def render(terminal: Terminal) -> str:
    """The part, as it should be."""
    async with _client(terminal) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        session, parts, told = "", [], set()
        for example in EXAMPLES:
            if example.tool not in told:
                told.add(example.tool)
                parts += _about(tools[example.tool])
            arguments = {
                name: session if value == "SESSION" else value
                for name, value in example.arguments.items()
            }
            result = await client.call_tool(example.tool, dict(arguments))
            said = cast(dict[str, Any], result.structured_content)
            if example.tool == "terminal_create_session":
                session = said["sessionId"]
            parts.append(_shown(example, result).replace(session or "\0", _SESSION))
    assert told == set(tools)
    return "\n".join(parts) + "\n"


def with_tools(page: str, part: str) -> str:
    """The page, with this part about tools."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{part}\n{END}{after}"


def _about(tool: Tool) -> list[str]:
    first, _, _ = (tool.description or "").partition("\n")
    rows = [
        f"| `{name}`{'' if name in tool.input_schema['required'] else '?'} | {_says(field)} |"
        for name, field in tool.input_schema["properties"].items()
    ]
    table = ["| argument | |", "| --- | --- |", *rows, ""] if rows else []
    return [f"### {tool.name}", "", _sentence(first), "", *table]


def _sentence(text: str) -> str:
    head, end, _ = text.partition(". ")
    return head + (end.strip() or "")


def _says(field: Mapping[str, Any]) -> str:
    kind = " or ".join(f'`"{choice}"`' for choice in field["enum"]) if "enum" in field else ""
    text = str(field["description"]).replace("|", "\\|")
    return f"{field['type']}{': ' + kind if kind else ''}. {text}"


def _shown(example: Example, result: CallToolResult) -> str:
    answer = cast(dict[str, Any], _stable(result.structured_content))
    picked = {name: answer[name] for name in example.shown or answer}
    rest = {} if len(picked) == len(answer) else {"…": "…"}
    said = f"```json\n{json.dumps(picked | rest, ensure_ascii=False, indent=2)}\n```\n"
    text = _text_of(result)
    if text is not None:
        said = f"```text\n{text}\n```\n" + (f"\n{said}" if example.fields else "")
    request = json.dumps(example.arguments, ensure_ascii=False).replace("SESSION", _SESSION)
    return f"```json\n{example.tool} {request}\n```\n\n{said}"


def _text_of(result: CallToolResult) -> str | None:
    """The text of an answer that is not just its fields."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    if content.text.startswith("{"):
        return None
    text = re.sub(r"(\bin|\|) \d+(?:\.\d+)?m?s\b", r"\1 12ms", content.text.rstrip())
    return re.sub(r"^Waiting for input: .*\n", "", text, flags=re.MULTILINE)  # it may come later


def _stable(value: object, name: str = "") -> object:
    if name in _VARIES and isinstance(value, str | int | float):
        kept = value in (300_000, "BUILD-001")  # these are ours
        return value if kept else _VARIES[name]
    match value:
        case dict():
            return {key: _stable(item, key) for key, item in value.items()}
        case list():
            return [_stable(item) for item in value]
        case _:
            return value
