"""Audit journal (write-ahead): events are recorded before a command starts.

To append a few rows takes a tenth of a millisecond, less than to wake a thread; so the loop does
it itself, as long as no other process is writing. Whatever may have to wait (a lock, a disk that
has to confirm, the digest of a large output, recovery, keeping house) is done by a thread.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import TypeVar

import anyio
import anyio.to_thread

from shelltie.errors import JournalBroken
from shelltie.events import Event, Publish, RunLost
from shelltie.model import PastSession
from shelltie.record.facts import Fact, FactMaker
from shelltie.record.writer import Terms, Writer

UNRECORDED = "not recorded"  # how the warning about it begins
UNANCHORED = "recorded, but a rewrite would not show"
_LAG = 0.05  # seconds that an event may wait for others to be written with it
_WAIT_REQUIRED, _WAIT_WISHED = 5.0, 1.0  # seconds to wait for a record that must be, or should be
_LEAVING, _BRIEF = 3.0, 0.5
_LONG_TEXT = 4096

_log = logging.getLogger(__name__)


class Journal:
    """Make it where the event loop runs, subscribe `publish`, and close it last."""

    def __init__(
        self, terms: Terms, known_secrets: Mapping[str, str], tell: Publish | None = None
    ) -> None:
        self.problem: str | None = None  # why nothing can be written now
        self._terms = terms
        self._required = terms.settings.required
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._events: deque[Event] = deque()
        self._marks: deque[anyio.Event] = deque()
        self._long = False  # there is a text among them that takes long to look through
        self._due: asyncio.TimerHandle | None = None
        # Both belong to whoever has the lock: the loop, which never waits for it, or the thread.
        self._lock = threading.Lock()
        self._scribe = FactMaker(known_secrets)
        self._wake = threading.Event()
        self._over = threading.Event()
        self._left = anyio.Event()
        self._writer = Writer(terms, self._over.is_set)
        self._thread = threading.Thread(target=self._work, name="shelltie-journal", daemon=True)
        self._thread.start()

    @property
    def missed(self) -> int:
        """How much could not be recorded, and never will be."""
        return self._writer.missed

    # On the loop

    def publish(self, event: Event) -> None:
        """Record it, soon."""
        if isinstance(event, RunLost):
            return  # we were the one to tell
        self._events.append(event)
        self._long = self._long or len(getattr(event, "command", "")) > _LONG_TEXT
        if self._due is None:
            self._due = self._loop.call_later(_LAG, self._write_soon)

    def _write_soon(self) -> None:
        self._due = None
        if not self._written_at_once():
            self._wake.set()

    def _written_at_once(self) -> bool:
        """Write all there is, if that is possible without waiting."""
        waits = self._required or self._long or self._marks
        if waits or not self._lock.acquire(blocking=False):
            return False
        try:
            self._collect()
            if not self._writer.quick or self._writer.write(patient=False) is not None:
                return False  # the thread will see to it
            if self._writer.dirty:
                self._wake.set()
        finally:
            self._lock.release()
        self.problem = None
        return True

    async def flush(self) -> str | None:
        """Wait until what was published so far is written; or say why it is not.

        Raises: JournalBroken if it must be.
        """
        if self._written_at_once():
            return self._verdict()
        if self.problem is None or self._required:
            with anyio.move_on_after(_WAIT_REQUIRED if self._required else _WAIT_WISHED) as scope:
                mark = anyio.Event()
                self._marks.append(mark)
                self._wake.set()
                await mark.wait()
            if scope.cancelled_caught:
                self.problem = self.problem or "it is locked, or the disk is slow"
        return self._verdict()

    def _verdict(self) -> str | None:
        if self.problem is None:
            unanchored = self._writer.unanchored
            return None if unanchored is None else f"{UNANCHORED}: {unanchored}"
        if self._required:
            raise JournalBroken(
                "nothing may run unrecorded (audit.required), and the journal cannot be written:"
                f" {self.problem}"
            )
        return f"{UNRECORDED}: the journal cannot be written: {self.problem}"

    async def lost(self, client: str) -> list[RunLost]:
        """What ran for this client, lately, in servers that died; the newest first."""
        from shelltie.record import queries  # a server asks, a single command does not

        with suppress(JournalBroken):
            await self.flush()
        return await anyio.to_thread.run_sync(queries.lost, self._terms.path, client)

    async def lost_one(self, name: str, client: str) -> RunLost | None:
        """The lost run or session of this client with that id, however old."""
        from shelltie.record import queries  # a server asks, a single command does not

        with suppress(JournalBroken):
            await self.flush()
        return await anyio.to_thread.run_sync(queries.lost_one, self._terms.path, name, client)

    async def past_session(self, session: str, client: str) -> PastSession | None:
        """What became of the session of this client with that id."""
        from shelltie.record import queries  # a server asks, a single command does not

        with suppress(JournalBroken):
            await self.flush()
        path = self._terms.path
        return await anyio.to_thread.run_sync(queries.past_session, path, session, client)

    async def close(self) -> None:
        """Write the rest, and leave; bounded."""
        self._over.set()
        self._wake.set()
        most = 2 * _LEAVING  # the thread may have to finish something else first
        with anyio.move_on_after(most, shield=True):
            await self._left.wait()

    # In the thread

    def _work(self) -> None:
        try:
            while not self._over.is_set():
                self._turn()
            with self._lock:
                self._collect()
                # Who could not write until now has waited for it, and said so.
                self.problem = self._writer.close(_LEAVING if self.problem is None else _BRIEF)
        except Exception as error:  # noqa: BLE001  whoever waits for a record must be told
            _log.exception("the journal failed")
            self._fail(f"it failed: {error!r}")
        self._reach([*_all(self._marks), self._left])

    def _turn(self) -> None:
        self._wake.wait(self._writer.pause)
        self._wake.clear()
        marks = _all(self._marks)  # first: what was told before a mark is then among the events
        with self._lock:
            self._collect()
            problem = self._writer.write(patient=True)
            self.problem = problem
            lost, self._writer.lost = self._writer.lost, []
            if self._tell is not None:
                with suppress(RuntimeError):  # the loop is closed
                    for run in lost:
                        self._loop.call_soon_threadsafe(self._tell, run)
        self._reach(marks)
        with self._lock:
            self.problem = problem or self._writer.keep_house()

    def _fail(self, problem: str) -> None:
        while not self._over.is_set():
            self.problem = problem
            self._events.clear()
            self._reach(_all(self._marks))
            self._wake.wait()
            self._wake.clear()

    def _reach(self, marks: list[anyio.Event]) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody waits
            for mark in marks:
                self._loop.call_soon_threadsafe(mark.set)

    # For either, with the lock

    def _collect(self) -> None:
        self._long = False
        facts = map(self._fact, _all(self._events))
        self._writer.take([fact for fact in facts if fact is not None])

    def _fact(self, event: Event) -> Fact | None:
        try:
            return self._scribe.fact(event)
        except Exception:  # noqa: BLE001  what cannot be recorded must not fail a call
            _log.exception("an event cannot be recorded")
            return Fact("", event.at, "missed", {"facts": 1})


T = TypeVar("T")


def _all(queue: deque[T]) -> list[T]:
    """Take out what is in it now; others may add more meanwhile."""
    return [queue.popleft() for _ in range(len(queue))]
