"""Crash recovery: ends what a dead server left running, and closes its records.

Only processes are touched of which it is certain that they are left over: the very process that
was started for the run, or one that carries the run's mark in its environment.
"""

import json
import os
import select
import signal
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from shelltie.basics.frozen import frozen
from shelltie.events import RunLost
from shelltie.keeper import process_identity
from shelltie.keeper.process_identity import ProcessIdentity
from shelltie.model import RunId
from shelltie.record.append import ChainWriter
from shelltie.record.facts import Body, Fact
from shelltie.record.tables import LOST

MARK = "SHELLTIE_RUN"  # in the environment of every command of ours
_GONE_TIMEOUT = 2.0  # seconds for what was killed to be gone
_SERVERS = """
    SELECT id, pid, started, boot, namespace FROM servers WHERE settled = 0 AND id != ?"""
# Of all that died at once: each reads a whole table.
_IN_TABLE = """
    SELECT server, id, command, cwd, client, began, stays_open, session, pid, pid_started
    FROM runs
    WHERE ended IS NULL AND server IN (SELECT value FROM json_each(?))"""
_RELEASED = """
    SELECT server, id, command, cwd, client, began, stays_open, session, pid, pid_started
    FROM runs
    WHERE ended IS NULL AND provider = 'staying'
        AND server NOT IN (SELECT id FROM servers WHERE settled = 0)"""
_IN_CHAIN = """
    SELECT server, run, at, kind, body FROM entries
    WHERE kind IN ('ready', 'ended', 'refused', 'session_named')
        AND server IN (SELECT value FROM json_each(?))
        AND NOT EXISTS (SELECT 1 FROM runs WHERE id = run)
    ORDER BY seq"""


@frozen
class _Orphan:
    """A run whose server is dead."""

    run: RunId
    command: str
    cwd: str
    client: str
    began: float
    stays_open: bool
    session: str
    leader: ProcessIdentity | None = None


def recover(
    book: ChainWriter,
    spools: Path,
    inside: str | None = None,
    staying: Callable[[], Collection[str]] = tuple,
) -> list[RunLost]:
    """Settle what dead servers left; what of their output is still there is among the spools.

    `inside` is the run that we are in ourselves, which is nothing to be ended by us. What is
    `staying` by then has not ended with its server: somebody holds it, or will.
    Raises: sqlite3.Error.
    """
    dead = _dead_servers(book.connection, book.server)
    left = _orphans(book.connection, dead)
    kept = {*staying(), inside}
    orphans = {server: [one for one in left[server] if one.run not in kept] for server in dead}
    ended = _end_leftovers({one.run: one for some in orphans.values() for one in some})
    lost: list[RunLost] = []
    for server, some in orphans.items():
        found = [_lost(one, tuple(ended.get(one.run, ())), spools) for one in some]
        lost += _settle(book, server, dead[server].pid, found)
    return lost + _settle_released(book, spools, staying)


def _settle_released(
    book: ChainWriter, spools: Path, staying: Callable[[], Collection[str]]
) -> list[RunLost]:
    """What stayed when its server left, or died, and whose keeper has ended since."""
    if not book.connection.execute(_RELEASED).fetchone():
        return []
    with book.transaction():
        rows = book.connection.execute(_RELEASED).fetchall()
        kept = (
            staying()
        )  # after the look at them, or one that was just released would count as gone
        gone = [_of_row(row, None) for row in rows if row[1] not in kept]
        found = [_lost(one, (), spools) for one in gone]
        for one in found:
            book.add(Fact(one.run, one.at, LOST, {"server": "", **_body(one)}))
    return found


def abandoned(
    connection: sqlite3.Connection, spools: Path, staying: Collection[str]
) -> list[RunLost]:
    """What the next server that starts will find; nothing is changed.

    Raises: sqlite3.Error.
    """
    orphans = _orphans(connection, _dead_servers(connection, ""))
    left = (one for some in orphans.values() for one in some if one.run not in staying)
    return [_lost(one, (), spools) for one in left]


def _dead_servers(connection: sqlite3.Connection, own: str) -> dict[str, ProcessIdentity]:
    noted = connection.execute(_SERVERS, (own,)).fetchall()
    servers = {str(server): ProcessIdentity(*who) for server, *who in noted}
    return {server: one for server, one in servers.items() if not one.alive}


def _orphans(
    connection: sqlite3.Connection, dead: Mapping[str, ProcessIdentity]
) -> dict[str, list[_Orphan]]:
    """What the table says, and what the chain says about those that had no time to get there."""
    if not dead:
        return {}
    orphans: dict[str, dict[str, _Orphan]] = {server: {} for server in dead}
    names = (json.dumps(list(dead)),)
    for server, run, at, kind, body in connection.execute(_IN_CHAIN, names):
        if kind == "ready":
            orphans[server][run] = _from_chain(run, at, body)
        elif kind != "session_named":
            orphans[server].pop(run, None)
        elif run in orphans[server]:
            session = str(_known(body).get("session", ""))
            orphans[server][run] = replace(orphans[server][run], session=session)
    for row in connection.execute(_IN_TABLE, names):
        orphans[row[0]][row[1]] = _of_row(row, dead[row[0]])
    return {server: list(runs.values()) for server, runs in orphans.items()}


