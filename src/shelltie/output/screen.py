"""Screen snapshot of a full-screen program, drawn by a terminal emulator."""

import importlib
from typing import Any

import anyio

from shelltie.basics.frozen import frozen
from shelltie.model import TerminalSize
from shelltie.output.store import Store

_FED_MAX = 256 * 1024  # a second of drawing or two; a program repaints its screen more often


@frozen
class ScreenText:
    """The rows without what is blank at their ends; the cursor's row and column begin with 0."""

    rows: tuple[str, ...]
    cursor_row: int
    cursor_column: int

    @property
    def text(self) -> str:
        """All rows down to the last that is not empty."""
        return "\n".join(self.rows).rstrip("\n")


class Screen:
    """Draws what a store holds, from where it was the last time, in a thread: drawing is slow."""

    def __init__(self, size: TerminalSize) -> None:
        self._emulator = _emulator(size)
        self._size = size
        self._position = 0
        self._turn = anyio.Lock()

    async def show(self, output: Store, size: TerminalSize) -> ScreenText:
        """What a terminal of that size shows after all that was printed."""
        async with self._turn:
            start = max(self._position, output.total - _FED_MAX)
            piece = output.read(start, output.total)
            if piece.start > self._position:
                self._emulator, self._size = _emulator(size), size
            self._position = piece.end
            return await anyio.to_thread.run_sync(self._draw, piece.data, size)

    def _draw(self, data: bytes, size: TerminalSize) -> ScreenText:
        emulator = self._emulator
        if size != self._size:
            emulator.resize(size.rows, size.columns)
            self._size = size
        emulator.take(data)
        rows = tuple(row.rstrip() for row in emulator.display)
        return ScreenText(rows, emulator.cursor.y, min(emulator.cursor.x, size.columns - 1))


def _emulator(size: TerminalSize) -> Any:  # noqa: ANN401  the module is not imported here
    # Few look at a screen, and pyte with its tables of widths is slow to import.
    module = importlib.import_module("shelltie.output.emulator")
    return module.Emulator(size.rows, size.columns)
