r"""ReDoS guard: users' regular expressions are refused when they could backtrack for ever. Pure.

`re` backtracks, holds the interpreter while it does, and cannot be interrupted. So a pattern is
first read for its shape: repeating something that can already match in several ways (`(a+)+`,
`(a|ab)*`) takes exponential time and is refused; several repetitions one after the other
(`.*x.*y`) take polynomial time, so such a pattern sees a shorter head of the command, and none at
all beyond four. The count is an upper bound: some harmless patterns are refused, and the message
says how to write them. What it misses: `\s+` counts as cheap, because commands rarely hold long
runs of blanks (`limits` shortens those that do), and a file may hold many slow patterns.
"""

import re
import warnings
from collections.abc import Sequence, Set
from functools import cached_property

from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy

LENGTH_MAX = 1000
_HEAD = (4000, 4000, 2000, 250, 100)  # characters looked at, by the power of the worst time
_REACH = (4000, 4000, 1000, 100)  # the same where each look should take 10 ms at most
_WAYS_MAX = 100_000
_COPIES_MAX = 20

_TOKEN = lazy(
    r"""
      (?P<atom>\[\^?\]?(?>(?:\\.|[^\]\\])*)\] | \\. | \(\?(?:P=\w+|\#[^)]*|[a-zA-Z]+)\))
    | (?P<open>\((?:\?(?:P<\w+>|<[=!]|[:=!>]|\(\w+\)|[a-zA-Z-]+:))?)
    | (?P<close>\))
    | (?P<bar>\|)
    | (?P<times>(?:[*+?]|\{(?:\d+(?:,\d*)?|,\d*)\})[?+]?)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_POSSESSIVE_GROUP = lazy(r"\)(?:[*+?]|\{[\d,]*\})\+")
_VERBOSE_FLAG = lazy(r"\(\?[aiLmsu]*x")
_WORDS = r"((?:[\w /:|-]|\\[^\w\s])+)"
_FIRST_WORDS = lazy(rf"\^(?:\(\?:{_WORDS}\)\?)?(?:\(\?:{_WORDS}\)(?![?*{{])|([\w-]+)(?=[ ($]))")
_LINE_BREAKS = frozenset(("\n", "\r", r"\n", r"\r"))
_BLANKS = frozenset((" ", r"\s", r"\t", r"[ \t]", r"[\s]"))


@frozen
class Pattern:
    """A pattern that is safe to try on any text."""

    text: str
    regex: re.Pattern[str]
    head: int

    def found_in(self, text: str) -> bool:
        """Whether the head of `text` holds it, in upper or lower case."""
        return self.regex.search(text, 0, self.head) is not None


class ShippedPattern:
    """One that comes with us and was tested: it is compiled when a text may hold it.

    To compile those of a policy takes a tenth of `shelltie run -- true`; most begin with one of a
    few words, and a command that begins otherwise does not need them.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._beginnings = _beginnings(text)

    @cached_property
    def _compiled(self) -> Pattern:
        return compile_pattern(self.text)

    def found_in(self, text: str) -> bool:
        """See `Pattern`."""
        # Beyond ASCII a letter may be the same as several others.
        if self._beginnings and text.isascii():
            return text.lower().startswith(self._beginnings) and self._compiled.found_in(text)
        return self._compiled.found_in(text)


def _beginnings(text: str) -> tuple[str, ...]:
    """With which a text must begin that holds the pattern, in lower case; empty if not known.

    For patterns without a `|` outside of brackets.
    """
    found = _FIRST_WORDS.match(text)
    words = "|".join(filter(None, found.groups())) if found else ""
    return tuple(words.replace("\\", "").lower().split("|")) if words else ()


def compile_pattern(text: str) -> Pattern:
    """The pattern for commands, in upper or lower case.

    Raises: ValueError, which says what is wrong and what to do.
    """
    return Pattern(text, _compiled(text, re.IGNORECASE), _HEAD[_power(text, _HEAD, _BLANKS)])


def compile_for_output(text: str) -> Pattern:
    """The pattern for lines that a program prints, of which there may be millions.

    Raises: ValueError, which says what is wrong and what to do.
    """
    if any(token[0] in _LINE_BREAKS for token in _TOKEN.finditer(text)):
        raise ValueError("looks at one line at a time: leave the line break out, or use ^ and $")
    return Pattern(text, _compiled(text, 0), _REACH[_power(text, _REACH, frozenset())])


def _compiled(text: str, flags: int) -> re.Pattern[str]:
    if len(text) > LENGTH_MAX:
        raise ValueError(f"is longer than {LENGTH_MAX} characters; split it")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about syntax that may change its meaning some day
            re.compile(text, flags)  # as it is written, so that an error names the right place
            return re.compile(possessive_as_atomic(text), flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is not a regular expression: {error}") from error


def possessive_as_atomic(text: str) -> str:
    """The same pattern with `(?>(?:a|b)*)` for `(?:a|b)*+`.

    Before 3.11.5 Python matches too much with the latter (gh-106052); later it does this itself.
    """
    if not _POSSESSIVE_GROUP.search(text):
        return text
    pieces: list[str] = []
    opened: list[int] = []
    start = 0  # of the group that was closed last
    for token in _TOKEN.finditer(text):
        piece = token[0]
        if token.lastgroup == "open":
            opened.append(len(pieces))
        elif token.lastgroup == "close":
            start = opened.pop()
        elif token.lastgroup == "times" and pieces[-1] == ")" and piece[1:].endswith("+"):
            pieces.insert(start, "(?>")
            piece = piece[:-1] + ")"
        pieces.append(piece)
    return "".join(pieces)


@frozen
class _Cost:
    """How many ways a part can match one text: at most `ways` times its length to the `power`."""

    ways: int = 1
    power: int = 0
    forks: bool = False  # it can match in more than one way from the same place

    def then(self, other: "_Cost") -> "_Cost":
        return _Cost(self.ways * other.ways, self.power + other.power, self.forks or other.forks)


_ONE = _Cost()  # a plain character


class _Group:
    """The part of a pattern that is being read, up to its closing bracket."""

    def __init__(self, opened_by: str) -> None:
        self.settled = opened_by in ("(?=", "(?!", "(?<=", "(?<!", "(?>")  # never entered twice
        self.branches: list[_Cost] = []
        self.before = _ONE
        self.last = _ONE
        self.last_text = ""

    def add(self, cost: _Cost, text: str) -> None:
        if self.last is not _ONE:
            self.before = self.before.then(self.last)
        self.last, self.last_text = cost, text

    def branch(self) -> None:
        self.branches.append(self.before.then(self.last))
        self.before, self.last = _ONE, _ONE

    def cost(self) -> _Cost:
        self.branch()
        ways = sum(branch.ways for branch in self.branches)
        power = max(branch.power for branch in self.branches)
        forks = len(self.branches) > 1 or self.branches[0].forks
        return _Cost(ways, power, forks and not self.settled)


def _power(text: str, known: Sequence[int], cheap: Set[str]) -> int:
    """Of the worst time; to repeat what is `cheap` does not count."""
    groups = [_Group("")]
    possessive = False
    for token in _TOKEN.finditer(text):
        if len(token[0]) > 2 and _VERBOSE_FLAG.match(token[0]):
            raise ValueError("uses the flag x, which is not supported; write it without")
        match token.lastgroup:
            case "open":
                groups.append(_Group(token[0]))
            case "close":
                closed = groups.pop()
                groups[-1].add(closed.cost(), "")
            case "bar":
                groups[-1].branch()
            case "times":
                possessive = possessive or token[0][1:].endswith("+")
                groups[-1].last = _repeated(groups[-1], token[0], cheap)
            case _:
                groups[-1].add(_ONE, token[0])
    anchored = text.startswith(("^", r"\A")) and not groups[0].branches
    cost = groups[0].cost()
    power = cost.power + possessive + (not anchored and cost.power > 0)
    if power >= len(known) or cost.ways > _WAYS_MAX:
        raise ValueError("could take very long to try; use fewer of * + ? |, or start it with ^")
    return power


def _repeated(group: _Group, times: str, cheap: Set[str]) -> _Cost:
    cost = group.last
    low, high = _bounds(times)
    possessive = times[1:].endswith("+")
    if high is not None and high <= 1:
        return _Cost(cost.ways + 1, cost.power, forks=not possessive)
    if cost.forks and not possessive and (high is None or high > _COPIES_MAX):
        raise ValueError(
            "repeats a part that repeats or branches itself, which can take for ever; "
            "make the inner part possessive, as in (?:a++b)*, or the outer, as in (?:a|b)*+"
        )
    if high is None or possessive:
        unbounded = group.last_text not in cheap and (cost.forks or not possessive)
        return _Cost(cost.ways, cost.power + unbounded, forks=not possessive)
    if not cost.forks:
        return _Cost(cost.ways * high, cost.power, forks=low != high)
    return _Cost((high - low + 1) * cost.ways**high, cost.power * high, forks=True)


def _bounds(times: str) -> tuple[int, int | None]:
    """`*` is (0, None), `{2,5}` is (2, 5)."""
    if times[0] in "*+?":
        return (1 if times[0] == "+" else 0), (1 if times[0] == "?" else None)
    low, comma, high = times.rstrip("?+").strip("{}").partition(",")
    return int(low or 0), int(high) if high else (None if comma else int(low))
