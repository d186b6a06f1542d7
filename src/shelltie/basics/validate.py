"""Validation of values and JSON documents: what is invalid is told to its author. Pure."""

import difflib
import math
import re
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

from shelltie.basics.lazy_regex import lazy

_Value = TypeVar("_Value")
_Default = TypeVar("_Default")
_Choice = TypeVar("_Choice", bound=StrEnum)

_PROBLEMS_MAX = 100
_HIGHEST = 1.7e308  # so that infinity and integers beyond every float are refused
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

    def __init__(self, most: int = _PROBLEMS_MAX) -> None:
        self.names: Mapping[str, str] = {}  # what places are called in the file itself
        self._most = most
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
        if len(self._problems) >= self._most:
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


def known_instead(word: str, known: Collection[str], otherwise: str = "") -> str:
    """The same, or `otherwise`, or all that there is."""
    return did_you_mean(word, known) or f"; {otherwise or 'known: ' + ', '.join(known)}"


def problem(value: object, check: Callable[[object], object]) -> str | None:
    """What is wrong with a value, if anything is."""
    try:
        check(value)
    except InvalidValue as error:
        return str(error)
    return None


def invalid(what: str, value: object) -> InvalidValue:
    """The error of a value that should be `what`."""
    return InvalidValue(f"must be {what}, not {reprlib.repr(value)}")


def of_kind(kind: type[_Value], what: str) -> Callable[[object], _Value]:
    """A check for values of one type."""

    def check(value: object) -> _Value:
        if not isinstance(value, kind):
            raise invalid(what, value)
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
        raise invalid("a text", value)
    return value


def texts(value: object) -> list[str]:
    """A list of texts, of which any may be empty.

    Raises: InvalidValue.
    """
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise invalid("a list of texts", value)
    return list(value)


def whole_number(
    what: str, least: int, most: float = math.inf, *, or_zero: bool = False
) -> Callable[[object], int]:
    """A check for whole numbers. Booleans and texts are none."""

    def check(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise invalid(what, value)
        if not least <= value <= most and (value or not or_zero):
            raise invalid(what, value)
        return value

    return check


def number(
    what: str, least: float, most: float = _HIGHEST, *, or_zero: bool = False
) -> Callable[[object], float]:
    """A check for numbers. Booleans, texts, infinity and NaN are none."""

    def check(value: object) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise invalid(what, value)
        if not least <= value <= most and (value or not or_zero):
            raise invalid(what, value)
        return float(value)

    return check


def count_of(what: str) -> Callable[[object], int]:
    """A check for whole numbers, 0 or more."""
    return whole_number(f"a number of {what}, 0 or more", 0)


def number_of(what: str) -> Callable[[object], float]:
    """A check for numbers, 0 or more."""
    return number(f"a number of {what}, 0 or more", 0)


def number_up_to(highest: float, what: str) -> Callable[[object], float]:
    """A check for numbers above 0."""
    return number(what, math.ulp(0.0), highest)


duration = number_up_to(_HIGHEST, "a number of seconds above 0")
_duration_or_null = number_up_to(_HIGHEST, "a number of seconds above 0, or null for no limit")


def duration_or_none(value: object) -> float | None:
    """A duration, or `None` for null.

    Raises: InvalidValue.
    """
    return None if value is None else _duration_or_null(value)


def one_of(*words: str) -> Callable[[object], str]:
    """A check for one of several words."""

    def check(value: object) -> str:
        if value not in words:
            raise invalid(f"one of {', '.join(words)}", value)
        return str(value)

    return check


def member_of(choices: type[_Choice]) -> Callable[[object], _Choice]:
    """A check for the names of an enumeration."""
    check = one_of(*choices)
    return lambda value: choices(check(value))
