"""Line editing of typed input: what readline or the tty may take a line for. Pure.

It cannot be known what edits it: readline, the kernel's terminal, or nothing. So there is a reading
for each of them, and the judge of the line lets the worst one count.
"""

import re
from collections.abc import Callable
from enum import Enum, auto
from itertools import product
from re import Match, Pattern

from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy
from shelltie.shell.parse import is_unfinished

Pieces = tuple[bytes, ...]  # as they were sent, one after the other

_HALF = 128 * 1024  # bytes; of a longer line its beginning and its end are kept
LINE_MAX = 2 * _HALF
_BEGINNING_MAX = 32 * 1024  # bytes of lines that may be held open, and of how many beginnings
_BEGINNINGS_MAX = 16
# Enter, and on a terminal: the end-of-file key, which hands over what there is; readline's ctrl-o,
# which runs the line; and the beginning of ctrl-x ctrl-e, which runs what an editor leaves of it.
_MAY_RUN = frozenset(b"\n\r\x04\x0f\x18")
_KEY = r"[\x00-\x08\x0b-\x1f\x7f]"
_CONTROL = lazy(_KEY)
_LETTERS_AND_KEY = lazy(rf"([^\x00-\x08\x0a-\x1f\x7f]*)(\n|{_KEY}|\Z)")
_ERASES_LINE = "\x03\x15"
_ERASES_WORD = "\x17"
_NEWLINE_IN_LINE = "\ud800"  # in place of one that is a letter of a line; no decoder makes it


@frozen
class _Editor:
    """Which keys somebody obeys who edits a line: some are a sequence, some erase a letter; and
    which newlines are letters for it.
    """

    sequence: Pattern[str]
    erases: str
    in_word: Callable[[str], bool]
    newlines_in_line: Pattern[str]


class _Others(Enum):
    """What becomes of control characters that erase no letter."""

    OBEYED = auto()
    DROPPED = auto()
    CUT = auto()  # the line begins anew behind each


def _is_no_blank(char: str) -> bool:
    return not (char.isspace() or char == _NEWLINE_IN_LINE)


def _is_letter(char: str) -> bool:
    return char.isalnum() or char == "_"


# A paste's brackets, and keys that are more than one byte; readline takes the last one of a
# sequence that it does not know for a letter.
_LITERAL = rf"\x16{_KEY}"  # ctrl-v makes a letter of a key
_SEQUENCE_KEY = r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.|.)?"
_ESCAPE = lazy(_SEQUENCE_KEY)
_SEQUENCE = lazy(rf"{_LITERAL}|{_SEQUENCE_KEY}")
_ALL_BUT_ITS_LAST = lazy(rf"{_LITERAL}|\x1b[\[O]?[0-9;?]*")
_ONLY_LITERAL = lazy(_LITERAL)
_NONE = lazy(r"(?!)")
_QUOTED_NEWLINE = lazy(r"\x16\n")
_QUOTED_OR_PASTED = lazy(r"\x16\n|\x1b\[200~.*?(?:\x1b\[201~|\Z)", re.DOTALL)
_EDITORS = (
    _Editor(_SEQUENCE, "\b\x7f", _is_no_blank, _QUOTED_OR_PASTED),  # readline
    _Editor(_SEQUENCE, "\b\x7f", _is_letter, _QUOTED_OR_PASTED),  # others that edit a line
    _Editor(_ALL_BUT_ITS_LAST, "\b\x7f", _is_no_blank, _QUOTED_NEWLINE),
    _Editor(_ONLY_LITERAL, "\x7f", _is_letter, _QUOTED_NEWLINE),  # the kernel's terminal,
    _Editor(_ONLY_LITERAL, "\b", _is_letter, _QUOTED_NEWLINE),  # and one set up the old way
    _Editor(_NONE, "", _is_letter, _NONE),  # a pipe
)


# Keys of readline that transpose, yank, undo, erase otherwise, or do something as often as they are
# told; and ctrl-q, which makes a letter of a key unless the terminal keeps it for itself.
_EDITS = lazy(
    r"[\x14\x19\x1f]|\x1b[\x08\x7f\x12\x19\\0-9tTrRyY._#-]|\x18[eE\x15\x7f]"
    rf"|\x11(?:{_KEY}|\n)"
)
# Those that change or erase the word behind the cursor: there is none where nobody moved it.
_MOVES_BACK = lazy(r"[\x01\x02]|\x1b(?:[bB]|O[DH]|\[[0-9;]*[DH]|\[[17]~)")
_EDITS_BEHIND = lazy(r"\x1b[dDlLuUcC]|\x0b")
_BEYOND_ASCII = lazy(r"[^\x00-\x7f]")
_ERASES = lazy(r"[\b\x7f\x17]")
_ENTER_IS_LETTER = lazy(rb"[\x11\x16][\n\r]\Z")
_PASTE, _PASTE_END = b"\x1b[200~", b"\x1b[201~"
_MARK = lazy(r"\\.|'''|\"\"\"|[\"'()\[\]{}\n]", re.DOTALL)
_CLOSED_BY = {"(": ")", "[": "]", "{": "}"}


def may_run(data: bytes) -> bool:
    """Whether somebody may run the line after these keys."""
    return not _MAY_RUN.isdisjoint(data)


