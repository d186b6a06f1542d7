"""Key names → terminal input bytes: `ctrl-c`, `up`, `enter`; bracketed paste. Pure."""

import re

from shelltie.basics.lazy_regex import lazy
from shelltie.basics.validate import known_instead
from shelltie.errors import InvalidParameters

_NAMED = {
    "enter": "\r",
    "return": "\r",
    "tab": "\t",
    "space": " ",
    "escape": "\x1b",
    "esc": "\x1b",
    "backspace": "\x7f",
    "delete": "\x1b[3~",
    "insert": "\x1b[2~",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "page-up": "\x1b[5~",
    "page-down": "\x1b[6~",
    "shift-tab": "\x1b[Z",
    "ctrl-space": "\0",
    "ctrl-\\": "\x1c",
    "ctrl-]": "\x1d",
    **{f"f{n}": f"\x1bO{letter}" for n, letter in enumerate("PQRS", 1)},
    **{f"f{n}": f"\x1b[{code}~" for n, code in enumerate((15, 17, 18, 19, 20, 21, 23, 24), 5)},
}
_CTRL = lazy(r"ctrl-([a-z])")
_ALT = lazy(r"alt-(.)", re.DOTALL)


def bytes_of(key: str) -> bytes:
    """What the key sends.

    Raises: InvalidParameters, with the name that was probably meant.
    """
    name = key.strip().lower()
    if named := _NAMED.get(name):
        return named.encode()
    if control := _CTRL.fullmatch(name):
        return bytes([ord(control[1]) - ord("a") + 1])
    if alt := _ALT.fullmatch(key.strip()):
        return b"\x1b" + alt[1].encode("utf-8", "replace")
    if len(key) == 1 and key.isprintable():
        return key.encode("utf-8", "replace")
    advice = known_instead(name, _NAMED, "try enter, tab, up, ctrl-c, alt-x or f1")
    raise InvalidParameters(f"unknown key {key[:40]!r}{advice}")


def pasted(text: str) -> bytes:
    """Text as a terminal pastes it, so that a program does not take its lines for commands."""
    inner = text.replace("\x1b[201~", "")  # it would end the paste in the middle
    return f"\x1b[200~{inner}\x1b[201~".encode("utf-8", "surrogateescape")


def line(text: str) -> bytes:
    """Text with exactly one newline at its end."""
    whole = text if text.endswith(("\n", "\r")) else text + "\n"
    return whole.encode("utf-8", "surrogateescape")
