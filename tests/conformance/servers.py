"""Servers in this process, for clients that need no pipe to talk, and tools without a client."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcp.server.lowlevel import Server
from mcp_types import CallToolResult

from shelltie import Config, Terminal, TerminalError
from shelltie.assemble_parts import policy_file
from shelltie.frontends.mcp.request import ToolCall
from shelltie.frontends.mcp.run_to_session import Handover
from shelltie.frontends.mcp.server import build_server, task_contexts
from shelltie.frontends.mcp.tools.registry import Tool, tools_by_name
from shelltie.keeper.stay_folder import stay_folder
from shelltie.sessions.registry import Sessions
from shelltie.sessions.staying_sessions import StayingSessions
from shelltie.settings.all_settings import Waiting


def server_of(terminal: Terminal, config: Config) -> Server[Any]:
    """What a client of this terminal is served."""
    sessions = Sessions(terminal.supervisor, config.sessions)
    contexts = task_contexts(terminal.supervisor, config)
    policy = policy_file(config, Path())
    return build_server(terminal.supervisor, config, policy, sessions, contexts)


def tools_of(terminal: Terminal) -> Mapping[str, Tool]:
    """The tools by themselves."""
    supervisor, config = terminal.supervisor, Config()
    contexts = task_contexts(supervisor, config)
    attendant = attendant_of(terminal)
    return tools_by_name(supervisor, config, attendant.sessions, contexts, staying_of(attendant))


async def answer(tool: Tool, call: ToolCall) -> CallToolResult:
    """What a client is answered; whatever is no refusal is a fault of ours, and raised."""
    try:
        return await tool.run(call)
    except TerminalError as error:
        return tool.refused(error)


_EMPTY: Mapping[str, object] = {"boolean": False, "array": []}


def filled(schema: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """An answer as its schema means it: fields that were left out are empty."""
    left_out = {
        name: _EMPTY.get(about.get("type", "array" if name == "ports" else ""))
        for name, about in schema["properties"].items()
        if name not in answer and name not in ("error", "errorCode", "sessionId", "lost")
    }
    return {**answer, **left_out}


def staying_of(attendant: Handover) -> StayingSessions:
    """What outlived other servers."""
    folder = stay_folder(Config())
    return StayingSessions(attendant.supervisor, attendant.sessions, folder, attendant.waiting)


def attendant_of(terminal: Terminal) -> Handover:
    """Who waits for what this terminal runs."""
    return Handover(terminal.supervisor, Sessions(terminal.supervisor), Waiting())
