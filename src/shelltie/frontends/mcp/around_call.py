"""Middleware of every tool call: approval channel, remembered result, promotion to a task."""

from typing import Any

from mcp.server.lowlevel import Server
from mcp_types import CallToolRequestParams, CallToolResult

from shelltie.environment import child
from shelltie.frontends.mcp.confirm import Confirmations, Dialogue, Round
from shelltie.frontends.mcp.recent_runs import Recent
from shelltie.frontends.mcp.request import RequestContext, ToolCall
from shelltie.frontends.mcp.resources import ClientResources
from shelltie.frontends.mcp.subscriptions import Subscriptions, add_resources
from shelltie.frontends.mcp.tasks_extension import Tasks, add_tasks
from shelltie.limits.policy_file import PolicyFile
from shelltie.sessions.registry import Sessions
from shelltie.settings.config import Config


class CallPipeline:
    """One for each server."""

    def __init__(
        self, sessions: Sessions, config: Config, policy: PolicyFile, tasks: Tasks
    ) -> None:
        secrets = child.sift(child.inherited()).secrets
        self._confirmations = Confirmations(secrets, ask=config.safety.ask_client)
        self._recent = Recent()
        self.tasks = tasks
        self._resources = ClientResources(sessions, self._recent, config, policy)
        self._subscriptions = Subscriptions(self._resources)
        sessions.on_changed.append(self._subscriptions.list_changed)

    def channel(
        self, context: RequestContext, params: CallToolRequestParams, client: str, owner: str
    ) -> Dialogue | Round:
        """How whoever calls can be asked for a yes.

        Raises: MCPError if they bring an answer to something else.
        """
        return self._confirmations.channel(context, params, client, owner)

    def remember(self, call: ToolCall, result: CallToolResult) -> None:
        """Let the client read again what a run came to."""
        if self._recent.note(call, result):
            self._subscriptions.ran(call.owner)

    async def deliver(self) -> None:
        """Tell clients what has changed, for ever."""
        await self._subscriptions.deliver()

    def add_to(self, server: Server[Any]) -> None:
        """Have a server offer everything that is no tool."""
        add_resources(server, self._resources, self._subscriptions)
        add_tasks(server, self.tasks)
