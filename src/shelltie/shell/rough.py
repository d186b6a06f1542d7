"""A second, rough look at a text that makes no sense, so that danger in it is not missed. Pure."""

from collections.abc import Iterator
from itertools import dropwhile, islice

from shelltie.regex import regex
from shelltie.shell.script import Kind, Part, Redirect, Simple, Word
from shelltie.verdict import Span

_PIECES_MAX = 5000
_TOKENS_MAX = 5000  # of a piece
_PIECE = regex(r"[^;&|\n()`]++")
_TOKEN = regex(r"(\d*+[<>]++[&|]?+)|[^ \t<>]++")
_QUOTES = regex(r"['\"\\]")
_LISTED = regex(r"\{[^{}]*,[^{}]*\}")
_NO_PROGRAM = regex(
    r"[A-Za-z_]\w*+=.*|(?:if|then|elif|else|fi|while|until|do|done|esac|time|coproc)|[{}!$'\"]++"
)


def rough_commands(text: str) -> Iterator[Simple]:
    """Whatever stands between operators, as a command of literal words without their quotes."""
    for piece in islice(_PIECE.finditer(text), _PIECES_MAX):
        words, redirects = _read(text, *piece.span())
        argv = tuple(dropwhile(lambda word: _NO_PROGRAM.fullmatch(word.text), words))
        if argv or redirects:
            yield Simple(argv, Span(*piece.span()), redirects=tuple(redirects))


def _read(text: str, start: int, end: int) -> tuple[list[Word], list[Redirect]]:
    words, redirects, operator = list[Word](), list[Redirect](), ""
    for token in islice(_TOKEN.finditer(text, start, end), _TOKENS_MAX):
        if token[1]:
            operator = token[1].lstrip("0123456789")
        elif operator:
            redirects.append(
                Redirect(operator, _word(token[0], token.start()), Span(*token.span()))
            )
            operator = ""
        else:
            words += _words(token[0], token.start())
    return words, redirects


def _words(text: str, at: int) -> list[Word]:
    if _LISTED.fullmatch(text):
        return [_word(each, at) for each in text[1:-1].split(",")]
    return [_word(text, at)]


def _word(text: str, at: int) -> Word:
    value = _QUOTES.sub("", text)
    return Word(text, value, Span(at, at + len(text)), (Part(Kind.TEXT, value),))
