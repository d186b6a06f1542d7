"""Constant propagation: which values the words and variables of a script can have. Pure.

A variable that the script sets to something literal is known, and so are arrays and positional
parameters; one that it sets by a loop, `read` or a substitution is bound: its value comes from
commands that are judged themselves.
What is known this way serves to find danger; it never proves anything safe.
"""

import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice, product

from shelltie.basics.lazy_regex import lazy
from shelltie.output.secret_variable_names import is_everyday_word, is_secret_name
from shelltie.safety.arg import HOLE, Arg, unseen, written
from shelltie.safety.echo import printed
from shelltie.safety.file_name_sources import lists_harmless_names
from shelltie.shell.script import Assignment, Part, PartKind, Script, Simple, Word
from shelltie.verdict import Span

_SPLIT = "\1"  # where an unquoted value falls apart
_WAYS_MAX = 16
_EMPTY_WAYS_MAX = 256
_ROW_MAX = 200  # words of an array, and of all that it is set to
_ROWS_MAX = 50
_PASSES = 3  # so that `a=r; b=$a` is known as well

# Set by every login, and never more than one plain word.
_GIVEN = {"HOME": "~", "PWD": ".", "OLDPWD": ".."}
# Where they are set at all, usually to this.
_USUAL = {"XDG_CONFIG_HOME": "~/.config", "XDG_STATE_HOME": "~/.local/state"}
_NUMBERS = frozenset(("?", "#", "$", "!", "PPID", "UID", "EUID", "RANDOM", "LINENO", "SECONDS"))
_NUMBER = lazy(r"[+-]?\d+")
_IFS = " "
_PIPE = "/dev/fd/63"  # what the shell puts in place of `<(…)`

# ${a[1]}, ${a[@]}, ${a[@]:1}, ${@:2}
_ELEMENTS = lazy(r"\$\{([@*]|[A-Za-z_]\w*)(?:\[([^]]*)\])?(?::\s*(\d+).*)?\}", re.ASCII | re.DOTALL)
_PARAMETERS = "@"  # the positional parameters, as an array
_DEFAULT = lazy(r"\$\{(\w+):?[-=]([^$`{}]*)\}")
_EXPANDED = lazy(r"\$(?:\{!?)?([A-Za-z_]\w*)(?!\w|:?\+)", re.ASCII)
CASE = "case"  # stands for itself, not for a variable
_SETTERS = frozenset(("export", "declare", "typeset", "local", "readonly"))
_PRINT_NAMES = (["pwd"], ["which"], ["command", "-v"], ["git", "rev-parse"], ["git", "ls-files"])
_SET_BY_ARITHMETIC = lazy(r"\b([A-Za-z_]\w*)\s*=(?!=)", re.ASCII)
_READERS = frozenset(("read", "mapfile", "readarray", "getopts"))
# They may set any name: by an option, by a word known only at run time, or by text of their own.
_HIDDEN_SETTERS = frozenset(
    (*_READERS, *_SETTERS, "printf", "wait", "eval", "source", ".", "unset", "builtin", "command")
)
_SET_BY_SHELL = lazy(
    r"_|BASH.*|(?:OLD)?PWD|REPLY|MAPFILE|OPTARG|COPROC|PIPESTATUS|DIRSTACK|FUNCNAME"
)
_CONDITION = lazy(r"[&|(){}!]|\b(?:if|while|until|for|case|select|function)\b")
_GOES_ON = lazy(r"[ \t]*(?:;|\n|&&|\Z)")  # and not in a subshell, as before `&` or `|`
_HIDDEN_SETTER = lazy(r"\{\w+\}[<>]|\$\{!?\w+:?=|\bcoproc\b|\+=|\w\[[^]]*\]\+?=|\bselect\b")


