"""Journal queries for the history of commands: the latest, with filters, and one by its id."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from shelltie.basics.frozen import frozen
from shelltie.basics.times import iso_utc
from shelltie.errors import JournalUnreadable, NoRecordedRun
from shelltie.model import State
from shelltie.record.database import explained, is_span, open_for_reading
from shelltie.record.tables import LOST, plain

REFUSED = "refused"
_OURS = "shelltie"  # the client of what nobody but us wanted to run
_PREFIX_MIN = 4
_COLUMNS = """
    SELECT id, state, command, cwd, client, provider, category, began, duration, exit_code,
        limit_reached, stdout, stderr, file, session FROM runs"""
_FAILED = "(ended IS NOT NULL AND NOT (state = 'finished' AND exit_code = 0))"
_REFUSALS = """
    SELECT run, at, body FROM entries WHERE kind = 'refused' AND at >= ? ORDER BY seq DESC"""

_MARKED = ("asked", "answered", "warned")
_MARKS = "SELECT run, kind, at FROM entries ORDER BY seq DESC"
_MARKS_MAX = 100_000  # entries


def end_of(state: str, exit_code: int | None, limit: str | None) -> str:
    """How a run ended, in the words for people, everywhere the same."""
    if state == State.FINISHED:
        return f"exit {exit_code}"
    if state == State.TIMED_OUT:
        return f"timeout ({limit})" if limit else "timeout"
    return _ENDS.get(state, state)


_ENDS: Mapping[str, str] = {
    State.SPAWN_FAILED: "not started",
    State.KILLED: "stopped",
    State.CREATED: "starting",
}


@frozen
class PastRun:
    """A command that ran, or was refused. What is not known, or not yet, is None.

    `file` has what it printed; `reason` says why it was refused.
    """

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
    session: str = ""
    reason: str | None = None

    @property
    def well(self) -> bool:
        """It ran to its own end and said 0."""
        return self.state == State.FINISHED and self.exit_code == 0

    @property
    def running(self) -> bool:
        """It has no end yet."""
        return self.state in (State.CREATED, State.RUNNING)

    @property
    def refused(self) -> bool:
        """It was never started: a rule or a person said no."""
        return self.state == REFUSED

    @property
    def cut(self) -> bool:
        """It was ended: by a limit, by somebody, or because its server died."""
        return self.state in (State.TIMED_OUT, State.KILLED, LOST)

    @property
    def ending(self) -> str:
        """How it ended, in a word or two."""
        return end_of(self.state, self.exit_code, self.limit)

    def to_json(self) -> dict[str, object]:
        """For programs."""
        return {
            "runId": self.id,
            "began": self.began,
            "at": iso_utc(self.began, "seconds"),
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
            **({} if self.reason is None else {"reason": self.reason}),
        }


@frozen
class RunMark:
    """A moment of a run: it was asked about, answered, warned."""

    run: str
    kind: str
    at: float


@frozen
class HistoryFilter:
    """Which commands are wanted; without `failed` and `refused` it is every kind of end.

    `below` is a directory; `client` and `text` are parts of a name and of a command.
    """

    below: str = ""
    client: str = ""
    text: str = ""
    since: float = 0.0
    failed: bool = False
    refused: bool = False

    def matches(self, run: PastRun) -> bool:
        """Whether a refused command is wanted; for runs SQLite says so."""
        inside = (run.cwd == self.below, run.cwd.startswith(self.below.rstrip("/") + "/"))
        return (
            (not self.below or any(inside))
            and self.client.lower() in run.client.lower()
            and self.text.lower() in run.command.lower()
            and run.client != _OURS
        )


def latest(path: Path, count: int, wanted: HistoryFilter = HistoryFilter()) -> list[PastRun]:  # noqa: B008  frozen
    """The last ones, the newest first.

    Raises: JournalUnusable, JournalUnreadable.
    """
    every = not (wanted.failed or wanted.refused)
    found: list[PastRun] = []
    if every or wanted.failed:
        found += _latest_runs(path, count, wanted)
    if every or wanted.refused:
        found += islice(filter(wanted.matches, _refusals(path, wanted.since)), count)
    return sorted(found, key=lambda run: run.began, reverse=True)[:count]


def _latest_runs(path: Path, count: int, wanted: HistoryFilter) -> Iterator[PastRun]:
    below = plain(wanted.below)
    start = below.rstrip("/") + "/"
    # Ids sort by time, so no other index is needed.
    query = f"""{_COLUMNS}
        WHERE client != '{_OURS}' AND (? = '' OR cwd = ? OR substr(cwd, 1, ?) = ?)
        AND instr(lower(client), ?) > 0 AND instr(lower(command), ?) > 0 AND began >= ?
        {f"AND {_FAILED}" if wanted.failed else ""} ORDER BY id DESC LIMIT ?"""
    parts = (plain(wanted.client.lower()), plain(wanted.text.lower()), wanted.since)
    yield from _rows(path, query, (below, below, len(start), start, *parts, count))


def _refusals(path: Path, since: float) -> Iterator[PastRun]:
    try:
        with closing(open_for_reading(path)) as connection:
            for run, at, body in connection.execute(_REFUSALS, (round(since * 1_000_000),)):
                if (known := entry_body(body)) is not None and is_span(at):
                    yield _refusal(str(run), at / 1_000_000, known)
    except sqlite3.Error as error:
        raise JournalUnreadable(f"{path}: it cannot be read: {explained(error, path)}") from error


def _refusal(run: str, at: float, known: Mapping[str, Any]) -> PastRun:
    command, cwd, client, provider, message = (
        str(known.get(name) or "") for name in ("command", "cwd", "client", "provider", "message")
    )
    nothing = (None,) * 6
    return PastRun(run, REFUSED, command, cwd, client, provider, None, at, *nothing, reason=message)


def find(path: Path, name: str) -> PastRun:
    """The run with this id, or the session; the first characters of an id will do.

    Raises: NoRecordedRun, JournalUnusable, JournalUnreadable.
    """
    prefix = name.strip().upper().removeprefix("TERM_")  # as ACP calls it
    query = f"""{_COLUMNS}
        WHERE (id >= ? AND id < ?) OR (session = ? AND session != '' AND stays_open)
        ORDER BY id DESC LIMIT 2"""
    long = len(prefix) >= _PREFIX_MIN and prefix.isalnum()
    first = (prefix, prefix + "~") if long else ("~", "~")
    found = list(_rows(path, query, (*first, plain(name.strip().lower()))))
    if not found and long:
        found = [run for run in _refusals(path, 0.0) if run.id.startswith(prefix)][:2]
    if len(found) == 1 or (found and found[0].session == name.strip().lower()):
        return found[0]
    if found:
        raise NoRecordedRun(f"several runs match {name!r}: write more of the id")
    raise NoRecordedRun(no_run(name))


def no_run(name: str) -> str:
    """What is said of an id that nothing has, everywhere the same."""
    short = f" (at least {_PREFIX_MIN} characters)" if len(name.strip()) < _PREFIX_MIN else ""
    return f"no run matches {name.strip()[:60]!r}{short}; see `shelltie ps` and `shelltie history`"


def facts_of(path: Path, run: str) -> list[tuple[str, float, dict[str, Any]]]:
    """All that is on record about one run, in order: the kind, when, and what.

    Raises: JournalUnusable, JournalUnreadable.
    """
    query = "SELECT kind, at, body FROM entries WHERE run = ? ORDER BY seq"
    try:
        with closing(open_for_reading(path)) as connection:
            rows = connection.execute(query, (run,)).fetchall()
    except sqlite3.Error as error:
        raise JournalUnreadable(f"{path}: it cannot be read: {explained(error, path)}") from error
    return [(str(kind), at / 1_000_000, entry_body(body) or {}) for kind, at, body in rows]


def marks_since(path: Path, since: float) -> list[RunMark]:
    """What to mark on a timeline, the newest first.

    Raises: JournalUnusable, JournalUnreadable.
    """
    found: list[RunMark] = []
    try:
        with closing(open_for_reading(path)) as connection:
            # They are in the order of time: from the newest on, no index is needed.
            for run, kind, at in islice(connection.execute(_MARKS), _MARKS_MAX):
                if at < since * 1_000_000:
                    break
                if kind in _MARKED:
                    found.append(RunMark(str(run), str(kind), at / 1_000_000))
    except sqlite3.Error as error:
        raise JournalUnreadable(f"{path}: it cannot be read: {explained(error, path)}") from error
    return found


def count_answers(path: Path, since: float) -> dict[bool, int]:
    """How often somebody said yes, and how often no or nothing.

    Raises: JournalUnusable, JournalUnreadable.
    """
    query = "SELECT body FROM entries WHERE kind = 'answered' AND at >= ?"
    try:
        with closing(open_for_reading(path)) as connection:
            bodies = connection.execute(query, (round(since * 1_000_000),)).fetchall()
    except sqlite3.Error as error:
        raise JournalUnreadable(f"{path}: it cannot be read: {explained(error, path)}") from error
    return dict(Counter((entry_body(body) or {}).get("allowed") is True for (body,) in bodies))


def entry_body(text: object) -> dict[str, Any] | None:
    """What an entry says; nothing if it is no JSON object."""
    try:
        body = json.loads(str(text))
    except ValueError:  # somebody changed it
        return None
    return body if isinstance(body, dict) else None


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
        raise JournalUnreadable(f"{path}: it cannot be read: {explained(error, path)}") from error
