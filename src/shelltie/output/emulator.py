"""Terminal emulator (pyte), imported only when a screen is asked for."""

import copy
import unicodedata
from typing import Any

import pyte
from pyte.screens import Cursor, wcwidth

from shelltie.basics.lazy_regex import lazy

_ALTERNATE_SCREENS = {47, 1047, 1049}
_AT_ESCAPES = lazy(rb"(?=\x1b)")
_SEQUENCE = lazy(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]?|[^\[])")


class Emulator(pyte.Screen):
    """A screen that takes any bytes; it has a second page, which editors and pagers paint on."""

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__(columns, rows)
        self._stream = pyte.ByteStream(self)
        self._first_page: tuple[Any, Cursor] | None = None

    def take(self, data: bytes) -> None:
        """Show the next bytes. A sequence that the emulator does not understand shows nothing."""
        for piece in _AT_ESCAPES.split(data):
            try:
                self._stream.feed(piece)
            except Exception:  # noqa: BLE001  it raises whatever a wrong argument leads to
                self._stream = pyte.ByteStream(self)
                self._stream.feed(_SEQUENCE.sub(b"", piece, count=1))

    def draw(self, data: str) -> None:
        """Write text. pyte leaves out all that follows a character without width, such as U+202E:
        a program could hide what it prints.
        """
        if not data.isascii():
            data = "".join(c for c in data if wcwidth(c) > 0 or unicodedata.combining(c))
        super().draw(data)

    def set_mode(self, *modes: int, **kwargs: Any) -> None:  # noqa: ANN401  as in pyte
        """Turns to the second page, too."""
        if kwargs.get("private") and _ALTERNATE_SCREENS & set(modes) and self._first_page is None:
            self._first_page = copy.deepcopy(self.buffer), copy.copy(self.cursor)
            self.erase_in_display(2)
        super().set_mode(*modes, **kwargs)

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:  # noqa: ANN401  as in pyte
        """Turns back to the first page, too."""
        if kwargs.get("private") and _ALTERNATE_SCREENS & set(modes) and self._first_page:
            self.buffer, self.cursor = self._first_page
            self._first_page = None
            # The page may have been left in another size.
            self.cursor.x = min(self.cursor.x, self.columns - 1)
            self.cursor.y = min(self.cursor.y, self.lines - 1)
        super().reset_mode(*modes, **kwargs)
