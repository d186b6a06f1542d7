"""`shelltie top`: the page in a terminal; without its extra, `shelltie ps --watch`."""

import importlib.util
import os
import sys
from argparse import Namespace
from contextlib import closing

import anyio

from shelltie.approval.ancestry import why_not_a_person
from shelltie.environment.inherited import inherited
from shelltie.frontends.cli.commands import ps
from shelltie.frontends.cli.console import Style, print_error
from shelltie.frontends.cli.main import WRONG_USAGE
from shelltie.frontends.control import monitor_socket
from shelltie.frontends.control.live_rows import LiveRows
from shelltie.frontends.staying_holder import StayingHolder
from shelltie.settings import paths
from shelltie.settings.layers import load

_MISSING = (
    "top needs its extra: install shelltie[top] with uv tool, pipx or pip (in a clone '.[top]');"
    " until then, this is shelltie ps --watch"
)


def main(args: Namespace) -> int:
    """Show it until `q`.

    Raises: ConfigWrong, TerminalError.
    """
    streams = (sys.stdin, sys.stdout, sys.stderr)
    terminal = all(stream is not None and stream.isatty() for stream in streams)
    if not terminal or inherited().get("TERM", "dumb") == "dumb":
        print_error("top needs a terminal; shelltie ps --watch prints a list wherever it is")
        return WRONG_USAGE
    if importlib.util.find_spec("textual") is None:
        print_error(_MISSING)
        return ps.main(Namespace(watch=True, json=False, color=args.color))
    return _show(args)


def _show(args: Namespace) -> int:
    from shelltie.frontends.cli.top.app import TopApp  # an extra, and slow to import

    environ = inherited()
    config = load(paths.here())
    lone = StayingHolder(config, "shelltie top")
    live = LiveRows(environ, config.journal, lone)
    plain = Style(sys.stdout, args.color)("red", "") == ""
    why_not, home = why_not_a_person(os.getpid()), environ.get("HOME", "")
    with closing(lone), monitor_socket.listening(environ) as listeners:
        app = TopApp(live, listeners, plain=plain, why_not=why_not, home=home)
        anyio.run(app.show)
    return 0
