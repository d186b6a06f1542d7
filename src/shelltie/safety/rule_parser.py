"""Rule compiler: TOML → Rule, or an error as file:line:key: message. Pure."""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import TypeVar

from shelltie.basics.frozen import mutable, replace
from shelltie.basics.lazy_regex import lazy
from shelltie.basics.safe_regex import compile_pattern
from shelltie.basics.validate import (
    DocumentReader,
    InvalidValue,
    did_you_mean,
    json_boolean,
    json_text,
    known_instead,
    of_kind,
    texts,
)
from shelltie.errors import ConfigWrong
from shelltie.safety.rule import (
    CHECKS,
    OPERAND_ROLES,
    Arity,
    Flag,
    OptionStyle,
    Role,
    Rule,
    Slot,
    Slots,
    When,
)
from shelltie.verdict import Code, Rating

_Choice = TypeVar("_Choice", bound=StrEnum)
_Value = TypeVar("_Value")

Document = Mapping[str, object]

_PROBLEMS_MAX = 20
_TABLE = of_kind(dict, "a table { name = text }")
_HEADER = re.compile(r"\s*\[\[\s*rule\s*(\.\s*when\s*)?\]\]")


class Page:
    """A rule file while it is read: what it says, and what is wrong with it.

    Its `document` is what TOML makes of its text, if somebody has read that already.
    """

    def __init__(
        self, text: str, file: str, *, trusted: bool, document: Document | None = None
    ) -> None:
        self.file, self.trusted = file, trusted
        self._lines = text.splitlines()
        self._reader = DocumentReader(_PROBLEMS_MAX)
        try:
            self._document = tomllib.loads(text) if document is None else document
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ConfigWrong(f"{file}: is not TOML: {error}") from error

    def blocks(self, known: frozenset[str]) -> Iterator["Block"]:
        """Each `[[rule]]`, with its own `[[rule.when]]`; `known` are the keys it may have."""
        for key in self._document:
            if key != "rule":
                line = self.line_of(key, 1)
                self.say(line, key, "is not known" + did_you_mean(key, ["rule"]))
        tables = self._document.get("rule", [])
        starts = self._starts()
        for place, table in enumerate(tables if isinstance(tables, list) else []):
            if isinstance(table, dict):
                lines = starts[place] if place < len(starts) else [1]
                yield Block(self, table, lines[0], lines[1:], known)
        if not isinstance(tables, list):
            self.say(1, "rule", "must be written as [[rule]]")

    def _starts(self) -> list[list[int]]:
        """For each rule the line of its header, then those of its `when` headers."""
        starts: list[list[int]] = []
        for number, line in enumerate(self._lines, 1):
            if header := _HEADER.match(line):
                if header[1] is None:
                    starts.append([number])
                elif starts:
                    starts[-1].append(number)
        return starts

    def line_of(self, key: str, start: int) -> int:
        """The line of a key in the table that begins at `start`."""
        written = re.compile(rf"\s*{re.escape(key)}\s*[=.\]]|\s*\[\[?\s*{re.escape(key)}\s*\]")
        for number in range(start, len(self._lines) + 1):
            if number > start and _HEADER.match(self._lines[number - 1]):
                break
            if written.match(self._lines[number - 1]):
                return number
        return start

    def say(self, line: int, key: str, problem: str) -> None:
        """Remember that something is wrong."""
        self._reader.say(f"{self.file}:{line}: {key}", problem)

    def done(self) -> None:
        """Raises: ConfigWrong if anything was wrong."""
        if self._reader.problems:
            raise ConfigWrong("\n".join(self._reader.problems))


