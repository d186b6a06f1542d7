"""Where a reader of shell text stands, and what it says when the text makes no sense. Pure."""

from abc import ABC, abstractmethod
from typing import Self

from shelltie.shell.found import Found
from shelltie.shell.script import Kind, Part, Word
from shelltie.shell.source import Source
from shelltie.verdict import Code

NESTING_MAX = 20
_WORDS_END = 20_000
_NESTING_END = 30  # each level costs a dozen frames of Python's own stack


class Reading(ABC):
    """Reads one text from `at` on. It never raises: what is unfinished ends with the text.

    Where the text turns out wrong, `found` says so, and the reader goes on or stands at its end.
    """

    def __init__(self, source: Source, found: Found) -> None:
        self.source = source
        self.text = source.text
        self.end = len(source.text)
        self.at = 0
        self.found = found

    @abstractmethod
    def commands(self, closer: str) -> tuple[int, ...]:
        """Reads the commands up to `closer` and behind it; returns their places."""

    def inner(self, source: Source) -> Self:
        """A reader for a text inside this one."""
        return type(self)(source, self.found)

    def next_is(self, text: str) -> bool:
        """Whether `text` stands here."""
        return self.text.startswith(text, self.at)

    def broken(self, message: str, start: int) -> None:
        """The text makes no sense, or only one that cannot be trusted."""
        self.found.broken = True
        start = min(start, self.end)
        self.found.problem(Code.PARSE_ERROR, message, self.source.span(start, self.end))
        self.at = self.end if self.found.hopeless else self.at

    def doubtful(self, message: str, start: int) -> None:
        """The text can be read, but parsers are known to read it differently."""
        span = self.source.span(start, self.at)
        self.found.problem(Code.PARSER_DISAGREEMENT, message, span)

    def give_up(self, message: str, start: int) -> None:
        """Nothing that follows can be read."""
        self.broken(message, start)
        self.at = self.end

    def deeper(self) -> bool:
        """One level down; false where that is too deep to go on. Every `deeper` has its `back`."""
        self.found.depth += 1
        if self.found.depth > NESTING_MAX:
            span = self.source.span(min(self.at, self.end), self.end)
            self.found.problem(Code.TOO_DEEP, f"nested more than {NESTING_MAX} deep", span)
        if self.found.depth > _NESTING_END:
            self.give_up("nested too deep to be read", self.at)
        elif self.found.over:
            self.at = self.end
        return self.found.depth <= _NESTING_END and not self.found.over

    def back(self) -> None:
        """One level up."""
        self.found.depth -= 1

    def expansion(self, kind: Kind, start: int, mark: int, *, quoted: bool) -> Part:
        """The part from `start` to `at`, with the commands found since `mark`."""
        part = Part(kind, self.text[start : self.at], quoted, self.found.since(mark))
        self.count_word()
        return part

    def count_word(self) -> None:
        """Ends the reading where no person would have gone on writing."""
        self.found.words += 1
        if self.found.words > _WORDS_END:
            self.stop(f"more than {_WORDS_END} words")

    def stop(self, message: str) -> None:
        """What follows is not looked at."""
        self.found.problem(Code.TOO_LONG, message, self.source.span(self.at, self.end))
        self.found.over = True
        self.at = self.end

    def made(self, parts: list[Part], start: int, *, pattern: bool = False) -> Word:
        """The word from `start` to `at`, of these parts."""
        end = self.at
        self.count_word()
        literal = all(part.kind is Kind.TEXT for part in parts)
        value = "".join([part.text for part in parts]) if literal else None
        span = self.source.span(start, end)
        return Word(self.text[start:end], value, span, tuple(parts), pattern)
