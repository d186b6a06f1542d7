"""What keeps a script from being proved: invisible characters, length, exotic syntax. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence

from shelltie.basics.lazy_regex import lazy
from shelltie.shell.script import Doubt, Simple, Word
from shelltie.verdict import Code, Span

LENGTH_MAX = 10_000  # bytes
COMMANDS_MAX = 50

# Control characters, all that is not drawn or changes the direction of what is drawn, blanks that
# are none for the shell, and halves of characters. A variation selector may follow a symbol.
_UNSEEN = lazy(
    "[\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f"
    "\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ue000-\uf8ff"
    "\U000f0000-\U0010ffff]|(?<![^\x00-\xff])[\ufe00-\ufe0f]"
)
# Two pieces of a word with nothing but `\⏎` between them.
_GLUED = lazy(r"(?<=[^ \t\n|&;()<>\\])\\\n(?=[^ \t\n|&;()<>])")


def text_problems(text: str) -> Iterator[Doubt]:
    """What is wrong with the characters of a text."""
    if len(text) > LENGTH_MAX or len(text.encode("utf-8", "surrogatepass")) > LENGTH_MAX:
        span = Span(0, len(text))
        yield Doubt(Code.TOO_LONG, f"longer than {LENGTH_MAX} bytes", span)
    if text.isascii() and text.isprintable():
        return  # before anything is compiled
    if unseen := _UNSEEN.search(text):
        message = f"a character that cannot be seen (U+{ord(unseen[0]):04X})"
        yield Doubt(Code.INVISIBLE_CHARACTERS, message, Span(*unseen.span()))
    if glued := _GLUED.search(text):
        message = "a word that goes on in the next line"
        yield Doubt(Code.PARSER_DISAGREEMENT, message, Span(*glued.span()))


def command_problems(commands: tuple[Simple, ...], text: str) -> Iterator[Doubt]:
    """What is wrong with their number and with the letters of their words."""
    if len(commands) > COMMANDS_MAX:
        span = Span(commands[COMMANDS_MAX].span.start, len(text))
        yield Doubt(Code.TOO_LONG, f"more than {COMMANDS_MAX} commands", span)
    if text.isascii():
        return
    for word in _words(commands):
        if not all(part.quoted or part.text.isascii() for part in word.parts):
            message = "letters outside quotes that may look like others"
            yield Doubt(Code.INVISIBLE_CHARACTERS, message, word.span)
            return


def _words(commands: Iterable[Simple]) -> Iterator[Word]:
    for command in commands:
        yield from command.words
        yield from (each.value for each in command.assignments if each.value)
        yield from (each.target for each in command.redirects if each.target)


# Not in it: whatever expands, is escaped, redirects, comments, groups, negates or runs aside.
_BARE = r"[A-Za-z0-9_./:@%+,=-]++"
_WORD = rf"(?>(?:{_BARE}|'[^']*+'|\"[^\"$`\\!]*+\")+)"
_BLANK = r"(?:[ \t]|(?<=[ \t])\\\n(?=[ \t]))"
_COMMAND = rf"(?>{_BLANK}*){_WORD}(?>(?:(?>{_BLANK}+){_WORD})*)(?>{_BLANK}*)"
_TEXT = lazy(rf"[ \t\n]*+{_COMMAND}(?>(?:(?:&&|\|\||;|\||\n)\n*+{_COMMAND})*);?[ \t\n]*+")
_TOKEN = lazy(rf"({_WORD})|(?<!\\)(?:&&|\|\||[;|\n])")
_QUOTED = lazy(r"'([^']*+)'|\"([^\"]*+)\"")
_RESERVED = frozenset(
    (
        *("if", "then", "elif", "else", "fi", "while", "until", "for", "select", "do", "done"),
        *("case", "esac", "function", "coproc", "time", "in"),
    )
)


def is_plain(text: str, commands: Sequence[Simple]) -> bool:
    """Whether `text` is plain, and consists of exactly these commands."""
    if not _TEXT.fullmatch(text):
        return False
    read = _commands(text)
    same = read == [[word.value for word in command.words] for command in commands]
    return same and not any(words[0] in _RESERVED or "=" in words[0] for words in read)


# What every POSIX shell reads as bash does: no `[[`, `((`, `$'`, `&>`, `<(`, escapes or braces.
_POSIX = lazy(
    r"(?>(?:[A-Za-z0-9_./:@%+,=*?~; \t\n-]++|'[^']*+'"
    r"|\$(?:[A-Za-z_]\w*+|\d|[@#?]|\{[A-Za-z_]\w*+\})"
    r"|\"(?>(?:[^\"$`\\!]++|\$(?:[A-Za-z_]\w*+|\d|[@#?]|\{[A-Za-z_]\w*+\}))*)\"|&&|\|\|?(?![|&])"
    r"|[12]?>&[12](?!\w)|[12]?>[ \t]*+/dev/null(?![\w/])|<(?![<(&>]))*)",
    re.ASCII,
)
_BASH_ONLY = lazy(r"\b(?:function|select|coproc|time)\b|\+=|\|&")


def is_posix(text: str) -> bool:
    """Whether sh, dash and their like read it as bash does."""
    return _POSIX.fullmatch(text) is not None and _BASH_ONLY.search(text) is None


def _commands(text: str) -> list[list[str]]:
    commands: list[list[str]] = [[]]
    for token in _TOKEN.finditer(text):
        if token[1]:
            word = _QUOTED.sub(lambda quoted: quoted[1] or quoted[2] or "", token[1])
            commands[-1].append(word)
        elif commands[-1]:
            commands.append([])
    return [words for words in commands if words]