def _of_row(row: Sequence[object], died: ProcessIdentity | None) -> _Orphan:
    _, run, command, cwd, client, began, stays, session, pid, started = row
    leader = None
    if died is not None and isinstance(pid, int) and isinstance(started, str) and started:
        leader = replace(died, pid=pid, started=started)
    return _orphan(run, (command, cwd, client, session), began, stays, leader)


def _from_chain(run: object, at: object, body: object) -> _Orphan:
    known = _known(body)
    began = at / 1_000_000 if isinstance(at, int) else None
    words = tuple(known.get(name, "") for name in ("command", "cwd", "client", "session"))
    return _orphan(run, words, began, known.get("staysOpen"), None)


def _known(body: object) -> Body:
    with suppress(ValueError, TypeError):  # somebody changed it: its run is lost all the same
        return dict(json.loads(str(body)))
    return {}


def _orphan(
    run: object,
    words: tuple[object, ...],
    began: object,
    stays: object,
    leader: ProcessIdentity | None,
) -> _Orphan:
    """Whatever a row holds: what is none of what it should be is left out."""
    command, cwd, client, session = map(str, words)
    when = float(began) if isinstance(began, int | float) else 0.0
    return _Orphan(RunId(str(run)), command, cwd, client, when, bool(stays), session, leader)


def _lost(one: _Orphan, ended: tuple[int, ...], spools: Path) -> RunLost:
    file, size = spools / f"{one.run}.log", 0
    with suppress(OSError, ValueError):  # what is no name of a file is none
        size = file.stat().st_size
    return RunLost(
        run=one.run,
        at=time.time(),
        command=one.command,
        cwd=one.cwd,
        client=one.client,
        began=one.began,
        stays_open=one.stays_open,
        ended=ended,
        file=str(file) if size else None,
        size=size,
        session=one.session,
    )


def _settle(book: ChainWriter, server: str, pid: int, found: list[RunLost]) -> list[RunLost]:
    """Write it down, unless another server has done so meanwhile."""
    with book.transaction():
        mark = "UPDATE servers SET settled = 1, closed = ? WHERE id = ? AND settled = 0"
        now = time.time()
        if not book.connection.execute(mark, (now, server)).rowcount:
            return []
        book.add(Fact("", now, "server_died", {"server": server, "pid": pid}))
        for one in found:
            book.add(Fact(one.run, one.at, LOST, {"server": server, **_body(one)}))
    return found


def _body(lost: RunLost) -> Body:
    return {
        "command": lost.command,
        "cwd": lost.cwd,
        "client": lost.client,
        "began": lost.began,
        "staysOpen": lost.stays_open,
        "session": lost.session,
        "file": lost.file,
        "kept": lost.size,
        "leftovers": list(lost.ended),
    }


def _end_leftovers(orphans: Mapping[RunId, _Orphan]) -> dict[RunId, list[int]]:
    """Kill whoever is left of these runs, until nobody is; who it was, by run."""
    ended: dict[RunId, list[int]] = {}
    deadline = time.monotonic() + _GONE_TIMEOUT
    while orphans and time.monotonic() < deadline:
        killed = [(run, pid) for pid, started, run in _leftovers(orphans) if _kill(pid, started)]
        if not killed:  # nobody is left, or nobody whom we may touch
            break
        for run, pid in killed:
            ended[run] = [*ended.get(run, []), pid]
    return {run: sorted(set(pids)) for run, pids in ended.items()}


def _leftovers(orphans: Mapping[RunId, _Orphan]) -> Iterator[tuple[int, str, RunId]]:
    for run, one in orphans.items():
        if one.leader is not None and one.leader.comparable and one.leader.alive:
            yield one.leader.pid, one.leader.started, run
    for pid, value in process_identity.marked(MARK):
        started = process_identity.started(pid)
        if value in orphans and started is not None and pid != os.getpid():
            yield pid, started, RunId(value)


def _kill(pid: int, started: str) -> bool:
    """Kill this very process, and wait a moment for its end."""
    with suppress(OSError):
        if not hasattr(os, "pidfd_open"):  # macOS: the pid could be another's by now, in theory
            if process_identity.started(pid) == started:
                os.kill(pid, signal.SIGKILL)
                return True
            return False
        handle = os.pidfd_open(pid)
        try:
            # Only now: the handle is for whoever had the pid when it was made.
            if process_identity.started(pid) != started:
                return False
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            select.select([handle], [], [], _GONE_TIMEOUT / 4)
        finally:
            os.close(handle)
        return True
    return False
