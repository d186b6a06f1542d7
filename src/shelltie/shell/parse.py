"""bash parser: text → Script; never raises. Pure."""

import shlex
from collections.abc import Iterator, Sequence
from itertools import dropwhile, islice

from shelltie.basics.lazy_regex import lazy
from shelltie.shell.doubts import command_problems, is_plain, text_problems
from shelltie.shell.grammar import CommandReader
from shelltie.shell.script import (
    ParseResults,
    Part,
    PartKind,
    Redirect,
    Script,
    Simple,
    Word,
    source_of,
)
from shelltie.verdict import Span

_PIECES_MAX = 5000
_TOKENS_MAX = 5000  # of a piece
_PIECE = lazy(r"[^;&|\n()`]++")
_TOKEN = lazy(r"(\d*+[<>]++[&|]?+)|[^ \t<>]++")
_QUOTES = lazy(r"['\"\\]")
_LISTED = lazy(r"\{[^{}]*,[^{}]*\}")
_NO_PROGRAM = lazy(
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
            listed = token[0][1:-1].split(",") if _LISTED.fullmatch(token[0]) else [token[0]]
            words += [_word(each, token.start()) for each in listed]
    return words, redirects


def _word(text: str, at: int) -> Word:
    value = _QUOTES.sub("", text)
    return Word(text, value, Span(at, at + len(text)), (Part(PartKind.TEXT, value),))


_SENSELESS_MAX = 50  # lines
READ_MAX = 128 * 1024  # characters; what is longer is not safe, and what follows is not looked at


def parse(text: str) -> Script:
    """Every simple command of `text`, and what keeps it from being proved safe. Never raises.

    Commands that only the rough look at a broken text finds come last.
    """
    read, found = text[:READ_MAX], ParseResults()
    CommandReader(source_of(read, range(len(read) + 1)), found).commands("")
    commands = tuple([draft.finished() for draft in found.drafts])
    if found.broken:
        known = {_literally(command) for command in commands}
        rough = rough_commands(read)
        commands += tuple([each for each in rough if _literally(each) not in known])
    problems = (*text_problems(text), *found.problems, *command_problems(commands, text))
    plain = not problems and is_plain(text, commands)
    return Script(text, commands, problems, tuple(found.functions), plain)


def is_unfinished(lines: str) -> bool:
    """Whether a shell that has read these lines waits for more of the last command.

    After a line that makes no sense it begins anew.
    """
    text = lines[:READ_MAX]
    for _ in range(_SENSELESS_MAX):
        found = ParseResults()
        CommandReader(source_of(text, range(len(text) + 1)), found).commands("")
        if found.over or found.broken_at == len(text):
            return True
        if found.broken_at is None:
            return False
        text = text[found.broken_at :].partition("\n")[2]
    return True


def of_argv(argv: Sequence[str]) -> Script:
    """One command without a shell: all words are literal; the text is how a shell writes it."""
    words, at = list[Word](), 0
    for argument in argv:
        text = shlex.quote(argument)
        parts = (Part(PartKind.TEXT, argument, quoted=True),)
        words.append(Word(text, argument, Span(at, at + len(text)), parts))
        at += len(text) + 1
    command = Simple(tuple(words), Span(0, max(0, at - 1)))
    return Script(shlex.join(argv), (command,), plain=True)


def _literally(command: Simple) -> tuple[str | None, ...]:
    redirects = [each.target.value if each.target else None for each in command.redirects]
    return (*(word.value for word in command.words), None, *redirects)


def parse_compound_command(text: str) -> list[str]:
    """The program of every command in the text, nested ones too, in the order they begin.

    A name that is known only at run time is given as it is written.
    """
    programs = [command.words[0] for command in parse(text).commands if _runs(command)]
    return [word.text if word.value is None else word.value for word in programs]


def split_compound_words(text: str) -> list[str]:
    """Every word of every command as it is written, quotes and all, without the operators."""
    words: list[Word] = [
        word for command in parse(text).commands if _runs(command) for word in command.words
    ]
    return [word.text for word in sorted(words, key=lambda word: word.span.start)]


def _runs(command: Simple) -> bool:
    return bool(command.words) and command.loop is None
