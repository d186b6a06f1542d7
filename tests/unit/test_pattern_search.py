"""Waiting for a text among what a program prints."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shelltie.basics.safe_regex import compile_for_output
from shelltie.sessions.pattern_search import Finder


def found(pattern: str, *chunks: bytes, skip: int = 0, typed: str = "") -> bool:
    finder = Finder(compile_for_output(pattern), skip=skip, typed=typed)
    return any(hit for chunk in chunks for hit in finder.feed(chunk))


@pytest.mark.parametrize(
    ("pattern", "printed"),
    [
        ("ready", b"server ready\r\n"),
        ("^ready$", b"starting\r\nready\r\n"),
        ("Local: http", b"  \x1b[32mLocal:\x1b[0m http://localhost\r\n"),
        ("password: $", b"password: "),
        ("100%", b"10%\r50%\r100%\r\n"),
        ("50%$", b"10%\r50%\r100%\r\n"),
        ("grün", "ist grün\n".encode()),
        ("(?i)READY", b"ready\n"),
        ("title", b"\x1b]0;a title\x07title\n"),
        ("end", b"x" * 100_000 + b"end"),
        ("^x", b"x" * 100_000),
    ],
)
def test_what_a_reader_sees_is_found(pattern: str, printed: bytes) -> None:
    assert found(pattern, printed)
    assert found(pattern, *(printed[at : at + 1000] for at in range(0, len(printed), 1000)))


@pytest.mark.parametrize(
    ("pattern", "printed"),
    [
        ("ready", b"READY\n"),
        ("a.b", b"a\nb\n"),
        ("^ready", b"not ready\n"),
        ("title", b"\x1b]0;a title\x07other\n"),
        ("^end", b"x" * 100_000 + b"end"),
    ],
)
def test_what_is_not_there_is_not_found(pattern: str, printed: bytes) -> None:
    assert not found(pattern, printed)


def test_the_echo_of_what_was_typed_is_no_answer() -> None:
    assert not found("DONE", b"$ sleep 2; echo DONE\r\n", typed="sleep 2; echo DONE\n")
    assert not found("DONE", b"$ sleep 2; ec", b"ho DONE", b"\r\n", typed="sleep 2; echo DONE\n")
    assert found("DONE", b"$ echo DONE\r\n", b"DONE\r\n", typed="echo DONE\n")


def test_what_was_read_already_is_not_looked_at() -> None:
    assert not found("old", b"old new\n", skip=3)
    assert found("new", b"old new\n", skip=3)


@given(
    st.binary(max_size=300).map(lambda noise: noise.replace(b"N", b"n")),
    st.lists(st.integers(0, 310), max_size=6),
)
def test_a_line_is_found_whatever_is_around_it_and_however_it_arrives(
    noise: bytes, places: list[int]
) -> None:
    printed = noise + b"\n\x1b\\\nNEEDLE\n" + noise
    cuts = [0, *sorted(places), len(printed)]

    assert found("^NEEDLE$", *(printed[a:b] for a, b in pairwise(cuts)))


@pytest.mark.parametrize("text", [r"\s+\s+\s+\s+x", "(a+)+b", ".*.*.*x", "("])
def test_a_pattern_that_could_take_long_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"long|for ever|not a regular"):
        compile_for_output(text)


@pytest.mark.parametrize("text", ["\n", r"ready\n", "a\nb", r"x\r"])
def test_a_pattern_that_no_line_can_have_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="leave the line break out"):
        compile_for_output(text)
    compile_for_output(r"[^\n]*ready$")