class Block:
    """One table of the file; what is wrong in it is told and has a harmless default."""

    def __init__(
        self,
        page: Page,
        table: Mapping[str, object],
        line: int,
        whens: list[int],
        known: frozenset[str],
    ) -> None:
        self.page, self.table, self.line = page, table, line
        self._whens = whens
        for key in table:
            if key not in known:
                self.wrong(key, "is not known" + did_you_mean(key, known))

    def wrong(self, key: str, problem: str) -> None:
        """Something is wrong with a key of it."""
        self.page.say(self.page.line_of(key, self.line), key, problem)

    def blocks(self, key: str, known: frozenset[str]) -> Iterator["Block"]:
        """The tables inside it."""
        tables = self.table.get(key, [])
        for place, table in enumerate(tables if isinstance(tables, list) else []):
            if isinstance(table, dict):
                line = self._whens[place] if place < len(self._whens) else self.line
                yield Block(self.page, table, line, [], known)

    def _take(self, key: str, check: Callable[[object], _Value], default: _Value) -> _Value:
        if key not in self.table:
            return default
        try:
            return check(self.table[key])
        except InvalidValue as error:
            self.wrong(key, str(error))
            return default

    def text(self, key: str) -> str:
        """A text, empty where there is none."""
        return self._take(key, json_text, "")

    def truth(self, key: str, *, default: bool = False) -> bool:
        """True or false."""
        return self._take(key, json_boolean, default)

    def names(self, key: str) -> frozenset[str]:
        """Names with blanks between them."""
        return frozenset(self.text(key).split())

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        return tuple(self._take(key, texts, []))

    def pairs(self, key: str) -> Iterator[tuple[str, str]]:
        """A table of texts."""
        table: dict[str, object] = self._take(key, _TABLE, {})
        for name, text in table.items():
            if isinstance(text, str):
                yield name, text
            else:
                self.wrong(key, f"{name} must be a text in quotes")

    def choice(self, key: str, choices: type[_Choice], default: _Choice) -> _Choice:
        """One of the names of an enumeration."""
        value = self.text(key) if key in self.table else default
        return self.one_of(key, value, choices) or default

    def one_of(self, key: str, value: str, choices: type[_Choice]) -> _Choice | None:
        """The choice that a word names; `None` and a problem more if there is none."""
        try:
            return choices(value)
        except ValueError:
            self.wrong(key, f"{value!r} is not known{known_instead(value, list(choices))}")
            return None

    def pattern(self, key: str, text: str) -> str | None:
        """A regular expression that may be used."""
        # Ours are tried by a test; compiling them all would make the first command of a kind slow.
        try:
            _ = self.page.trusted or compile_pattern(text)
        except ValueError as error:
            self.wrong(key, f"{text!r} {error}")
            return None
        return text


# The keys that list options: what the option takes, and what its value is.
_FLAG_KEYS: Mapping[str, tuple[Arity, Role]] = {
    "bool": (Arity.NONE, Role.TEXT),
    "value": (Arity.ONE, Role.TEXT),
    "optional": (Arity.ATTACHED, Role.TEXT),
    "pair": (Arity.TWO, Role.TEXT),
    "pair_reads": (Arity.TWO, Role.READ),
    "reads": (Arity.ONE, Role.READ),
    "writes": (Arity.ONE, Role.WRITE),
    "shell": (Arity.ONE, Role.SHELL),
    "runs": (Arity.ONE, Role.RUNS),
    "code_in": (Arity.ONE, Role.CODE),
    "url": (Arity.ONE, Role.URL),
    "env": (Arity.ONE, Role.ASSIGN),
    "sed": (Arity.ONE, Role.SED),
    "awk": (Arity.ONE, Role.AWK),
    "exec": (Arity.NONE, Role.EXEC),
}
_VERDICT_KEYS = ("verdict", "code", "why", "match")
_CONDITION_KEYS = (
    *("flags", "all", "absent", "operand", "first", "value", "first_is", "value_is", "operands"),
    "dynamic",
)
_SHAPE_KEYS = ("command", "flags", "style", "stop", "everywhere", "operands", "operands_with")
_EFFECT_KEYS = (
    *("deny", "danger", "appends", "stdin", "network", "requires", "needs", "plain_globs", "help"),
)
_NEEDS = ("processes", "network", "socket:docker", "everything")
_LOOPBACK = re.compile(r"network:loopback:[1-9]\d{0,4}")
_WHEN_KEYS = frozenset((*_VERDICT_KEYS, *_CONDITION_KEYS))
_RULE_KEYS = frozenset(
    (*_VERDICT_KEYS, *_SHAPE_KEYS, *_EFFECT_KEYS, *_FLAG_KEYS, "not_match", "when")
)
_CONDITIONS = ("git-config", "no-terminal")
_SLOT = lazy(r"([a-z]+)([?*+]?)")


