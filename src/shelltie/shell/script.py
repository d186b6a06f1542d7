"""Syntax tree (AST) of a shell text: Script, Simple, Word, Part, Redirect. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import field
from enum import StrEnum

from shelltie.basics.frozen import frozen, mutable
from shelltie.basics.lazy_regex import lazy
from shelltie.verdict import Code, Span


class PartKind(StrEnum):
    """What a part of a word is."""

    TEXT = "text"  # literal characters, quotes and backslashes removed
    VARIABLE = "variable"  # $NAME, ${NAME}: nothing more than its value
    COMMAND = "command"  # $(…) or backticks
    PROCESS = "process"  # <(…) or >(…)
    ARITHMETIC = "arithmetic"  # $((…))
    EXPANSION = "expansion"  # any other ${…}


@frozen
class Part:
    """A piece of a word: `text` is the literal value, the variable's name, or the source.

    `commands` are the places in `Script.commands` of the commands that run inside it, `words` the
    elements of the array that it is.
    """

    kind: PartKind
    text: str
    quoted: bool = False
    commands: tuple[int, ...] = ()
    words: "tuple[Word, ...]" = ()


@frozen
class Word:
    """One word as the shell reads it; `value` is `None` unless every part is literal.

    `pattern`: it has an unquoted `*`, `?`, `[`, extended pattern, brace or leading tilde, and so
    may become other words; `value` then holds it as written.
    """

    text: str
    value: str | None
    span: Span
    parts: tuple[Part, ...] = ()
    pattern: bool = False

    @property
    def single(self) -> bool:
        """It becomes exactly one word, whatever it expands to."""
        if self.pattern or Part(PartKind.VARIABLE, "@", quoted=True) in self.parts:
            return False
        return all(part.quoted or part.kind is PartKind.TEXT for part in self.parts)


@frozen
class Redirect:
    """`operator` as written, without its descriptor: `>`, `>>`, `<`, `<<`, `<<<`, `>&`, `&>`, `<>`.

    A here-document or here-string has its `body`; one with expansions has parts that are not text.
    """

    operator: str
    target: Word | None
    span: Span
    descriptor: str = ""
    body: Word | None = None


@frozen
class Assignment:
    """`NAME=value`, before a command or alone; `name` keeps a subscript: `a[1]`."""

    name: str
    value: Word | None
    span: Span


@frozen
class Simple:
    """One simple command. Without words it is only its assignments and redirections.

    `feeds` are the places in `Script.commands` of the commands whose output is its input.
    `loop` is the variable and the words of the `for` or `select` it stands for, if it is one.
    """

    words: tuple[Word, ...]
    span: Span
    assignments: tuple[Assignment, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    feeds: tuple[int, ...] = ()
    loop: str | None = None
    background: bool = False

    @property
    def program(self) -> str | None:
        """Its first word, if it has one and its value is certain."""
        return self.words[0].value if self.words else None


@frozen
class Doubt:
    """Something that keeps the text from being proved safe, whatever its commands are."""

    code: Code
    message: str
    span: Span


@frozen
class Script:
    """A parsed text: every simple command in it, however deep, in the order they begin.

    `plain`: nothing but words, quotes and `&& || ; |`, so that one parser is enough.
    """

    text: str
    commands: tuple[Simple, ...]
    problems: tuple[Doubt, ...] = ()
    functions: tuple[str, ...] = ()
    plain: bool = False


_PROBLEMS_MAX = 20  # more tell nobody more


@mutable
class Draft:
    """A simple command that is still being read; a here-document may complete it much later."""

    span: Span
    words: list[Word] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    feeds: tuple[int, ...] | None = None
    loop: str | None = None
    background: bool = False

    @property
    def has_something(self) -> bool:
        """There is more to it than a comment."""
        return bool(self.words or self.assignments or self.redirects)

    def finished(self) -> Simple:
        """The command as it is now."""
        return Simple(
            tuple(self.words),
            self.span,
            tuple(self.assignments),
            tuple(self.redirects),
            self.feeds or (),
            self.loop,
            self.background,
        )


@mutable
class ParseResults:
    """Shared by all readers of one text, those of its pieces included."""

    drafts: list[Draft] = field(default_factory=list)
    problems: list[Doubt] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    depth: int = 0
    words: int = 0
    second_readings: int = 0
    broken: bool = False
    broken_at: int | None = None  # how far it had been read when it first made no sense
    over: bool = False  # nothing more is looked at

    @property
    def hopeless(self) -> bool:
        """So much is wrong that going on would find nothing but more of it."""
        return len(self.problems) >= _PROBLEMS_MAX

    def problem(self, code: Code, message: str, span: Span) -> None:
        """Notes what keeps the text from being safe, once for each place."""
        if not self.hopeless:
            problem = Doubt(code, message, span)
            self.problems += [] if problem in self.problems else [problem]

    def since(self, mark: int) -> tuple[int, ...]:
        """The places of the commands that were found after `mark` of them."""
        return tuple(range(mark, len(self.drafts)))


_BEFORE_NEWLINE = lazy(r"(?<!\\)\\++\n")


@frozen
class Source:
    """`text` is `whole` without its line continuations.

    `places` says where a character of `text` stands in the text that was asked about, `inward`
    where it stands in `whole`; both have one entry more, for the end. `breaks` are the indexes in
    `text` in front of which a continuation was taken out.
    """

    text: str
    places: Sequence[int]
    whole: str
    inward: Sequence[int]
    breaks: tuple[int, ...] = ()

    def span(self, start: int, end: int) -> Span:
        """Where `text[start:end]` stands in the text that was asked about."""
        begin = self.places[start]
        return Span(begin, self.places[end - 1] + 1 if end > start else begin)

    def verbatim(self, start: int, end: int) -> str:
        """`text[start:end]` as it was written: where `\\⏎` is no continuation."""
        if not self.breaks:
            return self.text[start:end]
        return self.whole[self.inward[start - 1] + 1 : self.inward[end]]

    def line_end(self, start: int) -> int:
        """The end of the line as it was written, not as it was joined."""
        newline = self.text.find("\n", start)
        end = len(self.text) if newline < 0 else newline
        following = bisect_right(self.breaks, start)
        return min(end, *self.breaks[following : following + 1], end)

    def index_of(self, in_whole: int) -> int:
        """The index in `text` of a character of `whole`."""
        return bisect_left(self.inward, in_whole)

    def part(self, start: int, end: int) -> "Source":
        """A piece of it, read on its own."""
        return source_of(self.text[start:end], self.places[start : end + 1])


def source_of(whole: str, places: Sequence[int]) -> Source:
    """Joins what bash joins: a newline after an odd number of backslashes goes with the last one.

    It does so everywhere; in single quotes, comments and quoted here-documents, where bash does
    not, the reader asks for `verbatim` and `line_end`.
    """
    cuts = [
        found.end() - 2
        for found in _BEFORE_NEWLINE.finditer(whole)
        if (found.end() - found.start()) % 2 == 0
    ]
    if not cuts:
        return Source(whole, places, whole, range(len(whole) + 1))
    starts, ends = [0, *(cut + 2 for cut in cuts)], [*cuts, len(whole)]
    pieces = list(zip(starts, ends, strict=True))
    inward = [at for start, end in pieces for at in range(start, end)] + [len(whole)]
    breaks = tuple(cut - 2 * nth for nth, cut in enumerate(cuts))
    text = "".join(whole[start:end] for start, end in pieces)
    return Source(text, [places[at] for at in inward], whole, inward, breaks)
