"""Validation of values and JSON documents: what is invalid is told to its author. Pure."""

import difflib
import re
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

from shelltie.basics.lazy_regex import lazy
from shelltie.basics.times import seconds

_Value = TypeVar("_Value")
_Default = TypeVar("_Default")
_Choice = TypeVar("_Choice", bound=StrEnum)

_PROBLEMS_MAX = 100
# Strings come first, so that nothing inside one is a comment; what is not closed ends the text.
_COMMENT = lazy(
    r'"(?>(?:[^"\\]++|\\.)*)"?+|(?P<comment>//[^\n]*+|/\*(?>(?:[^*]++|\*(?!/))*)(?>(?:\*/)?))',
    re.DOTALL,
)


def without_comments(text: str) -> str:
    """JSON as it should be: no byte order mark, blanks in place of `//` and `/* */` comments."""
    return _COMMENT.sub(
        lambda found: re.sub(r"[^\n]", " ", found[0]) if found["comment"] else found[0],
        text.removeprefix("\ufeff"),
    )


class InvalidValue(ValueError):
    """An item is not what it should be; the message says what it should be."""


class DocumentReader:
    """Takes values out of a document and remembers what was wrong with it."""

    def __init__(self) -> None:
        self.names: Mapping[str, str] = {}  # what places are called in the file itself
        self._problems: list[str] = []
        self._unsaid = 0

    @property
    def problems(self) -> tuple[str, ...]:
        """What was wrong, in the order it was found."""
        unsaid = (f"{self._unsaid} more problems are not listed",) if self._unsaid else ()
        return (*self._problems, *unsaid)

    def say(self, path: str, problem: str) -> None:
        """Remember that something at `path` is wrong."""
        line = f"{self._name(path)}: {problem}"
        if len(self._problems) >= _PROBLEMS_MAX:
            self._unsaid += 1
        elif line not in self._problems:
            self._problems.append(line)

    def pairs(self, items: list[tuple[str, object]]) -> dict[str, object]:
        """The hook of `json` for objects: a key that is given twice is told."""
        result = dict(items)
        if len(result) < len(items):
            seen: set[str] = set()
            for key, _ in items:
                if key in seen:
                    self.say(key, "is given twice in one object; the last one counts")
                seen.add(key)
        return result

    def take(
        self, path: str, value: object, check: Callable[[object], _Value], otherwise: _Default
    ) -> _Value | _Default:
        """The checked value, or `otherwise` and a problem more."""
        try:
            return check(value)
        except InvalidValue as error:
            self.say(path, str(error))
            return otherwise

    def option(
        self,
        document: Mapping[str, object],
        key: str,
        check: Callable[[object], _Value],
        default: _Default,
        *,
        within: str = "",
    ) -> _Value | _Default:
        """Like `take`, for a key that may be absent."""
        return (
            self.take(within + key, document[key], check, default) if key in document else default
        )

    def items(self, path: str, value: object) -> Mapping[str, object]:
        """A JSON object, empty where there is something else."""
        return self.take(path, value, json_object, {})

    def unknown_keys(
        self, path: str, document: Mapping[str, object], known: Collection[str]
    ) -> None:
        """Tell every key that means nothing here, and which one may have been meant."""
        for key in document:
            if key not in known:
                self.say(path + key, "is not known and is ignored" + did_you_mean(key, known))

    def _name(self, path: str) -> str:
        for mine in sorted(self.names, key=len, reverse=True):
            if path == mine or path.startswith((mine + ".", mine + "[")):
                return self.names[mine] + path[len(mine) :]
        return path


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question for the end of a message, or nothing."""
    close = difflib.get_close_matches(word[:60], known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def known_instead(word: str, known: Collection[str]) -> str:
    """The same, or all that there is."""
    return did_you_mean(word, known) or f"; known: {', '.join(known)}"


def _wrong(what: str, value: object) -> InvalidValue:
    return InvalidValue(f"must be {what}, not {reprlib.repr(value)}")


def of_kind(kind: type[_Value], what: str) -> Callable[[object], _Value]:
    """A check for values of one type."""

    def check(value: object) -> _Value:
        if not isinstance(value, kind):
            raise _wrong(what, value)
        return value

    return check


json_object = of_kind(dict, "an object {…}")
json_list = of_kind(list, "a list […]")
json_text = of_kind(str, "a text in quotes")
json_boolean = of_kind(bool, "true or false")


def text(value: object) -> str:
    """A text that is not empty.

    Raises: InvalidValue.
    """
    if not isinstance(value, str) or not value:
        raise _wrong("a text", value)
    return value


def texts(value: object) -> list[str]:
    """A list of texts, of which any may be empty.

    Raises: InvalidValue.
    """
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise _wrong("a list of texts", value)
    return list(value)


def count_of(what: str) -> Callable[[object], int]:
    """A check for whole numbers, 0 or more."""

    def check(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise _wrong(f"a number of {what}, 0 or more", value)
        return value

    return check


def number_of(what: str) -> Callable[[object], float]:
    """A check for numbers, 0 or more."""

    def check(value: object) -> float:
        try:
            return seconds(value, what) or 0.0
        except ValueError:
            raise _wrong(f"a number of {what}, 0 or more", value) from None

    return check


def number_up_to(highest: float, what: str) -> Callable[[object], float]:
    """A check for numbers above 0. Booleans, texts and NaN are none."""

    def check(value: object) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 < value <= highest:  # type: ignore[operator]  # is_number says so
            raise _wrong(what, value)
        return float(value)  # type: ignore[arg-type]

    return check


# The highest float, so that infinity and integers beyond every float are refused.
duration = number_up_to(1.7e308, "a number of seconds above 0")
_duration_or_null = number_up_to(1.7e308, "a number of seconds above 0, or null for no limit")


def duration_or_none(value: object) -> float | None:
    """A duration, or `None` for null.

    Raises: InvalidValue.
    """
    return None if value is None else _duration_or_null(value)


def one_of(choices: type[_Choice]) -> Callable[[object], _Choice]:
    """A check for the names of an enumeration."""

    def check(value: object) -> _Choice:
        for choice in choices:
            if choice == value:
                return choice
        raise _wrong(f"one of {', '.join(choices)}", value)

    return check
