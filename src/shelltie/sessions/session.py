"""Interactive session: a run that stays open for input, and is read by position."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import anyio
import anyio.lowlevel
import anyio.to_thread

from shelltie.basics.frozen import frozen
from shelltie.basics.pulse import Pulse
from shelltie.basics.safe_regex import Pattern
from shelltie.errors import InvalidParameters, RunOver
from shelltie.model import ExitStatus, Sighting, Stream, TerminalSize
from shelltie.output.char_index import Characters
from shelltie.output.full_screen import FullScreen
from shelltie.output.store import Piece
from shelltie.output.text import decoder
from shelltie.running.run import Run
from shelltie.sessions.line_readings import Unfinished
from shelltie.sessions.pattern_search import Finder
from shelltie.sessions.wait_rule import AT_ONCE, Looks, answer_at
from shelltie.settings.all_settings import Waiting

_READ_MAX = 4 * 1024 * 1024  # bytes that one reading may hold
_SIZE_MAX = 1000
_LOOK_AT = 64 * 1024  # bytes in which a text is looked for at once
_TURN = 0.005  # seconds of looking before others have a turn
_LATE = 1.0  # seconds in which old output may still be looked at when the wait is over
_LONG = 512  # bytes of input; the event loop goes on while more is read in all its ways
_CONTINUATIONS = bytes(range(0x80, 0xC0))  # within a character of UTF-8, never its beginning


@frozen
class SessionReading:
    """What a session printed from `start` to `end`, counted in characters since its beginning.

    `skipped` characters before `start` were asked for but are lost; `position` is how many there
    are in all. `complete`: the process has ended and this is the rest. `found`: what was waited
    for is there.
    """

    text: str
    start: int
    end: int
    skipped: int
    position: int
    complete: bool
    exit: ExitStatus | None
    sighting: Sighting | None = None
    found: bool | None = None


class Session:
    """One process that stays open, with the place where its usual reader goes on."""

    def __init__(self, session_id: str, owner: str, run: Run, waiting: Waiting) -> None:
        self.id = session_id
        self.owner = owner
        self.run = run
        self.waiting = waiting
        self.created = time.time()
        self.used = time.monotonic()
        self.cursor = 0
        self.warnings_told = 0  # how many of its run's warnings an answer has had
        self._shown = 0  # up to where somebody was shown all of it
        self._end_shown = False
        self.turn = anyio.Lock()  # one exchange after the other: nobody gets another's answer
        self.typing = anyio.Lock()  # what was judged goes in before anything else is typed
        self._unfinished = Unfinished()
        self._sent = [run.command.stdin or b""]  # that `unfinished` does not know of yet
        self._characters = Characters()
        self._screen = FullScreen()
        self._printed: float | None = None
        self._news = Pulse()
        self._catch_up()
        run.on_output.append(self._hear)
        run.on_ended.append(self.end)
        run.on_settled.append(self._news.beat)
        run.watch_ports()
        if run.outcome is not None:
            self.end()

    @property
    def size(self) -> TerminalSize | None:
        """Of its terminal; without one it has none."""
        return self.run.size

    @property
    def position(self) -> int:
        """How many characters it has printed."""
        return self._characters.total

    @property
    def idle(self) -> float:
        """Seconds since anybody used it."""
        return time.monotonic() - self.used

    @property
    def delivered(self) -> bool:
        """Somebody was shown all there will ever be, and its end."""
        return self._end_shown and self._shown >= self.position

    def mark_delivered(self, start: int, end: int) -> None:
        """Note that somebody was shown this part; what is lost counts as shown."""
        if start <= self._shown:
            self._shown = max(self._shown, end)
        self._end_shown = self._end_shown or self.complete

    @property
    def complete(self) -> bool:
        """It has ended, and all it printed is here."""
        return self.run.outcome is not None

    def send(self, data: bytes) -> None:
        """Queue input, all or nothing, without waiting until it is read.

        Raises: RunOver, InputFull.
        """
        self.used = time.monotonic()
        self.run.input.write(data)
        self._sent.append(data)

    async def unfinished(self) -> Unfinished:
        """What was sent and may not have been run yet. Whoever asks holds `typing`."""
        terminal = self.run.command.pty is not None
        while self._sent:
            after = partial(self._unfinished.after, self._sent[0], terminal=terminal)
            long = self._unfinished.size + len(self._sent[0]) > _LONG
            self._unfinished = await anyio.to_thread.run_sync(after) if long else after()
            del self._sent[0]
        return self._unfinished

    def forget_line(self) -> None:
        """Nobody has read the line that was being typed; what came before it, somebody may hold."""
        self._unfinished = replace(self._unfinished, line=())

    def resize(self, size: TerminalSize) -> None:
        """Give its terminal another size.

        Raises: RunOver.
        """
        self.run.resize(size)

    async def exchange(
        self,
        data: bytes = b"",
        waiting: Waiting | None = None,
        wait_for: Pattern | None = None,
        *,
        end: bool = False,
    ) -> SessionReading:
        """Send input, or its `end`, wait for an answer, and read on where the last exchange ended.

        Raises: RunOver, InputFull.
        """
        async with self.turn:
            typed = data.decode("utf-8", "replace") if self.run.echoes else ""
            if data:
                self.send(data)
            if end:
                self.run.input.end()
            reading = await self.read(self.cursor, waiting or self.waiting, wait_for, typed)
            self.cursor = reading.position
            return reading

    async def read(
        self,
        start: int,
        waiting: Waiting = AT_ONCE,
        wait_for: Pattern | None = None,
        typed: str = "",
    ) -> SessionReading:
        """What it printed from `start` on, once it is an answer. Moves nobody's place.

        What is waited for is not found in the echo of what was `typed`.
        Raises: InvalidParameters for a place that is not there yet.
        """
        if not 0 <= start <= self.position:
            raise InvalidParameters(f"position must be between 0 and {self.position}, not {start}")
        self.used = time.monotonic()
        if wait_for is not None:
            finder = self._finder(wait_for, start, typed)
            return self.reading(start, found=await self._find(finder, start, waiting))
        await self._settle(waiting)
        return self.reading(start)

    # Waiting

    async def until(
        self, done: Callable[[], bool], start: int, waiting: Waiting, wait_for: Pattern | None
    ) -> bool | None:
        """Wait until something is done, input is waited for, or the pattern is there from `start`.

        Whether the pattern was found; `None` without one.
        """
        self.used = time.monotonic()
        if wait_for is not None:
            return await self._find(self._finder(wait_for, start), start, waiting, done)
        deadline = waiting.ends(anyio.current_time())
        looks = Looks(anyio.current_time())
        while not (self.complete or done()):
            self._check_held()
            # Who begins to read its terminal tells nobody: there is nothing but to look again.
            with anyio.move_on_at(min(deadline, looks.next_at)):
                await self._news.wait()
                looks.heard(anyio.current_time())
                continue
            now = anyio.current_time()
            if now >= deadline or looks.certain(now, self.run.look()):
                break
        return None

    @property
    def draws(self) -> bool:
        """It draws on the whole screen: what it printed is no text to read."""
        return self._screen.on and not self.complete

    def hear(self, chunk: bytes | memoryview) -> None:
        """It printed this."""
        self._screen.hear(chunk)
        self._characters.add(chunk)
        self._printed = anyio.current_time()
        self._news.beat()

    def leave(self) -> None:
        """Hear nothing of the run any more: somebody else does, and tells."""
        self.run.on_output.remove(self._hear)
        self.run.on_ended.remove(self.end)
        self.run.on_settled.remove(self._news.beat)

    def _hear(self, _: Stream, chunk: memoryview) -> None:
        self.hear(chunk)

    def _catch_up(self) -> None:
        """Count what was printed before there was a session."""
        output, at = self.run.output, 0
        while at < output.total:
            piece = output.read(at, at + _READ_MAX)
            if piece.skipped:
                self._characters.skip(piece.skipped)
            self._characters.add(piece.data)
            at = piece.end

    def end(self) -> None:
        """It has ended."""
        self._characters.finish()
        self._news.beat()

    async def _settle(self, waiting: Waiting) -> None:
        called = anyio.current_time()
        looks = Looks(called)
        while not self.complete:
            self._check_held()
            printed = None if (self._printed or 0) < called else self._printed
            until = answer_at(waiting, called, printed, ended=False)
            with anyio.move_on_at(min(until, looks.next_at)):
                await self._news.wait()
                looks.heard(anyio.current_time())
                continue
            now = anyio.current_time()
            if now >= until or looks.certain(now, self.run.look()):
                return

    def _check_held(self) -> None:
        if self.run.released:
            raise RunOver(f"{self.id} goes on without this server: another program holds it now")

    def _finder(self, pattern: Pattern, start: int, typed: str = "") -> Finder:
        return Finder(pattern, skip=start - self._characters.near(start)[1], typed=typed)

    async def _find(
        self,
        finder: Finder,
        start: int,
        waiting: Waiting,
        done: Callable[[], bool] = lambda: False,
    ) -> bool:
        deadline = waiting.ends(anyio.current_time())
        place = self._characters.near(start)[0]
        while True:
            piece = self.run.output.read(place, place + _LOOK_AT)
            place = piece.end
            if piece.skipped:
                finder.lose()
            if piece.data:
                if await _found(finder.feed(piece.data)):
                    return True
            elif self.complete or done():
                return False
            else:
                self._check_held()
                with anyio.move_on_at(deadline):
                    await self._news.wait()
            if anyio.current_time() >= deadline and place == self.run.output.total:
                return False
            if anyio.current_time() >= deadline + _LATE:
                return False

    # Reading

    def reading(
        self, start: int, limit: int | None = None, *, found: bool | None = None
    ) -> SessionReading:
        """What it printed from `start` on, as if nothing had come after `limit`."""
        asked = start
        piece, number = self._piece(start)
        start = max(start, number)
        last = self.complete and piece.end == self.run.output.total
        stop = None if limit is None else max(0, limit - number)
        text = decoder().decode(piece.data, final=last)[start - number : stop]
        end = start + len(text)
        outcome = self.run.outcome
        return SessionReading(
            text=text,
            start=start,
            end=end,
            skipped=start - asked,
            position=self.position if limit is None else limit,
            complete=self.complete and end == self.position,
            exit=None if outcome is None else outcome.exit,
            sighting=None if outcome is not None else self.run.look(),
            found=found,
        )

    def text(self, start: int, end: int) -> str:
        """What it printed between two places, as far as it is kept."""
        piece, number = self._piece(start)
        text = decoder().decode(piece.data)
        return text[max(0, start - number) : max(0, end - number)]

    def _piece(self, start: int) -> tuple[Piece, int]:
        """Bytes that hold the character `start`, or what comes after a gap; their first one."""
        output = self.run.output
        byte, number = self._characters.near(start)
        piece = output.read(byte, byte + _READ_MAX)
        if piece.end < output.total and number + len(decoder().decode(piece.data)) <= start:
            piece = output.read(piece.end, piece.end + _READ_MAX)  # the gap begins right there
        if not piece.skipped:
            return piece, number
        known, number = self._characters.after(piece.start)
        # From where a character begins, everybody sees the same ones: so they can be counted back.
        before = output.read(piece.start, known).data.lstrip(_CONTINUATIONS)
        start = known - len(before)
        return output.read(start, start + _READ_MAX), number - len(decoder().decode(before))


def checked_size(rows: object, columns: object) -> TerminalSize:
    """A size a terminal can have.

    Raises: InvalidParameters.
    """
    for name, value in (("rows", rows), ("columns", columns)):
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _SIZE_MAX:
            raise InvalidParameters(f"{name} must be between 1 and {_SIZE_MAX}, not {value!r}")
    assert isinstance(rows, int)
    assert isinstance(columns, int)
    return TerminalSize(rows, columns)


async def _found(looks: Iterator[bool]) -> bool:
    """Whether one of them is a yes; others have their turns meanwhile."""
    begun = time.monotonic()
    for found in looks:
        if found:
            return True
        if time.monotonic() - begun > _TURN:
            await anyio.lowlevel.checkpoint()
            begun = time.monotonic()
    return False
