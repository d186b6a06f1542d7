"""What it costs to record every run, in an empty journal and in a full one."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measuring import TRUE, Samples, Subject, take_turns
from benchmarks.rows import Goal, Of, Row
from shelltie import Config, Terminal
from shelltie.events import CommandAsked, Event, RunEnded, RunReady
from shelltie.model import Caller, ExitStatus, Limits, Outcome, Printed, RunId, State
from shelltie.record.append import ChainWriter
from shelltie.record.database import open_for_writing
from shelltie.record.facts import FactMaker

_FEW, _MANY = 100, 100_000
_BATCH = 1000


def measure() -> list[Row]:
    """A run with a journal beside one without; and one whose journal has 100,000 runs in it."""
    with TemporaryDirectory() as place:
        few, many = Path(place) / "few", Path(place) / "many"
        fill(few / "journal.db", _FEW)
        fill(many / "journal.db", _MANY)
        off, on, required, full = asyncio.run(_measure(few, many))
    return [
        _row("library run, recorded", on, off, None),
        Row("its CPU in the server", "ms", on.cpu_each, off.cpu_each),
        _row("library run, audit.required", required, off, None),
        _row(f"library run after {_MANY:,} runs", full, on, Goal(Of.RATIO, 1.1)),
    ]


async def _measure(few: Path, many: Path) -> list[Samples]:
    with TemporaryDirectory() as place:
        async with AsyncExitStack() as stack:

            async def subject(state: Path, **settings: bool) -> Subject:
                config = Config.of(state_dir=str(state), **settings)
                terminal = await stack.enter_async_context(Terminal(config))
                return lambda: terminal.run([TRUE])

            subjects = [
                await subject(Path(place) / "off", audit_enabled=False),
                await subject(few),
                await subject(Path(place) / "required", audit_required=True),
                await subject(many),
            ]
            return await take_turns(*subjects, rounds=30, calls=20)


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


def _events(run: RunId, at: float) -> Iterator[Event]:
    outcome = Outcome(State.FINISHED, ExitStatus(0), 0.1)
    yield CommandAsked(run, at, f"make target-{run}", "/project", Caller("client"))
    yield RunReady(run, at, "local", "none", Limits(30.0, 10.0, "category quick"))
    yield RunEnded(run, at, outcome, Printed(12, 0, digest="0" * 64))


def _row(what: str, ours: Samples, floor: Samples, goal: Goal | None) -> Row:
    return Row(what, "ms", ours.p50, floor.p50, ours.p95, floor.p95, goal)