class Values:
    """What is known of the variables of one script."""

    def __init__(self, script: Script, operands: Sequence[Arg] = ()) -> None:
        """`operands` are `$0`, `$1` and so on: what `bash -c TEXT` is given behind its text."""
        self._script = script
        self._zero = tuple(operands[0].guesses) if operands else (HOLE,)
        # The rows of words that an array is set to, by the place where that is done.
        self._rows: dict[str, dict[Span, tuple[str, ...]]] = {}
        if operands:
            row = tuple(arg.guesses[0] for arg in operands[1:])
            self._rows[_PARAMETERS] = {Span(0, 0): row}
        self._known: dict[str, tuple[str, ...]] = {}
        self._secret: set[str] = set()
        self._bound: dict[str, int] = {}  # and where in the text for the first time
        self._assigned: dict[str, int] = {}  # where the first command that gives a value ends
        self._opaque: set[str] = set()  # set to something that the text does not tell
        self._listed: set[str] = (
            set()
        )  # set to names of files that a command lists, and nothing else
        self._set_at: dict[str, Span] = {}  # from the first place to the last
        self.files: Mapping[str, Arg] | None = None  # that the script writes, once looked up
        self.directories: tuple[str, ...] = ()
        self.moves = tuple(
            it.span for it in script.commands if it.program in ("cd", "pushd", "popd")
        )
        self._blanks = re.compile(r"\s+")
        self._learn()

    def args(self, words: Sequence[Word]) -> tuple[Arg, ...]:
        """The arguments these words become."""
        return tuple(arg for word in words for arg in self.of(word))

    def of(self, word: Word) -> tuple[Arg, ...]:
        """The arguments one word becomes; usually one."""
        if word.value is not None:
            return tuple(written(word))
        ways = list(islice(product(*map(self._ways, word.parts)), _WAYS_MAX + 1))
        texts = ["".join(way) for way in ways[:_WAYS_MAX]]
        if len(ways) > _WAYS_MAX:
            return (replace(self._made(word, texts), bound=False),)
        if len(texts) == 1 and _SPLIT in texts[0]:
            pieces = [piece for piece in texts[0].split(_SPLIT) if piece]
            return tuple(self._made(word, [piece]) for piece in pieces)
        return (self._made(word, [text.replace(_SPLIT, " ") for text in texts]),)

    def _made(self, word: Word, texts: Sequence[str]) -> Arg:
        # The word, and where the script sets the variables in it.
        names = [_set_as(name) for part in word.parts for name in _names(part)]
        return Arg(
            values=tuple(dict.fromkeys(text for text in texts if HOLE not in text)),
            shape=texts[0] if texts else HOLE,
            span=word.span.with_all(self._set_at[name] for name in names if name in self._set_at),
            text=word.text,
            exact=False,
            pattern=word.pattern,
            single=word.single or all(map(_is_one_word, word.parts)),
            bound=all(self._is_bound(part, word.span.start) for part in word.parts),
            secrets=tuple(self.secrets_in(word)),
            parts=word.parts,
        )

    @cached_property
    def mentions(self) -> Counter[str]:
        """How often each file, or what may be one, is named in the text."""
        words = [word for simple in self._script.commands for word in simple.words[1:]]
        redirects = [it for simple in self._script.commands for it in simple.redirects]
        words += [it.target for it in redirects if it.target is not None]
        return Counter(posixpath.normpath(word.value) for word in words if word.value is not None)

    def secrets_in(self, word: Word) -> Iterator[str]:
        """The variables with secret names whose value becomes part of the word."""
        for part in word.parts:
            for name in _names(part):
                if name in self._secret or self._is_secret_of_environment(name, word):
                    yield name

    def _is_secret_of_environment(self, name: str, word: Word) -> bool:
        if name in self._assigned and self._assigned[name] <= word.span.start:
            return False
        return is_secret_name(name) and not is_everyday_word(name)

    def known(self, name: str) -> tuple[str, ...]:
        """What the text itself sets a variable to."""
        return self._known.get(name, ())

    def is_number(self, name: str) -> bool:
        """Whether a variable can hold nothing but a number: safe to use in arithmetic.

        Not where the text has ways to set one that are not followed: `read`, `${x:=…}`, `a[0]=…`.
        """
        if name in _NUMBERS:
            return True
        known = self.all_of(name)
        return bool(known) and all(map(_NUMBER.fullmatch, known))

    def all_of(self, name: str) -> tuple[str, ...]:
        """Everything that a variable can hold; nothing if the text does not tell all of it."""
        if name in self._opaque or self._sets_unseen or _SET_BY_SHELL.fullmatch(name):
            return ()
        known = self._known.get(name, ())
        return known if len(known) < _WAYS_MAX else ()

    def tells(self, arg: Arg) -> bool:
        """Whether the text tells everything that an argument can be."""
        return all(
            part.kind is PartKind.TEXT
            or (part.kind is PartKind.VARIABLE and bool(self.all_of(part.text)))
            for part in arg.parts
        )

    def always_set(self, arg: Arg) -> bool:
        """Whether its variables have a value before anything in the text can be skipped."""
        names = (part.text for part in arg.parts if part.kind is PartKind.VARIABLE)
        return all(name in _NUMBERS or name in self._set_first for name in names)

    @cached_property
    def _set_first(self) -> frozenset[str]:
        """The variables that the text sets before its first condition, loop, pipe or subshell."""
        text, names = self._script.text, set[str]()
        condition = _CONDITION.search(text)
        end = len(text) if condition is None else condition.start()
        for simple in self._script.commands:
            alone = not simple.words and simple.loop is None and simple.span.end <= end
            if alone and _GOES_ON.match(text, simple.span.end):
                names.update(assignment.name for assignment in simple.assignments)
        return frozenset(names)

    def with_empty(self, arg: Arg) -> tuple[str, ...] | None:
        """What it is where variables are empty that the text may not have set: `false && x=y`.

        Nothing if it sets all of them; `None` if these are more texts than are looked at.
        """
        if self.always_set(arg):
            return ()
        ways = [
            (*self._texts(part), "")
            if part.kind is PartKind.VARIABLE and part.text not in self._set_first
            else self._texts(part)
            for part in arg.parts
        ]
        texts = ["".join(way) for way in islice(product(*ways), _EMPTY_WAYS_MAX + 1)]
        if len(texts) > _EMPTY_WAYS_MAX:
            return None
        # The value in `--name=value` is the end of the word.
        before = len(texts[0]) - len(arg.shape)
        return tuple(dict.fromkeys(text[max(0, before) :] for text in texts if HOLE not in text))

    @cached_property
    def _sets_unseen(self) -> bool:
        """Whether variables may be set by other ways than `x=…` and `for x in …`."""
        if _HIDDEN_SETTER.search(self._script.text):
            return True
        programs = [it.words[0] for it in self._script.commands if it.words and it.loop is None]
        return any(word.value is None or word.value in _HIDDEN_SETTERS for word in programs)

    def output_of(self, places: Sequence[int]) -> str | None:
        """What these commands print, if that stands in the text: `echo rm`."""
        if len(places) != 1 or places[0] >= len(self._script.commands):
            return None
        simple = self._script.commands[places[0]]
        if (
            simple.assignments
            or simple.loop is not None
            or simple.program in self._script.functions
        ):
            return None
        args = [arg for word in simple.words for arg in self._shallow(word)]
        return printed([arg.value for arg in args])

    def _shallow(self, word: Word) -> tuple[Arg, ...]:
        if all(part.kind in (PartKind.TEXT, PartKind.VARIABLE) for part in word.parts):
            return self.of(word)
        return (unseen(word.span),)

    def _ways(self, part: Part) -> tuple[str, ...]:
        """The texts a part can stand for."""
        texts = self._elements(part) or self._texts(part)
        if part.quoted or part.kind is PartKind.TEXT:
            return texts
        return tuple(self._blanks.sub(_SPLIT, text) for text in texts)

    def _texts(self, part: Part) -> tuple[str, ...]:
        match part.kind:
            case PartKind.TEXT:
                return (part.text,)
            case PartKind.VARIABLE:
                return self._of_variable(part.text)
            case PartKind.COMMAND:
                printed = self.output_of(part.commands)
                return (HOLE if printed is None else printed.rstrip("\n"),)
            case PartKind.PROCESS:
                return (_PIPE,)
            case PartKind.EXPANSION if default := _DEFAULT.fullmatch(part.text):
                return tuple(dict.fromkeys((*self._of_variable(default[1]), default[2])))
            case _:
                return (HOLE,)

    def _elements(self, part: Part) -> tuple[str, ...]:
        """What `${a[@]}`, `${a[1]}`, `$a`, `$@` or `$1` stands for, if the text sets it."""
        name, index, offset = _element(part)
        rows = self._alternatives(name)
        if index is not None and index.isdigit():
            if name == _PARAMETERS and index == "0":
                return self._zero
            at = int(index[:6]) - (name == _PARAMETERS)
            return tuple(row[at] for row in rows if at < len(row))
        if index in ("@", "*"):
            rows = [row[max(0, offset - (name == _PARAMETERS)) :] for row in rows]
            between = " " if index == "*" and part.quoted else _SPLIT
            return tuple(between.join(row) for row in rows if row)
        return tuple(dict.fromkeys(text for row in rows for text in row)) if index else ()

    def _alternatives(self, name: str) -> list[tuple[str, ...]]:
        """The rows that an array may be: each that is set, all together for `+=`, and for the
        positional parameters, what `shift` leaves of them.
        """
        rows = list(self._rows.get(name, {}).values())
        if len(rows) > 1:
            rows.append(tuple(text for row in rows for text in row)[:_ROW_MAX])
        if name == _PARAMETERS and self._shifts:
            rows += [row[at:] for row in rows[:_WAYS_MAX] for at in range(1, _WAYS_MAX)]
        return list(dict.fromkeys(row for row in rows if row))[:_WAYS_MAX]

    @cached_property
    def given_to_read(self) -> tuple[Arg, ...]:
        """Here-documents of the `read`s of the script, and of the loops around them."""
        if all(it.program != "read" for it in self._script.commands):
            return ()
        readers = (it for it in self._script.commands if not it.words or it.program == "read")
        return self.args([it.body for simple in readers for it in simple.redirects if it.body])

    @cached_property
    def _shifts(self) -> bool:
        return any(it.program == "shift" for it in self._script.commands)

    def _of_variable(self, name: str) -> tuple[str, ...]:
        if name in self._known:
            return self._known[name]
        if name == "IFS":
            return (_IFS,)
        return ({**_USUAL, **_GIVEN}.get(name, HOLE) if name not in self._bound else HOLE,)

    def _is_bound(self, part: Part, at: int) -> bool:
        """Whether the script has said what it is before it stands there."""
        match part.kind:
            case PartKind.TEXT | PartKind.ARITHMETIC | PartKind.PROCESS:
                return True
            case PartKind.VARIABLE:
                given = part.text in _NUMBERS or (
                    part.text in _GIVEN and part.text not in self._bound
                )
                told = self._bound.get(part.text, at) < at and bool(self.all_of(part.text))
                return given or told or part.text in self._listed
            case PartKind.COMMAND:
                return self._prints_names(part.commands)
            case _:
                return False

    def _prints_names(self, places: Sequence[int]) -> bool:
        """Whether a substitution yields the name of a file, as `git ls-files` does."""
        if len(places) != 1 or places[0] >= len(self._script.commands):
            return False
        words = [word.value for word in self._script.commands[places[0]].words]
        return words[:1] in _PRINT_NAMES or words[:2] in _PRINT_NAMES

    def _learn(self) -> None:
        for simple in self._script.commands:
            for name in _bindings(simple):
                self._bound.setdefault(name, simple.span.start)
            for name in _assigned(simple):
                self._assigned.setdefault(name, simple.span.end)
            if simple.program in _READERS:
                self._opaque.update(_bindings(simple))
        self._listed = {*self._names_of_files()}
        for _ in range(_PASSES):
            for simple in self._script.commands:
                self._learn_from(simple)
        if separators := "".join(self.known("IFS")):
            self._blanks = re.compile(rf"[\s{re.escape(separators)}]+")
        self.directories = tuple(islice(self._visited(), _WAYS_MAX))

    def _names_of_files(self) -> Iterator[str]:
        """Variables with nothing else in them: `find … | while read f`."""
        commands = self._script.commands
        set_by = [(name, simple) for simple in commands for name in _bindings(simple)]
        times = Counter(name for name, _ in set_by)
        for name, simple in set_by:
            places = _sources_of(simple)
            feeders = [commands[place] for place in places if place < len(commands)]
            if times[name] == 1 and feeders and lists_harmless_names(feeders):
                yield name

    def _learn_from(self, simple: Simple) -> None:
        program = simple.program
        if simple.loop is not None:
            self._set(simple.loop, simple.words if simple.loop != CASE else (), simple.span)
        elif program is None and not simple.words:
            self._learn_assigned(simple.assignments)
        elif program in _SETTERS:
            self._learn_declared(simple.words[1:])
        elif program == "set" or program in self._script.functions:
            operands = _operands_of_set(simple.words) if program == "set" else simple.words[1:]
            self._add_row(_PARAMETERS, operands, simple.span)
        elif program in ("((", "let"):
            for name in _SET_BY_ARITHMETIC.findall(" ".join(it.text for it in simple.words)):
                self._add(name, ("0",), simple.span)  # whatever it is, it is a number

    def _learn_assigned(self, assignments: Sequence[Assignment]) -> None:
        for assignment in assignments:
            if assignment.value is not None:
                self._set(assignment.name, [assignment.value], assignment.span)
                self._learn_array(assignment.name, assignment.value, assignment.span)

    def _learn_declared(self, words: Sequence[Word]) -> None:
        for word in words:
            name, equals, text = (word.value or "").partition("=")
            if equals:
                self._add(name, (text,), word.span)
            elif word.parts and word.parts[-1].words:
                self._learn_array(word.parts[0].text.rstrip("+="), word, word.span)
            elif any(self.secrets_in(word)):
                self._secret.add(word.text.partition("=")[0])

    def _learn_array(self, name: str, value: Word, at: Span) -> None:
        """`a=(x y)`, `a+=(x y)`, `a[1]=x`."""
        base, subscript, _ = name.partition("[")
        if subscript:
            self._add_row(base, [value], at)
        elif value.parts and value.parts[-1].words:
            self._add_row(base, value.parts[-1].words, at)

    def _add_row(self, name: str, words: Sequence[Word], at: Span) -> None:
        rows = self._rows.setdefault(name, {})
        if words and at not in rows and len(rows) < _ROWS_MAX:
            args = self.args(words[:_ROW_MAX])
            rows[at] = tuple(arg.guesses[0] for arg in args)
            at = at.with_all(arg.span for arg in args)
            self._set_at[name] = at.with_all([self._set_at.get(name, at)])

    def _set(self, name: str, words: Sequence[Word], at: Span) -> None:
        args = self.args(words)
        at = at.with_all(arg.span for arg in args)
        self._add(name, [value for arg in args for value in arg.guesses], at)
        if any(arg.secrets for arg in args):
            self._secret.add(name)
        parts = (part for word in words for part in word.parts)
        if not all(part.kind in (PartKind.TEXT, PartKind.ARITHMETIC) for part in parts):
            self._opaque.add(name)

    def _add(self, name: str, values: Sequence[str], at: Span) -> None:
        known = tuple(value for value in values if HOLE not in value)
        if known:
            self._set_at[name] = at.with_all([self._set_at.get(name, at)])
            every = dict.fromkeys((*self._known.get(name, ()), *known))
            self._known[name] = tuple(every)[:_WAYS_MAX]

    def _visited(self) -> Iterator[str]:
        """Where `cd` may have led."""
        for simple in self._script.commands:
            args = self.args(simple.words[:4])
            if args and args[0].value in ("cd", "pushd"):
                yield from (value for arg in args[1:] for value in arg.values)
                if args[0].value == "cd" and len(args) == 1:
                    yield "~"


