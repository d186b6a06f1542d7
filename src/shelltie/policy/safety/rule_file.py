"""A rule file as text: its tables, the lines they stand on, and what is wrong with them. Pure."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TypeVar

from shelltie.errors import ConfigWrong
from shelltie.policy.checks import did_you_mean
from shelltie.policy.patterns import compile_pattern

_Choice = TypeVar("_Choice", bound=StrEnum)

_PROBLEMS_MAX = 20
_HEADER = re.compile(r"\s*\[\[\s*rule\s*(\.\s*when\s*)?\]\]")


class Page:
    """A rule file while it is read: what it says, and what is wrong with it."""

    def __init__(self, text: str, file: str, *, trusted: bool) -> None:
        self.file, self.trusted = file, trusted
        self._lines = text.splitlines()
        self._problems: list[str] = []
        try:
            self._document = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ConfigWrong(f"{file}: is not TOML: {error}") from error

    def blocks(self, known: frozenset[str]) -> Iterator["Block"]:
        """Each `[[rule]]`, with its own `[[rule.when]]`; `known` are the keys it may have."""
        for key in self._document:
            if key != "rule":
                line = self.line_of(key, 1)
                self.say(line, key, "is not known" + did_you_mean(key, ["rule"]))
        tables = self._document.get("rule", [])
        starts = self._starts()
        for place, table in enumerate(tables if isinstance(tables, list) else []):
            if isinstance(table, dict):
                lines = starts[place] if place < len(starts) else [1]
                yield Block(self, table, lines[0], lines[1:], known)
        if not isinstance(tables, list):
            self.say(1, "rule", "must be written as [[rule]]")

    def _starts(self) -> list[list[int]]:
        """For each rule the line of its header, then those of its `when` headers."""
        starts: list[list[int]] = []
        for number, line in enumerate(self._lines, 1):
            if header := _HEADER.match(line):
                if header[1] is None:
                    starts.append([number])
                elif starts:
                    starts[-1].append(number)
        return starts

    def line_of(self, key: str, start: int) -> int:
        """The line of a key in the table that begins at `start`."""
        written = re.compile(rf"\s*{re.escape(key)}\s*[=.\]]|\s*\[\[?\s*{re.escape(key)}\s*\]")
        for number in range(start, len(self._lines) + 1):
            if number > start and _HEADER.match(self._lines[number - 1]):
                break
            if written.match(self._lines[number - 1]):
                return number
        return start

    def say(self, line: int, key: str, problem: str) -> None:
        """Remember that something is wrong."""
        self._problems.append(f"{self.file}:{line}: {key}: {problem}")

    def done(self) -> None:
        """Raises: ConfigWrong if anything was wrong."""
        if self._problems:
            more = len(self._problems) - _PROBLEMS_MAX
            tail = [f"{more} more problems are not listed"] if more > 0 else []
            raise ConfigWrong("\n".join(self._problems[:_PROBLEMS_MAX] + tail))


class Block:
    """One table of the file; what is wrong in it is told and has a harmless default."""

    def __init__(
        self,
        page: Page,
        table: Mapping[str, object],
        line: int,
        whens: list[int],
        known: frozenset[str],
    ) -> None:
        self.page, self.table, self.line = page, table, line
        self._whens = whens
        for key in table:
            if key not in known:
                self.wrong(key, "is not known" + did_you_mean(key, known))

    def wrong(self, key: str, problem: str) -> None:
        """Something is wrong with a key of it."""
        self.page.say(self.page.line_of(key, self.line), key, problem)

    def blocks(self, key: str, known: frozenset[str]) -> Iterator["Block"]:
        """The tables inside it."""
        tables = self.table.get(key, [])
        for place, table in enumerate(tables if isinstance(tables, list) else []):
            if isinstance(table, dict):
                line = self._whens[place] if place < len(self._whens) else self.line
                yield Block(self.page, table, line, [], known)

    def text(self, key: str) -> str:
        """A text, empty where there is none."""
        value = self.table.get(key, "")
        if not isinstance(value, str):
            self.wrong(key, "must be a text in quotes")
            return ""
        return value

    def truth(self, key: str, *, default: bool = False) -> bool:
        """True or false."""
        value = self.table.get(key, default)
        if not isinstance(value, bool):
            self.wrong(key, "must be true or false")
            return default
        return value

    def names(self, key: str) -> frozenset[str]:
        """Names with blanks between them."""
        return frozenset(self.text(key).split())

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        value = self.table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.wrong(key, "must be a list of texts")
            return ()
        return tuple(value)

    def pairs(self, key: str) -> Iterator[tuple[str, str]]:
        """A table of texts."""
        value = self.table.get(key, {})
        if not isinstance(value, dict):
            self.wrong(key, "must be a table { name = text }")
            return
        for name, text in value.items():
            if isinstance(text, str):
                yield name, text
            else:
                self.wrong(key, f"{name} must be a text in quotes")

    def choice(self, key: str, choices: type[_Choice], default: _Choice) -> _Choice:
        """One of the names of an enumeration."""
        value = self.text(key) if key in self.table else default
        return self.one_of(key, value, choices) or default

    def one_of(self, key: str, value: str, choices: type[_Choice]) -> _Choice | None:
        """The choice that a word names; `None` and a problem more if there is none."""
        try:
            return choices(value)
        except ValueError:
            known = [str(choice) for choice in choices]
            advice = did_you_mean(value, known) or f"; it is one of {', '.join(known)}"
            self.wrong(key, f"{value!r} is not known{advice}")
            return None

    def pattern(self, key: str, text: str) -> str | None:
        """A regular expression that may be used."""
        # Ours are tried by a test; compiling them all would make the first command of a kind slow.
        try:
            _ = self.page.trusted or compile_pattern(text)
        except ValueError as error:
            self.wrong(key, f"{text!r} {error}")
            return None
        return text
