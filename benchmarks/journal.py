"""What it costs to record every run, in an empty journal and in a full one."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.measuring import TRUE, Samples, Subject, take_turns
from benchmarks.rows import Goal, Of, Row
from shelltie import Config, Terminal
from shelltie.events import CommandAsked, Event, RunEnded, RunReady
from shelltie.model import Caller, ExitStatus, Limits, Outcome, Printed, RunId, State
from shelltie.record.append import ChainWriter
from shelltie.record.database import open_for_writing
from shelltie.record.facts import FactMaker
from shelltie.record.past_runs import latest

_FEW, _MANY, _MILLION = 100, 100_000, 1_000_000
_BATCH = 1000


def measure() -> list[Row]:
    """A run with a journal beside one without; and one whose journal has many runs in it."""
    with TemporaryDirectory() as place:
        few, many, million = (Path(place) / name for name in ("few", "many", "million"))
        fill(few / "journal.db", _FEW)
        fill(many / "journal.db", _MANY)
        million.mkdir()
        copyfile(many / "journal.db", million / "journal.db")
        multiply(million / "journal.db", _MILLION // _MANY)
        off, on, required, full, fuller = asyncio.run(_measure(few, many, million))
        listed = [_listing_time(place / "journal.db") for place in (few, million)]
    return [
        _row("library run, recorded", on, off, None),
        Row("its CPU in the server", "ms", on.cpu_each, off.cpu_each),
        _row("library run, audit.required", required, off, None),
        _row(f"library run after {_MANY:,} runs", full, on, Goal(Of.RATIO, 1.05)),
        _row(f"library run after {_MILLION:,} runs", fuller, on, Goal(Of.RATIO, 1.05)),
        Row(f"`history` after {_MILLION:,} runs, against after {_FEW}", "ms", listed[1], listed[0]),
    ]


async def _measure(few: Path, many: Path, million: Path) -> list[Samples]:
    with TemporaryDirectory() as place:
        async with AsyncExitStack() as stack:

            async def subject(state: Path, **settings: bool) -> Subject:
                # What is old would be removed meanwhile, and everything in there is.
                kept = {"audit_keep_days": 0, "audit_keep_bytes": 0}
                config = Config.of(state_dir=str(state), **kept, **settings)
                terminal = await stack.enter_async_context(Terminal(config))
                return lambda: terminal.run([TRUE])

            subjects = [
                await subject(Path(place) / "off", audit_enabled=False),
                await subject(few),
                await subject(Path(place) / "required", audit_required=True),
                await subject(many),
                await subject(million),
            ]
            return await take_turns(*subjects, rounds=24, calls=20)


def fill(path: Path, runs: int) -> None:
    """A journal with that many runs in it, as they are really written."""
    connection = open_for_writing(path, durable=False)
    book, scribe = ChainWriter(connection, "filling"), FactMaker()
    for start in range(0, runs, _BATCH):
        events = [
            event
            for number in range(start, min(start + _BATCH, runs))
            for event in _events(RunId(f"{number:026}"), 1_700_000_000.0 + number)
        ]
        with book.transaction():
            for fact in filter(None, map(scribe.fact, events)):
                book.add(fact)
    connection.close()


def multiply(path: Path, times: int) -> None:
    """As many rows again and again, in the tables: to write them one by one would take minutes."""
    connection = open_for_writing(path, durable=False)
    (runs,) = connection.execute("SELECT count(*) FROM runs").fetchone()
    (entries,) = connection.execute("SELECT max(seq) FROM entries").fetchone()
    columns = [row[1] for row in connection.execute("PRAGMA table_info(runs)")][1:]
    others = ", ".join(columns)
    connection.execute("BEGIN")
    for time in range(1, times):
        connection.execute(
            f"INSERT INTO runs SELECT printf('%026d', id + ?), {others} FROM runs WHERE id < ?",
            (time * runs, f"{runs:026}"),
        )
        connection.execute(
            "INSERT INTO entries SELECT seq + ?, at, server, printf('%026d', run + ?), kind, body,"
            " hash FROM entries WHERE seq <= ?",
            (time * entries, time * runs, entries),
        )
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _listing_time(path: Path) -> float:
    """Milliseconds for what `shelltie history` asks the journal, at best."""
    spans = []
    for _ in range(3):
        begun = perf_counter()
        latest(path, 20)
        spans.append(perf_counter() - begun)
    return min(spans) * 1000


def _events(run: RunId, at: float) -> Iterator[Event]:
    outcome = Outcome(State.FINISHED, ExitStatus(0), 0.1)
    yield CommandAsked(run, at, f"make target-{run}", "/project", Caller("client"))
    yield RunReady(run, at, "local", "none", Limits(30.0, 10.0, "category quick"))
    yield RunEnded(run, at, outcome, Printed(12, 0, digest="0" * 64))


def _row(what: str, ours: Samples, floor: Samples, goal: Goal | None) -> Row:
    return Row(what, "ms", ours.p50, floor.p50, ours.p95, floor.p95, goal)