@frozen
class Unfinished:
    """What was sent and may not have been run yet.

    `line` are the pieces of the line that is being typed. `beginnings` are the lines before it that
    a shell or an interpreter may hold open, from each place where it may have begun to read them;
    the longest is the first.
    """

    line: Pieces = ()
    beginnings: Pieces = ()

    @property
    def size(self) -> int:
        """How many bytes there are to be looked at."""
        return sum(map(len, (*self.line, *self.beginnings)))

    @property
    def is_too_much(self) -> bool:
        """No more of it is followed than there is now."""
        return len(self.beginnings) > _BEGINNINGS_MAX or self._too_long(*self.beginnings[:1])

    def texts(self, data: bytes) -> list[Pieces]:
        """All that may be read when `data` is sent now; the longest is the first."""
        line = (*self.line, data)
        return [*((before, *line) for before in self.beginnings), line]

    def after(self, data: bytes, *, terminal: bool) -> "Unfinished":
        """What is left when `data` has been sent.

        Only Enter finishes a line. No other key does for certain: whoever reads may ignore an
        interrupt, and take the keys that erase for letters.
        """
        text = b"".join((*self.line, data))
        end = max(text.rfind(b"\n"), text.rfind(b"\r") if terminal else -1) + 1
        if not end:
            return Unfinished(_bounded((*self.line, data)) if data else self.line, self.beginnings)
        followed = [it for it in self.beginnings[:_BEGINNINGS_MAX] if not self._too_long(it)]
        lines = [before + text[:end] for before in (*followed, b"")]
        rest = _bounded((text[end:],)) if text[end:] else ()
        return Unfinished(rest, tuple(it for it in lines if _is_held_open(it)))

    @staticmethod
    def _too_long(text: bytes = b"") -> bool:
        return len(text) > _BEGINNING_MAX


def _bounded(line: Pieces) -> Pieces:
    if sum(map(len, line)) <= LINE_MAX:
        return line
    whole = b"".join(line)
    return whole[:_HALF], whole[-_HALF:]


def _is_held_open(lines: bytes) -> bool:
    """Whether somebody who has read them may wait for more before anything is run."""
    if _ENTER_IS_LETTER.search(lines) or lines.rfind(_PASTE) > lines.rfind(_PASTE_END):
        return True
    texts = _edited_texts(_text(lines))
    return any(it.endswith("\\\n") or is_unfinished(it) or _is_open_code(it) for it in texts)


def _edited_texts(text: str) -> set[str]:
    if not _CONTROL.search(text):
        return {text}
    plain = _ESCAPE.sub("", text)  # the bracket of `\x1b[A` opens nothing
    pasted = {_edited(text, _EDITORS[0], others) for others in _Others}
    return pasted | {_edited(plain, *how) for how in product(_EDITORS, _Others)}


def _is_open_code(code: str) -> bool:
    """Whether a bracket or a long text is open for an interpreter. A quote ends with its line, and
    after what makes no sense it begins anew.
    """
    quote, brackets = "", list[str]()
    for mark in _MARK.findall(code):
        if quote:
            quote = "" if mark.startswith(quote) or (mark == "\n" and len(quote) == 1) else quote
        elif mark[0] in "\"'":
            quote = mark
        elif mark in _CLOSED_BY:
            brackets.append(_CLOSED_BY[mark])
        elif brackets[-1:] == [mark]:
            brackets.pop()
        elif mark in ")]}":
            brackets.clear()
    return bool(quote or brackets)


def edits_unseen(line: bytes) -> bool:
    """Whether keys in it edit it in a way that no reading follows.

    What erases a letter that is no ASCII takes a byte, the letter or its accent with it.
    """
    text = _text(line)
    pairs = ((_BEYOND_ASCII, _ERASES), (_MOVES_BACK, _EDITS_BEHIND))
    return _EDITS.search(text) is not None or any(_follows(text, *pair) for pair in pairs)


def _follows(text: str, first: Pattern[str], second: Pattern[str]) -> bool:
    found = first.search(text)
    return found is not None and second.search(text, found.end()) is not None


def readings(pieces: Pieces) -> list[bytes]:
    """Everything that the pieces of a line may be for whoever reads them, each once.

    The first is what was sent. In another one a line is cut where a piece ends: what came before
    may have been a key for another program, as the `q` that leaves a pager.
    """
    line = _text(b"".join(pieces))
    found = [line, "\n".join(map(_text, pieces))]
    if _CONTROL.search(line):
        found += [_edited(line, *how) for how in product(_EDITORS, _Others)]
    return [text.encode("utf-8", "surrogateescape") for text in dict.fromkeys(found)]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape").replace("\r", "\n")


def _edited(text: str, editor: _Editor, others: _Others) -> str:
    text = editor.newlines_in_line.sub(_with_newlines_in_line, text)
    lines, line = list[str](), list[str]()
    for letters, key in _LETTERS_AND_KEY.findall(editor.sequence.sub("", text)):
        line += letters
        if key and key in editor.erases:
            del line[-1:]
        elif key == "\n" or (key and others is _Others.CUT):
            lines.append("".join(line))
            line.clear()
        elif others is _Others.OBEYED:
            _obey(key, line, editor)
    return "\n".join((*lines, "".join(line))).replace(_NEWLINE_IN_LINE, "\n")


def _with_newlines_in_line(found: Match[str]) -> str:
    return found[0].removeprefix("\x16").replace("\n", _NEWLINE_IN_LINE)


def _obey(key: str, line: list[str], editor: _Editor) -> None:
    if key and key in _ERASES_LINE:
        line.clear()
    elif key == _ERASES_WORD:
        while line and not editor.in_word(line[-1]):
            line.pop()
        while line and editor.in_word(line[-1]):
            line.pop()
