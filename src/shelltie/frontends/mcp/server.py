"""MCP server: declares tools and resources, serves stdio, owns background tasks."""

import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    ServerCapabilities,
)
from pydantic import ValidationError

from shelltie.assemble import assemble
from shelltie.assemble_parts import policy_file
from shelltie.basics.frozen import frozen
from shelltie.basics.visible_text import brief
from shelltie.contexts.allowlist import find_allowlist
from shelltie.contexts.argument_filter import FilterLevel
from shelltie.contexts.program_access import Access
from shelltie.contexts.registry import Contexts
from shelltie.environment import child
from shelltie.errors import InternalError, TerminalError
from shelltie.frontends import about
from shelltie.frontends.control.runs import steerable
from shelltie.frontends.mcp.around_call import CallPipeline
from shelltie.frontends.mcp.client_timeouts import client_timeout
from shelltie.frontends.mcp.notify import Notifiers
from shelltie.frontends.mcp.request import (
    RequestContext,
    ToolCall,
    client_of,
    lasting_owner_of,
    owner_of,
    requester_of,
)
from shelltie.frontends.mcp.stdio import Answers, Messages, Stdio, serve_stdio
from shelltie.frontends.mcp.tasks_extension import Tasks, ToolAnswer, declares
from shelltie.frontends.mcp.tools.registry import Tool, tools_by_name
from shelltie.keeper.stay_folder import stay_folder
from shelltie.limits.policy_file import PolicyFile
from shelltie.running.supervisor import Supervisor
from shelltie.sessions.id_counter import session_numbers
from shelltie.sessions.registry import Sessions
from shelltie.sessions.staying_sessions import SessionClient, StayingSessions
from shelltie.settings.config import Config

_log = logging.getLogger(__name__)

BackgroundTask = Callable[[], Coroutine[Any, Any, None]]


class BackgroundServer(Server[TaskGroup]):
    """What a handler starts in `context.lifespan_context` lives as long as the server serves."""

    tools_change = False

    def __init__(self, name: str, *chores: BackgroundTask, **handlers: Any) -> None:  # noqa: ANN401  the SDK's own
        @asynccontextmanager
        async def lifespan(_: Server[TaskGroup]) -> AsyncIterator[TaskGroup]:
            async with anyio.create_task_group() as tasks:
                for chore in chores:
                    tasks.start_soon(chore)
                yield tasks
                tasks.cancel_scope.cancel()

        super().__init__(name, lifespan=lifespan, **handlers)

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> ServerCapabilities:
        """As the SDK's, which says of 2026 that whatever can be listened for changes."""
        known = super().get_capabilities(
            notification_options,
            experimental_capabilities,
            extensions,
            protocol_version=protocol_version,
        )
        if known.tools is not None:
            known.tools.list_changed = self.tools_change
        return known

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """As the SDK's, for transports that do not say what changes."""
        return super().create_initialization_options(
            notification_options or NotificationOptions(resources_changed=True),
            experimental_capabilities,
            extensions,
        )


_INSTRUCTIONS = """\
shelltie runs shell commands for you and always comes back: a command that takes too long or falls \
silent is ended with everything it started, and you get what it printed and a hint. Call `run` \
with the command as you would type it. Read `status`, `exitCode`, `stdout` and `stderr`; after a \
timeout follow `hint` instead of repeating the same call. What stays (dev servers, REPLs, programs \
that ask) goes to `terminal_start` and `terminal_continue`. `status` "running": it takes longer \
than your client waits and goes on as a session; follow it, do not repeat it."""

_QUICKEST = 0.1  # seconds between two reports, whatever was configured
Leave = Callable[[], Awaitable[None]]
Forget = Callable[[str], Coroutine[object, object, None]]
Figures = Callable[[], str]  # what was counted, in the words of Prometheus
# Serves until everybody has left, with what ends all that runs, and what ends an owner's part.
Transport = Callable[[Server[Any], Leave, Forget, Figures], Awaitable[None]]


def serve_client(config: Config, stdio: Stdio) -> None:
    """Serve one client on stdin and stdout until it leaves.

    Raises: ConfigWrong.
    """
    anyio.run(serve, config, partial(on_stdio, stdio))


async def serve(config: Config, transport: Transport) -> None:
    """Serve; nothing that was started is left when this returns.

    Raises: ConfigWrong.
    """
    policy = policy_file(config, Path())
    async with assemble(config, policy, serves=True) as supervisor:
        sessions = Sessions(supervisor, config.sessions, await session_numbers(config))
        told = {"version": about.version()}
        async with (
            steerable(supervisor, sessions, child.inherited(), told) as control,
            task_contexts(supervisor, config) as contexts,
        ):
            tasks = Tasks()

            async def forget(owner: str) -> None:
                tasks.end_all(owner)
                await sessions.stop_all(owner, "its client left")
                await contexts.close_owner(owner)

            server = build_server(
                supervisor, config, policy, sessions, contexts, control.meet, tasks
            )
            measures = supervisor.measures
            figures = (lambda: "") if measures is None else measures.text
            await transport(server, supervisor.close, forget, figures)


