"""Terminal output of the command line: colours (NO_COLOR), JSON, tables, error messages."""

import contextlib
import io
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import BinaryIO, TextIO

from shelltie.basics import visible_text
from shelltie.basics.lazy_regex import lazy
from shelltie.environment.inherited import inherited

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_MARKS = {"✓": "green", "⚠": "yellow", "✗": "red", "…": "yellow", "→": "cyan", "·": "dim"}
_TABLE_MAX = 250
_LAST_MIN = 16
_STYLE = lazy(r"(\033\[\d+m)")  # as `Ink` writes it; it takes no room on a line


class Style:
    """Colours for one stream, or none."""

    def __init__(self, stream: TextIO | None, when: str) -> None:
        env = inherited()
        plain = env.get("NO_COLOR") or env.get("TERM") == "dumb"
        on_terminal = stream is not None and stream.isatty()
        self._on = when == "always" or (when == "auto" and on_terminal and not plain)

    @classmethod
    def for_tty(cls) -> "Style":
        """For /dev/tty, which is a terminal whatever the streams are."""
        env = inherited()
        return cls(None, "never" if env.get("NO_COLOR") or env.get("TERM") == "dumb" else "always")

    def __call__(self, style: str, text: str) -> str:
        """The text in that style."""
        return f"\033[{_CODES[style]}m{text}\033[0m" if self._on else text


def ready_streams() -> None:
    """Have three descriptors that are safe to print to, whatever we were started with."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # Otherwise a socket of ours could become "stdout".
            os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # ⚠ in a terminal that has only Latin letters


def stdin_bytes() -> BinaryIO:
    """Our input; `sys.stdin` is None where we were started without."""
    return os.fdopen(0, "rb", closefd=False)


def forget_stdout() -> None:
    """Nobody reads it any more: let the interpreter's last flush go nowhere."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)


def width() -> int:
    """How wide a text for people may be."""
    return min(shutil.get_terminal_size().columns, 100)


def columns() -> int:
    """How wide a table may be: as wide as the terminal; 80 where nobody knows."""
    return min(shutil.get_terminal_size().columns, _TABLE_MAX)


def print_error(message: str) -> None:
    """One message for people who look for what went wrong, written whole even unbuffered."""
    with contextlib.suppress(OSError):
        print(f"shelltie: {message}\n", end="", file=sys.stderr)


def print_json(value: object) -> None:
    """One JSON value on stdout: on one line for programs, on several for people."""
    print(json.dumps(value, indent=2 if sys.stdout and sys.stdout.isatty() else None), flush=True)


def wrap(text: str, first: str, rest: str) -> str:
    """A text in lines that fit, the first and the others each with their own beginning."""
    return textwrap.fill(
        text,
        width(),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def marked(ink: Style, mark: str, text: str, *, before: str = "", after: str = " ") -> str:
    """A folded text behind a coloured mark."""
    first = before + mark + after
    # Coloured only now: escapes would count as width.
    return wrap(text, first, " " * len(first)).replace(mark, ink(_MARKS[mark], mark), 1)


def table(rows: Iterable[Sequence[str]], indent: str = "") -> None:
    """Columns below one another; the last one is cut where the terminal ends."""
    kept = [tuple(row) for row in rows]
    widths = [max(map(_length, column)) for column in list(zip(*kept, strict=True))[:-1]]
    narrow = sys.stdout is not None and sys.stdout.isatty()
    for *cells, last in kept:
        spaced = [
            cell + " " * (space - _length(cell)) for cell, space in zip(cells, widths, strict=True)
        ]
        line = (indent + "  ".join([*spaced, last])).rstrip()
        print(cut(line, columns()) if narrow else line)


def list_table(ink: Style, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A list with a header, in which the last column, any text, gets the room that is left."""
    kept = [tuple(row) for row in rows]
    before = list(zip(head, *kept, strict=True))[:-1]
    taken = sum(max(map(_length, column)) + 2 for column in before)
    room = max(columns() - taken, _LAST_MIN)
    cut_rows = [(*row[:-1], visible_text.brief(row[-1], room)) for row in kept]
    table([tuple(ink("bold", name) for name in head), *cut_rows])


def failure_mark(ink: Style, text: str, *, bad: bool) -> str:
    """How something ended, so that failures stand out: by colour, and without it by a mark."""
    return ink("red", f"✗ {text}") if bad else f"  {text}"


def cut(text: str, room: int) -> str:
    """At most that many characters, in the styles that they have."""
    if _length(text) <= room:
        return text
    kept, left = "", room - 1
    for part in _STYLE.split(text):
        if _STYLE.fullmatch(part):
            kept += part
        else:
            kept, left = kept + part[:left], max(0, left - len(part))
    return f"{kept}…"


def _length(text: str) -> int:
    return visible_text.cells(_STYLE.sub("", text))
