"""PATH of the user's login shell, so that what nvm and pyenv install is found.

A server that a desktop started has a bare PATH. The user's shell is asked once, as a run like any
other: a profile that hangs, prompts or leaves daemons behind harms nothing.
"""

from collections.abc import Callable

import anyio

from shelltie.environment import child
from shelltie.model import Command, Stream
from shelltie.running.run import Run

_MARK = "__shelltie_path__"
_ANSWER_TIMEOUT = 3.0


class LoginPath:
    """Asks once, and everybody waits for the one answer."""

    def __init__(self) -> None:
        self.path: str | None = None
        self.source = "inherited"
        self._shell = child.login_shell()
        self._question: Run | None = None
        self._answered = False

    def ask(self, start: Callable[[Command], Run]) -> None:
        """Start the question; its answer is wanted with the first command."""
        words = (self._shell, "-lic", f'printf "%s" {_MARK} "$PATH" {_MARK}')
        self._question = start(Command(text=f"{self._shell} -lic", argv=words, cwd="/"))

    async def wait(self) -> None:
        """Return when the answer is known, or will not come."""
        question = self._question
        if self._answered or question is None:
            return
        with anyio.move_on_after(_ANSWER_TIMEOUT - question.elapsed):
            await question.wait()
        self._conclude(question)

    def _conclude(self, question: Run) -> None:
        if self._answered:
            return
        self._answered = True
        question.stop("its PATH is not waited for any longer")
        said = question.output.view(Stream.STDOUT, 64 * 1024, 64 * 1024)
        parts = (said.head + said.tail).decode("utf-8", "surrogateescape").split(_MARK)
        if len(parts) == 3 and parts[1]:
            inherited = child.inherited().get("PATH", "")
            self.path = child.join_paths(parts[1], inherited)
            self.source = f"login shell {self._shell}"
        else:
            self.source = f"inherited ({self._shell} gave no answer in {_ANSWER_TIMEOUT:.0f} s)"
