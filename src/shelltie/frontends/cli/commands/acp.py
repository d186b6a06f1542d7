"""`shelltie acp -- AGENT…`: the ACP server in front of an editor's agent."""

from argparse import Namespace
from pathlib import Path

import anyio

from shelltie.errors import InvalidParameters
from shelltie.frontends.acp.display_formats import DisplayMode
from shelltie.frontends.acp.proxy import Serve
from shelltie.frontends.acp.server import Choices, serve
from shelltie.settings.layers import load


def main(args: Namespace) -> int:
    """Serve; the agent's exit code.

    Raises: ConfigWrong, CannotStart, InvalidParameters.
    """
    if not args.words:
        raise InvalidParameters("name the agent: shelltie acp -- AGENT [ARGUMENT…]")
    display = None if args.display == "auto" else DisplayMode(args.display)
    choices = Choices(Serve(args.terminals), display, args.total, args.mcp, args.wrap_shell)
    return anyio.run(serve, load(Path()), args.words, choices)
