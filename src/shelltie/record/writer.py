"""Journal writer: transactions, retries, lock contention; runs recovery and retention."""

import logging
import math
import os
import select
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from shelltie.basics.frozen import frozen
from shelltie.errors import TerminalError
from shelltie.events import RunLost
from shelltie.keeper import process_identity
from shelltie.record.append import ChainWriter, complete
from shelltie.record.database import (
    WAL_MAX,
    error_code,
    explained,
    is_permanent,
    open_for_writing,
)
from shelltie.record.facts import Fact, folded
from shelltie.record.retention import trim
from shelltie.settings.all_settings import AuditSettings
from shelltie.settings.files import file_identity

_OTHERS = """
    SELECT 1 FROM servers WHERE settled = 0 AND id != ?
    UNION ALL SELECT 1 FROM runs WHERE ended IS NULL AND provider = 'staying' LIMIT 1"""
_BACKLOG_MAX = 20_000  # facts that are kept while the file cannot be written
_RETRY, _TICK = 0.5, 0.01
_LOCKED = 2.0  # seconds for another server to finish its transaction
_HOUR, _MINUTE = 3600.0, 60.0
_CHECKPOINT = 1000  # facts after which what was appended is put in its place
_SOME = 50  # facts after which it is looked how much others have appended
_QUICK = 256 * 1024  # bytes of output that are looked at on the side

_log = logging.getLogger(__name__)


@frozen
class Terms:
    """Where the journal is, what it is good for, and how much of it is kept.

    `spools` is where output is kept. `inside` is the run that this process is in itself. `staying`
    says which runs outlive their server.
    """

    path: Path
    spools: Path
    settings: AuditSettings = AuditSettings()
    inside: str | None = None
    staying: Callable[[], Collection[str]] = tuple


