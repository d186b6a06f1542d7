"""Arg: one argument of a command, literal or not known before run time. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy
from shelltie.shell.script import Part, Word
from shelltie.verdict import Span

HOLE = "\0"  # stands for what is known only at run time
_BRACES_MAX = 32
_PATTERN = lazy(r"[*?\[{]|[@!+]\(")
_BRACES = lazy(r"\{([^{}]*,[^{}]*)\}|\{(\w)\.\.(\w)\}|\{(\d{1,4})\.\.(\d{1,4})\}")


@frozen
class Arg:
    """One argument of a command.

    `values` are what it can be, none if only the run will tell; `shape` is its text with a hole
    for everything that is not known. `exact`: written out, and no pattern.
    """

    values: tuple[str, ...]
    shape: str
    span: Span
    text: str = ""
    exact: bool = True
    pattern: bool = False
    single: bool = True
    bound: bool = True
    secrets: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()

    @property
    def value(self) -> str | None:
        """What it is, or may well be."""
        return self.values[0] if self.values else None

    @property
    def head(self) -> str:
        """What it begins with, as far as that is known."""
        if self.values:
            return self.values[0]
        return self.shape.partition(HOLE)[0]

    @property
    def guesses(self) -> tuple[str, ...]:
        """Everything it may be, with holes where nothing better is known."""
        return self.values or (self.shape,)

    @property
    def loose(self) -> bool:
        """It may turn into an option, or into several words."""
        if self.exact:
            return False
        if self.pattern and self.values:
            return self.head[:1] in "-*?[{@!+"
        # The value of a variable may be a pattern that stands for any name.
        return not self.single or self.head[:1] in ("", *"-*?[{@!+")

    def after(self, count: int) -> "Arg":
        """Without its first characters: the value in `--name=value`."""
        values = tuple(value[count:] for value in self.values)
        return replace(self, values=values, shape=self.shape[count:])


def literal(value: str, span: Span) -> Arg:
    """An argument that is written out."""
    return Arg((value,), value, span, value)


def unseen(span: Span, guesses: Sequence[str] = (), *, known: bool = True) -> Arg:
    """An argument that another program adds, such as xargs; `known`: it names an ordinary file."""
    return Arg(tuple(guesses), HOLE, span, "…", exact=False, bound=known)


def written(word: Word) -> Iterator[Arg]:
    """A literal word; its braces become words of their own."""
    value = word.value or ""
    # A tilde alone stands for one known place.
    pattern = word.pattern and _PATTERN.search(value) is not None
    texts = list(islice(_unbraced(value), _BRACES_MAX + 1)) if pattern else [value]
    complete = len(texts) <= _BRACES_MAX and not any("{" in text for text in texts if pattern)
    for text in texts:
        yield Arg(
            (text,),
            text,
            word.span,
            word.text,
            exact=not pattern,
            pattern=pattern,
            single=not pattern,
            bound=complete,
            parts=word.parts,
        )


def _unbraced(text: str) -> Iterator[str]:
    """`a{b,c}` is `ab` and `ac`, and so is `a{b..c}`."""
    waiting = [text]
    while waiting:
        text = waiting.pop(0)
        braces = _BRACES.search(text)
        if braces is None or len(waiting) > _BRACES_MAX:
            yield text
            continue
        before, after = text[: braces.start()], text[braces.end() :]
        waiting[:0] = [before + choice + after for choice in _choices(braces)]


def _choices(braces: re.Match[str]) -> list[str]:
    if braces[1] is not None:
        return braces[1].split(",")
    if braces[4] is not None:
        first, last = int(braces[4]), int(braces[5])
        return [str(number) for number in _between(first, last)]
    return [chr(code) for code in _between(ord(braces[2]), ord(braces[3]))]


def _between(first: int, last: int) -> list[int]:
    """Both ends included, in either direction; a few more than are looked at."""
    step = 1 if first <= last else -1
    return list(islice(range(first, last + step, step), _BRACES_MAX + 2))