@mutable
class Sketch:
    """A rule of which only its commands have been read; most are never needed."""

    commands: tuple[tuple[str, ...], ...]
    page: Page
    block: Block
    family: str
    made: Rule | None = None

    def rule(self, command: tuple[str, ...]) -> Rule:
        """The whole rule, for one of its commands.

        Raises: ConfigWrong.
        """
        if self.made is None:
            self.made = _rule(self.block, self.family)
            self.page.done()
        return replace(self.made, command=command)


def sketch_rules(
    text: str, file: str, *, family: str, trusted: bool, document: Document | None = None
) -> list[Sketch]:
    """Every rule of a file; a comma in `command` makes several of one.

    The patterns of a file that is not ours are refused when they could run away.
    Raises: ConfigWrong if it is not TOML.
    """
    page = Page(text, file, trusted=trusted, document=document)
    return [Sketch(_commands(block), page, block, family) for block in page.blocks(_RULE_KEYS)]


def compile_rules(text: str, file: str, *, family: str, trusted: bool) -> list[Rule]:
    """Every rule of a file, read to its end.

    Raises: ConfigWrong, with one line for each problem.
    """
    page = Page(text, file, trusted=trusted)
    rules = [
        replace(rule, command=command)
        for block in page.blocks(_RULE_KEYS)
        for rule in [_rule(block, family)]
        for command in _commands(block)
    ]
    page.done()
    return rules


def _commands(block: Block) -> tuple[tuple[str, ...], ...]:
    commands = tuple(tuple(part.split()) for part in block.text("command").split(","))
    if not all(commands):
        block.wrong("command", "is missing; it names a program, and maybe its subcommand")
    return commands


def _rule(block: Block, family: str) -> Rule:
    verdict, code, why = _verdict(block)
    whens = tuple(_when(inner, rule_verdict=verdict) for inner in block.blocks("when", _WHEN_KEYS))
    return Rule(
        command=(),
        family=family,
        verdict=verdict,
        code=code,
        why=why,
        any_flags=_any_flags(block),
        style=block.choice("style", OptionStyle, OptionStyle.GNU),
        stop=block.truth("stop"),
        everywhere=block.truth("everywhere"),
        flags=_with_conditions(_flags(block), whens, listed=not _any_flags(block)),
        operands=_slots(block, "operands", str(block.table.get("operands", "text*"))),
        operands_with=tuple(
            (frozenset(names.split()), _slots(block, "operands_with", text))
            for names, text in block.pairs("operands_with")
        ),
        appends=block.truth("appends"),
        stdin=_stdin(block),
        network=block.truth("network"),
        requires=_requires(block),
        needs=_needs(block),
        plain_globs=block.truth("plain_globs", default=_any_flags(block)),
        help=block.truth("help", default=verdict is not Rating.DANGEROUS),
        whens=whens,
        match=block.texts("match"),
        not_match=block.texts("not_match"),
        line=block.line,
    )


def _verdict(block: Block) -> tuple[Rating, Code | None, str]:
    if "verdict" not in block.table:
        block.wrong("verdict", "is missing; it is safe, unknown or dangerous")
    verdict = block.choice("verdict", Rating, Rating.DANGEROUS)
    code = block.one_of("code", block.text("code"), Code) if "code" in block.table else None
    why = block.text("why")
    if verdict is not Rating.SAFE:
        for key in ("code", "why"):
            if key not in block.table:
                block.wrong(key, "is missing; everything that is not safe says why")
    return verdict, code, why


def _any_flags(block: Block) -> bool:
    value = block.table.get("flags", "listed")
    if value not in ("any", "listed"):
        block.wrong("flags", f"must be 'any' or 'listed', not {value!r}")
    return value == "any"


def _stdin(block: Block) -> Role | None:
    if "stdin" not in block.table:
        return None
    role = block.choice("stdin", Role, Role.SHELL)
    if role not in (Role.SHELL, Role.CODE):
        block.wrong("stdin", "must be 'shell' or 'code'")
    return role


def _needs(block: Block) -> frozenset[str]:
    names = frozenset(block.text("needs").split())
    for name in sorted(one for one in names - {*_NEEDS} if not _LOOPBACK.fullmatch(one)):
        block.wrong("needs", f"{name!r} is not known{known_instead(name, _NEEDS)}")
    return names


