"""The MCP server: the tools, on a supervisor of its own, for one client on stdio."""

from argparse import Namespace
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
)

from shelltie import config as settings
from shelltie.assemble import assemble, policy_file
from shelltie.frontends.mcp import tools
from shelltie.frontends.mcp.stdio import Answers, Messages, serve_stdio
from shelltie.running.supervisor import Supervisor

_INSTRUCTIONS = """\
shelltie runs shell commands for you and always comes back: a command that takes too long or falls \
silent is ended with everything it started, and you get what it printed and a hint. Call `run` \
with the command as you would type it. Read `status`, `exitCode`, `stdout` and `stderr`; after a \
timeout follow `hint` instead of repeating the same call."""

_Context = ServerRequestContext[Any, Any]


def main(_: Namespace | None = None) -> int:
    """`shelltie mcp`: serve on stdin and stdout until the client leaves; the exit code.

    Raises: ConfigWrong.
    """
    anyio.run(serve, settings.load(Path()))
    return 0


async def serve(config: settings.Config) -> None:
    """Serve one client; nothing it started is left when this returns.

    Raises: ConfigWrong.
    """
    async with assemble(config, policy_file(config, Path()), serves=True) as supervisor:
        server = build(supervisor, config.shown)
        options = server.create_initialization_options()

        async def converse(messages: Messages, answers: Answers) -> None:
            await server.run(messages, answers, options)

        await serve_stdio(converse, supervisor.close)


def build(supervisor: Supervisor, shown: int) -> Server[Any]:
    """A server for any transport; what it shows of a command's output is at most `shown` bytes."""

    async def list_tools(_: _Context, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[tools.RUN])

    async def call_tool(_: _Context, params: CallToolRequestParams) -> CallToolResult:
        if params.name != tools.RUN.name:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}")
        return await tools.run(supervisor, params.arguments or {}, shown)

    server: Server[Any] = Server(
        "shelltie",
        version=_version(),
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=_input_schema,
    )
    server.middleware.clear()  # OpenTelemetry, which costs a third of a call
    return server


def _input_schema(name: str) -> Mapping[str, Any] | None:
    return tools.RUN.input_schema if name == tools.RUN.name else None


def _version() -> str:
    try:
        return version("shelltie")
    except PackageNotFoundError:  # run from a source tree
        return "0+source"
