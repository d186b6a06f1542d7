"""The journal among others, with damaged rows, and with what can never be written."""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from shelltie.record import anchor, past_runs, queries
from shelltie.record.append import ChainWriter
from shelltie.record.database import WAL_MAX, open_for_writing
from shelltie.record.facts import Fact
from shelltie.record.recovery import recover
from shelltie.record.retention import trim
from shelltie.record.writer import Terms, Writer
from shelltie.settings.all_settings import AuditSettings, Retention

# Forks, as starting a Python for each would spread them over a second.
AT_ONCE = """
import os, sys, time
from pathlib import Path
from shelltie.record.facts import Fact
from shelltie.record.recovery import recover
from shelltie.record.retention import trim
from shelltie.settings.all_settings import Retention
from shelltie.record.writer import Terms, Writer
def write(path, go):
    writer = Writer(Terms(path, path.parent))
    writer.take([Fact("", time.time(), "session_opened", {})])
    while time.time() < go:
        pass
    problem = writer.write(patient=True)
    if problem and "locked" not in problem:
        print(problem, flush=True)
for number in range(25):
    path, go, pids = Path(sys.argv[1]) / f"{number}.db", time.time() + 0.05, []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            write(path, go)
            os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
"""
RUN = {
    **dict.fromkeys(("command", "cwd", "client", "agent", "task", "session", "provider"), "x" * 50),
    "limits": {"category": None},
}
END = {"state": "finished", "exitCode": 0, "duration": 1.0, "limit": None}
SAMPLE = {"shape": "make", "project": "/", "silence": 0.0, "idle": 0.0, "byLimit": False}


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def writer(journal: Path) -> Iterator[Writer]:
    made = Writer(Terms(journal, journal.parent))
    yield made
    made.close()


def fact(kind: str = "session_opened", **body: object) -> Fact:
    return Fact("", time.time(), kind, body)


def kinds(journal: Path) -> list[str]:
    return [line.entry.kind for line in queries.entries(journal)]


@pytest.mark.proves("T4-19")
def test_what_can_never_be_written_is_counted_and_holds_nothing_up(
    writer: Writer, journal: Path
) -> None:
    ended = Fact("01J", time.time(), "ended", {"state": "finished", "duration": {1, 2}})
    writer.take([fact(), fact("leaked", pids=object()), ended, fact("session_closed")])

    problems = [writer.write(patient=False), writer.write(patient=True), writer.write(patient=True)]

    assert [problem is None for problem in problems] == [False, False, True]
    assert "a fact cannot be written" in str(problems[0])
    assert writer.missed == 2
    assert kinds(journal) == ["server_opened", "missed", "session_opened", "session_closed"]
    assert (
        next(
            line.to_json()["facts"]
            for line in queries.entries(journal)
            if line.entry.kind == "missed"
        )
        == 2
    )


def test_a_server_that_cannot_settle_the_dead_registers_once(writer: Writer, journal: Path) -> None:
    dead = Writer(Terms(journal, journal.parent))
    dead.write(patient=True)
    dead.close()
    with closing(sqlite3.connect(journal, isolation_level=None)) as somebody:
        somebody.execute("UPDATE servers SET settled = 0, started = 'never'")
        refuse = "BEFORE UPDATE ON servers BEGIN SELECT RAISE(ABORT, 'not now'); END"
        somebody.execute(f"CREATE TRIGGER refuse {refuse}")
        problems = [_written(writer) for _ in range(3)]
        somebody.execute("DROP TRIGGER refuse")
        problems.append(_written(writer))

    assert problems == [None] * 4
    assert kinds(journal).count("server_opened") == 2
    assert kinds(journal).count("server_died") == 1


def _written(writer: Writer) -> str | None:
    writer.take([fact()])
    return writer.write(patient=True)