class Writer:
    """For one thread at a time."""

    def __init__(self, terms: Terms, leaving: Callable[[], bool] = lambda: False) -> None:
        self.missed = 0  # facts that were never recorded, and never will be
        self.unanchored: str | None = None  # why heads of the chain cannot be kept elsewhere
        self.lost: list[RunLost] = []  # what dead servers left, until somebody takes it
        self._terms = terms
        self._leaving = leaving  # nobody waits any more for what is locked
        self._wal = f"{terms.path}-wal"
        self._unwritten = terms.path.with_name(f"{terms.path.name}-missed")
        self._book: ChainWriter | None = None
        self._file: tuple[int, int] | None = None
        self._backlog: deque[Fact] = deque(maxlen=_BACKLOG_MAX)
        self._untold = 0  # of those missed
        self._given_up: str | None = None
        self._adding: Fact | None = None
        self._unwritable: str | None = None  # why a fact was dropped, until it was told
        self._unsettled = False  # what dead servers left has not been looked at
        self._tried = False
        self._trimmed = self._anchored = -math.inf
        self._appended = 0

    @property
    def pause(self) -> float:
        """How long there is nothing to do, in seconds, unless something happens."""
        if self._given_up is not None:
            return _HOUR
        if not self._tried:
            return 0.0
        if self._backlog or self._unsettled:  # it could not be done
            return _RETRY
        return _TICK if self._trimmed == -math.inf else _HOUR

    @property
    def quick(self) -> bool:
        """What there is to write can be written without waiting for anything."""
        ready = self._book is not None and not self._unsettled
        return ready and not any(map(_is_slow, self._backlog))

    @property
    def dirty(self) -> bool:
        """It is time to keep house."""
        large = self._appended >= _SOME and _size(self._wal) >= WAL_MAX
        return large or self._appended >= _CHECKPOINT

    def take(self, facts: list[Fact]) -> None:
        """To be written next."""
        if self._given_up is not None:
            self._miss(len(facts))
            return
        self._miss(max(0, len(self._backlog) + len(facts) - _BACKLOG_MAX))
        self._backlog.extend(folded(facts))

    def _miss(self, count: int) -> None:
        self.missed += count
        self._untold += count

    def write(self, *, patient: bool) -> str | None:
        """Write what there is; or say why it could not be.

        Without patience it does not wait for anybody.
        """
        deadline = time.monotonic() + (_LOCKED if patient else 0)
        while self._given_up is None:
            try:
                self._write_all()
            except (sqlite3.Error, OSError, TerminalError) as error:
                if self._adding is not None and _is_of_the_fact(error):
                    self._drop_fact(error)
                elif not _is_busy(error) or time.monotonic() >= deadline or self._leaving():
                    return self._failed(error)
                else:
                    select.select([], [], [], _TICK)  # SQLite offers only polling
            except Exception as error:  # noqa: BLE001  whatever a fact or a damaged row may hold
                if self._adding is None:
                    self._unsettled = False
                    return f"{self._terms.path}: {error!r}"
                self._drop_fact(error)
            else:
                return self._take_unwritable(patient=patient)
        return self._given_up

    def _write_all(self) -> None:
        self._adding = None
        book = self._usable()
        self._write_backlog(book)
        if self._unsettled:
            self._settle(book)

    def _settle(self, book: ChainWriter) -> None:
        """What dead servers left. If that cannot be written now, it is left for the next turn."""
        try:
            self.lost += self._recovered(book)
        except sqlite3.Error as error:
            if is_permanent(error):
                raise
            _log.debug("dead servers cannot be settled now", exc_info=error)
        else:
            self._unsettled = False

    def _recovered(self, book: ChainWriter) -> list[RunLost]:
        if book.connection.execute(_OTHERS, (book.server,)).fetchone() is None:
            return []
        from shelltie.record.recovery import recover  # most find nobody else

        return recover(book, self._terms.spools, self._terms.inside, self._terms.staying)

    def _drop_fact(self, error: Exception) -> None:
        """What can never be written must not hold up the rest."""
        assert self._adding is not None
        _log.warning("a fact cannot be written", exc_info=error)
        self._backlog.remove(self._adding)
        self._miss(1)
        self._unwritable = f"{self._terms.path}: a fact cannot be written: {error!r}"

    def _take_unwritable(self, *, patient: bool) -> str | None:
        """Who is patient tells it; after that it is over."""
        problem = self._unwritable
        if patient:
            self._unwritable = None
        return problem

    def _failed(self, error: sqlite3.Error | OSError | TerminalError) -> str:
        problem = explained(error, self._terms.path)
        if str(self._terms.path) not in problem:
            problem = f"{self._terms.path}: {problem}"
        if is_permanent(error):
            self._given_up = problem
            self._miss(len(self._backlog))
            self._backlog.clear()
        return problem

    def _usable(self) -> ChainWriter:
        """The open file; opened again if somebody has put another one in its place."""
        if self._book is not None and self._file == file_identity(self._terms.path):
            return self._book
        self._drop()
        self._tried = True
        connection = open_for_writing(self._terms.path, durable=self._terms.settings.required)
        book = ChainWriter(connection, os.urandom(8).hex())
        try:
            me, now = process_identity.of(os.getpid()), time.time()
            row = (book.server, me.pid, me.started, me.boot, me.namespace, now, None, 0)
            with book.transaction():
                book.connection.execute("INSERT INTO servers VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
                book.add(Fact("", now, "server_opened", {"pid": me.pid, "started": me.started}))
            self._take_unwritten(book.server)
        except BaseException:
            connection.close()
            raise
        self._book, self._file = book, file_identity(self._terms.path)
        self._unsettled = True
        return book

    def _write_backlog(self, book: ChainWriter) -> None:
        if not (self._backlog or self._untold):
            return
        for fact in self._backlog:
            self._adding = fact
            complete(fact)
        self._adding = None
        with book.transaction():
            if self._untold:
                book.add(Fact("", time.time(), "missed", {"facts": self._untold}))
            for fact in self._backlog:
                self._adding = fact
                book.add(fact)
            self._adding = None
        self._appended += len(self._backlog)
        self._untold = 0
        self._backlog.clear()

    def keep_house(self) -> str | None:
        """What can wait, and takes a while; or why it cannot be done."""
        book, now = self._book, time.monotonic()
        if book is None or self._given_up is not None:
            return None
        try:
            if self.dirty:
                self._checkpoint(book)
            if now - self._trimmed >= _HOUR:
                self._trimmed = -math.inf if trim(book, self._terms.settings.retention) else now
        except (sqlite3.Error, OSError) as error:
            return None if _is_busy(error) else self._failed(error)
        if now - self._anchored >= _MINUTE:
            self._anchored = now
            self._keep_head(book)
        return None

    def _checkpoint(self, book: ChainWriter) -> None:
        self._appended = 0
        book.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _keep_head(self, book: ChainWriter) -> None:
        if self._terms.settings.anchor is None:
            return
        from shelltie.record import anchor  # few keep heads elsewhere

        try:
            anchor.append(Path(self._terms.settings.anchor), book.head)
            self.unanchored = None
        except OSError as error:
            self.unanchored = f"audit.anchor cannot be written: {error}"

    def close(self, patience: float = 0.0) -> str | None:
        """Write the rest, say that this server has left, and let the file go; or why not.

        Whatever may be over in a moment is waited for, so many seconds in all.
        """
        deadline = time.monotonic() + patience
        while (problem := self._leave()) is not None and self._given_up is None:
            if time.monotonic() >= deadline:
                break
            select.select([], [], [], _TICK)
        if problem is not None and self._given_up is None:
            self._note_unwritten()
        self._drop()
        return problem

    def _note_unwritten(self) -> None:
        """Whoever comes next shall say it, as we cannot any more."""
        if count := len(self._backlog) + self._untold:
            self._miss(len(self._backlog))
            with suppress(OSError), self._unwritten.open("a", encoding="ascii") as file:
                file.write(f"{count}\n")

    def _take_unwritten(self, server: str) -> None:
        """What others could not say. It is moved first: each is counted once."""
        taken = self._unwritten.with_name(f"{self._unwritten.name}.{server}")
        with suppress(OSError):
            self._unwritten.rename(taken)
            lines = taken.read_text(encoding="ascii", errors="replace").split()
            taken.unlink()
            # On a full disk there is no room even for the number.
            self._untold += sum(int(line[:9]) for line in lines if line.isdecimal()) or 1

    def _leave(self) -> str | None:
        problem = self.write(patient=False)
        book, now = self._book, time.time()
        if problem is not None or book is None:
            return problem
        try:
            with book.transaction():
                left = "UPDATE servers SET closed = ?, settled = 1 WHERE id = ?"
                book.connection.execute(left, (now, book.server))
                book.add(Fact("", now, "server_closed", {"missed": self.missed}))
        except sqlite3.Error as error:
            return self._failed(error)
        self._keep_head(book)
        with suppress(sqlite3.Error):  # whoever comes next will do it
            if _size(self._wal) >= WAL_MAX:
                self._checkpoint(book)
        return None

    def _drop(self) -> None:
        if self._book is not None:
            with suppress(sqlite3.Error):
                self._book.connection.close()
        self._book = None


def _is_slow(fact: Fact) -> bool:
    output = fact.body.get("output")
    return isinstance(output, dict) and output["kept"] > _QUICK


def _is_of_the_fact(error: Exception) -> bool:
    """It is about the values, not about the file."""
    about = (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG)
    values = (sqlite3.ProgrammingError, sqlite3.InterfaceError)
    return isinstance(error, values) or (
        isinstance(error, sqlite3.Error) and error_code(error) in about
    )


def _is_busy(error: Exception) -> bool:
    codes = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
    return isinstance(error, sqlite3.Error) and error_code(error) in codes


def _size(path: str) -> int:
    with suppress(OSError):
        return os.stat(path).st_size  # noqa: PTH116  for many transactions
    return 0
