"""Runs of the past, as the journal's table of them says."""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from shelltie.errors import TerminalError
from shelltie.frozen import frozen
from shelltie.model import State
from shelltie.record.database import explained, is_span, open_for_reading
from shelltie.record.reading import Unreadable
from shelltie.record.tables import LOST, plain

_COLUMNS = """
    SELECT id, state, command, cwd, client, provider, category, began, duration, exit_code,
        limit_reached, stdout, stderr, file FROM runs"""
_PREFIX_MIN = 4


class NoSuchRun(TerminalError):
    """The journal knows no run with this id, or several."""


@frozen
class PastRun:
    """One run. What is not known, or not yet, is None; `file` has what it printed."""

    id: str
    state: str
    command: str
    cwd: str
    client: str
    provider: str
    category: str | None
    began: float
    duration: float | None
    exit_code: int | None
    limit: str | None
    stdout: int | None
    stderr: int | None
    file: str | None

    @property
    def well(self) -> bool:
        """It ran to its own end and said 0."""
        return self.state == State.FINISHED and self.exit_code == 0

    @property
    def running(self) -> bool:
        """It has no end yet."""
        return self.state in (State.CREATED, State.RUNNING)

    @property
    def cut(self) -> bool:
        """It was ended: by a limit, by somebody, or because its server died."""
        return self.state in (State.TIMED_OUT, State.KILLED, LOST)

    @property
    def ending(self) -> str:
        """How it ended, in a word or two."""
        if self.state == State.FINISHED:
            return f"exit {self.exit_code}"
        if self.state == State.TIMED_OUT:
            return "timeout" if self.limit == "total" else "silent"
        return "not started" if self.state == State.SPAWN_FAILED else self.state

    def to_json(self) -> dict[str, object]:
        """For programs."""
        return {
            "runId": self.id,
            "began": self.began,
            "at": _moment(self.began),
            "state": self.state,
            "exitCode": self.exit_code,
            "timeoutReason": self.limit,
            "durationSec": self.duration,
            "command": self.command,
            "cwd": self.cwd,
            "client": self.client,
            "provider": self.provider,
            "category": self.category,
            "stdoutBytes": self.stdout,
            "stderrBytes": self.stderr,
            "outputFile": self.file,
        }


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def latest(path: Path, count: int, *, below: str = "", bad_only: bool = False) -> list[PastRun]:
    """The last ones, the newest first; only those in a directory `below` that one, if given.

    Raises: Unusable, Unreadable.
    """
    # Ids sort by time, so no other index is needed.
    wanted = "WHERE (? = '' OR cwd = ? OR substr(cwd, 1, ?) = ?)"
    if bad_only:
        wanted += " AND ended IS NOT NULL AND NOT (state = 'finished' AND exit_code = 0)"
    below = plain(below)
    start = below.rstrip("/") + "/"
    values = (below, below, len(start), start, count)
    return list(_rows(path, f"{_COLUMNS} {wanted} ORDER BY id DESC LIMIT ?", values))


def find(path: Path, name: str) -> PastRun:
    """The run with this id; its first characters will do.

    Raises: NoSuchRun, Unusable, Unreadable.
    """
    prefix = name.strip().upper().removeprefix("TERM_")  # as ACP calls it
    if len(prefix) < _PREFIX_MIN or not prefix.isalnum():
        raise NoSuchRun(f"write at least {_PREFIX_MIN} letters of a run's id, not {name[:40]!r}")
    query = f"{_COLUMNS} WHERE id >= ? AND id < ? ORDER BY id LIMIT 2"
    found = list(_rows(path, query, (prefix, prefix + "~")))
    if not found:
        raise NoSuchRun(f"no run begins with {prefix[:40]}: `shelltie history` lists them")
    if len(found) > 1:
        raise NoSuchRun(f"several runs begin with {prefix}: write more of it")
    return found[0]


def count_by_client(path: Path, agent: str) -> dict[str, int]:
    """How many runs there were for an agent since its own began, by client.

    Raises: Unusable, Unreadable.
    """
    query = "SELECT client, count(*) FROM runs WHERE id > ? AND agent = ? GROUP BY client"
    try:
        with closing(open_for_reading(path)) as connection:
            return dict(connection.execute(query, (agent, agent)))
    except sqlite3.Error as error:
        raise Unreadable(f"{path}: it cannot be read: {explained(error, path)}") from error


def _past_run(row: Sequence[Any]) -> PastRun:
    """Somebody may have changed it: what is no number is not known."""
    run = PastRun(*row)
    if isinstance(run.began, float) and (run.duration is None or is_span(run.duration)):
        return run
    return replace(
        run,
        began=run.began if is_span(run.began) else 0.0,
        duration=run.duration if is_span(run.duration) else None,
    )


def _rows(path: Path, query: str, values: Sequence[object]) -> Iterator[PastRun]:
    try:
        with closing(open_for_reading(path)) as connection:
            for row in connection.execute(query, values):
                yield _past_run(row)
    except sqlite3.Error as error:
        raise Unreadable(f"{path}: it cannot be read: {explained(error, path)}") from error