def _sources_of(simple: Simple) -> tuple[int, ...]:
    """The commands from which a loop or `read` has its values, if there is nothing else."""
    if simple.loop is None:
        return simple.feeds if simple.program == "read" else ()
    parts = [part for word in simple.words for part in word.parts]
    if any(part.kind is not PartKind.COMMAND for part in parts):
        return ()
    return tuple(place for part in parts for place in part.commands)


def _bindings(simple: Simple) -> Iterator[str]:
    """The names this command sets."""
    if simple.loop is not None:
        yield from (name for name in (simple.loop,) if name != CASE)
    elif not simple.words:
        yield from (assignment.name for assignment in simple.assignments)
    elif simple.words[0].value in _READERS | _SETTERS:
        for word in simple.words[1:]:
            yield (word.value or word.text).partition("=")[0]


def _assigned(simple: Simple) -> Iterator[str]:
    """The names that have a new value after this command: `export X` gives none."""
    if simple.program in _SETTERS and simple.loop is None:
        pairs = (word.text.partition("=") for word in simple.words[1:])
        yield from (name for name, equals, _ in pairs if equals)
    else:
        yield from _bindings(simple)


def _operands_of_set(words: Sequence[Word]) -> Sequence[Word]:
    """What `set` makes the positional parameters."""
    for at, word in enumerate(words[1:], start=1):
        if word.value == "--":
            return words[at + 1 :]
        if not word.text.startswith(("-", "+")) and words[at - 1].value not in ("-o", "+o"):
            return words[at:]
    return ()


