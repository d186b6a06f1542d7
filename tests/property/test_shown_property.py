"""What a person is shown: whatever the text is, all of it can be seen and read back."""

import re
import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st

from shelltie.basics import visible_text
from shelltie.basics.visible_text import notes

HOSTILE = st.sampled_from(
    "\0\t\r\x1b\x7f\x85\xa0\xad\u0300\u034f\u05d0\u061c\u0661\u115f\u17b4\u180b\u200b\u200d\u200e\u2028"
    "\u202e\u2066\u2800\u3000\u3164\ue000\ufe0f\ufeff\ufff9\U000e0041\U000e0100\U000f0000\U0001f600"
    "\u0915\u093f\u0e01\u0e34\u212b\u037e\uff41\udcff\ud800⟨⟩│┊╎ ab\n"
)
TEXTS = st.one_of(
    st.text(alphabet=HOSTILE),
    st.text(alphabet=st.characters(exclude_categories=())),
    st.lists(
        st.sampled_from(["\n", " ", " ", "  ", " " * 40, "x" * 100, "\u200b" * 9, "ls", "word"])
    ).map("".join),
)
MARK = re.compile(r"⟨([^⟩]*)⟩")
WORDS = {"tab": "\t", "newline": "\n"}


def character(name: str) -> str:
    count, star, rest = name.rpartition("*")
    if star:
        return character(rest) * int(count)
    if name.startswith("byte-"):
        return chr(0xDC00 + int(name[5:], 16))
    return WORDS.get(name) or chr(int(name[2:], 16))


def unmarked(mark: re.Match[str]) -> str:
    if blanks := re.fullmatch(r"(\d+) spaces?", mark[1]):
        return " " * int(blanks[1])
    return "".join(map(character, mark[1].split(" ")))


def read_back(lines: list[str]) -> str:
    found: list[str] = []
    for line in lines:
        repeated = re.fullmatch(r"│ ⟨this line (\d+) more times⟩", line)
        if repeated:
            found += [found[-1]] * int(repeated[1])
        elif line.startswith(visible_text.AFTER_BLANK):
            found[-1] += " " + MARK.sub(unmarked, line[2:])
        elif line.startswith(visible_text.MORE):
            found[-1] += MARK.sub(unmarked, line[2:])
        else:
            assert line[:1] == "│"
            found.append(MARK.sub(unmarked, line[2:]))
    return "\n".join(found)


def visible(char: str) -> bool:
    return unicodedata.category(char)[0] not in "CZ" or char == " "


@settings(max_examples=400)
@given(TEXTS, st.integers(20, 120))
def test_whatever_is_shown_can_be_read_back(text: str, width: int) -> None:
    assert read_back(visible_text.lines(text, width)) == text


@settings(max_examples=400)
@given(TEXTS, TEXTS)
def test_different_texts_are_shown_differently(one: str, other: str) -> None:
    assert (visible_text.inline(one) == visible_text.inline(other)) == (one == other)
    assert (visible_text.lines(one) == visible_text.lines(other)) == (one == other)


@settings(max_examples=400)
@given(TEXTS)
def test_nothing_that_is_shown_is_invisible_or_moves_its_neighbours(text: str) -> None:
    for line in [
        *visible_text.lines(text),
        visible_text.inline(text),
        visible_text.brief(text, 30),
        *notes(text),
    ]:
        assert all(map(visible, line)), line
        assert not {"R", "AL", "AN"} & set(map(unicodedata.bidirectional, line))
        assert line == line.rstrip()


@settings(max_examples=200)
@given(TEXTS, st.integers(70, 120))
def test_no_line_is_folded_by_the_terminal(text: str, width: int) -> None:
    assert all(visible_text.cells(line) <= width for line in visible_text.lines(text, width))


@settings(max_examples=200)
@given(TEXTS, st.integers(12, 60))
def test_a_brief_text_fits_and_says_what_it_leaves_out(text: str, room: int) -> None:
    brief = visible_text.brief(text, room)

    assert visible_text.cells(brief) <= room
    assert brief == visible_text.inline(text) or brief.endswith("…")
