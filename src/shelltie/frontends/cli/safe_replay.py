"""Escape sequence filter for replay: keeps what draws, drops what asks or reconfigures. Pure."""

import re

from shelltie.basics.lazy_regex import lazy
from shelltie.output.text import decoder

_PLAIN = r"(?P<plain>[^\x00-\x1f\x7f-\x9f]+|[\t\n\r\b\x0e\x0f]+)"
_TOKEN = lazy(
    rf"{_PLAIN}"
    # Moves, erases, scrolls, colours: none of them has a letter that asks something.
    r"|(?P<drawn>\x1b\[[0-9;:]{0,64}[@A-HJ-MPSTXadefmrsu`]"
    r"|\x1b\[(?:4|\?(?:[5-7]|12|25|47|104[789]|2026))[hl]"
    r"|\x1b[()][0-9A-Za-z]|\x1b[78DEMH])"
    r"|(?P<string>\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])"
    r"|\x1b\[[0-?]{0,64}[ -/]{0,4}[@-~]?|\x1b[ -/]{0,4}[0-~]?|[\x00-\x1f\x7f-\x9f]"
)
# A newline ends it as well: one that was never closed must not hide the rest of the output.
_STRING_END = lazy(r"\x07|\x18|\x1a|\x9c|\x1b\\|(?=\x1b.|\n)", re.DOTALL)
_PARTIAL = lazy(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,4}|[ -/]{0,4})\Z")


class DrawingFilter:
    """Takes output in any pieces, and gives back what of it draws."""

    def __init__(self) -> None:
        self._decoder = decoder()
        self._rest = ""
        self._string = False  # inside of a title, a link, a picture, …

    def feed(self, data: bytes, *, final: bool = False) -> bytes:
        """Take the next piece."""
        text = self._rest + self._decoder.decode(data, final)
        whole = len(text)
        if not final and (partial := _PARTIAL.search(text)) is not None:
            whole = partial.start()
        self._rest = text[whole:]
        return "".join(self._drawn(text[:whole])).encode("utf-8", "replace")

    def _drawn(self, text: str) -> list[str]:
        shown: list[str] = []
        place = 0
        while place < len(text):
            if self._string:
                end = _STRING_END.search(text, place)
                self._string = end is None
                place = len(text) if end is None else end.end()
                continue
            token = _TOKEN.match(text, place)
            assert token is not None  # every character is one, at least
            place = token.end()
            shown.append(token["plain"] or token["drawn"] or "")
            self._string = token["string"] is not None
        return shown


DETACH = "ctrl-]"
# As a terminal sends it, also where a program has asked for keys in a longer form.
_DETACH = lazy(rb"\x1d|\x1b\[93;5u|\x1b\[27;5;93~")
_CTRL_C = lazy(rb"\x03|\x1b\[99;5u|\x1b\[27;5;99~")

# Each makes a terminal answer, and the answer would be typed into the session: who it is, where
# its cursor stands, which colours and modes it has.
_QUESTIONS = lazy(
    rb"\x1b\[[?>=0-9;]*[cn]"
    rb"|\x1b\[[?0-9;]*\$p"
    rb"|\x1b\[>[0-9;]*q"
    rb"|\x1b\[\?u"
    rb"|\x1b\[1[1348]t|\x1b\[2[01]t"
    rb"|\x1b\][0-9;]{1,32}\?(?:\x07|\x1b\\)"
    rb"|\x1bP[^\x1b]{0,4096}\x1b\\"
    rb"|\x1bZ|\x05"
)

_MODE = lazy(rb"\x1b\[(?:\?(?P<numbers>[0-9;]{1,32})(?P<on>[hl])|>(?P<keys>[0-9;]*)u)")
_SEQUENCE_MAX = 40
_USUALLY_ON = frozenset({b"7", b"25"})  # lines wrap, and the cursor is seen
# Colours, keypad, and the scrolling region, which would move the cursor if it were not kept.
_ALWAYS = b"\x1b[0m\x1b>\x1b7\x1b[r\x1b8"


def without_questions(data: bytes) -> bytes:
    """Output from before, without what a terminal would answer to."""
    return _QUESTIONS.sub(b"", data)


def until_detached(data: bytes, *, ctrl_c: bool) -> tuple[bytes, bool]:
    """What was typed before the key that detaches, and whether it was pressed."""
    found = _DETACH.search(data) or (_CTRL_C.search(data) if ctrl_c else None)
    return (data, False) if found is None else (data[: found.start()], True)


class TerminalModes:
    """Remembers what a program did to its terminal: another screen, no cursor, a mouse."""

    def __init__(self) -> None:
        self._changed: dict[bytes, bool] = {}
        self._keys = False
        self._rest = b""

    def see(self, data: bytes) -> None:
        """Take the next bytes that are shown."""
        text = self._rest + data
        end = 0
        for match in _MODE.finditer(text):
            end = match.end()
            self._keys = self._keys or match["keys"] is not None
            on = match["on"] == b"h"
            for number in (match["numbers"] or b"").split(b";"):
                if number and on != (number in _USUALLY_ON):
                    self._changed[number] = on
                else:
                    self._changed.pop(number, None)
        self._rest = text[end:][-_SEQUENCE_MAX:]  # a sequence may be cut in two

    def undo(self) -> bytes:
        """What makes a terminal as it was."""
        back = [b"\x1b[?%b%b" % (n, b"l" if on else b"h") for n, on in self._changed.items()]
        keys = b"\x1b[<9u" if self._keys else b""
        return b"".join([*back, keys, _ALWAYS])
