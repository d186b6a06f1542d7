"""What a terminal must not be shown again, and what is undone."""

import pytest

from shelltie.frontends.cli.safe_replay import TerminalModes, until_detached, without_questions

ALWAYS = TerminalModes().undo()


@pytest.mark.parametrize(
    "question",
    [
        b"\x1b[c",
        b"\x1b[0c",
        b"\x1b[>c",
        b"\x1b[=c",
        b"\x1b[5n",
        b"\x1b[6n",
        b"\x1b[?6n",
        b"\x1b[?2026$p",
        b"\x1b[4$p",
        b"\x1b[>q",
        b"\x1b[>0q",
        b"\x1b[?u",
        b"\x1b[14t",
        b"\x1b[18t",
        b"\x1b[21t",
        b"\x1b]11;?\x07",
        b"\x1b]4;1;?\x1b\\",
        b"\x1bP+q544e\x1b\\",
        b"\x1bP$qm\x1b\\",
        b"\x1bZ",
        b"\x05",
    ],
)
def test_a_question_is_left_out(question: bytes) -> None:
    assert without_questions(b"before" + question + b"after") == b"beforeafter"


@pytest.mark.parametrize(
    "kept",
    [
        b"plain",
        b"\x1b[31mred\x1b[0m",
        b"\x1b[?1049h",
        b"\x1b[2J\x1b[H",
        b"\x1b]0;title\x07",
        b"\x1b[8;24;80t",
    ],
)
def test_everything_else_stays(kept: bytes) -> None:
    assert without_questions(kept) == kept


@pytest.mark.parametrize("key", [b"\x1d", b"\x1b[93;5u", b"\x1b[27;5;93~"])
def test_the_key_that_detaches_is_found_in_all_its_forms(key: bytes) -> None:
    assert until_detached(b"ls" + key + b"rest", ctrl_c=False) == (b"ls", True)


def test_ctrl_c_detaches_only_where_nothing_is_typed() -> None:
    assert until_detached(b"a\x03", ctrl_c=False) == (b"a\x03", False)
    assert until_detached(b"a\x03", ctrl_c=True) == (b"a", True)


def test_what_was_switched_is_switched_back() -> None:
    modes = TerminalModes()
    modes.see(b"\x1b[?1049h\x1b[?25l\x1b[?1000;1006h text \x1b[>1u")

    undone = modes.undo()

    for back in (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?1000l", b"\x1b[?1006l", b"\x1b[<9u"):
        assert back in undone


def test_what_was_switched_back_already_is_left_alone() -> None:
    modes = TerminalModes()
    modes.see(b"\x1b[?1049h\x1b[?25l\x1b[?1049l\x1b[?25h\x1b[?7h")

    assert modes.undo() == ALWAYS


def test_a_sequence_cut_anywhere_is_seen() -> None:
    sequence = b"x\x1b[?1049hy"
    for place in range(len(sequence)):
        modes = TerminalModes()
        modes.see(sequence[:place])
        modes.see(sequence[place:])
        assert b"\x1b[?1049l" in modes.undo()
