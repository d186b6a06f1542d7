"""Read-only journal queries: audit, lost runs, sessions; past runs have their own module."""

import json
import sqlite3
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from shelltie.basics.frozen import frozen
from shelltie.basics.times import iso_utc
from shelltie.errors import JournalUnreadable, TerminalError
from shelltie.events import RunLost
from shelltie.model import PastSession, RunId
from shelltie.record import recovery
from shelltie.record.chain import ChainEntry, Checked, Head, check
from shelltie.record.database import explained, open_for_reading
from shelltie.record.facts import CORRECTED
from shelltie.record.tables import plain
from shelltie.record.verify import RebuiltTables

_LATELY = 24 * 3600.0
_LOST_MAX = 20
_ENTRIES = "SELECT seq, at, server, run, kind, body, hash FROM entries"
_LOST_RUNS = """
    SELECT id, ended, command, cwd, client, began, stays_open, file, leftovers, session FROM runs
    WHERE state = 'lost' AND (? = '' OR client IN ('', ?)) AND client != 'shelltie'"""
_LOST = f"{_LOST_RUNS} AND ended > ? ORDER BY ended DESC, began DESC LIMIT ?"
_LOST_ONE = f"{_LOST_RUNS} AND ? IN (id, session) ORDER BY began DESC LIMIT 1"
_SESSION = """
    SELECT state, exit_code, ended FROM runs
    WHERE session = ? AND session != '' AND (? = '' OR client IN ('', ?))
    ORDER BY began DESC LIMIT 1"""
# Ten digits were not counted, but chosen by chance; a task's id ends otherwise.
_LARGEST_NUMBER = """
    SELECT max(CAST(substr(session, 6) AS INTEGER)) FROM runs
    WHERE session != '' AND session GLOB 'term-[0-9]*' AND substr(session, 6) NOT GLOB '*[^0-9]*'
    AND length(session) < 15"""
_DIFFERENCES_MAX = 20


@frozen
class AuditLine:
    """An entry with its hash."""

    entry: ChainEntry
    hash: str

    def to_json(self) -> dict[str, object]:
        """For programs: the body's own names, between who and when, and the hash.

        Where somebody changed it, what is no body is told as it stands, as `damaged`.
        """
        one = self.entry
        return {
            "seq": one.seq,
            "at": moment(one.at),
            "server": one.server,
            "runId": one.run or None,
            "kind": one.kind,
            **_body(one.body),
            "hash": self.hash,
        }


def moment(at: int) -> str:
    """When it was, in UTC, from microseconds; or what is there instead."""
    try:
        return iso_utc(at / 1_000_000, "microseconds")
    except (TypeError, ValueError, OverflowError, OSError):  # somebody changed it
        return str(at)


def _body(text: str) -> dict[str, object]:
    try:
        body = json.loads(text)
    except (ValueError, TypeError):
        body = None
    return body if isinstance(body, dict) else {"damaged": str(text)}


def verify(path: Path, heads: Sequence[Head] = ()) -> Checked:
    """Look at every entry.

    Raises: JournalUnusable, JournalUnreadable.
    """
    with closing(_opened(path)) as connection:
        try:
            retold = RebuiltTables(connection)
            connection.execute("BEGIN")  # all of it as it is now, whoever writes meanwhile
            broken = connection.execute("PRAGMA quick_check(10)").fetchall()
            senseless: list[str] = []
            told = _heard(_lines(connection, f"{_ENTRIES} ORDER BY seq"), retold, senseless)
            checked = check(told, heads)
            others = retold.differences(whole=checked.first <= 1)
            different = list(islice(others, _DIFFERENCES_MAX))
        except sqlite3.Error as error:
            raise JournalUnreadable(f"{path}: it is damaged: {error}") from error
    damaged = [f"the file is damaged: {row[0]}" for row in broken if row[0] != "ok"]
    return replace(checked, problems=(*checked.problems, *senseless, *damaged, *different))


def _heard(
    lines: Iterator[tuple[ChainEntry, str]], retold: RebuiltTables, senseless: list[str]
) -> Iterator[tuple[ChainEntry, str]]:
    """The same, while the tables are made again from them."""
    for entry, digest in lines:
        problem = retold.hear(entry)
        if problem is not None and len(senseless) < _DIFFERENCES_MAX:
            senseless.append(problem)
        yield entry, digest


def entries(path: Path, after: int = 0) -> Iterator[AuditLine]:
    """Every entry, in order.

    Raises: JournalUnusable, JournalUnreadable.
    """
    with closing(_opened(path)) as connection:
        query = f"{_ENTRIES} WHERE seq > ? ORDER BY seq"
        yield from _guarded(path, connection, query, (after,))


