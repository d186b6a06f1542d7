"""What the words of a script can be, as far as its own text says it. Pure.

A variable that the script sets to something literal is known; one that it sets by a loop, `read`
or a substitution is bound: its value comes from commands that are judged themselves.
What is known this way serves to find danger; it never proves anything safe.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

from shelltie.model import Span
from shelltie.policy.secrets import is_secret_name
from shelltie.shell.script import Kind, Part, Script, Simple, Word

HOLE = "\0"  # stands for what is known only at run time
_SPLIT = "\1"  # where an unquoted value falls apart
_WAYS_MAX = 16
_BRACES_MAX = 32
_PASSES = 3  # so that `a=r; b=$a` is known as well

# Set by every login, and never more than one plain word.
_GIVEN = {"HOME": "~", "PWD": ".", "OLDPWD": ".."}
_NUMBERS = frozenset(("?", "#", "$", "!", "PPID", "UID", "EUID", "RANDOM", "LINENO", "SECONDS"))
_NUMBER = re.compile(r"[+-]?\d+")
_IFS = " "
_PIPE = "/dev/fd/63"  # what the shell puts in place of `<(…)`

_PATTERN = re.compile(r"[*?\[{]|[@!+]\(")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_DEFAULT = re.compile(r"\$\{(\w+):?[-=]([^$`{}]*)\}")
_EXPANDED = re.compile(r"\$(?:\{!?)?([A-Za-z_]\w*)(?!\w|:?\+)", re.ASCII)
_CASE = "case"  # stands for itself, not for a variable
_SETTERS = frozenset(("export", "declare", "typeset", "local", "readonly"))
_READERS = frozenset(("read", "mapfile", "readarray", "getopts"))


@dataclass(frozen=True, slots=True)
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
        return not self.single or self.head[:1] in ("", "-")

    def after(self, count: int) -> "Arg":
        """Without its first characters: the value in `--name=value`."""
        values = tuple(value[count:] for value in self.values)
        return replace(self, values=values, shape=self.shape[count:])


def literal(value: str, span: Span) -> Arg:
    """An argument that is written out."""
    return Arg((value,), value, span, value)


def unseen(span: Span, guesses: Sequence[str] = ()) -> Arg:
    """An argument that another program adds, such as xargs."""
    return Arg(tuple(guesses), HOLE, span, "…", exact=False)


class Values:
    """What is known of the variables of one script."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._known: dict[str, tuple[str, ...]] = {}
        self._secret: set[str] = set()
        self._bound: set[str] = set()
        self._opaque: set[str] = set()  # set to something that the text does not tell
        self.directories: tuple[str, ...] = ()
        self._learn()

    def args(self, words: Sequence[Word]) -> tuple[Arg, ...]:
        """The arguments these words become."""
        return tuple(arg for word in words for arg in self.of(word))

    def of(self, word: Word) -> tuple[Arg, ...]:
        """The arguments one word becomes; usually one."""
        if word.value is not None:
            return tuple(_written(word))
        ways = list(islice(product(*map(self._ways, word.parts)), _WAYS_MAX))
        texts = ["".join(way) for way in ways]
        if len(texts) == 1 and _SPLIT in texts[0]:
            pieces = [piece for piece in texts[0].split(_SPLIT) if piece]
            return tuple(self._made(word, [piece]) for piece in pieces)
        return (self._made(word, [text.replace(_SPLIT, " ") for text in texts]),)

    def _made(self, word: Word, texts: Sequence[str]) -> Arg:
        return Arg(
            values=tuple(dict.fromkeys(text for text in texts if HOLE not in text)),
            shape=texts[0] if texts else HOLE,
            span=word.span,
            text=word.text,
            exact=False,
            pattern=word.pattern,
            single=word.single or all(map(_is_one_word, word.parts)),
            bound=all(map(self._is_bound, word.parts)),
            secrets=tuple(self.secrets_in(word)),
            parts=word.parts,
        )

    def secrets_in(self, word: Word) -> Iterator[str]:
        """The variables with secret names whose value becomes part of the word."""
        for part in word.parts:
            for name in _names(part):
                if is_secret_name(name) or name in self._secret:
                    yield name

    def known(self, name: str) -> tuple[str, ...]:
        """What the text itself sets a variable to."""
        return self._known.get(name, ())

    def is_number(self, name: str) -> bool:
        """Whether a variable can hold nothing but a number: safe to use in arithmetic."""
        if name in _NUMBERS or name.isdigit():
            return True
        known = self._known.get(name, ())
        return bool(known) and name not in self._opaque and all(map(_NUMBER.fullmatch, known))

    def output_of(self, places: Sequence[int]) -> str | None:
        """What these commands print, if that stands in the text: `echo rm`."""
        if len(places) != 1 or places[0] >= len(self._script.commands):
            return None
        simple = self._script.commands[places[0]]
        if simple.redirects or simple.assignments or simple.loop is not None:
            return None
        args = [arg for word in simple.words for arg in self._shallow(word)]
        return _printed([arg.value for arg in args])

    def _shallow(self, word: Word) -> tuple[Arg, ...]:
        if all(part.kind in (Kind.TEXT, Kind.VARIABLE) for part in word.parts):
            return self.of(word)
        return (unseen(word.span),)

    def _ways(self, part: Part) -> tuple[str, ...]:
        """The texts a part can stand for."""
        texts = self._texts(part)
        if part.quoted or part.kind is Kind.TEXT:
            return texts
        return tuple(re.sub(r"\s+", _SPLIT, text) for text in texts)

    def _texts(self, part: Part) -> tuple[str, ...]:
        match part.kind:
            case Kind.TEXT:
                return (part.text,)
            case Kind.VARIABLE:
                return self._of_variable(part.text)
            case Kind.COMMAND:
                printed = self.output_of(part.commands)
                return (HOLE if printed is None else printed.rstrip("\n"),)
            case Kind.PROCESS:
                return (_PIPE,)
            case Kind.EXPANSION if default := _DEFAULT.fullmatch(part.text):
                return tuple(dict.fromkeys((*self._of_variable(default[1]), default[2])))
            case _:
                return (HOLE,)

    def _of_variable(self, name: str) -> tuple[str, ...]:
        if name in self._known:
            return self._known[name]
        if name == "IFS":
            return (_IFS,)
        return (_GIVEN.get(name, HOLE) if name not in self._bound else HOLE,)

    def _is_bound(self, part: Part) -> bool:
        match part.kind:
            case Kind.TEXT | Kind.ARITHMETIC | Kind.PROCESS:
                return True
            case Kind.VARIABLE:
                return part.text in self._bound or part.text in _GIVEN or part.text in _NUMBERS
            case _:
                return False

    def _learn(self) -> None:
        for simple in self._script.commands:
            self._bound.update(_bindings(simple))
            if simple.words and simple.words[0].value in _READERS:
                self._opaque.update(_bindings(simple))
        for _ in range(_PASSES):
            for simple in self._script.commands:
                self._learn_from(simple)
        self.directories = tuple(islice(self._visited(), _WAYS_MAX))

    def _learn_from(self, simple: Simple) -> None:
        if simple.loop is not None and simple.loop != _CASE:
            self._set(simple.loop, simple.words)
        for assignment in simple.assignments if not simple.words else ():
            if assignment.value is not None and not assignment.name.endswith("+"):
                self._set(assignment.name, [assignment.value])
        if simple.words and simple.words[0].value in _SETTERS:
            for word in simple.words[1:]:
                name, equals, text = (word.value or "").partition("=")
                if equals:
                    self._add(name, (text,))

    def _set(self, name: str, words: Sequence[Word]) -> None:
        args = self.args(words)
        self._add(name, [value for arg in args for value in arg.guesses])
        if any(arg.secrets for arg in args):
            self._secret.add(name)
        if not all(map(_is_told, words)):
            self._opaque.add(name)

    def _add(self, name: str, values: Sequence[str]) -> None:
        known = tuple(value for value in values if HOLE not in value)
        if known:
            every = dict.fromkeys((*self._known.get(name, ()), *known))
            self._known[name] = tuple(every)[:_WAYS_MAX]

    def _visited(self) -> Iterator[str]:
        """Where `cd` may have led."""
        for simple in self._script.commands:
            args = self.args(simple.words[:4])
            if args and args[0].value in ("cd", "pushd"):
                yield from (value for arg in args[1:] for value in arg.values)


