"""awk programs: system(), pipes, redirections and other side effects. Pure."""

import re
from collections.abc import Iterator

from shelltie.basics.lazy_regex import lazy
from shelltie.safety.arg import HOLE, Arg
from shelltie.safety.dataflow import scan_input
from shelltie.safety.inspection import Inspection
from shelltie.safety.protected_names import is_harmless_target, is_secret_path, protection
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
# Versions of awk differ in whether a bracket hides a slash: both readings must end alike.
_REGEX = lazy(r"/(?>(?:[^/\\\n]++|\\.)*)/")
_REGEX_WITH_BRACKETS = lazy(
    r"/(?>(?:[^/\\\[\n]++|\\.|\[\^?\]?(?>(?:[^\]\[\n]++|\[[:.=][^\]\n]*+\]|\[)*)\])*)/"
)
_HIDES = lazy(r'["#]')  # what begins there ends elsewhere if a slash is read in another way
_UNSURE = frozenset((")", "length", "next", "nextfile", "break", "continue"))
_STRING = lazy(r'"((?>(?:[^"\\\n]++|\\.)*))"')
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
_NO_PIECE = ("end", "")
_VALUE_ENDS = frozenset((")", "]", "++", "--"))
_KEYWORDS = frozenset(
    ("return", "print", "printf", "in", "do", "else", "delete", "case", "getline", "exit")
)


class _Lost(ValueError):
    """The program is not one we can follow."""


def rate_awk(case: Inspection, arg: Arg) -> None:
    """Rate an awk program that is given as an argument."""
    if not arg.exact:
        case.unknown(Code.DYNAMIC_ARGUMENT, "the awk program is put together at run time", arg)
    for guess in arg.guesses:
        try:
            _Program(case, arg).read(guess.replace(HOLE, " "))
        except _Lost as error:
            case.unknown(Code.DYNAMIC_ARGUMENT, str(error), arg)
            # Whatever it means, what looks like a string may be run.
            for text in _STRING.findall(guess):
                case.again.danger_in_text(text, case, "awk", arg.span)


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Kind and text of each piece; a slash after a value divides, any other begins a pattern.

    Where it may be either, all slashes that follow divide: then nothing is hidden in a pattern.
    """
    at, before, divides = 0, ("operator", ""), False
    while at < len(text):
        if text[at] == "/" and before[1] in _UNSURE and "/" in text[at + 1 :]:
            if _HIDES.search(text, at):
                raise _Lost("a slash in the awk program may divide or begin a pattern")
            divides = True
        if text[at] == "/" and not divides and not _is_value(*before):
            before = "string", _pattern(text, at)
            yield "regex", before[1]
            at += len(before[1])
            continue
        found = _PIECE.match(text, at)
        assert found is not None, "every character is at least an operator"
        kind, piece = str(found.lastgroup), found[0]
        at = found.end()
        if piece == "\\":
            raise _Lost("a line of the awk program goes on in the next")
        if not piece.isspace() or kind == "end":
            before = kind, piece
            yield kind, piece


def _pattern(text: str, at: int) -> str:
    """The regular expression that begins there."""
    plain, bracketed = _REGEX.match(text, at), _REGEX_WITH_BRACKETS.match(text, at)
    if plain is None or bracketed is None or plain.end() != bracketed.end():
        raise _Lost("where a pattern of the awk program ends is not certain")
    return plain[0]


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
            following, then = (*pieces[place + 1 : place + 3], _NO_PIECE, _NO_PIECE)[:2]
            self._look(kind, piece, following, alone=then[0] == "end")
        if self.runs:
            scan_input(self.case)
            for kind, piece in pieces:
                if kind == "string":
                    text = re.sub(r"\\(.)", r"\1", piece.strip('"'))
                    self.case.again.danger_in_text(text, self.case, "awk", self.arg.span)

    def _look(self, kind: str, piece: str, following: tuple[str, str], *, alone: bool) -> None:
        if kind == "name":
            self._name(piece)
        elif kind == "end":
            self.printing, self.reading, self.depth = False, False, 0
        elif kind == "operator":
            self._operator(piece, following, alone=alone)

    def _name(self, piece: str) -> None:
        if piece in ("print", "printf"):
            self.printing, self.depth = True, 0
        if piece in _NOT_SAFE_NAMES or piece.startswith("@"):
            code, does = _NOT_SAFE_NAMES.get(piece, (Code.EXEC_FLAG, "calls a function by name"))
            self.case.unknown(code, f"the awk program {does}", self.arg)
            self.runs = self.runs or piece == "system"
            self.reading = self.reading or piece == "getline"

    def _operator(self, piece: str, following: tuple[str, str], *, alone: bool) -> None:
        if piece in "([":
            self.depth += 1
        elif piece in ")]":
            self.depth -= 1
        elif piece in ("|", "|&"):
            self.runs = True
            self.case.unknown(Code.EXEC_FLAG, f"the awk program {_RUNS}", self.arg)
        elif piece in (">", ">>") and self.printing and self.depth <= 0:
            self._file(following, written=True, alone=alone)
        elif piece == "<" and self.reading:
            self._file(following, written=False)

    def _file(self, following: tuple[str, str], *, written: bool, alone: bool = True) -> None:
        """A file that is named there; unless `alone`, more of its name may follow."""
        path = following[1].strip('"') if following[0] == "string" else HOLE
        if written and alone and is_harmless_target(path):
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
