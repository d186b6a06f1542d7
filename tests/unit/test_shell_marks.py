"""Marks among output, in whatever pieces it comes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shelltie.sessions.shell_marks import CommandMark, Marks

NONCE = "0123456789ABCDEF" * 2
END = f"\x1b]5454;{NONCE};E;7;130;/home/größe\a".encode()
BEGIN = f"\x1b]5454;{NONCE};B;7;0;\a".encode()


def sifted(pieces: list[bytes]) -> tuple[bytes, list[CommandMark]]:
    marks = Marks(NONCE)
    found = [one for piece in pieces for one in marks.feed(piece)]
    output = b"".join(one for one in found if isinstance(one, bytes)) + marks.flush()
    return output, [one for one in found if isinstance(one, CommandMark)]


@given(st.lists(st.integers(0, 200), max_size=8))
def test_marks_are_found_and_output_is_whole_however_it_is_cut(cuts: list[int]) -> None:
    data = b"one\x1b[31m" + BEGIN + b"two\x1b" + END + b"\x1b]5454;other;E;7;0;/\a" + BEGIN
    places = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
    pieces = [data[a:b] for a, b in pairwise(places)]

    output, marks = sifted(pieces)

    assert output == b"one\x1b[31mtwo\x1b\x1b]5454;other;E;7;0;/\a"
    assert marks == [
        CommandMark(begins=True, number=7, exit_code=0, cwd=None),
        CommandMark(begins=False, number=7, exit_code=130, cwd="/home/größe"),
        CommandMark(begins=True, number=7, exit_code=0, cwd=None),
    ]


@given(st.binary(max_size=300))
def test_output_without_the_nonce_stays_as_it_is(data: bytes) -> None:
    assert sifted([data]) == (data, [])


@pytest.mark.parametrize(
    "forged",
    [
        f"\x1b]5454;{'F' * 32};E;7;0;/\a",
        f"\x1b]5454;{NONCE.lower()};E;7;0;/\a",
        f"\x1b]5454;{NONCE[:-1]};E;7;0;/\a",
        f"]5454;{NONCE};E;7;0;/\a",
    ],
)
def test_a_mark_with_another_nonce_is_output(forged: str) -> None:
    assert sifted([b"a", forged.encode(), b"b"]) == (b"a" + forged.encode() + b"b", [])


@pytest.mark.parametrize("rest", ["X;7;0;/\a", "E;7;0;/\n\a", "E;;0;/\a", "E;7;1000;/\a", "E;7;0"])
def test_half_a_mark_is_none_and_its_nonce_is_never_shown(rest: str) -> None:
    output, marks = sifted([f"a\x1b]5454;{NONCE};{rest}".encode(), b"\r\nb"])

    assert marks == []
    assert output.endswith(b"\r\nb")
    assert NONCE.encode() not in output


def test_a_mark_without_end_holds_back_only_so_much() -> None:
    output, marks = sifted([f"\x1b]5454;{NONCE};E;7;0;".encode(), b"x" * 20_000])

    assert marks == []
    assert output.endswith(b"x" * 20_000)


def test_only_what_may_be_a_mark_is_held_back() -> None:
    marks = Marks(NONCE)

    assert list(marks.feed(b"text\x1b]54")) == [b"text"]
    assert list(marks.feed(b"x")) == [b"\x1b]54x"]