def _is_told(word: Word) -> bool:
    """Its value stands in the text, or is a number."""
    return all(part.kind in (Kind.TEXT, Kind.ARITHMETIC) for part in word.parts)


def _bindings(simple: Simple) -> Iterator[str]:
    """The names this command sets."""
    if simple.loop is not None:
        yield from (name for name in (simple.loop,) if name != _CASE)
    elif not simple.words:
        yield from (assignment.name for assignment in simple.assignments)
    elif simple.words[0].value in _READERS | _SETTERS:
        for word in simple.words[1:]:
            yield (word.value or word.text).partition("=")[0]


def _names(part: Part) -> Iterator[str]:
    """The variables whose values a part shows; `${X:+y}` and `${#X}` show none."""
    if part.kind is Kind.VARIABLE:
        yield part.text
    elif part.kind in (Kind.EXPANSION, Kind.ARITHMETIC):
        yield from _EXPANDED.findall(part.text)


def _is_one_word(part: Part) -> bool:
    if part.kind is Kind.VARIABLE:
        return part.quoted or part.text in _GIVEN or part.text in _NUMBERS
    return part.quoted or part.kind in (Kind.TEXT, Kind.ARITHMETIC, Kind.PROCESS)


def _written(word: Word) -> Iterator[Arg]:
    """A literal word; its braces become words of their own."""
    value = word.value or ""
    # A tilde alone stands for one known place.
    pattern = word.pattern and _PATTERN.search(value) is not None
    texts = list(islice(_unbraced(value), _BRACES_MAX)) if pattern else [value]
    for text in texts:
        yield Arg(
            (text,),
            text,
            word.span,
            word.text,
            exact=not pattern,
            pattern=pattern,
            single=not pattern,
            parts=word.parts,
        )


