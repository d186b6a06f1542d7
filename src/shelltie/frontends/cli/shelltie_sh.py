"""`shelltie-sh`: a shell program for agents, which runs each command of theirs on a leash.

Claude Code takes it as CLAUDE_CODE_SHELL_PREFIX and gives it a whole line as its only argument;
other programs call it as a shell, with `-c`. Directory, variables, input and exit code are
as they would be without it. It does not judge: that is for the agent, and for its hook.
"""

import os
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import anyio

from shelltie.assemble_parts import shell_of
from shelltie.environment import child
from shelltie.errors import TerminalError
from shelltie.frontends.api import Terminal
from shelltie.frontends.cli.commands.run import Leashed
from shelltie.frontends.cli.console import print_error, ready_streams
from shelltie.frontends.cli.main import of_error, parse
from shelltie.model import Caller, Command, Outcome
from shelltie.running.options import Requester, RunOptions
from shelltie.running.run import Run
from shelltie.settings.config import Config
from shelltie.settings.layers import load
from shelltie.settings.paths import is_deleted
from shelltie.shell.invocation import read_invocation

_PREFIX = "CLAUDE_CODE_SHELL_PREFIX"
_NAME = "shelltie-sh"
_SESSION = "CLAUDE_CODE_SESSION_ID"
_WHERE_LEFT = ["pwd", "-P", ">|"]  # how the line of Claude Code's shell tool ends


def program() -> NoReturn:
    """A whole process, which leaves with the exit code of the command."""
    ready_streams()
    try:
        code = _main(sys.argv[1:])
    except TerminalError as error:
        print_error(str(error))
        code = of_error(error)
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _main(words: list[str]) -> int:
    command, arguments = understand(words)
    # What is on a leash already needs no second one, and an empty command none.
    if command is None or not command.strip() or child.RUN_MARK in child.inherited():
        # No settings: a wrong file of a project must not stop servers and hooks.
        argv = [*shell_of(Config()), *arguments]
        os.execvpe(argv[0], argv, _environment())  # noqa: S606  as the shell that we stand for
    cwd = _enterable_cwd()
    argv = [*shell_of(load(Path.cwd())), *arguments]
    return anyio.run(_OwnShell().run_line, command, argv, cwd)


def understand(words: list[str]) -> tuple[str | None, list[str]]:
    """The command that a person would recognise, and arguments of a shell that runs it.

    None: it is not to be leashed. Claude Code puts its prefix before MCP servers and hooks as well,
    which are left alone, like scripts and a shell that a person types into.
    """
    if len(words) == 1 and not words[0].startswith("-"):
        inner = command_of_claude(words[0])
        # Not Path.is_file(): it raises for a line that is too long to be a name.
        is_script = inner is None and os.path.isfile(words[0])  # noqa: PTH113
        return inner, words if is_script else ["-c", words[0]]
    invocation = read_invocation(words)
    rest = words[invocation.rest :]
    return rest[0] if invocation.has_command and rest else None, words


def _enterable_cwd() -> str:
    """Our directory by a name that works; a deleted one has one in /proc only, and we leave it."""
    if not is_deleted():
        return "."
    directory = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    os.chdir("/")
    return f"/proc/{os.getpid()}/fd/{directory}"


def command_of_claude(line: str) -> str | None:
    """What is behind `eval` in a line of Claude Code's shell tool; None if it is no such line."""
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    if not any(words[at : at + 3] == _WHERE_LEFT for at in range(len(words))):
        return None
    for at in range(len(words) - 2, -1, -1):
        if words[at] == "eval" and (words[at + 2] in ("<", "&&") or words[at + 2][:1] == "<"):
            return words[at + 1]
    return line


def _environment() -> dict[str, str]:
    """Without the prefix: an agent that is started by an agent has one of its own."""
    return {name: value for name, value in child.inherited().items() if name != _PREFIX}


class _OwnShell(Leashed):
    """A run that looks to its caller like the shell itself."""

    def __init__(self) -> None:
        super().__init__(parse(["run", "--color", "never", "--", _NAME]))
        self.client = _NAME
        self._command = Command("")

    async def run_line(self, text: str, argv: list[str], cwd: str) -> int:
        """Run the line to its end."""
        self._command = Command(text, (*_without_defaults(), *argv), cwd)
        return await self.run(text, {})

    async def start(self, terminal: Terminal, *_: object) -> Run:
        """The command with our own input and variables; whether it may run was decided before."""
        caller = Caller(client=_NAME, session=child.inherited().get(_SESSION, ""))
        options = RunOptions(
            profile=None,
            requester=Requester(caller),
            own=_environment(),
            stdin_from=0,
            one_output=_is_one_output(),
        )
        return await terminal.supervisor.start(self._command, options)

    def code_after_signal(self, outcome: Outcome, number: int) -> int:
        """That of a command which caught the signal, as its caller would see it."""
        own = outcome.exit.code
        return super().code_after_signal(outcome, number) if own is None else own


def _is_one_output() -> bool:
    """Whether stdout and stderr are one file (`2>&1`): two pipes would lose their order."""
    try:
        return os.path.sameopenfile(1, 2)
    except OSError:  # one of them is closed
        return False


def _without_defaults() -> list[str]:
    """Words that take out what commands get from us and the caller's shell would not have."""
    wanted = _environment()
    names = [name for name in (*child.QUIET, "TERM", "PATH", _PREFIX) if name not in wanted]
    return ["env", *(f"--unset={name}" for name in names)]
