from collections.abc import Callable

import pytest

from shelltie.basics.validate import (
    InvalidValue,
    count_of,
    known_instead,
    number_of,
    of_kind,
    text,
    texts,
)


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (text, "a"),
        (texts, ["a", ""]),
        (count_of("bytes"), 0),
        (number_of("seconds"), 2.5),
        (number_of("seconds"), 0),
        (of_kind(dict, "an object"), {}),
    ],
)
def test_what_is_right_is_returned(check: Callable[[object], object], value: object) -> None:
    assert check(value) == value


@pytest.mark.parametrize(
    ("check", "value", "told"),
    [
        (text, "", "must be a text, not ''"),
        (text, 3, "must be a text, not 3"),
        (texts, "ab", "must be a list of texts, not 'ab'"),
        (texts, ["a", 1], "must be a list of texts, not ['a', 1]"),
        (count_of("bytes"), True, "must be a number of bytes, 0 or more, not True"),
        (count_of("bytes"), -1, "must be a number of bytes, 0 or more, not -1"),
        (number_of("seconds"), float("nan"), "must be a number of seconds, 0 or more, not nan"),
        (number_of("seconds"), "1", "must be a number of seconds, 0 or more, not '1'"),
        (of_kind(dict, "an object"), [], "must be an object, not []"),
    ],
)
def test_what_is_wrong_is_told(check: Callable[[object], object], value: object, told: str) -> None:
    with pytest.raises(InvalidValue) as wrong:
        check(value)

    assert str(wrong.value) == told


def test_an_unknown_word_is_answered_with_what_was_meant_or_with_all() -> None:
    assert known_instead("timeuot", ["timeout", "cwd"]) == "; did you mean timeout?"
    assert known_instead("x", ["timeout", "cwd"]) == "; known: timeout, cwd"