def _unbraced(text: str) -> Iterator[str]:
    """`a{b,c}` is `ab` and `ac`."""
    waiting = [text]
    while waiting:
        text = waiting.pop(0)
        braces = _BRACES.search(text)
        if braces is None or len(waiting) > _BRACES_MAX:
            yield text
            continue
        before, after = text[: braces.start()], text[braces.end() :]
        waiting[:0] = [before + choice + after for choice in braces[1].split(",")]


def _printed(argv: Sequence[str | None]) -> str | None:
    """What `echo` or `printf` with these words prints."""
    words = [word for word in argv if word is not None]
    if len(words) < len(argv) or not words:
        return None
    program = words[0].rpartition("/")[2]
    if program == "echo":
        return " ".join(word for word in words[1:] if word not in ("-n", "-e", "-ne", "-en"))
    if program == "printf" and len(words) > 1:
        return _formatted(words[1], words[2:])
    return None


def _formatted(template: str, values: Sequence[str]) -> str | None:
    """`printf`, for `%s` and the usual escapes."""
    if re.search(r"%[^s%b]", template):
        return None
    rest = list(values)
    text = ""
    for _ in range(len(values) + 1):  # the template is used again until no value is left
        text += re.sub(r"%[sb]", lambda _: rest.pop(0) if rest else "", template)
        if not rest or not re.search(r"%[sb]", template):
            break
    escapes = {r"\n": "\n", r"\t": "\t", r"\\": "\\"}
    text = re.sub(r"\\[nt\\]", lambda found: escapes[found[0]], text)
    return re.sub(r"\\(?:x([0-9a-fA-F]{1,2})|0?([0-7]{1,3}))", _escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 16) if found[1] else int(found[2], 8))
