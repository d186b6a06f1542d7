"""Line editing of typed input: what readline or the tty may take a line for. Pure.

It cannot be known what edits it: readline, the kernel's terminal, or nothing. So there is a reading
for each of them, and the judge of the line lets the worst one count.
"""

from collections.abc import Callable
from enum import Enum, auto
from itertools import product
from re import Pattern

from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy

Pieces = tuple[bytes, ...]  # as they were sent, one after the other

_HALF = 128 * 1024  # bytes; of a longer line its beginning and its end are kept
LINE_MAX = 2 * _HALF
# Enter, and on a terminal: the end-of-file key, which hands over what there is; readline's ctrl-o,
# which runs the line; and the beginning of ctrl-x ctrl-e, which runs what an editor leaves of it.
_MAY_RUN = frozenset(b"\n\r\x04\x0f\x18")
_ENTER = lazy(r"(?<!\\)[\n\r]")
_NEWLINE = lazy(r"(?<!\\)\n")
_KEY = r"[\x00-\x08\x0b-\x1f\x7f]"
_CONTROL = lazy(_KEY)
_LETTERS_AND_KEY = lazy(rf"([^\x00-\x08\x0a-\x1f\x7f]*)(\n|{_KEY}|\Z)")
_ERASES_LINE = "\x03\x15"
_ERASES_WORD = "\x17"


@frozen
class _Editor:
    """Which keys somebody obeys who edits a line: some are a sequence, some erase a letter."""

    sequence: Pattern[str]
    erases: str
    in_word: Callable[[str], bool]


class _Others(Enum):
    """What becomes of control characters that erase no letter."""

    OBEYED = auto()
    DROPPED = auto()
    CUT = auto()  # the line begins anew behind each


def _is_no_blank(char: str) -> bool:
    return not char.isspace()


def _is_letter(char: str) -> bool:
    return char.isalnum() or char == "_"


# A paste's brackets, and keys that are more than one byte; readline takes the last one of a
# sequence that it does not know for a letter.
_LITERAL = rf"\x16{_KEY}"  # ctrl-v makes a letter of a key
_SEQUENCE = lazy(rf"{_LITERAL}|\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.|.)?")
_ALL_BUT_ITS_LAST = lazy(rf"{_LITERAL}|\x1b[\[O]?[0-9;?]*")
_ONLY_LITERAL = lazy(_LITERAL)
_NONE = lazy(r"(?!)")
_EDITORS = (
    _Editor(_SEQUENCE, "\b\x7f", _is_no_blank),  # readline
    _Editor(_SEQUENCE, "\b\x7f", _is_letter),  # others that edit a line themselves
    _Editor(_ALL_BUT_ITS_LAST, "\b\x7f", _is_no_blank),
    _Editor(_ONLY_LITERAL, "\x7f", _is_letter),  # the kernel's terminal,
    _Editor(_ONLY_LITERAL, "\b", _is_letter),  # and one that was set up the old way
    _Editor(_NONE, "", _is_letter),  # a pipe
)


def may_run(data: bytes) -> bool:
    """Whether somebody may run the line after these keys."""
    return not _MAY_RUN.isdisjoint(data)


def unfinished_after(pieces: Pieces, data: bytes, *, terminal: bool) -> Pieces:
    """What is left of a line when `data` has been sent after its pieces.

    Only Enter finishes it, if no backslash is before. No other key does for certain: whoever reads
    may ignore an interrupt, and take the keys that erase for letters.
    """
    before = b"".join(pieces)[-1:]
    text = (before + data).decode("latin-1")
    enter = _ENTER if terminal else _NEWLINE
    ends = [it.end() for it in enter.finditer(text, len(before))]
    rest = data[ends[-1] - len(before) :] if ends else data
    left = (*(() if ends else pieces), *((rest,) if rest else ()))
    if sum(map(len, left)) <= LINE_MAX:
        return left
    line = b"".join(left)
    return line[:_HALF], line[-_HALF:]


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
    return "\n".join((*lines, "".join(line)))


def _obey(key: str, line: list[str], editor: _Editor) -> None:
    if key and key in _ERASES_LINE:
        line.clear()
    elif key == _ERASES_WORD:
        while line and not editor.in_word(line[-1]):
            line.pop()
        while line and editor.in_word(line[-1]):
            line.pop()