def _element(part: Part) -> tuple[str, str | None, int]:
    """The array that a part reads, which of its elements, `@` for all, and from where on."""
    if part.kind is PartKind.VARIABLE:
        if part.text in ("@", "*"):
            return _PARAMETERS, part.text, 0
        return (_PARAMETERS, part.text, 0) if part.text.isdigit() else (part.text, "0", 0)
    found = _ELEMENTS.fullmatch(part.text) if part.kind is PartKind.EXPANSION else None
    if found is None or (found[2] is None and found[1] not in ("@", "*")):
        return "", None, 0
    name, index = (found[1], found[2]) if found[2] else (_PARAMETERS, found[1])
    return name, index, int((found[3] or "0")[:6])


def _set_as(name: str) -> str:
    """Under which name it is kept where a variable is set: `$1` and `$*` are of one array."""
    return _PARAMETERS if name.isdigit() or name == "*" else name


def _names(part: Part) -> Iterator[str]:
    """The variables whose values a part shows; `${X:+y}` and `${#X}` show none."""
    if part.kind is PartKind.VARIABLE:
        yield part.text
    elif part.kind in (PartKind.EXPANSION, PartKind.ARITHMETIC):
        yield from _EXPANDED.findall(part.text)
        yield from (_PARAMETERS for start in ("${@", "${*") if part.text.startswith(start))


def _is_one_word(part: Part) -> bool:
    if part.kind is PartKind.VARIABLE:
        return part.quoted or part.text in _GIVEN or part.text in _NUMBERS
    return part.quoted or part.kind in (PartKind.TEXT, PartKind.ARITHMETIC, PartKind.PROCESS)