async def on_stdio(stdio: Stdio, server: Server[Any], leave: Leave, _: Forget, __: Figures) -> None:
    """One client on stdin and stdout, with which the server goes."""
    options = server.create_initialization_options()

    async def converse(messages: Messages, answers: Answers) -> None:
        await server.run(messages, answers, options)

    await serve_stdio(converse, leave, stdio)


def task_contexts(supervisor: Supervisor, config: Config) -> Contexts:
    """The sessions of tasks, behind their allowlist."""
    access = Access(
        find_allowlist(Path.cwd(), config.access.allowlist_path),
        child.inherited().get("PATH", ""),
        level=FilterLevel(config.access.argument_level),
        relative_paths=config.access.allow_relative_paths,
    )
    return Contexts(
        supervisor,
        access,
        Path.cwd(),
        config.access.limits,
        passed=config.environment.passed,
        isolation=config.isolation.tasks,
    )


def build_server(
    supervisor: Supervisor,
    config: Config,
    policy: PolicyFile,
    sessions: Sessions,
    contexts: Contexts,
    meet: Callable[[str], None] = lambda _: None,
    tasks: Tasks | None = None,
) -> Server[Any]:
    """A server for any transport, with the tools that are switched on.

    It says to `meet` what each client calls itself.
    """
    staying = StayingSessions(supervisor, sessions, stay_folder(config), config.persistent)
    tools = tools_by_name(supervisor, config, sessions, contexts, staying)
    pace = replace(config.notify.pace, interval=max(_QUICKEST, config.notify.pace.interval))
    notifiers = Notifiers(supervisor.bus, pace, sessions)
    pipeline = CallPipeline(sessions, config, policy, tasks or Tasks())
    calls = _Calls(tools, notifiers, pipeline, config.mcp.patience, meet, staying)
    server = BackgroundServer(
        "shelltie",
        pipeline.deliver,
        version=about.version(),
        instructions=_INSTRUCTIONS,
        on_list_tools=calls.list_tools,
        on_call_tool=calls.call_tool,
        get_tool_input_schema={name: one.listing.input_schema for name, one in tools.items()}.get,
    )
    pipeline.add_to(server)
    notifiers.add_to(server)
    server.middleware[:] = [_say_what_is_wrong]  # not OpenTelemetry: a third of a call
    return server


async def _say_what_is_wrong(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
    """The SDK says of wrong parameters only that they are."""
    try:
        return await call_next(ctx)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        problem = f"Invalid request parameters: {brief(place, 80)}: {first['msg']}"
        raise MCPError(INVALID_PARAMS, problem, "") from None


@frozen
class _Calls:
    """From what arrives to the tool that answers it."""

    tools: Mapping[str, Tool]
    notifiers: Notifiers
    pipeline: CallPipeline
    patience: float | None
    meet: Callable[[str], None]
    staying: StayingSessions

    async def list_tools(
        self, context: RequestContext, _: PaginatedRequestParams | None
    ) -> ListToolsResult:
        client = client_of(context)
        self.meet(client)
        who = SessionClient(owner_of(context), lasting_owner_of(context), client)
        context.lifespan_context.start_soon(self.staying.meet, who)  # before it asks for them
        return ListToolsResult(tools=[tool.listing for tool in self.tools.values()])

    async def call_tool(self, context: RequestContext, params: CallToolRequestParams) -> ToolAnswer:
        """What a call returns: the tool's result, a question, or a task."""
        tool = self.tools.get(params.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {brief(params.name, 80)}")
        client, owner = client_of(context), owner_of(context)
        self.meet(client)
        channel = self.pipeline.channel(context, params, client, owner)
        notifier = self.notifiers.of(context, owner)
        wait = client_timeout(client, self.patience)
        as_task = tool.may_become_task and declares(context)
        call = ToolCall(
            params.name,
            params.arguments or {},
            owner,
            requester_of(client, channel, wait),
            math.inf if as_task else anyio.current_time() + wait,
            notifier.follow,
            lasting_owner_of(context),
        )
        async with notifier:
            if not as_task:
                return channel.instead_of(await self._answer(tool, call))
            work = partial(self._answer, tool, call)
            tasks = self.pipeline.tasks
            return await tasks.answer(context, owner, call.name, work, channel.instead_of)

    async def _answer(self, tool: Tool, call: ToolCall) -> CallToolResult:
        """Whatever goes wrong on our side is an answer, too."""
        try:
            result = await tool.run(call)
        except TerminalError as error:
            result = tool.refused(error)
        except Exception:  # noqa: BLE001  the server lives on, whatever it was
            _log.exception("a call of `%s` failed", call.name)
            result = tool.refused(InternalError())
        self.pipeline.remember(call, result)
        return result
