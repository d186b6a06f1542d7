"""Rule: the compiled form of what a TOML rule file says about a program. Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from functools import lru_cache

from shelltie.basics.frozen import frozen
from shelltie.basics.safe_regex import possessive_as_atomic
from shelltie.safety.search_pattern import fits_most_lines
from shelltie.verdict import Code, Rating

PATTERN_HEAD = 4000  # characters of a word that a rule's regular expression looks at


class OptionStyle(StrEnum):
    """How a program writes its options."""

    GNU = "gnu"  # -abc --long --long=v
    WORD = "word"  # -name -name=v
    BUNDLE = "bundle"  # gnu, but the first word may be short options without a dash
    SHELL = "shell"  # as bash: -c is a switch, its text the first word behind all options
    NONE = "none"  # everything is an operand


class Arity(StrEnum):
    """Whether an option has a value."""

    NONE = "none"
    ONE = "one"
    TWO = "two"  # a name and a value: --arg name value
    ATTACHED = "attached"  # only when it is attached: --color=x, -Ux


class Role(StrEnum):
    """What an operand, or the value of an option, is to the program."""

    TEXT = "text"
    NAME = "name"  # a file is named, its content is not shown
    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    URL = "url"
    HOST = "host"
    ASSIGN = "assign"
    SHELL = "shell"
    COMMAND = "command"
    RUNS = "runs"  # a command that will be run, as one word
    EXEC = "exec"  # the following words up to `;` or `+` are a command
    CODE = "code"
    SED = "sed"
    AWK = "awk"
    SUB = "sub"


# What a rule may ask about an argument that no pattern could say in a readable way.
CHECKS: Mapping[str, Callable[[str], bool]] = {"fits-most-lines": fits_most_lines}

OPERAND_ROLES = frozenset(Role) - {Role.EXEC}


@frozen
class Flag:
    """One option: whether it has a value, what that value is, and what the option itself does."""

    name: str
    arity: Arity = Arity.NONE
    role: Role = Role.TEXT
    rating: Rating = Rating.SAFE
    code: Code | None = None


@frozen
class Slot:
    """A place in the row of operands."""

    role: Role
    needed: bool = True
    repeats: bool = False


Slots = tuple[Slot, ...]


@frozen
class When:
    """A condition on the arguments that makes the verdict stricter."""

    verdict: Rating
    code: Code
    why: str
    flags: frozenset[str] = frozenset()
    every: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    operand: str | None = None
    first: str | None = None
    value: tuple[tuple[frozenset[str], str], ...] = ()
    first_is: str | None = None  # a name of CHECKS
    value_is: tuple[tuple[frozenset[str], str], ...] = ()
    at_least: int = 0
    at_most: int | None = None
    dynamic: bool = False
    examples: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The options it speaks of."""
        values = (*self.value, *self.value_is)
        return self.flags | self.every | frozenset(name for names, _ in values for name in names)

    @property
    def looks_at_operands(self) -> bool:
        """It says something of more than options."""
        counts = self.at_least > 0 or self.at_most is not None
        named = not (self.operand is self.first is self.first_is is None)
        return named or self.dynamic or counts


@frozen
class Rule:
    """What is known of one program or subcommand."""

    command: tuple[str, ...]
    family: str
    verdict: Rating
    code: Code | None = None
    why: str = ""
    any_flags: bool = False
    style: OptionStyle = OptionStyle.GNU
    stop: bool = False
    everywhere: bool = False
    flags: Mapping[str, Flag] = field(default_factory=dict)
    operands: Slots = (Slot(Role.TEXT, needed=False, repeats=True),)
    operands_with: tuple[tuple[frozenset[str], Slots], ...] = ()
    appends: bool = False
    stdin: Role | None = None
    network: bool = False
    requires: str | None = None
    needs: frozenset[str] = frozenset()
    plain_globs: bool = False
    help: bool = True
    whens: tuple[When, ...] = ()
    match: tuple[str, ...] = ()
    not_match: tuple[str, ...] = ()
    line: int = 0

    @property
    def name(self) -> str:
        """As reasons show it: `git/git log`."""
        return f"{self.family}/{' '.join(self.command)}"

    @property
    def wraps(self) -> bool:
        """It runs another command that stands among its words."""
        inner = {Role.COMMAND, Role.SHELL, Role.EXEC}
        return any(slot.role in inner for slot in self.operands) or any(
            flag.role in inner for flag in self.flags.values()
        )


@lru_cache(maxsize=2048)
def _compiled(text: str) -> re.Pattern[str]:
    """A rule's pattern; compiled when it is first needed, because most never are."""
    return re.compile(possessive_as_atomic(text))


def found(pattern: str, text: str) -> bool:
    """Whether the head of `text` holds the pattern."""
    return _compiled(pattern).search(text, 0, PATTERN_HEAD) is not None
