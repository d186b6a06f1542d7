"""Duration history by command shape and project, read from the journal through a cache."""

import sqlite3
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import anyio

from shelltie.basics.frozen import mutable
from shelltie.errors import JournalUnreadable, TerminalError
from shelltie.events import CommandRefused, Event, RunEnded, RunReady
from shelltie.model import Sample
from shelltie.record.database import explained, is_span, open_for_reading
from shelltie.record.facts import sample_of
from shelltie.record.tables import plain

_KEPT = 200  # of one shape
_SHAPES_MAX = 256
_FRESH = 600.0  # seconds; other servers learn, too
_ROOTS = (".git", ".hg", ".svn", ".jj", ".shelltie.toml")
_LAST = """
    SELECT duration, silence, idle, by_limit FROM samples WHERE shape = ? AND project = ?
    ORDER BY at DESC LIMIT ?"""
_SHAPES = """
    SELECT shape, project FROM samples WHERE ? IN ('', project)
    GROUP BY shape, project ORDER BY count(*) DESC, shape LIMIT ?"""

Key = tuple[str, str]
K = TypeVar("K")
V = TypeVar("V")


@mutable
class _Remembered:
    samples: deque[Sample]
    at: float


class History:
    """Subscribe `hear` to a bus. Without a journal it knows what it heard itself."""

    hears = frozenset((RunReady, CommandRefused, RunEnded))

    def __init__(self, path: Path | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._known: OrderedDict[Key, _Remembered] = OrderedDict()
        self._projects: OrderedDict[str, str] = OrderedDict()
        self._begun: dict[str, RunReady] = {}
        # SQLite keeps the descriptor of each reader that there ever was beside others.
        self._turn = anyio.CapacityLimiter(1)

    async def recall(self, shape: str, cwd: str) -> tuple[str, Sequence[Sample]]:
        """The project of that directory, and runs of that shape in it, the last one last."""
        known = self._known.get((shape, self._projects.get(cwd, "")))
        if known is not None and self._clock() - known.at <= _FRESH:
            return self._projects[cwd], tuple(known.samples)
        # Not on the loop: a directory may be far away, and a disk slow.
        project = await anyio.to_thread.run_sync(project_of, cwd)
        samples = await anyio.to_thread.run_sync(self._read, shape, project, limiter=self._turn)
        _put(self._projects, cwd, project)
        before = self._known.get((shape, project))
        if self._path is None and before is not None:
            samples = [*before.samples]
        known = _Remembered(deque(samples, _KEPT), self._clock())
        _put(self._known, (shape, project), known)
        return project, tuple(known.samples)

    def _read(self, shape: str, project: str) -> list[Sample]:
        return [] if self._path is None else last(self._path, shape, project)

    def hear(self, event: Event) -> None:
        """Remember a run that ends."""
        match event:
            case RunReady() if event.shape:
                self._begun[event.run] = event
            case CommandRefused():
                self._begun.pop(event.run, None)
            case RunEnded():
                ready = self._begun.pop(event.run, None)
                sample = None if ready is None else sample_of(ready, event.outcome)
                if ready is not None and sample is not None:
                    known = self._known.get((ready.shape, ready.project))
                    if known is not None:
                        known.samples.append(sample)
            case _:
                pass


def _put(cache: OrderedDict[K, V], key: K, value: V) -> None:
    cache[key] = value
    cache.move_to_end(key)
    if len(cache) > _SHAPES_MAX:
        cache.popitem(last=False)


def project_of(cwd: str) -> str:
    """The directory that its version control, or its settings, are in; else the directory."""
    here = Path(cwd)
    for place in (here, *here.parents):
        if any((place / name).exists() for name in _ROOTS):
            return str(place)
    return cwd


def last(path: Path, shape: str, project: str) -> list[Sample]:
    """The last runs of that shape, in order; none if nobody can tell."""
    try:
        with closing(open_for_reading(path)) as connection:
            rows = connection.execute(_LAST, (plain(shape), plain(project), _KEPT)).fetchall()
    except (sqlite3.Error, TerminalError):
        return []
    return [
        Sample(took, silence, idle, bool(by))
        for took, silence, idle, by in reversed(rows)
        if all(map(is_span, (took, silence, idle)))  # somebody may have changed it
    ]


def shapes(path: Path, project: str = "", most: int = 100) -> list[tuple[str, str]]:
    """Every shape that was run, with its project, the most frequent first.

    Raises: JournalUnusable, JournalUnreadable.
    """
    try:
        with closing(open_for_reading(path)) as connection:
            return list(connection.execute(_SHAPES, (plain(project), most)))
    except sqlite3.Error as error:
        raise JournalUnreadable(f"{path}: it cannot be read: {explained(error, path)}") from error