def _requires(block: Block) -> str | None:
    value = block.text("requires")
    if (
        value
        and value not in _CONDITIONS
        and not re.fullmatch(r"(?:absent|python-path)( [^\s]+)+", value)
    ):
        block.wrong("requires", f"{value!r} is not known{known_instead(value, _CONDITIONS)}")
    return value or None


def _flags(block: Block) -> dict[str, Flag]:
    flags: dict[str, Flag] = {}
    for key, (arity, role) in _FLAG_KEYS.items():
        for name in sorted(block.names(key)):
            if name in flags and (key != "optional" or flags[name].arity is not Arity.NONE):
                block.wrong(key, f"{name} is listed twice")
            flags[name] = Flag(name, arity, role)
    for key, rating in (("deny", Rating.UNKNOWN), ("danger", Rating.DANGEROUS)):
        for word, names in block.pairs(key):
            code = block.one_of(key, word, Code)
            for name in names.split():
                known = flags.get(name, Flag(name))
                flags[name] = replace(known, rating=rating, code=code)
    return flags


def _with_conditions(
    flags: dict[str, Flag], whens: tuple[When, ...], *, listed: bool
) -> dict[str, Flag]:
    """Options that only a condition names are seen as well; being listed there allows nothing."""
    flags.setdefault("--", Flag("--"))
    rating, code = (Rating.UNKNOWN, Code.UNKNOWN_FLAG) if listed else (Rating.SAFE, None)
    for when in whens:
        for names, _ in (*when.value, *when.value_is):
            for name in names:
                flags.setdefault(name, Flag(name, Arity.ONE, Role.TEXT, rating, code))
        for name in when.flags | when.every | when.absent:
            flags.setdefault(name, Flag(name, Arity.NONE, Role.TEXT, rating, code))
    return flags


def _slots(block: Block, key: str, text: str) -> Slots:
    slots = []
    for word in text.split():
        found = _SLOT.fullmatch(word)
        role = block.one_of(key, found[1], Role) if found else None
        if found is None or role not in OPERAND_ROLES:
            block.wrong(key, f"{word!r} is no operand; write a kind with ?, * or + after it")
            continue
        slots.append(Slot(role, needed=found[2] in ("", "+"), repeats=found[2] in ("*", "+")))
    if sum(slot.repeats and slot.role is not Role.ASSIGN for slot in slots) > 1:
        block.wrong(key, "only one kind may repeat")
    return tuple(slots)


def _when(block: Block, *, rule_verdict: Rating) -> When:
    verdict, code, why = _verdict(block)
    if verdict.rank < rule_verdict.rank:
        block.wrong("verdict", f"may not be milder than the rule's own, {rule_verdict}")
    at_least, at_most = _count(block)
    operand = block.pattern("operand", block.text("operand")) if "operand" in block.table else None
    first = block.pattern("first", block.text("first")) if "first" in block.table else None
    return When(
        verdict=verdict,
        code=code or Code.UNKNOWN_FLAG,
        why=why,
        flags=block.names("flags"),
        every=block.names("all"),
        absent=block.names("absent"),
        operand=operand,
        first=first,
        value=tuple(
            (frozenset(names.split()), text)
            for names, text in block.pairs("value")
            if block.pattern("value", text) is not None
        ),
        first_is=_check(block, "first_is", block.text("first_is")),
        value_is=tuple(
            (frozenset(names.split()), check)
            for names, text in block.pairs("value_is")
            if (check := _check(block, "value_is", text)) is not None
        ),
        at_least=at_least,
        at_most=at_most,
        dynamic=block.truth("dynamic"),
        examples=block.texts("match"),
    )


def _check(block: Block, key: str, name: str) -> str | None:
    """The name of a check that is written in Python."""
    if name in CHECKS:
        return name
    if key in block.table:
        block.wrong(key, f"{name!r} is not known{known_instead(name, list(CHECKS))}")
    return None


def _count(block: Block) -> tuple[int, int | None]:
    """`"2"` is (2, 2), `"2+"` is (2, None); without the key any number will do."""
    text = block.text("operands")
    if not text:
        return 0, None
    if not re.fullmatch(r"\d{1,3}\+?", text):
        block.wrong("operands", f"must be a number such as '0', or '1+', not {text!r}")
        return 0, None
    number = int(text.rstrip("+"))
    return number, None if text.endswith("+") else number
