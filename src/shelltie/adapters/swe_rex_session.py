"""Bash session of SWE-ReX: its actions and exceptions on a shell that stays.

The shell gets its commands through a pipe, so that their ends are known and not guessed from a
prompt; what is typed goes to the program that runs.
"""

import math
import os
import re
import signal
from contextlib import suppress

import anyio
from swerex.exceptions import (
    BashIncorrectSyntaxError,
    CommandTimeoutError,
    NonZeroExitCodeError,
    SessionNotInitializedError,
)
from swerex.runtime.abstract import BashAction, BashInterruptAction, BashObservation

from shelltie.adapters.raw_output import bounded_text
from shelltie.basics.safe_regex import Pattern, compile_for_output
from shelltie.errors import InvalidParameters, RunOver, SessionBusy, TerminalError
from shelltie.frontends.api import Terminal
from shelltie.model import Command, Isolation, Limits
from shelltie.output.text import decode
from shelltie.running.options import Requester, RunOptions
from shelltie.sessions.shell import CommandEnd, ShellSession
from shelltie.settings.all_settings import Waiting
from shelltie.shell.parse import parse
from shelltie.verdict import Code

PROMPT = "SHELLPS1PREFIX"  # what their own session says it saw when a command has ended
REFUSED = 126  # the exit code of a shell for what it may not run
_CONTROL = re.compile(r"\x1B[@-_][0-?]*[ -/]*[@-~]")  # what their own session removes
_CTRL_C = b"\x03"
_INTERRUPT_TAKES = 1.0  # seconds at least; theirs has 0.2, and no other process beside it
_KILL_TAKES = 10.0
_CHECK = Limits(20.0, None, "a check of syntax")


