"""`shelltie mcp`: MCP on stdin and stdout, or over HTTP."""

import sys
from argparse import Namespace
from pathlib import Path
from typing import cast

from shelltie.frontends.about import start_command
from shelltie.frontends.cli import parser as arguments
from shelltie.frontends.cli.console import print_error
from shelltie.frontends.cli.main import import_whole
from shelltie.frontends.jsonl import own_wire
from shelltie.frontends.mcp.early_reader import EarlyReader
from shelltie.frontends.mcp.first_answers import FirstAnswers
from shelltie.settings.layers import load


def main(args: Namespace) -> int:
    """Serve until the client leaves; the exit code.

    Raises: ConfigWrong.
    """
    if args.name is not None:
        arguments.check(args)
    if getattr(args, "http", None) is not None:
        return cast(int, import_whole("shelltie.frontends.mcp.http.server").main(args))
    if sys.stdin is not None and sys.stdin.isatty():
        command = f"claude mcp add shelltie -- {start_command()} mcp"
        print_error(f"waiting for an MCP client on stdin; ctrl-c ends it. To add it: {command}")
    _serve_stdio()
    return 0


def _serve_stdio() -> None:
    """The client's first requests are answered from the last time while the SDK is imported."""
    config = load(Path())
    answers = FirstAnswers(config)
    with own_wire() as (source, sink):
        with EarlyReader(source, sink, answers) as reader:
            server = import_whole("shelltie.frontends.mcp.server")
            stdio = import_whole("shelltie.frontends.mcp.stdio")
        client = stdio.Stdio(source, sink, reader.exchange, answers)
        server.serve_client(config, client)
