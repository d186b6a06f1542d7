"""awk programs: system(), pipes, redirections and other side effects. Pure."""

import re
from collections.abc import Iterator

from shelltie.basics.lazy_regex import lazy
from shelltie.safety.arg import HOLE, Arg
from shelltie.safety.dataflow import scan_input
from shelltie.safety.inspection import Inspection
from shelltie.safety.lists import is_harmless_target, is_secret_path, protection
from shelltie.verdict import Code, Rating

_PIECE = lazy(
    r"""
      (?P<string>"(?>(?:[^"\\\n]++|\\.)*)"?+)
    | (?P<comment>\#[^\n]*+)
    | (?P<number>(?:0[xX][0-9a-fA-F]++|\d++(?>(?:\.\d*+)?(?:[eE][+-]?\d++)?)|\.\d++))
    | (?P<name>[A-Za-z_@]\w*+)
    | (?P<end>[;}\n])
    | (?P<operator>\|\||\|&|&&|>>|>=|<=|==|!=|\+\+|--|\*\*|[-+*/%^]=|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_REGEX = lazy(r"/(?>(?:[^/\\\[\n]++|\\.|\[\^?\]?[^\]\n]*+\])*)/")
_RUNS = "runs a command"
_READS = "reads a file or the output of a command"
_NOT_SAFE_NAMES = {
    "system": (Code.EXEC_FLAG, _RUNS),
    "getline": (Code.SECRET_READ, _READS),
    "ENVIRON": (Code.SECRET_READ, "shows the environment"),
    "PROCINFO": (Code.DYNAMIC_ARGUMENT, "changes how its input is read"),
    "ARGV": (Code.DYNAMIC_ARGUMENT, "changes which files are read"),
    "@load": (Code.EXEC_FLAG, "loads a library"),
    "@include": (Code.EXEC_FLAG, "loads another program"),
}
_VALUE_ENDS = frozenset((")", "]", "++", "--"))
_KEYWORDS = frozenset(
    ("return", "print", "printf", "in", "do", "else", "delete", "case", "getline")
)


def rate_awk(case: Inspection, arg: Arg) -> None:
    """Rate an awk program that is given as an argument."""
    if not arg.exact:
        case.unknown(Code.DYNAMIC_ARGUMENT, "the awk program is put together at run time", arg)
    for guess in arg.guesses:
        _Program(case, arg).read(guess.replace(HOLE, " "))


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Kind and text of each piece; a slash after a value divides, any other begins a pattern."""
    at, after_value = 0, False
    while at < len(text):
        if text[at] == "/" and not after_value and (pattern := _REGEX.match(text, at)):
            yield "regex", pattern[0]
            at, after_value = pattern.end(), True
            continue
        found = _PIECE.match(text, at)
        assert found is not None, "every character is at least an operator"
        kind, piece = str(found.lastgroup), found[0]
        at = found.end()
        if not piece.isspace() or kind == "end":
            after_value = _is_value(kind, piece)
            yield kind, piece


def _is_value(kind: str, piece: str) -> bool:
    if kind == "name":
        return piece not in _KEYWORDS
    return kind in ("string", "number") or piece in _VALUE_ENDS


class _Program:
    """Goes over the pieces once."""

    def __init__(self, case: Inspection, arg: Arg) -> None:
        self.case, self.arg = case, arg
        self.printing = False
        self.depth = 0
        self.reading = False  # after `getline`, a `<` names a file
        self.runs = False

    def read(self, text: str) -> None:
        pieces = list(_pieces(text))
        for place, (kind, piece) in enumerate(pieces):
            following = pieces[place + 1] if place + 1 < len(pieces) else ("end", "")
            self._look(kind, piece, following)
        if self.runs:
            scan_input(self.case)
            for kind, piece in pieces:
                if kind == "string":
                    self._literal(piece)

    def _look(self, kind: str, piece: str, following: tuple[str, str]) -> None:
        if kind == "name":
            self._name(piece)
        elif kind == "end":
            self.printing, self.reading, self.depth = False, False, 0
        elif kind == "operator":
            self._operator(piece, following)

    def _name(self, piece: str) -> None:
        if piece in ("print", "printf"):
            self.printing, self.depth = True, 0
        if piece in _NOT_SAFE_NAMES or piece.startswith("@"):
            code, does = _NOT_SAFE_NAMES.get(piece, (Code.EXEC_FLAG, "calls a function by name"))
            self.case.unknown(code, f"the awk program {does}", self.arg)
            self.runs = self.runs or piece == "system"
            self.reading = self.reading or piece == "getline"

    def _operator(self, piece: str, following: tuple[str, str]) -> None:
        if piece in "([":
            self.depth += 1
        elif piece in ")]":
            self.depth -= 1
        elif piece in ("|", "|&"):
            self.runs = True
            self.case.unknown(Code.EXEC_FLAG, f"the awk program {_RUNS}", self.arg)
        elif piece in (">", ">>") and self.printing and self.depth <= 0:
            self._file(following, written=True)
        elif piece == "<" and self.reading:
            self._file(following, written=False)

    def _file(self, following: tuple[str, str], *, written: bool) -> None:
        path = following[1].strip('"') if following[0] == "string" else HOLE
        if written and is_harmless_target(path):
            return
        shown = "a file" if path == HOLE else path
        if written:
            code = protection(path, self.case.directories)
            rating = Rating.DANGEROUS if code else Rating.UNKNOWN
            self.case.say(
                rating, code or Code.WRITE_FLAG, f"the awk program writes {shown}", self.arg
            )
        elif is_secret_path(path, self.case.directories):
            self.case.dangerous(Code.SECRET_READ, f"the awk program reads {shown}", self.arg)

    def _literal(self, piece: str) -> None:
        text = re.sub(r"\\(.)", r"\1", piece.strip('"'))
        self.case.again.danger_in_text(text, self.case, "awk", self.arg.span)
