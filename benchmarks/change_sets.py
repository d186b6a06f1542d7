"""What a change set costs: to read, apply and undo it, beside comparing and copying the files."""

import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TypeVar

from benchmarks.rows import Row
from shelltie.trials.apply import apply_changes
from shelltie.trials.change_set import ChangeSet
from shelltie.trials.overlay_upper import file_clock, read_change_set
from shelltie.trials.undo import undo


def measure() -> list[Row]:
    """1,000 changed files of 2 kB in a workspace of 10,000, beside comparing and copying them."""
    ours, floors = dict[str, list[float]](), dict[str, list[float]]()
    for _ in range(3):
        with TemporaryDirectory() as folder:
            _one_trial(Path(folder), ours, floors)
    floors["undo"] = floors["apply"]
    names = {
        "read": "change set of 1,000 files, against comparing their bytes",
        "apply": "applying it, against copying the files",
        "undo": "undoing that, against copying the files",
    }
    return [
        Row(names[key], "ms", 1000 * median(ours[key]), 1000 * median(floors[key]))
        for key in ("read", "apply", "undo")
    ]


def _one_trial(place: Path, ours: dict[str, list[float]], floors: dict[str, list[float]]) -> None:
    started = _changed_tree(place, files=10_000, changed=1000)
    undo_dir = place / "undo"
    undo_dir.mkdir()
    read = _timed(ours, "read", lambda: _read(place, started))
    _timed(floors, "read", lambda: _compared(place))
    _timed(floors, "apply", lambda: shutil.copytree(place / "upper", place / "copy"))
    _timed(ours, "apply", lambda: apply_changes(read, undo_dir=undo_dir))
    _timed(ours, "undo", lambda: undo(undo_dir))


_T = TypeVar("_T")


def _timed(times: dict[str, list[float]], key: str, work: Callable[[], _T]) -> _T:
    begin = perf_counter()
    result = work()
    times.setdefault(key, []).append(perf_counter() - begin)
    return result


def _changed_tree(place: Path, *, files: int, changed: int) -> int:
    """A workspace, and an upper directory as an overlay leaves it; when the trial began."""
    for number in range(files):
        path = place / f"workspace/{number % 100}/{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("line of text\n" * 150, encoding="utf-8")
    started = file_clock(place)
    for number in range(changed):
        path = place / f"upper/{number % 100}/{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("line of text\n" * 149 + "another one.\n", encoding="utf-8")
    return started


def _read(place: Path, started: int) -> ChangeSet:
    return read_change_set(place / "workspace", place / "upper", started_ns=started)


def _compared(place: Path) -> None:
    for path in (place / "upper").rglob("*"):
        if path.is_file():
            (place / "workspace" / path.relative_to(place / "upper")).read_bytes()
            path.read_bytes()