def tail(path: Path, count: int) -> list[AuditLine]:
    """The last ones, in order.

    Raises: JournalUnusable, JournalUnreadable.
    """
    with closing(_opened(path)) as connection:
        query = f"{_ENTRIES} ORDER BY seq DESC LIMIT ?"
        return list(_guarded(path, connection, query, (count,)))[::-1]


def corrected(path: Path, count: int) -> list[AuditLine]:
    """The last texts that were rated safe and stopped by a read-only view, in order.

    Raises: JournalUnusable, JournalUnreadable.
    """
    with closing(_opened(path)) as connection:
        query = f"{_ENTRIES} WHERE kind = ? ORDER BY seq DESC LIMIT ?"
        return list(_guarded(path, connection, query, (CORRECTED, count)))[::-1]


def lost(path: Path, client: str = "") -> list[RunLost]:
    """What ran in servers that died, lately, the newest first; none if nobody can tell.

    What is `client`'s, or was nobody's; everything for nobody.
    """
    who = plain(client)
    since = time.time() - _LATELY
    return [_as_lost(row) for row in _rows(path, _LOST, (who, who, since, _LOST_MAX))]


def lost_one(path: Path, name: str, client: str = "") -> RunLost | None:
    """The lost run or session of that id, however old; none if nobody can tell."""
    who = plain(client)
    return next(map(_as_lost, _rows(path, _LOST_ONE, (who, who, plain(name)))), None)


def past_session(path: Path, session: str, client: str = "") -> PastSession | None:
    """What became of the session of that id; none if nobody can tell."""
    who = plain(client)
    return next(
        (PastSession(*row) for row in _rows(path, _SESSION, (plain(session), who, who))), None
    )


def largest_session_number(path: Path) -> int:
    """The largest number of a session's id, of those that were counted; 0 if nobody can tell."""
    return next((int(largest or 0) for (largest,) in _rows(path, _LARGEST_NUMBER)), 0)


def abandoned(path: Path, spools: Path, staying: Collection[str] = ()) -> list[RunLost]:
    """What dead servers left, and nobody has settled yet; what is `staying` has not ended."""
    try:
        with closing(_opened(path)) as connection:
            return recovery.abandoned(connection, spools, staying)
    except (TerminalError, sqlite3.Error):
        return []


def _rows(path: Path, query: str, values: Sequence[object] = ()) -> list[Any]:
    """What a query finds: nothing where the journal cannot be read."""
    try:
        with closing(_opened(path)) as connection:
            return connection.execute(query, values).fetchall()
    except (TerminalError, sqlite3.Error):
        return []


def _as_lost(row: Sequence[object]) -> RunLost:
    run, at, command, cwd, client, began, stays_open, file, leftovers, session = row
    size = 0
    with suppress(OSError):
        size = 0 if file is None else Path(str(file)).stat().st_size
    return RunLost(
        run=RunId(str(run)),
        at=float(str(at)),
        command=str(command),
        cwd=str(cwd),
        client=str(client),
        began=float(str(began)),
        stays_open=bool(stays_open),
        ended=tuple(json.loads(str(leftovers))),
        file=str(file) if size else None,
        size=size,
        session=str(session),
    )


def _opened(path: Path) -> sqlite3.Connection:
    try:
        return open_for_reading(path)
    except sqlite3.Error as error:
        raise JournalUnreadable(f"{path}: it cannot be read: {explained(error, path)}") from error


def _guarded(
    path: Path, connection: sqlite3.Connection, query: str, values: Sequence[object]
) -> Iterator[AuditLine]:
    try:
        for entry, digest in _lines(connection, query, values):
            yield AuditLine(entry, digest)
    except sqlite3.Error as error:
        raise JournalUnreadable(f"{path}: it is damaged: {error}") from error


def _lines(
    connection: sqlite3.Connection, query: str, values: Sequence[object] = ()
) -> Iterator[tuple[ChainEntry, str]]:
    for *fields, digest in connection.execute(query, values):
        yield ChainEntry(*fields), digest


def count_by_client(path: Path, agent: str) -> dict[str, int]:
    """How many runs there were for an agent since its own began, by client.

    Raises: JournalUnusable, JournalUnreadable.
    """
    query = "SELECT client, count(*) FROM runs WHERE id > ? AND agent = ? GROUP BY client"
    try:
        with closing(open_for_reading(path)) as connection:
            return dict(connection.execute(query, (agent, agent)))
    except sqlite3.Error as error:
        raise JournalUnreadable(f"{path}: it cannot be read: {explained(error, path)}") from error
