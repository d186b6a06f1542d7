"""Inspection: state of rating one command (scope, arguments, reasons found). Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Protocol

from shelltie.basics.frozen import frozen, mutable
from shelltie.safety.arg import HOLE, Arg
from shelltie.safety.rule_set import Node, RuleSet
from shelltie.safety.values import Values
from shelltie.shell.script import PartKind, Script, Simple
from shelltie.verdict import Code, Rating, Reason, Span

_APPENDING = frozenset(("xargs", "gxargs", "parallel", "sem"))
_HOLE_TEXT = "${__}"  # a variable nobody knows, in text that is read again


@frozen
class CommandScope:
    """The text around a command, and the programs around that text.

    `span` is the place of the text in what was asked, when it is only a word there. `input` is what
    the whole command reads, unless something in the text is put before it. A text that stands in
    what was asked letter for letter begins there at `offset`. `operands` are the positional
    parameters of the texts inside, from `$0` on. `moves` and `fed` are places in what was asked
    outside this text on which its commands depend: the first `cd`, and what they read.
    """

    script: Script
    values: Values
    wrappers: tuple[str, ...] = ()
    span: Span | None = None
    input: Arg | None = None
    offset: int = 0
    operands: tuple[Arg, ...] = ()
    moves: tuple[Span, ...] = ()
    fed: tuple[Span, ...] = ()

    def within(self, label: str) -> "CommandScope":
        """The same text, inside one more program."""
        return replace(self, wrappers=(*self.wrappers, label))

    def inner(self, script: Script, label: str, span: Span) -> "CommandScope":
        """A text inside this one, in one more program."""
        wrappers = (*self.wrappers, label)
        given = self.input
        if self.operands:
            values = Values(script, self.operands)
            span = self.place(span.with_all(arg.span for arg in self.operands))
            return replace(self, script=script, values=values, wrappers=wrappers, span=span)
        if self.span is None and self.script.text[span.start : span.end] == script.text:
            offset = self.offset + span.start
            return CommandScope(script, Values(script), wrappers, input=given, offset=offset)
        if given is None or not self.is_input:
            return CommandScope(script, Values(script), wrappers, self.place(span), given)
        if script.text == given.value:
            return CommandScope(script, Values(script), wrappers, offset=given.span.start)
        return CommandScope(script, Values(script), wrappers, given.span)

    @property
    def is_input(self) -> bool:
        """What is looked at is the input of the whole command."""
        return self.input is not None and self.span == self.input.span

    def place(self, span: Span) -> Span:
        """A place of this text in what was asked."""
        return self.span or Span(span.start + self.offset, span.end + self.offset)


class Rater(Protocol):
    """What looks at the commands inside a command."""

    rules: RuleSet
    guessing: bool  # the words of this command are already tried from every start

    @property
    def too_much(self) -> bool:
        """There is more in it than is looked at: nothing more needs to be asked for."""

    def text(self, text: str, case: "Inspection", label: str, span: Span) -> None:
        """Rate a text for the shell."""

    def command(self, args: Sequence[Arg], case: "Inspection", label: str) -> None:
        """Rate another command."""

    def danger(self, args: Sequence[Arg], case: "Inspection", label: str) -> bool:
        """Keep only what is dangerous about a command that may be there; whether it was."""

    def danger_in_text(self, text: str, case: "Inspection", label: str, span: Span) -> bool:
        """Keep only what is dangerous about a text that may be run; whether it was."""


@mutable
class Inspection:
    """A command, its arguments (the program is the first) and what is said about it."""

    again: Rater
    where: CommandScope
    simple: Simple
    args: tuple[Arg, ...]
    program: str = ""
    rule: str = ""
    reasons: list[Reason] = field(default_factory=list)
    said: set[Reason] = field(default_factory=set)  # the same, to be found at once
    conditions: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)  # whose content it may show
    # The same, if words turn out to be files by what the run puts beside them.
    perhaps_files: set[str] = field(default_factory=set)
    needs: frozenset[str] = frozenset()
    evidence: Span | None = None  # the command, and what it owes its variables to
    doubtful: bool = False  # the program is not certain: nothing about it can be safe

    def say(self, rating: Rating, code: Code, message: str, arg: Arg | None = None) -> None:
        """Remember why the command is not safe."""
        if self.evidence is None:
            self.evidence = self.simple.span.with_all(each.span for each in self.args)
        span = self.where.place(self.evidence if arg is None else arg.span)
        if rating is Rating.DANGEROUS:
            span = span.with_all(self._works_on(code))
        reason = Reason(code, rating, message, span, self.program, self.rule, self.where.wrappers)
        if reason not in self.said:
            self.said.add(reason)
            self.reasons.append(reason)

    def unknown(self, code: Code, message: str, arg: Arg | None = None) -> None:
        """It cannot be proved harmless."""
        self.say(Rating.UNKNOWN, code, message, arg)

    def dangerous(self, code: Code, message: str, arg: Arg | None = None) -> None:
        """It does harm."""
        self.say(Rating.DANGEROUS, code, message, arg)

    def _works_on(self, code: Code) -> Iterator[Span]:
        """What decides about the harm besides the words: who is asked has to see it."""
        yield from self.fed
        relative = (arg for arg in self.words if not arg.head.startswith(("-", "/", "~")))
        if code is Code.DESTROYS_DATA and any(relative):
            yield from self.moves
        if self.where.input is not None and self._takes_input(code):
            yield self.where.input.span

    def _takes_input(self, code: Code) -> bool:
        """Every command inherits the input of the whole, and most that destroy do not read it."""
        names = any(arg.value in ("-", "/dev/stdin") for arg in self.words)
        if code is Code.DESTROYS_DATA and not names and _APPENDING.isdisjoint(self.where.wrappers):
            return False
        sources = (self.simple, *self.feeders())
        return any(not it.feeds and all(r.body is None for r in it.redirects) for it in sources)

    @property
    def moves(self) -> tuple[Span, ...]:
        """Where the texts begin to change the directory before this command."""
        first = self.where.values.moves[:1]
        own = (it for it in first if it.start < self.simple.span.start)
        return (*self.where.moves, *map(self.where.place, own))

    @property
    def fed(self) -> tuple[Span, ...]:
        """The here-documents and the other commands that this one reads."""
        if not self.simple.feeds and not self.simple.redirects:
            return self.where.fed
        own = (it.body.span for it in self.simple.redirects if it.body is not None)
        spans = (*own, *map(with_bodies, self.feeders()))
        return (*self.where.fed, *map(self.where.place, spans))

    @property
    def span(self) -> Span:
        """The command in the text that was asked."""
        return self.where.place(self.simple.span)

    @property
    def words(self) -> tuple[Arg, ...]:
        """The arguments without the program."""
        return self.args[1:]

    @property
    def directories(self) -> tuple[str, ...]:
        """Where the script may have gone before."""
        return self.where.values.directories

    def shell(self, args: Sequence[Arg], label: str) -> None:
        """These words, joined by blanks, are text for the shell."""
        text = " ".join(arg.guesses[0] for arg in args)
        if not all(arg.exact for arg in args):
            holes = [arg for arg in args if HOLE in arg.guesses[0]]
            self.unknown(
                Code.DYNAMIC_ARGUMENT,
                f"{label}: the text it runs is known only at run time",
                (holes or list(args))[0],
            )
        if args:
            self.again.text(
                text.replace(HOLE, _HOLE_TEXT),
                self,
                label,
                args[0].span.with_all(arg.span for arg in args),
            )

    def at_input(self) -> "Inspection":
        """The same command, where what is said of it is about the input of the whole."""
        given = self.where.input
        assert given is not None
        return replace(self, where=replace(self.where, span=given.span))

    def feeders(self) -> list[Simple]:
        """Every command whose output reaches this one."""
        return [self.where.script.commands[place] for place in self._feeding(self.simple.feeds)]

    def _feeding(self, places: Sequence[int]) -> list[int]:
        found: dict[int, None] = {}
        waiting = list(places)
        while waiting:
            place = waiting.pop()
            if place not in found and place < len(self.where.script.commands):
                found[place] = None
                waiting += self.where.script.commands[place].feeds
        return sorted(found)

    def inside(self, arg: Arg, *kinds: PartKind) -> Iterator[Simple]:
        """The commands that run inside an argument."""
        for part in arg.parts:
            if part.kind in kinds:
                for place in part.commands:
                    if place < len(self.where.script.commands):
                        yield self.where.script.commands[place]

    def root(self, name: str) -> Node | None:
        """The first rule tree of a program."""
        return self.again.rules.for_program(name)[0]


def with_bodies(simple: Simple) -> Span:
    """A command with its here-documents, which stand behind it."""
    return simple.span.with_all(it.body.span for it in simple.redirects if it.body is not None)


def base_name(path: str) -> str:
    """The program a path names."""
    return path.rpartition("/")[2]
