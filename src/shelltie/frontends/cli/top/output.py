"""Output screen of `shelltie top`: follows what a run prints, as text or as its terminal's screen.

Escape sequences of the program are obeyed by an emulator of ours and by nothing else. No more than
the last part is kept, and what comes faster than it can be shown is skipped.
"""

import base64
import importlib
from typing import Any, ClassVar

import anyio
import anyio.to_thread
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from shelltie.basics import visible_text
from shelltie.errors import NoServerAnswer
from shelltie.frontends.cli.top import table
from shelltie.frontends.control.async_client import ask
from shelltie.frontends.control.live_rows import LiveRows, ServerSeen
from shelltie.output.text import clean, from_line_start

_KEPT = 128 * 1024  # bytes from which text is made
_BEHIND_MAX = 256 * 1024
_WAIT = 2.0
_REDRAW = 0.2  # seconds between two looks
_LINE_MAX = 4000  # characters of a line that are shown


class RunOutput(Screen[None]):
    """What one run prints, until it is left; at its end it stays."""

    CSS = """
    RunOutput { background: ansi_default; color: ansi_default; }
    #what, #how { height: 1; }
    #what { text-style: bold; }
    #how { text-style: dim; }
    #text { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q", "leave"),
        Binding("ctrl+c", "app.quit"),
        Binding("up,k", "scroll(1)"),
        Binding("down,j", "scroll(-1)"),
        Binding("pageup", "scroll(20)"),
        Binding("pagedown,space", "scroll(-20)"),
        Binding("G,end", "scroll(-1000000)"),
    ]

    def __init__(self, live: LiveRows, key: str, row: table.Row) -> None:
        super().__init__()
        self._live = live
        self._key = key
        self._command = str(row.get("command") or "")
        self._lines: list[str] = []
        self._back = 0  # lines above the last
        self._how = "waiting for output"
        size = row.get("pty")
        self._screen = _TerminalScreen(size) if isinstance(size, dict) else None
        self._tail = b""

    def compose(self) -> ComposeResult:
        yield Static(id="what")
        yield Static(id="text")
        yield Static(id="how")

    def on_mount(self) -> None:
        self.run_worker(self._follow())
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def action_leave(self) -> None:
        """Back to the list."""
        self.dismiss()

    def action_scroll(self, by: int) -> None:
        """Look at what was before, or at what comes."""
        self._back = max(0, min(self._back + by, max(0, len(self._lines) - 1)))
        self._draw()

    async def _follow(self) -> None:
        position = 0
        while (server := await self._server()) is not None:
            run = self._key.rpartition("/")[2]
            try:
                said = await ask(server.path, "logs", id=run, **{"from": position}, wait=_WAIT)
            except NoServerAnswer as error:
                self._finish(visible_text.inline(str(error)) if error.reply else "its server ended")
                return
            total = _number(said, "total")
            if total - position > _BEHIND_MAX:
                position = total - _KEPT
                continue
            data = base64.b64decode(str(said.get("data")))
            position = _number(said, "start") + len(data)
            await self._take(data)
            if said.get("ended") and position >= total:
                row = self._live.rows.get(self._key, {})
                code = said.get("signal") or f"exit code {said.get('exitCode')}"
                self._finish(f"it has ended: {row.get('stopReason') or code}")
                return
            self._how = f"following, {total} bytes; ↑ ↓ scroll, esc back"
            self._draw()
            await anyio.sleep(_REDRAW)
        self._finish("its server has ended, and this with it")

    async def _server(self) -> ServerSeen | None:
        try:
            return await self._live.server_of(self._key)
        except NoServerAnswer:
            return None

    async def _take(self, data: bytes) -> None:
        """Drawing is slow, so it is done in a thread."""
        if self._screen is not None:
            self._lines = await anyio.to_thread.run_sync(self._screen.draw, data)
        elif data:
            self._tail = (self._tail + data)[-_KEPT:]
            whole = len(self._tail) < _KEPT
            tail = self._tail if whole else from_line_start(self._tail)
            text = await anyio.to_thread.run_sync(clean, tail)
            self._lines = text.rstrip("\n").split("\n")

    def _finish(self, how: str) -> None:
        self._how = f"{how}; esc back"
        self._draw()

    def _draw(self) -> None:
        width, height = self.size.width, max(1, self.size.height - 2)
        end = len(self._lines) - self._back
        shown: list[str] = []
        for line in self._lines[max(0, end - height) : end]:
            shown += table.folded(visible_text.inline(line[:_LINE_MAX]), width)
        self.query_one("#what", Static).update(Content(table.fit(f"$ {self._command}", width)))
        self.query_one("#text", Static).update(Content("\n".join(shown[-height:])))
        self.query_one("#how", Static).update(Content(table.fit(self._how, width)))


class _TerminalScreen:
    """The screen of a program that has a terminal."""

    def __init__(self, size: dict[str, Any]) -> None:
        # Few look at a screen, and pyte with its tables of widths is slow to import.
        module = importlib.import_module("shelltie.output.emulator")
        self._emulator = module.Emulator(int(size["rows"]), int(size["columns"]))

    def draw(self, data: bytes) -> list[str]:
        """Its rows after these bytes."""
        self._emulator.take(data)
        return "\n".join(row.rstrip() for row in self._emulator.display).rstrip("\n").split("\n")


def _number(said: dict[str, object], name: str) -> int:
    value = said.get(name)
    return value if isinstance(value, int) else 0
