"""Tool registry: which MCP tools the settings enable, and the function that answers each."""

from collections.abc import Awaitable, Callable
from functools import partial

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, Tool

from shelltie.basics.frozen import frozen
from shelltie.basics.visible_text import brief
from shelltie.contexts.registry import Contexts
from shelltie.environment import child
from shelltie.frontends.mcp.handover import Handover
from shelltie.frontends.mcp.request import ToolCall
from shelltie.frontends.mcp.tools import agent, run, session_schemas
from shelltie.frontends.mcp.tools import contexts as task_tools
from shelltie.frontends.mcp.tools.agent import AgentTools
from shelltie.frontends.mcp.tools.sessions import SessionSettings, SessionTools
from shelltie.output.redact import Redactor
from shelltie.running.supervisor import Supervisor
from shelltie.sessions.registry import Sessions
from shelltie.sessions.wait_rule import Waiting
from shelltie.settings.config import Config

ToolHandler = Callable[[ToolCall], Awaitable[CallToolResult]]
_Group = tuple[bool, list[Tool], ToolHandler]


@frozen
class Toolbox:
    """The tools in the order in which every client sees them."""

    listed: list[Tool]
    answers: dict[str, ToolHandler]

    def answer(self, name: str) -> ToolHandler:
        """Who answers calls of that name.

        Raises: MCPError if there is no such tool.
        """
        if name not in self.answers:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {brief(name, 80)}")
        return self.answers[name]


def toolbox(
    supervisor: Supervisor, config: Config, sessions: Sessions, contexts: Contexts
) -> Toolbox:
    """The tools that are switched on."""
    groups = [group for group in _groups(supervisor, config, sessions, contexts) if group[0]]
    return Toolbox(
        [tool for _, group, _ in groups for tool in group],
        {tool.name: answer for _, group, answer in groups for tool in group},
    )


def _groups(
    supervisor: Supervisor, config: Config, sessions: Sessions, contexts: Contexts
) -> list[_Group]:
    attendant = Handover(supervisor, sessions, session_settings(config).waiting)
    ours = SessionTools(attendant, session_settings(config))
    own = child.sift(child.inherited()).secrets
    redactor = Redactor(own) if config.redact else None  # commands of tasks are given no others
    of_tasks = partial(task_tools.answer_call, contexts, attendant, redactor=redactor)
    return [
        (config.run_enabled, [run.RUN], partial(run.run, attendant, config)),
        (config.bash_enabled, [session_schemas.BASH], ours.call),
        (config.sessions_enabled, [session_schemas.START], ours.call),
        (_can_follow(config), session_schemas.FOLLOWING, ours.call),
        (config.agent_enabled, agent.TOOLS, AgentTools(attendant, config).call),
        (config.access_enabled, task_tools.TOOLS, of_tasks),
    ]


def _can_follow(config: Config) -> bool:
    """Whether anything can become a session."""
    shell = config.run_enabled or config.bash_enabled
    starts = shell or config.agent_enabled or config.access_enabled
    return config.sessions_enabled or (config.patience != 0 and starts)


def session_settings(config: Config) -> SessionSettings:
    """How sessions behave, by the settings."""
    waiting = Waiting(config.min_interval, config.settle_interval, config.max_interval)
    return SessionSettings(
        waiting, config.crop_output, config.bash_timeout, config.shown, config.redact
    )
