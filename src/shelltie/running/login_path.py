"""The PATH of the user's login shell, so that what nvm, pyenv and the like install is found.

A server that a desktop started has a bare PATH. The user's shell is asked once, as a run like any
other: a profile that hangs, prompts or leaves daemons behind harms nobody.
"""

from typing import Protocol

import anyio

from shelltie.model import Command, Stream
from shelltie.policy import environment
from shelltie.running.run import Run

_MARK = "__shelltie_path__"
_PATIENCE = 3.0


class Starts(Protocol):
    """Who can start the probe."""

    def start(self, command: Command, /) -> Run:
        """See `Supervisor.start`."""
        ...


class LoginPath:
    """Asks once, and everybody waits for the one answer."""

    def __init__(self) -> None:
        self.path: str | None = None
        self.source = "inherited"
        self._asked = False
        self._answered = anyio.Event()

    async def wait(self, starts: Starts) -> None:
        """Return when the answer is known, or will not come."""
        if self._asked:
            await self._answered.wait()
            return
        self._asked = True
        try:
            await self._ask(starts)
        finally:
            self._answered.set()

    async def _ask(self, starts: Starts) -> None:
        shell = environment.login_shell()
        question = (shell, "-lic", f'printf "%s" {_MARK} "$PATH" {_MARK}')
        run = starts.start(Command(text=f"{shell} -lic", argv=question, cwd="/"))
        with anyio.move_on_after(_PATIENCE):
            await run.wait()
        run.stop("its PATH is not waited for any longer")
        answer = run.output.view(Stream.STDOUT, 64 * 1024, 64 * 1024)
        parts = (answer.head + answer.tail).decode("utf-8", "surrogateescape").split(_MARK)
        if len(parts) == 3 and parts[1]:
            inherited = environment.inherited().get("PATH", "")
            self.path = environment.join_paths(parts[1], inherited)
            self.source = f"login shell {shell}"
        else:
            self.source = f"inherited ({shell} gave no answer in {_PATIENCE:.0f} s)"
