"""Middleware of every tool call: approval channel, remembered result, promotion to a task."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mcp.server.lowlevel import Server
from mcp_types import CallToolRequestParams, CallToolResult

from shelltie.assemble import policy_file
from shelltie.environment import child
from shelltie.frontends.mcp.confirm import Confirmations, Dialogue, Round
from shelltie.frontends.mcp.recent_runs import Recent
from shelltie.frontends.mcp.request import RequestContext, ToolCall, owner_of
from shelltie.frontends.mcp.resources import ClientResources
from shelltie.frontends.mcp.subscriptions import Subscriptions, add_resources
from shelltie.frontends.mcp.tasks_extension import Tasks, ToolAnswer, add_tasks, declares
from shelltie.frontends.mcp.tools import agent, run
from shelltie.sessions.registry import Sessions
from shelltie.settings.config import Config

_LONG = frozenset({run.RUN.name, agent.TASK.name})  # may become tasks

ToolFunction = Callable[[ToolCall], Awaitable[CallToolResult]]


class CallPipeline:
    """One for each server."""

    def __init__(self, sessions: Sessions, config: Config, tasks: Tasks) -> None:
        secrets = child.sift(child.inherited()).secrets
        self._confirmations = Confirmations(secrets, ask=config.ask_client)
        self._recent = Recent()
        self._tasks = tasks
        self._resources = ClientResources(
            sessions, self._recent, config, policy_file(config, Path())
        )
        self._subscriptions = Subscriptions(self._resources)
        sessions.on_changed.append(self._subscriptions.list_changed)

    def channel(self, context: RequestContext, params: CallToolRequestParams) -> Dialogue | Round:
        """How whoever calls can be asked for a yes.

        Raises: MCPError if they bring an answer to something else.
        """
        return self._confirmations.channel(context, params, owner_of(context))

    def makes_task(self, context: RequestContext, tool: str) -> bool:
        """Whether a call goes on as a task if it takes long."""
        return tool in _LONG and declares(context)

    async def answer(
        self, context: RequestContext, channel: Dialogue | Round, call: ToolCall, tool: ToolFunction
    ) -> ToolAnswer:
        """What a call returns: the tool's result, a question, or a task."""

        async def work() -> CallToolResult:
            result = await tool(call)
            if self._recent.note(call, result):
                self._subscriptions.ran(call.owner)
            return result

        if self.makes_task(context, call.name):
            return await self._tasks.answer(context, call.name, work, channel.instead_of)
        return channel.instead_of(await work())

    async def deliver(self) -> None:
        """Tell clients what has changed, for ever."""
        await self._subscriptions.deliver()

    def add_to(self, server: Server[Any]) -> None:
        """Have a server offer everything that is no tool."""
        add_resources(server, self._resources, self._subscriptions)
        add_tasks(server, self._tasks)