class RexSession:
    """Runs actions in one shell; all of it in the event loop of its terminal.

    An observation has at most `max_output` characters: the first and the last ones.
    """

    def __init__(
        self, shell: ShellSession, terminal: Terminal, requester: Requester, max_output: int
    ) -> None:
        self.shell = shell
        self._terminal = terminal
        self._requester = requester
        self._max_output = max_output
        self._beyond = ""  # printed after what was expected, and not read yet

    async def run(self, action: BashAction | BashInterruptAction) -> BashObservation:
        """Do as the action says.

        Raises: CommandTimeoutError, NonZeroExitCodeError, BashIncorrectSyntaxError,
        SessionNotInitializedError. What is refused is an observation with exit code 126.
        """
        try:
            if isinstance(action, BashInterruptAction):
                return await self._interrupt(action)
            if action.is_interactive_command or action.is_interactive_quit:
                return await self._interact(action)
            return _checked(action, await self._command(action))
        except RunOver as error:
            raise SessionNotInitializedError(f"{error}; close this session first") from error
        except SessionBusy as error:
            raise CommandTimeoutError(f"the command before still runs: {error}") from error
        except TerminalError as error:
            refused = BashObservation(
                output=f"[not run: {error}]\n", exit_code=REFUSED, failure_reason=str(error)
            )
            return _checked(action, refused)

    async def first(self, timeout: float) -> str:
        """What the start of the shell printed.

        Raises: CommandTimeoutError.
        """
        return self._observed(await self._follow(timeout, None), [], "the start of bash").output

    async def _command(self, action: BashAction) -> BashObservation:
        if not action.command.strip():
            return BashObservation(exit_code=0, expect_string=PROMPT)
        await self._check_syntax(action.command)
        end = await self._follow(action.timeout, _pattern(action.expect), action.command)
        return self._observed(end, action.expect, action.command)

    async def _interact(self, action: BashAction) -> BashObservation:
        """Type it for the program that runs; without one it is a command that starts one."""
        pattern = _pattern(action.expect)
        if self.shell.busy:
            typed = f"{action.command}\n".encode()
            async with self.shell.session.typing:
                await self.shell.let_type(typed, self._requester)
                self.shell.type(typed)
            end = await self._follow(action.timeout, pattern)
        else:
            end = await self._follow(action.timeout, pattern, action.command)
        seen = self._observed(end, action.expect, action.command)
        seen.exit_code = 0  # as theirs: what was typed has none
        if action.is_interactive_command:
            seen.output = seen.output.lstrip().removeprefix(action.command).strip()
        return seen

    async def _interrupt(self, action: BashInterruptAction) -> BashObservation:
        if not self.shell.busy:
            return BashObservation(exit_code=0, expect_string=PROMPT)
        pattern, takes = _pattern(action.expect), max(action.timeout, _INTERRUPT_TAKES)
        for _ in range(action.n_retry):
            self.shell.type(_CTRL_C)
            end = await self._follow(takes, pattern)
            if end.ended or end.reading.found:
                return self._observed(end, action.expect, "an interrupt")
        self._kill_foreground()
        self.shell.type(_CTRL_C)  # a shell that has more commands in its list drops them
        return self._observed(
            await self._follow(_KILL_TAKES, pattern), action.expect, "an interrupt"
        )

    def _kill_foreground(self) -> None:
        """End the program that ignores ctrl-c; the shell, and what it has put away, go on."""
        run = self.shell.session.run
        group = run.foreground_group
        # In isolation nobody says here which of the groups is the shell itself.
        if group not in (None, run.pid) and run.isolation is Isolation.NONE:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)

    async def _follow(
        self, timeout: float | None, pattern: Pattern | None, command: str | None = None
    ) -> CommandEnd:
        """Wait for the end of the command, or the pattern: one that reads input may go on."""
        until = math.inf if timeout is None else anyio.current_time() + timeout
        if command is None:
            end = await self.shell.follow(Waiting(most=timeout), pattern)
        else:  # the time that a person takes to say yes is not the command's
            end = await self.shell.run(command, Waiting(most=timeout), pattern, self._requester)
        self._beyond += self._text(end)
        while not (end.ended or end.reading.found) and anyio.current_time() < until:
            end = await self.shell.follow(Waiting(most=None, until=until), pattern)
            self._beyond += self._text(end)
        return end

    def _text(self, end: CommandEnd) -> str:
        """What this reading says, of which the middle is left out where it is too long."""
        return _plain(bounded_text(self.shell.session, end.reading, self._max_output))

    def _observed(self, end: CommandEnd, expect: list[str], what: str) -> BashObservation:
        text, self._beyond = self._beyond, ""
        matches = [found for found in (re.search(one, text) for one in expect) if found]
        if matches:
            first = min(matches, key=re.Match.start)
            self._beyond = text[first.end() :]
            return BashObservation(
                output=text[: first.start()],
                exit_code=end.exit_code,
                expect_string=first.re.pattern,
            )
        if not end.ended:
            raise CommandTimeoutError(
                f"timeout while running {what!r}, which goes on: interrupt it, or close the"
                f" session. It has printed:\n{text}"
            )
        return BashObservation(output=text, exit_code=end.exit_code, expect_string=PROMPT)

    async def _check_syntax(self, text: str) -> None:
        """Bash itself says whether it is wrong; it is asked only where our own parser has doubts.

        Raises: BashIncorrectSyntaxError.
        """
        if all(doubt.code is not Code.PARSE_ERROR for doubt in parse(text).problems):
            return
        command = Command("bash -n", ("bash", "-n"), stdin=text.encode("utf-8", "surrogateescape"))
        options = RunOptions(profile=None, limits=_CHECK, requester=self._requester)
        run = await self._terminal.supervisor.run(command, options)
        if run.outcome is not None and run.outcome.exit.number:
            told = decode(run.output.view(None, 8000, 0).head)
            raise BashIncorrectSyntaxError(
                f"bash does not understand {text!r}:\n{told}",
                extra_info={"bash_stdout": "", "bash_stderr": told},
            )


def _plain(text: str) -> str:
    return _CONTROL.sub("", text).replace("\r\n", "\n")


def _pattern(expect: list[str]) -> Pattern | None:
    """One pattern for all that may be expected.

    Raises: InvalidParameters for one that could take for ever.
    """
    if not expect:
        return None
    try:
        return compile_for_output("|".join(f"(?:{one})" for one in expect))
    except ValueError as error:
        raise InvalidParameters(f"expect {error}") from error


def _checked(action: BashAction | BashInterruptAction, seen: BashObservation) -> BashObservation:
    if not isinstance(action, BashAction) or action.check == "silent":
        return seen
    if action.check == "ignore":
        seen.exit_code = None
    elif seen.exit_code != 0:
        message = f"Command {action.command!r} failed with exit code {seen.exit_code}. Here is the"
        message = f"{message} output:\n{seen.output!r}"
        raise NonZeroExitCodeError(
            f"{action.error_msg}: {message}" if action.error_msg else message
        )
    return seen
