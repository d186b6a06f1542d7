"""What keeps a text from being safe, whatever it does."""

import pytest

from shelltie.shell.doubts import COMMANDS_MAX, LENGTH_MAX
from shelltie.shell.parse import parse
from shelltie.verdict import Code


def codes(text: str) -> set[Code]:
    return {problem.code for problem in parse(text).problems}


@pytest.mark.parametrize(
    "text", ["ls", "ls\tb\nc", "echo 'grüße 👍🏽 ❤\ufe0f'", 'echo "日本"', "a \\\n b"]
)
def test_ordinary_text_has_no_problem(text: str) -> None:
    assert codes(text) == set()


@pytest.mark.parametrize(
    "unseen",
    [
        *("\0", "\r", "\x1b", "\x07", "\x7f", "\x85", "\xa0", "\xad", "\u200b", "\u200d", "\u202e"),
        *("\u2066", "\ufeff", "\u3164", "\u2028", "\U000e0041", "\ud800", "\ue000", "\u3000"),
    ],
)
@pytest.mark.parametrize("text", ["ls {}", "echo '{}'", 'echo "a{}b"', "ls # {}", "{}ls"])
def test_a_character_that_cannot_be_seen_is_told(text: str, unseen: str) -> None:
    assert Code.INVISIBLE_CHARACTERS in codes(text.format(unseen))


@pytest.mark.parametrize("text", ["ls é", "x=é", "a >ü", "a $x'ok'é"])
def test_foreign_letters_are_told_outside_quotes(text: str) -> None:
    assert codes(text) == {Code.INVISIBLE_CHARACTERS}


@pytest.mark.parametrize("text", ["r\\\nm x", "rm -r\\\nf x", "a 'b'\\\nc", "a $\\\nx"])
def test_a_word_that_goes_on_in_the_next_line_is_told(text: str) -> None:
    assert Code.PARSER_DISAGREEMENT in codes(text)


def test_length_counts_in_bytes() -> None:
    assert codes("a " * (LENGTH_MAX // 2)) == set()
    assert codes("a " * (LENGTH_MAX // 2) + "b") == {Code.TOO_LONG}
    assert codes(f"echo '{'é' * (LENGTH_MAX // 2)}'") == {Code.TOO_LONG}


def test_so_many_commands_and_no_more() -> None:
    assert codes("a;" * COMMANDS_MAX) == set()
    assert codes("a;" * (COMMANDS_MAX + 1)) == {Code.TOO_LONG}


def test_so_deep_and_no_deeper() -> None:
    assert Code.TOO_DEEP not in codes("(" * 15 + "a" + ")" * 15)
    assert Code.TOO_DEEP in codes("( " * 25 + "a" + " )" * 25)
