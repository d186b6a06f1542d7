"""The names and the words of the commands in a text, for whoever asks no more than that. Pure."""

from shelltie.shell.parse import parse
from shelltie.shell.script import Simple, Word


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
