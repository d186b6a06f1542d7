"""The floor of an MCP call: one tool that says what it was told, on the SDK's own server.

`stock` is the SDK as it comes; `lean` has our transport and, like ours, no middleware; `http` is
the SDK's application on uvicorn, without middleware.
"""

import socket
import sys
from typing import Any

import anyio
import uvicorn
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

from shelltie.frontends.jsonl import own_wire
from shelltie.frontends.mcp.stdio import Stdio, serve_stdio

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
    with own_wire() as (source, sink):
        await serve_stdio(
            lambda messages, answers: server.run(messages, answers, options),
            anyio.lowlevel.checkpoint,
            Stdio(source, sink),
        )


async def _http(server: Server[Any]) -> None:
    server.middleware.clear()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        print(f"echo at http://127.0.0.1:{sock.getsockname()[1]}/mcp,", file=sys.stderr, flush=True)
        app = server.streamable_http_app()
        await uvicorn.Server(uvicorn.Config(app, log_config=None)).serve([sock])


if __name__ == "__main__":
    made: Server[Any] = Server(
        "echo",
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
        get_tool_input_schema=lambda _: _ECHO.input_schema,
    )
    anyio.run({"stock": _stock, "lean": _lean, "http": _http}[sys.argv[1]], made)
