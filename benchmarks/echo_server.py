"""The floor of an MCP call: one tool that says what it was told, on the SDK's own server.

`stock` is the SDK as it comes; `lean` has our transport and, like ours, no middleware.
"""

import sys
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

from shelltie.frontends.mcp.stdio import serve_stdio

_ECHO = Tool(name="run", input_schema={"type": "object"})
_Context = ServerRequestContext[Any, Any]


async def _list_tools(_: _Context, __: PaginatedRequestParams | None) -> ListToolsResult:
    return ListToolsResult(tools=[_ECHO])


async def _call_tool(_: _Context, params: CallToolRequestParams) -> CallToolResult:
    said = str((params.arguments or {})["command"])
    return CallToolResult(content=[TextContent(type="text", text=said)])


async def _stock(server: Server[Any]) -> None:
    async with stdio_server() as (messages, answers):
        await server.run(messages, answers, server.create_initialization_options())


async def _lean(server: Server[Any]) -> None:
    server.middleware.clear()
    options = server.create_initialization_options()
    await serve_stdio(
        lambda messages, answers: server.run(messages, answers, options), anyio.lowlevel.checkpoint
    )


if __name__ == "__main__":
    made: Server[Any] = Server("echo", on_list_tools=_list_tools, on_call_tool=_call_tool)
    anyio.run(_stock if sys.argv[1] == "stock" else _lean, made)
