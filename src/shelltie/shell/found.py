"""What reading a shell text has found so far. Pure."""

from dataclasses import dataclass, field

from shelltie.shell.script import Assignment, Problem, Redirect, Simple, Word
from shelltie.verdict import Code, Span

_PROBLEMS_MAX = 20  # more tell nobody more


@dataclass(slots=True)
class Draft:
    """A simple command that is still being read; a here-document may complete it much later."""

    span: Span
    words: list[Word] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    feeds: tuple[int, ...] | None = None
    loop: str | None = None
    background: bool = False

    @property
    def has_something(self) -> bool:
        """There is more to it than a comment."""
        return bool(self.words or self.assignments or self.redirects)

    def finished(self) -> Simple:
        """The command as it is now."""
        return Simple(
            tuple(self.words),
            self.span,
            tuple(self.assignments),
            tuple(self.redirects),
            self.feeds or (),
            self.loop,
            self.background,
        )


@dataclass(slots=True)
class Found:
    """Shared by all readers of one text, those of its pieces included."""

    drafts: list[Draft] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    depth: int = 0
    words: int = 0
    second_readings: int = 0
    broken: bool = False
    over: bool = False  # nothing more is looked at

    @property
    def hopeless(self) -> bool:
        """So much is wrong that going on would find nothing but more of it."""
        return len(self.problems) >= _PROBLEMS_MAX

    def problem(self, code: Code, message: str, span: Span) -> None:
        """Notes what keeps the text from being safe, once for each place."""
        if not self.hopeless:
            problem = Problem(code, message, span)
            self.problems += [] if problem in self.problems else [problem]

    def since(self, mark: int) -> tuple[int, ...]:
        """The places of the commands that were found after `mark` of them."""
        return tuple(range(mark, len(self.drafts)))
