"""What is played again on a person's terminal: what draws, and nothing else."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shelltie.frontends.cli.safe_replay import DrawingFilter

ALLOWED = re.compile(
    r"\x1b(?:\[[0-9;:?]*[@A-HJ-MPSTXadefmrsu`hl]|[()][0-9A-Za-z]|[78DEMH])|[^\x1b\x7f-\x9f]"
)


def drawn(*pieces: bytes) -> bytes:
    drawing = DrawingFilter()
    return b"".join([*map(drawing.feed, pieces), drawing.feed(b"", final=True)])


@pytest.mark.parametrize(
    "text",
    [
        b"one\r\n\ttwo\b \xc3\xa9 \xe2\x9c\x93",
        b"\x1b[1;38:5:196mred\x1b[0m \x1b[2J\x1b[H\x1b[10;5f\x1b[K",
        b"\x1b[?1049h\x1b[?25l\x1b[1;20r\x1b7\x1b8\x1bM\x1b(0lqk\x1b(B\x1b[?25h\x1b[?1049l",
    ],
)
def test_what_draws_passes(text: bytes) -> None:
    assert drawn(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b"a\x1b]52;c;ZXZpbA==\x07b", b"ab"),
        (b"a\x1b]0;title\x1b\\b", b"ab"),
        (b"a\xc2\x9b6nb \xc2\x9d52;c;x\xc2\x9cc", b"a6nb c"),
        (b"a\x1b[6\x08nb", b"a\x08nb"),
        (b"a\x1b[6nb\x1b[cb\x1b[>0qb\x1b[?1;2Sb\x1b[21tb", b"abbbbb"),
        (b'a\x1bP$q"p\x1b\\b\x1b_x\x9cc\x1b\\d\x05\x07', b"abd"),
        (b"a\x1b[?1000h\x1b[?2004h\x1b[>4;2mb\x1bcd\x1b=", b"abd"),
        (b"a\x1b]0;never closed\nb", b"a\nb"),
        (b"a\x1b]0;x\x1b[31mb", b"a\x1b[31mb"),
        (b"a\xff\x9bb", "a\ufffd\ufffdb".encode()),
        (b"a\x1b", b"a"),
    ],
)
def test_what_does_not_draw_is_left_out(text: bytes, shown: bytes) -> None:
    assert drawn(text) == shown


@given(st.lists(st.binary() | st.sampled_from([b"\x1b", b"\x1b[", b"]", b"6n", b"\x9b", b"\x07"])))
def test_nothing_else_passes_however_it_is_cut(pieces: list[bytes]) -> None:
    shown = drawn(*pieces)

    assert ALLOWED.sub("", shown.decode()) == ""
    assert shown == drawn(b"".join(pieces))
