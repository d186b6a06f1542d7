"""Output cursor of one embedded terminal: what the editor was sent, in order."""

from collections.abc import Awaitable, Callable, Iterator

import anyio

from shelltie.frontends.acp.display_formats import (
    BEHIND,
    DisplayedTerminal,
    DisplayFormat,
    OutputDelta,
    Update,
)
from shelltie.model import Stream
from shelltie.output.text import decoder, from_line_start

Tell = Callable[[str, Update], Awaitable[None]]


class TerminalFollower:
    """A terminal in a tool call. `tell` sends the editor an update of a session.

    Output is told as it comes, with pauses, while the agent has its turn. `catch_up` tells the
    rest at once: editors drop, or complain of, what comes after the end of a turn.
    """

    def __init__(
        self, shown: DisplayedTerminal, look: DisplayFormat, tell: Tell, *, held: bool
    ) -> None:
        self.shown = shown
        self.over = False  # its end has been told
        self._look = look
        self._send = tell
        self._decode = decoder().decode
        self._begun = False
        self._at = 0
        self._held = held
        self._changed = anyio.Event()
        self._lock = anyio.Lock()  # one update after the other, whoever tells them

    async def follow(self) -> None:
        """Tell all of it, as it comes.

        Raises: OSError when the editor does not read any more.
        """
        run = self.shown.terminal.run
        run.on_output.append(self._heard)
        run.on_ended.append(self._wake)
        try:
            while not self.over:
                if await self._step():
                    await anyio.sleep(self._look.pause)
                else:
                    await self._changed.wait()
        finally:
            run.on_output.remove(self._heard)
            run.on_ended.remove(self._wake)

    async def catch_up(self) -> None:
        """Tell what there is now, without a pause; of a terminal that has ended, its end, too.

        Raises: OSError when the editor does not read any more.
        """
        if not self._held:
            await self._tell_rest()

    async def hold(self) -> None:
        """The agent's turn ends: catch up, and then tell nothing until the next one.

        Raises: OSError when the editor does not read any more.
        """
        if not self._held:
            self._held = True
            await self._tell_rest()

    def resume(self) -> None:
        """The agent has a turn again."""
        self._held = False
        self._wake()

    def _heard(self, _: Stream, __: memoryview) -> None:
        self._wake()

    def _wake(self) -> None:
        self._changed.set()

    async def _step(self) -> bool:
        """Tell what comes next; whether that was output, after which there is a pause."""
        async with self._lock:
            self._changed = anyio.Event()
            if self._held or self.over:
                return False
            await self._tell_beginning()
            if self._at < self.shown.terminal.run.output.total:
                await self._tell_piece()
                return True
            await self._tell_end()
            return False

    async def _tell_rest(self) -> None:
        run = self.shown.terminal.run
        async with self._lock:
            now = run.output.total  # one that floods goes on meanwhile
            await self._tell_beginning()
            while self._at < (now if run.outcome is None else run.output.total):
                await self._tell_piece()
            await self._tell_end()
        self._wake()

    async def _tell_beginning(self) -> None:
        if not self._begun:
            self._begun = True
            await self._tell(self._look.begun(self.shown))

    async def _tell_piece(self) -> None:
        output = self.shown.terminal.run.output
        start = max(self._at, output.total - BEHIND)
        piece = output.read(start, start + self._look.most)
        left_out = piece.start - self._at
        # Nobody can read half a line, and after a gap its first half is not there.
        data = from_line_start(piece.data) if left_out else piece.data
        skipped = left_out + len(piece.data) - len(data)
        self._at = piece.end
        if data:
            await self._tell(self._look.grown(self.shown, OutputDelta(data, skipped, self._decode)))

    async def _tell_end(self) -> None:
        if self.shown.terminal.run.outcome is not None and not self.over:
            self.over = True
            await self._tell(self._look.ended(self.shown))

    async def _tell(self, updates: Iterator[Update]) -> None:
        for update in updates:
            await self._send(self.shown.session, update)
