"""The plain subset that nobody can read differently: words, quotes and `&& || ; |`. Pure."""

from collections.abc import Sequence

from shelltie.regex import regex
from shelltie.shell.script import Simple

# Not in it: whatever expands, is escaped, redirects, comments, groups, negates or runs aside.
_BARE = r"[A-Za-z0-9_./:@%+,=-]++"
_WORD = rf"(?>(?:{_BARE}|'[^']*+'|\"[^\"$`\\!]*+\")+)"
_BLANK = r"(?:[ \t]|(?<=[ \t])\\\n(?=[ \t]))"
_COMMAND = rf"(?>{_BLANK}*){_WORD}(?>(?:(?>{_BLANK}+){_WORD})*)(?>{_BLANK}*)"
_TEXT = regex(rf"[ \t\n]*+{_COMMAND}(?>(?:(?:&&|\|\||;|\||\n)\n*+{_COMMAND})*);?[ \t\n]*+")
_TOKEN = regex(rf"({_WORD})|(?<!\\)(?:&&|\|\||[;|\n])")
_QUOTED = regex(r"'([^']*+)'|\"([^\"]*+)\"")
_RESERVED = regex(
    r"if|then|elif|else|fi|while|until|for|select|do|done|case|esac|function|coproc|time|in"
)


def is_plain(text: str, commands: Sequence[Simple]) -> bool:
    """Whether `text` is plain, and consists of exactly these commands."""
    if not _TEXT.fullmatch(text):
        return False
    read = _commands(text)
    same = read == [[word.value for word in command.words] for command in commands]
    return same and not any(_RESERVED.fullmatch(words[0]) or "=" in words[0] for words in read)


def _commands(text: str) -> list[list[str]]:
    commands: list[list[str]] = [[]]
    for token in _TOKEN.finditer(text):
        if token[1]:
            commands[-1].append(_unquoted(token[1]))
        elif commands[-1]:
            commands.append([])
    return [words for words in commands if words]


def _unquoted(word: str) -> str:
    return _QUOTED.sub(lambda quoted: quoted[1] or quoted[2] or "", word)
