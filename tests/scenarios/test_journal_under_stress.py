"""The journal among others, with damaged rows, and with what can never be written."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from shelltie.record import reading
from shelltie.record.facts import Fact
from shelltie.record.writer import Terms, Writer


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
    return [line.entry.kind for line in reading.entries(journal)]


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
            for line in reading.entries(journal)
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
