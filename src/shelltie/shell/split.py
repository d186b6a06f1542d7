"""Rough splitter of shell text at ;, &&, || and |, for limits and shapes. Pure.

It finds where commands begin; it proves nothing. It does not look into here-documents, `eval`,
`bash -c '…'` or the strings of other programs.
"""

import re
from dataclasses import field
from enum import Enum, auto

from shelltie.basics.frozen import frozen, mutable
from shelltie.basics.lazy_regex import lazy

_STEPS_MAX = 1500  # operators, quotes and brackets; no text may keep the event loop busy
_PREFIX_MAX = 8 * 1024  # characters that are looked at to find a segment's own program
_PREFIXES_MAX = 100
_DEPTH_MAX = 16  # deeper nesting is read flat: each level costs one more copy of its text
_SPECIAL = lazy(r"[\\'\"`$();&|<>\n#{}]")
_BLANKS = lazy(r"[ \t]*+")
_ANSI_QUOTED = lazy(r"(?>(?:[^'\\]++|\\.)*)'?+", re.DOTALL)
_HEREDOC = lazy(r"<<(-?)[ \t]*+((?>(?:[^\s'\"\\;&|<>()]++|\\.|'[^'\n]*+'|\"[^\"\n]*+\")+))")
_NOT_COMMANDS = lazy(r"(?:fi|done|esac|for|case|select|function)(?!\S)|\(\(")
_REDIRECTION = lazy(r"\d*+(?:&>|[<>])")

_KEYWORDS = frozenset(("if", "then", "elif", "else", "while", "until", "do", "!", "coproc"))
# Programs that run the rest of their arguments, with the short options that take a word.
_WRAPPERS = {
    "sudo": "ugpCDRThrtU",
    "doas": "uC",
    "env": "uC",
    "time": "fo",
    "nice": "n",
    "ionice": "cn",
    "nohup": "",
    "setsid": "",
    "timeout": "ks",
    "exec": "a",
    "command": "",
    "stdbuf": "ioe",
}
_WORD = lazy(
    r"(?>(?:[^\s'\"\\$]++|\\.|'[^']*+'?+|\"(?>(?:[^\"\\]++|\\.)*)\"?+|\$\([^()]*+\)|[$\\])+)",
    re.DOTALL,
)
_ASSIGNMENT = lazy(r"[A-Za-z_]\w*+(?:\[[^\]\s]*+\])?\+?=")
_ASKS_ONLY = lazy(r"[ \t]+-[vV]")  # `command -v x` names a program, it does not run it


def segments(text: str) -> tuple[str, ...]:
    """Every simple command of a compound text, in the order they begin.

    Never raises: a text with unbalanced quotes or brackets is read as far as it makes sense, and
    one with too much in it only at its beginning.
    """
    scan = _Scan(text)
    for _ in range(_STEPS_MAX):
        if not (found := _SPECIAL.search(text, scan.at)):
            break
        scan.step(found.start(), found[0])
    scan.finish()
    return tuple(scan.found[start] for start in sorted(scan.found))


def strip_prefixes(segment: str) -> str:
    """The segment without assignments, shell keywords and the programs that only run another.

    A wrapper with nothing to run (`env`) is itself the command and stays.
    """
    segment = segment.strip()
    at, wrapper_at = 0, len(segment)
    for _ in range(_PREFIXES_MAX):
        if not (word := _WORD.match(segment, at, _PREFIX_MAX)):
            break
        name = word[0].rpartition("/")[2]
        if _ASSIGNMENT.match(word[0]) or word[0] in _KEYWORDS:
            at = _next_word(segment, word.end())
        elif name in _WRAPPERS and not _ASKS_ONLY.match(segment, word.end()):
            wrapper_at, at = at, _after_options(segment, word.end(), name)
        else:
            break
    return segment[at:] or segment[wrapper_at:]


def _next_word(text: str, at: int) -> int:
    while text[at : at + 1].isspace():
        at += 1
    return at


def _after_options(text: str, at: int, wrapper: str) -> int:
    at = _next_word(text, at)
    while (word := _WORD.match(text, at)) and word[0].startswith("-"):
        at = _next_word(text, word.end())
        takes_word = len(word[0]) == 2 and word[0][1] in _WRAPPERS[wrapper]
        if takes_word and (value := _WORD.match(text, at)):
            at = _next_word(text, value.end())
    if wrapper == "timeout" and (duration := _WORD.match(text, at)):
        at = _next_word(text, duration.end())
    return at


class _Kind(Enum):
    GROUP = auto()  # ( … ): commands, and nothing around them
    SUBSTITUTION = auto()  # $( … ), ` … `, <( … ): commands inside another command
    QUOTED = auto()  # " … "
    QUIET = auto()  # ${ … }, (( … )): no commands but those of a substitution


@frozen
class _Frame:
    """Something open: what closes it, and the state of the command around it."""

    kind: _Kind
    closer: str
    start: int = 0
    after_group: bool = False


