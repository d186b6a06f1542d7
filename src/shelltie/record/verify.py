"""Verification: rebuilds the tables from the hash chain and compares them."""

import json
import math
import sqlite3
from collections.abc import Container, Iterator, Mapping

from shelltie.record.chain import ChainEntry
from shelltie.record.database import add_temporary_tables, schema
from shelltie.record.facts import Fact
from shelltie.record.tables import LOST, Tables

_COLUMNS = (
    *("id", "server", "state", "command", "cwd", "client", "agent", "task", "session"),
    *("stays_open", "provider", "verdict", "category", "began", "pid", "pid_started", "ended"),
    *("duration", "exit_code", "limit_reached", "stdout", "stderr", "file", "leftovers"),
)
_TIMES = ("began", "ended")
# What an end says, also where the beginning is not kept any more.
_LAST_WORDS = frozenset(
    (
        *("state", "ended", "duration", "exit_code", "limit_reached", "stdout", "stderr"),
        *("file", "leftovers"),
    )
)
# A time is as exact as the chain is.
_OTHER = " OR ".join(
    f"abs(ours.{name} - theirs.{name}) > 2e-6 OR (ours.{name} IS NULL) != (theirs.{name} IS NULL)"
    f" OR typeof(ours.{name}) != typeof(theirs.{name})"
    if name in _TIMES
    else f"ours.{name} IS NOT theirs.{name}"
    for name in _COLUMNS
)
_BOTH = ", ".join(f"{side}.{name}" for side in ("ours", "theirs") for name in _COLUMNS)
_DIFFERENT = f"""
    SELECT {_BOTH} FROM temp.runs AS ours JOIN main.runs AS theirs ON ours.id = theirs.id
    WHERE {_OTHER}"""  # noqa: S608  our own names
_LACKING = "SELECT id FROM temp.runs WHERE id NOT IN (SELECT id FROM main.runs)"
_UNKNOWN = "SELECT id, ended FROM main.runs WHERE id NOT IN (SELECT id FROM temp.runs)"
_SAMPLE = "shape, project, CAST(at AS INTEGER), duration, silence, idle, by_limit"
_UNEVEN = f"""
    SELECT *, sum(side) FROM (SELECT {_SAMPLE}, 1 AS side FROM temp.samples
        UNION ALL SELECT {_SAMPLE}, -1 FROM main.samples)
    GROUP BY 1, 2, 3, 4, 5, 6, 7 HAVING sum(side) != 0"""  # noqa: S608  our own names

TableRow = tuple[object, ...]


class RebuiltTables:
    """Hears every entry of a journal, in order, and then compares.

    What it makes is on disk, as a chain may be longer than memory is large, and beside the
    journal's own tables, in the same connection: one that only reads may have temporary ones.
    """

    def __init__(self, file: sqlite3.Connection) -> None:
        self._file = file
        add_temporary_tables(file)
        self._servers: dict[str, Tables] = {}
        self._partly: set[str] = set()  # runs whose beginning was not heard

    def hear(self, entry: ChainEntry) -> str | None:
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
            tables = self._servers[server] = Tables(self._file, server)
        if fact.run and fact.kind in ("started", "ended", LOST):
            owner = self._servers.get(str(fact.body.get("server")), tables)
            known = self._file.execute("SELECT 1 FROM temp.runs WHERE id = ?", (fact.run,))
            if not owner.expects(fact.run) and known.fetchone() is None:
                self._partly.add(fact.run)
        tables.apply(fact)
        tables.keep()
        if fact.kind == "server_closed":
            del self._servers[server]

    def differences(self, *, whole: bool) -> Iterator[str]:
        """What the file's tables say otherwise; of a chain that is not `whole`, what is known."""
        made, kept = schema(self._file)
        yield from _schema_differences(made, kept)
        try:
            yield from self._run_differences(whole=whole)
            if "table samples" in made:  # the first version had none
                yield from self._sample_differences()
        except sqlite3.Error as error:
            yield f"the tables cannot be compared with the chain: {error}"

    def _run_differences(self, *, whole: bool) -> Iterator[str]:
        partly = frozenset[str]() if whole else self._partly
        for row in self._file.execute(_DIFFERENT):
            ours, theirs = row[: len(_COLUMNS)], row[len(_COLUMNS) :]
            yield from _columns(ours, theirs, _LAST_WORDS if ours[0] in partly else _COLUMNS)
        for (run,) in self._file.execute(_LACKING):
            if run not in partly:
                yield f"the table of runs lacks {run}, of which the chain says that it ran"
        for run, ended in self._file.execute(_UNKNOWN):
            if whole or ended is not None:  # it may run for longer than entries are kept
                yield f"the table of runs has {run}, of which the chain says nothing"

    def _sample_differences(self) -> Iterator[str]:
        for shape, project, *_, more in self._file.execute(_UNEVEN):
            which = f"one of {shape!r} in {project!r}"
            if more > 0:
                yield f"the table of samples lacks {which}"
            else:
                yield f"the table of samples has {which}, of which the chain says nothing"


def _schema_differences(made: Mapping[str, str], kept: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(made.keys() | kept.keys()):
        if name not in made:
            yield f"the file has {name}, which is not ours"
        elif name not in kept:
            yield f"the file has not {name} any more"
        elif made[name] != kept[name]:
            yield f"{name} in the file is not as we made it"


def _columns(ours: TableRow, theirs: TableRow, wanted: Container[str]) -> Iterator[str]:
    for name, our, their in zip(_COLUMNS, ours, theirs, strict=True):
        if name in wanted and not _same(our, their):
            yield f"the table of runs says of {ours[0]} {name} = {their!r}; the chain says {our!r}"


def _same(our: object, their: object) -> bool:
    if isinstance(our, float) and isinstance(their, float):
        return math.isclose(our, their, rel_tol=0, abs_tol=2e-6)
    return our == their
