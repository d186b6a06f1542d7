"""Tool registry: which MCP tools the settings enable, what answers each, and how it refuses."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import mcp_types
from mcp_types import CallToolResult

from shelltie.basics.frozen import frozen
from shelltie.contexts.registry import Contexts
from shelltie.environment import child
from shelltie.errors import TerminalError
from shelltie.frontends.mcp.request import ToolCall
from shelltie.frontends.mcp.run_to_session import Handover
from shelltie.frontends.mcp.tools import agent, run, sessions, trials
from shelltie.frontends.mcp.tools import contexts as of_contexts
from shelltie.frontends.mcp.tools import session_schemas as schemas
from shelltie.frontends.mcp.tools.agent import AgentTools
from shelltie.frontends.mcp.tools.sessions import SessionSettings, SessionTools
from shelltie.output.redact import Redactor
from shelltie.running.supervisor import Supervisor
from shelltie.sessions.registry import Sessions
from shelltie.sessions.staying_sessions import StayingSessions
from shelltie.settings.config import Config


@frozen
class Tool:
    """One tool: what clients read about it, and what answers a call.

    `run` raises TerminalError where a call cannot be answered, and `refused` says that in the shape
    which the tool's clients know.
    """

    listing: mcp_types.Tool
    run: Callable[[ToolCall], Awaitable[CallToolResult]]
    refused: Callable[[TerminalError], CallToolResult]
    may_become_task: bool = False


def tools_by_name(
    supervisor: Supervisor,
    config: Config,
    kept: Sessions,
    contexts: Contexts,
    staying: StayingSessions,
) -> Mapping[str, Tool]:
    """The tools that are switched on, in the order in which every client sees them."""
    settings = session_settings(config)
    handover = Handover(supervisor, kept, settings.waiting)
    tools: list[Tool] = []
    if config.tools.run:
        answer = partial(run.run, handover, config)
        tools.append(Tool(run.RUN, answer, run.refused, may_become_task=True))
        of_trial = partial(trials.trial, handover)
        tools.append(Tool(trials.TRIAL, of_trial, sessions.refused))
    tools += session_tools(SessionTools(handover, settings, staying), config)
    if config.tools.agent_task:
        tools += agent_tools(AgentTools(handover, config))
    if config.tools.access:
        own = child.sift(child.inherited()).secrets
        # Commands of tasks get no others.
        redactor = Redactor(own) if config.output.redact else None
        tools += context_tools(contexts, handover, redactor)
    return {tool.listing.name: tool for tool in tools}


def session_tools(ours: SessionTools, config: Config) -> list[Tool]:
    """What starts something that stays, and what follows whatever goes on."""
    shell = config.tools.run or config.tools.bash
    starts = shell or config.tools.agent_task or config.tools.access
    follows = config.tools.sessions or (config.mcp.patience != 0 and starts)
    chosen = [
        (config.tools.bash, schemas.BASH, ours.bash),
        (config.tools.sessions, schemas.START, ours.start),
        (follows, schemas.CONTINUE, ours.go_on),
        (follows, schemas.OUTPUT, ours.output),
        (follows, schemas.STOP, ours.stop),
        (follows, schemas.LIST, ours.list_all),
    ]
    return [Tool(listing, answer, sessions.refused) for on, listing, answer in chosen if on]


def agent_tools(ours: AgentTools) -> list[Tool]:
    """What runs another agent, and waits for it."""
    return [
        Tool(agent.TASK, ours.start, agent.refused, may_become_task=True),
        Tool(agent.WAIT, ours.wait, agent.refused),
    ]


def context_tools(
    contexts: Contexts, handover: Handover, redactor: Redactor | None = None
) -> list[Tool]:
    """What runs a task's commands behind an allowlist."""
    execute = partial(of_contexts.execute, contexts, handover, redactor)
    answer = partial(of_contexts.answer, contexts)
    return [
        Tool(one, execute if one is of_contexts.EXECUTE else answer, of_contexts.refused)
        for one in of_contexts.TOOLS
    ]


def session_settings(config: Config) -> SessionSettings:
    """How sessions behave, by the settings."""
    bash, output = config.bash, config.output
    return SessionSettings(
        config.persistent, bash.crop_output, bash.timeout, output.shown, output.redact
    )