@mutable
class _Scan:
    text: str
    at: int = 0
    start: int = 0  # of the command being read
    after_group: bool = False  # it stands directly behind a `)` or `}`
    found: dict[int, str] = field(default_factory=dict)
    frames: list[_Frame] = field(default_factory=list)
    heredocs: list[tuple[str, bool]] = field(default_factory=list)

    def step(self, at: int, char: str) -> None:
        """Deal with the special character at `at`, and move on."""
        self.at = at + 1
        frame = self.frames[-1] if self.frames else _Frame(_Kind.GROUP, "")
        if char == "\\":
            self.at = at + 2
        elif char == frame.closer:
            self._close(at)
        elif char in "$`":
            self._substitution(at, char, quoted=frame.kind is _Kind.QUOTED)
        elif frame.kind is _Kind.QUOTED:
            pass
        elif char in "'\"":
            self._quote(char)
        elif frame.kind is not _Kind.QUIET:
            self._operator(at, char)
        elif char == "(":
            self._open(_Frame(_Kind.QUIET, ")"))

    def finish(self) -> None:
        """The text is over, and with it everything that is still open."""
        while self.frames:
            self._close(len(self.text))
        self._cut(len(self.text), len(self.text))

    def _quote(self, char: str) -> None:
        if char == '"':
            self._open(_Frame(_Kind.QUOTED, '"'))
        else:
            self.at = self._find("'", self.at) + 1

    def _substitution(self, at: int, char: str, *, quoted: bool) -> None:
        following = self.text[at + 1 : at + 3]
        if char == "`":
            self._command_inside(at + 1, "`")
        elif following == "((":
            self._arithmetic(at + 3)
        elif following.startswith("("):
            self._command_inside(at + 2, ")")
        elif following.startswith("{"):
            self.at = at + 2
            self._open(_Frame(_Kind.QUIET, "}"))
        elif following.startswith("'") and not quoted:
            body = _ANSI_QUOTED.match(self.text, at + 2)
            self.at = body.end() if body else at + 2

    def _operator(self, at: int, char: str) -> None:
        if char == "#":
            self._comment(at)
        elif char in "<>":
            self._redirection(at)
        elif char in "{}":
            self._brace(at, char)
        elif char == "(":
            self._group(at)
        elif char == ")":  # nothing is open: what stood before it is a pattern of `case`
            self._begin(at + 1)
        elif not self._belongs_to_redirection(at, char):
            self._cut(at, at + 1)
            if char == "\n":
                self._skip_heredocs()

    def _belongs_to_redirection(self, at: int, char: str) -> bool:
        """`>&`, `<&`, `&>` and `>|` separate nothing."""
        before = self._before(at)
        return (char == "&" and (before in "<>" or self.text.startswith(">", at + 1))) or (
            char == "|" and before == ">"
        )

    def _redirection(self, at: int) -> None:
        if self.text.startswith("(", at + 1):
            self._command_inside(at + 2, ")")
        elif self.text.startswith("<<<", at):
            self.at = at + 3
        elif heredoc := _HEREDOC.match(self.text, at):
            self.at = heredoc.end()
            self.heredocs.append((re.sub(r"['\"\\]", "", heredoc[2]), heredoc[1] == "-"))

    def _group(self, at: int) -> None:
        if self.text.startswith("(", at + 1):
            self._cut(at, at)
            self._arithmetic(at + 2)
        else:
            self._cut(at, at + 1)
            self._open(_Frame(_Kind.GROUP, ")"))

    def _arithmetic(self, at: int) -> None:
        self.at = at
        self._open(_Frame(_Kind.QUIET, ")"))
        self._open(_Frame(_Kind.QUIET, ")"))

    def _brace(self, at: int, char: str) -> None:
        opens = char == "{" and self.text[at + 1 : at + 2].isspace() and self._before(at).isspace()
        closes = char == "}" and at <= self.start
        if opens or closes:
            self._cut(at, at + 1)
            self.after_group = closes

    def _comment(self, at: int) -> None:
        if self._before(at) in " \t\n;&|()":
            self.at = self._find("\n", at)
            self._cut(at, self.at)

    def _command_inside(self, start: int, closer: str) -> None:
        self.at = start
        if self._open(_Frame(_Kind.SUBSTITUTION, closer, self.start, self.after_group)):
            self._begin(start)

    def _open(self, frame: _Frame) -> bool:
        if len(self.frames) < _DEPTH_MAX:
            self.frames.append(frame)
            return True
        return False

    def _close(self, at: int) -> None:
        frame = self.frames.pop()
        if frame.kind is _Kind.GROUP:
            self._cut(at, at + 1)
            self.after_group = True
        elif frame.kind is _Kind.SUBSTITUTION:
            self._cut(at, at + 1)
            self.start, self.after_group = frame.start, frame.after_group

    def _cut(self, end: int, start: int) -> None:
        """The command being read ends at `end`; the next begins at `start`."""
        segment = self.text[self.start : end].strip()
        redirects = self.after_group and _REDIRECTION.match(segment)
        if segment and not redirects and not _NOT_COMMANDS.match(segment):
            self.found[self.start] = segment
        self._begin(start)

    def _begin(self, start: int) -> None:
        blanks = _BLANKS.match(self.text, start)
        self.start, self.after_group = blanks.end() if blanks else start, False

    def _skip_heredocs(self) -> None:
        for word, tabs in self.heredocs:
            line = None
            while line != word and self.at < len(self.text):
                end = self._find("\n", self.at)
                line = self.text[self.at : end]
                line = line.lstrip("\t") if tabs else line
                self.at = end + 1
        self.heredocs.clear()
        self._begin(self.at)

    def _find(self, char: str, at: int) -> int:
        found = self.text.find(char, at)
        return len(self.text) if found < 0 else found

    def _before(self, at: int) -> str:
        return self.text[at - 1] if at else "\n"
