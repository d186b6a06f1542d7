"""Argument filter: shell metacharacters and denied options in an allowed program's argv. Pure.

No shell reads them, so nothing in them would be expanded, chained or redirected: shell syntax is
refused to tell the caller so. Options are another matter, because many programs run other programs
when an option says so; only rules for the single program help against that.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy

_LENGTH_MAX = 5000
_FOUND_MAX = 10  # that many are told
_SHELL = r"\$\(|\$\{|\$[A-Za-z_]\w*|[;|&<>\n\r`]"
_ROOT = ("/", "/*", "/**")


class FilterLevel(StrEnum):
    """How much of what only a shell would understand is refused."""

    DEFAULT = "default"
    STRICT = "strict"  # patterns, braces, tildes and a bare / as well
    OFF = "off"


_SYNTAX = {
    FilterLevel.DEFAULT: lazy(_SHELL, re.ASCII),
    FilterLevel.STRICT: lazy(_SHELL + r"|[{}\[\]?*~]", re.ASCII),
}


@frozen
class Denied:
    """An option or a word that is refused; with a `value`, only where its value begins so."""

    option: str
    value: str = ""

    def __str__(self) -> str:
        return f"{self.option} {self.value}".rstrip()

    def is_in(self, word: str, following: str) -> bool:
        """Whether `word`, with the word after it, may be read as this."""
        beginning = self.value.casefold()
        return any(value.casefold().startswith(beginning) for value in self._read(word, following))

    def _read(self, word: str, following: str) -> Iterator[str]:
        """The value that the option gets, once for every way to read the word as the option."""
        if not self.option.startswith("-"):
            yield from [following] if word == self.option else []
        elif word.startswith("-"):
            yield from self._long(word, following)
            yield from self._short(word, following)

    def _long(self, word: str, following: str) -> Iterator[str]:
        """`--eval x`, `--eval=x`, `--ev=x`, `-eval=x`; node takes `_` for `-`."""
        body, equals, value = word.lstrip("-").partition("=")
        given, name = body.replace("_", "-"), self.option.lstrip("-").replace("_", "-")
        abbreviated = word.startswith("--") and given and name.startswith(given)
        if abbreviated or given == name:
            yield value if equals else following

    def _short(self, word: str, following: str) -> Iterator[str]:
        """`-e x`, `-ex`, `-pe x`; and `-exec` in `-execdir` or `-javaagent` in `-javaagent:x`."""
        if word.startswith("--") or self.option.startswith("--"):
            return
        flags = word.partition("=")[0]
        if len(self.option) > 2:
            ends = [len(self.option)] if word.startswith(self.option) else []
        else:
            ends = [at + 1 for at, flag in enumerate(flags) if flag == self.option[1]]
        enough = 2 + len(self.value.casefold())  # all of the rest, each time, would be quadratic
        for end in ends:
            yield word[end : end + enough].lstrip("=:") or following


@frozen
class ArgumentRules:
    """What the allowlist says about the arguments of one program."""

    allow: tuple[tuple[str, ...], ...] = ()
    allow_exactly: tuple[tuple[str, ...], ...] = ()
    deny: tuple[Denied, ...] = ()
    free_text_after: tuple[str, ...] = ()


@frozen
class Refusal:
    """Why an argument, or all of them together (`None`), is refused; `why` is for people."""

    index: int | None
    why: str
    issues: tuple[str, ...]
    found: tuple[str, ...] = ()


def refusal(args: Sequence[str], rules: ArgumentRules, level: FilterLevel) -> Refusal | None:
    """What is wrong with the arguments, or nothing."""
    return (
        _unsafe_text(args, rules.free_text_after, level)
        or _denied(args, rules.deny)
        or _not_among(args, rules)
    )


def _unsafe_text(args: Sequence[str], free: Sequence[str], level: FilterLevel) -> Refusal | None:
    for index, text in enumerate(args):
        wrong = _impossible(index, text)
        if wrong is None and level is not FilterLevel.OFF:
            wrong = _too_long(index, text)
            if wrong is None and not _is_free(args, index, free):
                wrong = _shell_syntax(index, text, level)
        if wrong is not None:
            return wrong
    return None


def _impossible(index: int, text: str) -> Refusal | None:
    """What no program can be given."""
    if "\0" in text:
        issue = r"Dangerous shell metacharacter detected: \x00"
        return Refusal(index, "has a NUL byte, which no program can be given", (issue,), ("\0",))
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        found = text[error.start : error.end]
        return Refusal(index, "has half a character", ("Not valid Unicode",), (found,))
    return None


def _too_long(index: int, text: str) -> Refusal | None:
    if len(text) <= _LENGTH_MAX:
        return None
    why = f"is {len(text)} characters long, and {_LENGTH_MAX} are allowed: use a file"
    return Refusal(index, why, (f"Argument too long (max {_LENGTH_MAX} chars)",))


def _shell_syntax(index: int, text: str, level: FilterLevel) -> Refusal | None:
    if level is FilterLevel.STRICT and text in _ROOT:
        issue = "Dangerous argument detected: root directory deletion"
        return Refusal(index, f"is {text}, the root of the file system", (issue,), (text,))
    found = tuple(dict.fromkeys(match[0][:100] for match in _SYNTAX[level].finditer(text)))
    if not found:
        return None
    found = found[:_FOUND_MAX]
    why = (
        f"has {', '.join(map(repr, found))}: no shell is involved, so nothing would be expanded,"
        " chained or redirected; run one program at a time and write out the values"
    )
    return Refusal(index, why, tuple(dict.fromkeys(map(_issue, found))), found)


def _issue(found: str) -> str:
    if found in ("$(", "`"):
        return "Dangerous command substitution detected"
    if found.startswith("$"):
        return "Dangerous variable expansion detected"
    return f"Dangerous shell metacharacter detected: {found}"


def _is_free(args: Sequence[str], index: int, options: Sequence[str]) -> bool:
    """Whether the argument is the value of an option that takes any text."""
    before = args[index - 1] if index else ""
    return any(
        before == option
        or args[index].startswith(option + "=" if option.startswith("--") else option)
        or (len(option) == 2 and re.fullmatch(f"-[A-Za-z]*{re.escape(option[1])}", before))
        for option in options
    )


def _denied(args: Sequence[str], deny: Sequence[Denied]) -> Refusal | None:
    for index, (word, following) in enumerate(zip(args, [*args[1:], ""], strict=False)):
        for denied in deny:
            if denied.is_in(word, following):
                why = f"is, or may be read as, {denied}, which the allowlist forbids"
                return Refusal(index, why, (f"Forbidden by the allowlist: {denied}",), (word,))
    return None


def _not_among(args: Sequence[str], rules: ArgumentRules) -> Refusal | None:
    given = tuple(args)
    if not rules.allow and not rules.allow_exactly:
        return None
    if given in rules.allow_exactly or any(given[: len(a)] == a for a in rules.allow):
        return None
    known = [f"'{' '.join(line)} …'" for line in rules.allow]
    known += [f"'{' '.join(line)}'" for line in rules.allow_exactly]
    why = f"must be one of these: {', '.join(known)}"
    return Refusal(None, why, ("Arguments are not in the allowlist",))
