"""PTY processes of the OpenAI Agents SDK: its `pty_*` calls on our sessions.

A call waits as long as the SDK says, but not for a process that has ended or waits for input.
"""

from contextlib import suppress
from typing import Self

import anyio
from agents.sandbox.errors import PtySessionNotFoundError
from agents.sandbox.session.pty_types import (
    PTY_PROCESSES_MAX,
    PtyExecUpdate,
    allocate_pty_process_id,
    process_id_to_prune_from_meta,
    truncate_text_by_tokens,
)

from shelltie.adapters.raw_output import bounded_text
from shelltie.errors import CommandDenied, InputFull, ProcessError, RunOver, UnknownSession
from shelltie.frontends.api import Terminal
from shelltie.frontends.reports.run_report import report
from shelltie.model import Command
from shelltie.running.options import Requester, RunOptions
from shelltie.sessions.registry import Sessions
from shelltie.sessions.session import Session
from shelltie.settings.all_settings import SessionLimits, Waiting

_OWNER = "openai-agents"
NO_INPUT = "stdin is not available for this process"  # by which the SDK's tool knows it


class PtyPlace:
    """The terminal of a sandbox session with its processes; all of it in one event loop.

    An update has at most `max_output` characters: the first and the last ones.
    """

    def __init__(self, terminal: Terminal, requester: Requester, max_output: int) -> None:
        self.terminal = terminal
        self.requester = requester
        self._max_output = max_output
        self._open: dict[int, Session] = {}

    async def __aenter__(self) -> Self:
        await self.terminal.__aenter__()
        # The oldest is ended when there are too many, so this is never full.
        room = SessionLimits(most=2 * PTY_PROCESSES_MAX, total=2 * PTY_PROCESSES_MAX)
        self._registry = Sessions(self.terminal.supervisor, room)
        self._open = {}
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.terminal.__aexit__()

    async def start(
        self, command: Command, wish: RunOptions, wait: float, tokens: int | None
    ) -> PtyExecUpdate:
        """Start a process, which goes on when the wait is over. Who is cancelled has ended it.

        Raises: CommandDenied and other `TerminalError`s; then nothing was started.
        """
        session = await self._registry.open(command, wish, _OWNER, Waiting())
        number = allocate_pty_process_id(set(self._open))
        self._open[number] = session
        try:
            if len(self._open) > PTY_PROCESSES_MAX:
                await self._end_oldest()
            return await self._update(number, session, wait, tokens)
        except BaseException:  # nobody learns its number
            await self._stop(number)
            raise

    async def write(
        self, number: int, typed: bytes, wait: float, tokens: int | None
    ) -> PtyExecUpdate:
        """Type this, which is judged, and read on; without anything typed it only reads.

        Raises: PtySessionNotFoundError; RuntimeError for a process that has no terminal.
        """
        session = self._open.get(number)
        if session is None:
            raise PtySessionNotFoundError(session_id=number)
        if typed and session.size is None:
            raise RuntimeError(NO_INPUT)
        try:
            if typed:
                async with session.typing:
                    await self._registry.let_type(session, typed, self.requester)
                    session.send(typed)
        except (CommandDenied, InputFull) as error:
            return PtyExecUpdate(number, f"[not typed: {error}]\n".encode(), None, None)
        except RunOver:
            pass  # it has ended, and this reads the rest
        return await self._update(number, session, wait, tokens)

    async def end_all(self) -> None:
        """End all of them with everything they started."""
        self._open.clear()
        await self._registry.stop_all(_OWNER, "closed")

    async def _update(
        self, number: int, session: Session, wait: float, tokens: int | None
    ) -> PtyExecUpdate:
        async with session.turn:
            await session.until(lambda: False, session.cursor, Waiting(most=wait), None)
            reading = session.reading(session.cursor)
            text = bounded_text(session, reading, self._max_output)
            session.cursor = reading.position
            session.mark_delivered(reading.start, reading.position)
            exit_code = None
            if session.complete:
                self._open.pop(number, None)
                ended = report(session.run)
                exit_code = ended.exit_code
                if ended.timeout_reason is not None:
                    text += (
                        f"\n[a time limit ended it with all it started: {ended.timeout_reason}]\n"
                    )
                elif ended.error is not None:
                    text += f"[{ended.error}]\n"
        shown, count = truncate_text_by_tokens(text, tokens)
        still = None if session.complete and exit_code is not None else number
        return PtyExecUpdate(still, shown.encode("utf-8", "replace"), exit_code, count)

    async def _end_oldest(self) -> None:
        oldest = process_id_to_prune_from_meta(
            [(number, session.used, session.complete) for number, session in self._open.items()]
        )
        if oldest is not None:
            await self._stop(oldest)

    async def _stop(self, number: int) -> None:
        session = self._open.pop(number, None)
        if session is not None:
            with anyio.CancelScope(shield=True), suppress(ProcessError, UnknownSession):
                await self._registry.stop(session.id, _OWNER, "closed")