def test_servers_that_make_the_file_at_once_all_take_it_for_theirs(tmp_path: Path) -> None:
    words = [sys.executable, "-c", AT_ONCE, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        told, _ = process.communicate(timeout=100)

    assert (process.returncode, told) == (0, "")


def ran(book: ChainWriter, run: str, at: float) -> None:
    book.add(Fact(run, at, "ready", dict(RUN)))
    book.add(Fact(run, at, "ended", {**END, "sample": dict(SAMPLE)}))


def test_short_servers_beside_an_idle_one_do_not_fill_the_disk(
    writer: Writer, journal: Path
) -> None:
    assert _written(writer) is None
    largest = 0
    for _ in range(60):
        short = Writer(Terms(journal, journal.parent))
        short.take([fact(text="x" * 150_000)])
        assert short.write(patient=True) is None
        short.keep_house()
        short.close(5)
        largest = max(largest, Path(f"{journal}-wal").stat().st_size)

    assert 2 * WAL_MAX < 60 * 150_000
    assert largest < 1.5 * WAL_MAX


def test_an_anchor_that_cannot_be_written_is_told_and_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, why in (("pipe", ""), (".", "directory"), ("heads", None)):
        settings = AuditSettings(anchor=str(tmp_path / name))
        terms = Terms(tmp_path / "journal.db", tmp_path, settings)
        writer = Writer(terms)
        assert _written(writer) is None
        assert writer.keep_house() is None
        assert (writer.unanchored is None) == (why is None)
        assert (why or "") in str(writer.unanchored)
        writer.close()
    assert len(anchor.read(tmp_path / "heads").heads) == 2


@pytest.mark.parametrize("retention", [Retention(size=1), Retention(size=4096)])
def test_a_size_that_nothing_fits_in_is_not_tried_for_ever(
    journal: Path, retention: Retention
) -> None:
    with closing(open_for_writing(journal, durable=False)) as connection:
        book = ChainWriter(connection, "server")
        with book.transaction():
            for number in range(3000):
                ran(book, f"{number:026}", 1.0)

        assert any(not trim(book, retention, 2.0) for _ in range(10))
        assert not trim(book, retention, 2.0)
    assert kinds(journal).count("trimmed") < 5
    assert queries.verify(journal).problems == ()


def test_of_what_is_a_little_too_much_only_a_little_goes(journal: Path) -> None:
    with closing(open_for_writing(journal, durable=False)) as connection:
        book = ChainWriter(connection, "server")
        with book.transaction():
            for number in range(1000):
                ran(book, f"{number:026}", 1.0)
        (size,) = connection.execute("PRAGMA page_count").fetchone()
        retention = Retention(size=int(size * 4096 * 0.9))
        while trim(book, retention, 2.0):
            pass

    assert 1000 < len(kinds(journal)) < 1950
    assert queries.verify(journal).problems == ()


def test_an_entry_of_the_future_neither_stays_nor_takes_others_with_it(journal: Path) -> None:
    day, now = 86400.0, 1_800_000_000.0
    moments = {
        "old": now - 100 * day,
        "future": now + 3650 * day,
        "older": now - 95 * day,
        "young": now - 10 * day,
    }
    with closing(open_for_writing(journal, durable=False)) as connection:
        book = ChainWriter(connection, "server")
        with book.transaction():
            for name, at in moments.items():
                ran(book, name, at)
        while trim(book, Retention(days=90), now):
            pass
        left = [name for (name,) in connection.execute("SELECT id FROM runs")]
        samples = connection.execute("SELECT at FROM samples").fetchall()

    assert (left, samples) == (["young"], [(moments["young"],)])
    assert queries.verify(journal).problems == ()


def test_a_trimmed_journal_is_proved_as_far_as_it_goes(journal: Path) -> None:
    with closing(open_for_writing(journal, durable=False)) as connection:
        book = ChainWriter(connection, "server")
        with book.transaction():
            book.add(Fact("begun", 1.0, "ready", dict(RUN)))
            book.add(Fact("endless", 1.0, "ready", dict(RUN)))
            book.add(Fact("endless", 1.0, "started", {"pid": 1}))
            ran(book, "gone", 1.0)
            book.add(Fact("begun", 1e6, "ended", dict(END)))
            ran(book, "kept", 1e6)
        trim(book, Retention(days=1), 1e6)
        whole = queries.verify(journal)
        connection.execute("UPDATE runs SET exit_code = 1 WHERE id = 'begun'")
        changed = queries.verify(journal)

    assert (whole.first, whole.problems) == (6, ())
    assert whole.trimmed == 10**12
    assert "begun exit_code = 1" in " ".join(changed.problems)


def test_many_dead_servers_are_settled_by_one_look_at_the_chain(journal: Path) -> None:
    looks: list[str] = []
    with closing(open_for_writing(journal, durable=False)) as connection:
        book = ChainWriter(connection, "living")
        with book.transaction():
            for number in range(30):
                row = (f"dead {number}", 1, "never", "another boot", "", 1.0, None, 0)
                marks = ",".join("?" * 8)
                connection.execute(f"INSERT INTO servers VALUES ({marks})", row)
        connection.set_trace_callback(looks.append)
        recover(book, journal.parent)

    assert sum("FROM entries" in look and "ready" in look for look in looks) == 1
    assert kinds(journal).count("server_died") == 30


def test_what_somebody_could_not_write_before_leaving_is_told_by_the_next(
    writer: Writer, journal: Path
) -> None:
    assert _written(writer) is None
    with closing(sqlite3.connect(journal, isolation_level=None)) as somebody:
        somebody.execute("BEGIN IMMEDIATE")
        writer.take([fact(), fact()])
        assert "locked" in str(writer.close())
        somebody.execute("ROLLBACK")
    for _ in range(2):
        following = Writer(Terms(journal, journal.parent))
        assert following.write(patient=True) is None
        following.close()

    told = [line.to_json() for line in queries.entries(journal) if line.entry.kind == "missed"]
    assert [one["facts"] for one in told] == [2]


def _drop_indexes(journal: sqlite3.Connection) -> None:
    """Take away what the third version has brought."""
    for name in ("entries_refused", "entries_answered", "runs_of_sessions"):
        journal.execute(f"DROP INDEX {name}")


def test_a_journal_of_the_second_version_is_read_and_brought_further(
    writer: Writer, journal: Path
) -> None:
    assert _written(writer) is None
    writer.close()
    with closing(sqlite3.connect(journal, isolation_level=None)) as somebody:
        new = _names(somebody)
        _drop_indexes(somebody)
        somebody.execute("PRAGMA user_version = 2")
    before = past_runs.latest(journal, 10)
    assert queries.verify(journal).problems == ()

    with closing(open_for_writing(journal, durable=False)) as opened:
        assert _names(opened) == new

    assert queries.verify(journal).problems == ()
    assert past_runs.latest(journal, 10) == before


def _names(journal: sqlite3.Connection) -> set[str]:
    return {name for (name,) in journal.execute("SELECT name FROM sqlite_schema")}


def test_what_few_runs_are_is_found_without_reading_all(writer: Writer, journal: Path) -> None:
    assert _written(writer) is None
    writer.close()
    refused = "SELECT run FROM entries WHERE kind = 'refused' AND at >= 0 ORDER BY seq DESC"
    answered = "SELECT body FROM entries WHERE kind = 'answered' AND at >= 0"
    session = "SELECT id FROM runs WHERE session = 'a' AND session != ''"

    with closing(sqlite3.connect(journal)) as opened:
        for query in (refused, answered, session):
            plan = opened.execute(f"EXPLAIN QUERY PLAN {query}").fetchall()
            assert "SEARCH" in plan[0][3], query


def test_a_journal_of_the_first_version_is_proved_as_it_was_made(
    writer: Writer, journal: Path
) -> None:
    assert _written(writer) is None
    writer.close()
    with closing(sqlite3.connect(journal, isolation_level=None)) as somebody:
        _drop_indexes(somebody)
        somebody.execute("DROP TABLE samples")
        changed = queries.verify(journal).problems
        somebody.execute("PRAGMA user_version = 1")

    assert changed
    assert queries.verify(journal).problems == ()
