"""Tables on a terminal: colours take no room."""

import sys

import pytest

from shelltie.basics.lazy_regex import lazy
from shelltie.frontends.cli.console import Style, cut, table

STYLE = lazy(r"\033\[\d+m")


def test_coloured_cells_stand_below_one_another(capsys: pytest.CaptureFixture[str]) -> None:
    ink = Style(sys.stdout, "always")

    table([("rm", "why"), (ink("red", "rm"), "why"), ("longest", ink("dim", "why"))])

    lines = STYLE.sub("", capsys.readouterr().out).splitlines()
    assert [line.index("why") for line in lines] == [9, 9, 9]


def test_what_is_cut_keeps_its_colours_and_ends_them() -> None:
    ink = Style(sys.stdout, "always")
    text = ink("red", "dangerous") + " because"

    assert cut(text, 17) == text
    assert cut(text, 12) == ink("red", "dangerous") + " b…"
    assert cut(text, 5) == ink("red", "dang") + "…"
