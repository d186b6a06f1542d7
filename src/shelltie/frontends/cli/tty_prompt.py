"""Approval prompt on /dev/tty, whatever stdin and stdout are."""

import os
import termios
from contextlib import suppress

import anyio

from shelltie.approval.always import keys_line, offered_scopes
from shelltie.approval.ancestry import why_not_a_person
from shelltie.approval.card import hides_danger
from shelltie.approval.question import Answer, Question, Scope
from shelltie.frontends.cli.console import Style, width
from shelltie.frontends.cli.find_question import scope_of, styled

_TTY = "/dev/tty"
_LINE_MAX = 4096


class TerminalChannel:
    """The person who runs us in the foreground. Only an explicit yes is one."""

    name = "terminal"

    @property
    def can_ask(self) -> bool:
        """A command of ours may be given a terminal, too, and type there what it likes."""
        with suppress(OSError):
            terminal = _open()
            try:
                foreground = os.tcgetpgrp(terminal) == os.getpgrp()
            finally:
                os.close(terminal)
            return foreground and why_not_a_person(os.getpid()) is None
        return False

    async def ask(self, question: Question) -> Answer:
        """See `Channel`."""
        terminal = _open()
        try:
            scopes = [scope for scope in offered_scopes(question) if scope is not Scope.SESSION]
            whole = not hides_danger(question, width=width())
            await _write(terminal, styled(question, Style.for_tty(), full=not whole))
            termios.tcflush(terminal, termios.TCIFLUSH)  # what was typed before is no answer
            wish = "Apply these changes?" if question.is_apply else "Run this?"
            await _write(terminal, f"\n{wish}  {keys_line(scopes)}: ")
            scope = scope_of(await _read_line(terminal))
        except anyio.get_cancelled_exc_class():
            with suppress(OSError):
                os.write(terminal, b"\nshelltie: it has been settled without you\n")
            raise
        finally:
            os.close(terminal)
        allowed = scope in scopes
        by = "the person at the terminal"
        return Answer(allowed=allowed, scope=scope if scope and allowed else Scope.ONCE, by=by)


def _open() -> int:
    return os.open(_TTY, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)


async def _write(terminal: int, text: str) -> None:
    rest = memoryview(text.encode("utf-8", "replace"))
    while rest:
        try:
            rest = rest[os.write(terminal, rest) :]
        except BlockingIOError:
            await anyio.wait_writable(terminal)


async def _read_line(terminal: int) -> str:
    """Until the person presses Enter; nothing if they end the input instead."""
    line = b""
    while not line.endswith(b"\n") and len(line) < _LINE_MAX:
        await anyio.wait_readable(terminal)
        with suppress(BlockingIOError):
            chunk = os.read(terminal, _LINE_MAX)
            if not chunk:
                return ""
            line += chunk
    return line.decode("utf-8", "replace")
