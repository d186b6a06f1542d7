"""Leashed shell: a program that is a persistent shell over pipes.

`python -m shelltie.adapters.leashed_shell ISOLATION SHELL…` runs the shell below a leash, with its
own input and output, and without limits of ours: a session may be idle. When it is killed, the
leash ends whatever the shell has started.
"""

import shlex
import sys
from pathlib import Path
from typing import NoReturn

import anyio

from shelltie.environment import child
from shelltie.errors import TerminalError
from shelltie.frontends.api import Options, Terminal
from shelltie.frontends.cli.commands.run import Leashed
from shelltie.frontends.cli.console import print_error, ready_streams
from shelltie.frontends.cli.main import of_error, parse
from shelltie.model import Caller, Command, Limits
from shelltie.running.options import Requester, RunOptions
from shelltie.running.run import Run

_UNLIMITED = Limits(None, None, "whoever types into it has the clock")


class _Shell(Leashed):
    """A run whose input is our own."""

    def __init__(self, isolation: str, argv: list[str]) -> None:
        super().__init__(parse(["run", "--color", "never", "--", *argv]))
        self._isolation = isolation
        self._command = Command(shlex.join(argv), tuple(argv), str(Path.cwd()))

    async def start(self, terminal: Terminal, *_: object) -> Run:
        """Start it; the program that configured it has decided that it may run."""
        options = RunOptions(
            limits=_UNLIMITED,
            profile=None,
            requester=Requester(Caller(client="langchain")),
            own=dict(child.inherited()),
            stdin_from=0,
            isolation=self._isolation or None,
            workspace=str(Path.cwd()),
        )
        return await terminal.supervisor.start(self._command, options)


def program(isolation: str, *argv: str) -> NoReturn:
    """A whole process, which leaves with the exit code of the shell."""
    ready_streams()
    shell = _Shell(isolation, list(argv))
    try:
        code = anyio.run(shell.run, shlex.join(argv), Options())
    except TerminalError as error:
        print_error(str(error))
        code = of_error(error)
    sys.exit(code)


if __name__ == "__main__":
    program(*sys.argv[1:])
