"""From a shell text to every simple command in it, however deep. Pure.

The reader follows bash, character by character, in one pass. Two facts decide its shape: bash reads
here-documents, backticks and arithmetic as text first and as commands later, and a text that is
wrong somewhere still runs up to there.
"""

import shlex
from collections.abc import Sequence

from shelltie.shell.commands import CommandReader
from shelltie.shell.found import Found
from shelltie.shell.gates import command_problems, text_problems
from shelltie.shell.plain import is_plain
from shelltie.shell.rough import rough_commands
from shelltie.shell.script import Kind, Part, Script, Simple, Word
from shelltie.shell.source import source_of
from shelltie.verdict import Span

READ_MAX = 128 * 1024  # characters; what is longer is not safe, and what follows is not looked at


def parse(text: str) -> Script:
    """Every simple command of `text`, and what keeps it from being proved safe. Never raises.

    Commands that only the rough look at a broken text finds come last.
    """
    read, found = text[:READ_MAX], Found()
    CommandReader(source_of(read, range(len(read) + 1)), found).commands("")
    commands = tuple([draft.finished() for draft in found.drafts])
    if found.broken:
        commands += _missed(read, commands)
    problems = (*text_problems(text), *found.problems, *command_problems(commands, text))
    plain = not problems and is_plain(text, commands)
    return Script(text, commands, problems, tuple(found.functions), plain)


def of_argv(argv: Sequence[str]) -> Script:
    """One command without a shell: all words are literal; the text is how a shell writes it."""
    words, at = list[Word](), 0
    for argument in argv:
        text = shlex.quote(argument)
        parts = (Part(Kind.TEXT, argument, quoted=True),)
        words.append(Word(text, argument, Span(at, at + len(text)), parts))
        at += len(text) + 1
    command = Simple(tuple(words), Span(0, max(0, at - 1)))
    return Script(shlex.join(argv), (command,), plain=True)


def _missed(text: str, commands: tuple[Simple, ...]) -> tuple[Simple, ...]:
    known = {_literally(command) for command in commands}
    return tuple(each for each in rough_commands(text) if _literally(each) not in known)


def _literally(command: Simple) -> tuple[str | None, ...]:
    redirects = [each.target.value if each.target else None for each in command.redirects]
    return (*(word.value for word in command.words), None, *redirects)
