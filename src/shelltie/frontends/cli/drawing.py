"""What of a program's output draws, for a terminal that must not do anything else. Pure.

A terminal also answers questions, fills the clipboard, takes titles and starts to send the mouse.
So this is a list of what may pass, and the rest is left out.
"""

import re

from shelltie.output.text import decoder
from shelltie.regex import regex

_PLAIN = r"(?P<plain>[^\x00-\x1f\x7f-\x9f]+|[\t\n\r\b\x0e\x0f]+)"
_TOKEN = regex(
    rf"{_PLAIN}"
    # Moves, erases, scrolls, colours: none of them has a letter that asks something.
    r"|(?P<drawn>\x1b\[[0-9;:]{0,64}[@A-HJ-MPSTXadefmrsu`]"
    r"|\x1b\[(?:4|\?(?:[5-7]|12|25|47|104[789]|2026))[hl]"
    r"|\x1b[()][0-9A-Za-z]|\x1b[78DEMH])"
    r"|(?P<string>\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])"
    r"|\x1b\[[0-?]{0,64}[ -/]{0,4}[@-~]?|\x1b[ -/]{0,4}[0-~]?|[\x00-\x1f\x7f-\x9f]"
)
# A newline ends it as well: one that was never closed must not hide the rest of the output.
_STRING_END = regex(r"\x07|\x18|\x1a|\x9c|\x1b\\|(?=\x1b.|\n)", re.DOTALL)
_PARTIAL = regex(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,4}|[ -/]{0,4})\Z")


class Drawing:
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
