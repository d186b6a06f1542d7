"""The tables of a journal, made again from its chain and compared with those in the file."""

import json
import math
import sqlite3
from collections.abc import Container, Iterator

from shelltie.record.chain import Entry
from shelltie.record.database import blank, schema
from shelltie.record.facts import Fact
from shelltie.record.tables import LOST, Tables, plain

_COLUMNS = (
    *("id", "server", "state", "command", "cwd", "client", "agent", "task", "session"),
    *("stays_open", "provider", "verdict", "category", "began", "pid", "pid_started", "ended"),
    *("duration", "exit_code", "limit_reached", "stdout", "stderr", "file", "leftovers"),
)
_TIMES = (_COLUMNS.index("began"), _COLUMNS.index("ended"))
# What an end says, also where the beginning is not kept any more.
_LAST_WORDS = frozenset(
    (
        *("state", "ended", "duration", "exit_code", "limit_reached", "stdout", "stderr"),
        *("file", "leftovers"),
    )
)
_MARKS = ", ".join("?" * len(_COLUMNS))
_RUNS = f"SELECT {', '.join(_COLUMNS)} FROM runs"  # noqa: S608  our own names
_COPY_RUNS = f"INSERT OR IGNORE INTO their_runs VALUES ({_MARKS})"  # noqa: S608  our own
_DIFFERENT = "SELECT * FROM runs EXCEPT SELECT * FROM their_runs"
_UNKNOWN = "SELECT id, ended FROM their_runs WHERE id NOT IN (SELECT id FROM runs)"
_SAMPLES = "SELECT shape, project, at, duration, silence, idle, by_limit FROM samples"
_COPY_SAMPLES = "INSERT INTO their_samples VALUES (?, ?, ?, ?, ?, ?, ?)"
_COUNTED = "SELECT *, count(*) FROM {} GROUP BY 1, 2, 3, 4, 5, 6, 7"
_OURS, _THEIRS = _COUNTED.format("samples"), _COUNTED.format("their_samples")

Row = tuple[object, ...]


class Retold:
    """Hears every entry, in order; on disk, as a chain may be longer than memory is large."""

    def __init__(self) -> None:
        self._made = blank()
        self._servers: dict[str, Tables] = {}
        self._partly: set[str] = set()  # runs whose beginning was not heard

    def close(self) -> None:
        """Forget it."""
        self._made.close()

    def hear(self, entry: Entry) -> str | None:
        """Take the next one; or say what is wrong with it."""
        try:
            body = json.loads(entry.body)
            fact = Fact(entry.run, entry.at / 1_000_000, entry.kind, dict(body))
            self._apply(entry.server, fact)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, sqlite3.Error):
            return f"entry {entry.seq} does not say what one of its kind says"
        return None

    def _apply(self, server: str, fact: Fact) -> None:
        tables = self._servers.get(server)
        if tables is None:
            tables = self._servers[server] = Tables(self._made, server)
        if fact.run and fact.kind in ("started", "ended", LOST):
            self._note_if_partly(tables, fact)
        tables.apply(fact)
        tables.keep()
        if fact.kind == "server_closed":
            del self._servers[server]

    def _note_if_partly(self, tables: Tables, fact: Fact) -> None:
        owner = self._servers.get(str(fact.body.get("server")), tables)
        known = "SELECT 1 FROM runs WHERE id = ?"
        if not owner.expects(fact.run) and not self._made.execute(known, (fact.run,)).fetchone():
            self._partly.add(fact.run)

    def differences(self, file: sqlite3.Connection, *, whole: bool) -> Iterator[str]:
        """What the file's tables say otherwise; of a chain that is not `whole`, what is known."""
        yield from _schema_differences(file)
        try:
            self._copy(file)
        except sqlite3.Error as error:
            yield f"the tables cannot be compared with the chain: {error}"
            return
        yield from self._run_differences(whole=whole)
        yield from self._sample_differences()

    def _copy(self, file: sqlite3.Connection) -> None:
        """One database can compare what two cannot."""
        self._made.execute("CREATE TABLE their_runs AS SELECT * FROM runs LIMIT 0")
        self._made.execute("CREATE TABLE their_samples AS SELECT * FROM samples LIMIT 0")
        self._made.execute("CREATE UNIQUE INDEX their_ids ON their_runs (id)")
        self._made.executemany(_COPY_RUNS, map(_timed_run, file.execute(_RUNS)))
        self._made.executemany(_COPY_SAMPLES, map(_timed_sample, file.execute(_SAMPLES)))

    def _run_differences(self, *, whole: bool) -> Iterator[str]:
        for said in self._made.execute(_DIFFERENT):
            query = "SELECT * FROM their_runs WHERE id = ?"
            kept = self._made.execute(query, said[:1]).fetchone()
            partly = not whole and said[0] in self._partly
            if kept is not None:
                yield from _columns(said, kept, _LAST_WORDS if partly else _COLUMNS)
            elif not partly:
                yield f"the table of runs lacks {said[0]}, of which the chain says that it ran"
        for run, ended in self._made.execute(_UNKNOWN):
            if whole or ended is not None:  # it may run for longer than entries are kept
                yield f"the table of runs has {run}, of which the chain says nothing"

    def _sample_differences(self) -> Iterator[str]:
        for shape, project, *_ in self._made.execute(f"{_OURS} EXCEPT {_THEIRS}"):
            yield f"the table of samples lacks one of {shape!r} in {project!r}"
        for shape, project, *_ in self._made.execute(f"{_THEIRS} EXCEPT {_OURS}"):
            yield f"the table of samples has one of {shape!r} in {project!r} of its own"


def _schema_differences(file: sqlite3.Connection) -> Iterator[str]:
    made, kept = schema(file)
    for name in sorted(made.keys() | kept.keys()):
        if name not in made:
            yield f"the file has {name}, which is not ours"
        elif name not in kept:
            yield f"the file has not {name} any more"
        elif made[name] != kept[name]:
            yield f"{name} in the file is not as we made it"


def _columns(said: Row, kept: Row, wanted: Container[str]) -> Iterator[str]:
    for name, one, other in zip(_COLUMNS, said, kept, strict=True):
        if one != other and name in wanted:
            yield f"the table of runs says of {said[0]} {name} = {other!r}; the chain says {one!r}"


def _timed_run(row: Row) -> Row:
    values = [*map(_storable, row)]
    for place in _TIMES:
        values[place] = _micros(values[place])
    return tuple(values)


def _timed_sample(row: Row) -> Row:
    shape, project, at, *rest = map(_storable, row)
    return (shape, project, _micros(at), *rest)


def _micros(value: object) -> object:
    """As exact as the chain is."""
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    return round(value * 1_000_000) / 1_000_000


def _storable(value: object) -> object:
    return plain(value) if isinstance(value, str) else value
