"""What a trial costs: the first one in a large tree, and the next, beside sandboxed commands."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measuring import take_turns
from benchmarks.rows import Goal, Of, Row
from shelltie import Config, Terminal

_DIRECTORIES, _FILES = 100, 100
_CHANGE = "echo x >> d1/f1"


def measure() -> list[Row]:
    """Only where bubblewrap is."""
    return asyncio.run(_trials()) if shutil.which("bwrap") else []


async def _trials() -> list[Row]:
    with TemporaryDirectory() as name:
        workspace = Path(name) / "project"
        _fill(workspace)

        async def first(*, trial: bool) -> None:
            async with _terminal(name) as fresh:
                await _run(fresh, workspace, trial=trial)

        async with _terminal(name) as terminal:
            tried, sandboxed = await take_turns(
                lambda: first(trial=True), lambda: first(trial=False), rounds=7, calls=1
            )
            again, inside = await take_turns(
                lambda: _run(terminal, workspace, trial=True),
                lambda: _run(terminal, workspace, trial=False),
                rounds=7, calls=2,
            )  # fmt: skip
    return [
        Row(
            "first trial in 10,000 files, against a first sandboxed command",
            "ms", tried.p50, sandboxed.p50, tried.p95, sandboxed.p95, Goal(Of.RATIO, 2.0),
        ),
        Row(
            "next trial there, against the next command in a living sandbox",
            "ms", again.p50, inside.p50, again.p95, inside.p95,
        ),
    ]  # fmt: skip


async def _run(terminal: Terminal, workspace: Path, *, trial: bool) -> None:
    where = str(workspace)
    result = await terminal.run(
        _CHANGE, trial=trial, isolation="sandbox", workspace=where, cwd=where
    )
    assert result.status == "success", result


def _fill(workspace: Path) -> None:
    for directory in range(_DIRECTORIES):
        place = workspace / f"d{directory}"
        place.mkdir(parents=True)
        for file in range(_FILES):
            (place / f"f{file}").write_text("x\n", encoding="utf-8")


@asynccontextmanager
async def _terminal(name: str) -> AsyncIterator[Terminal]:
    async with Terminal(Config.of(state_dir=f"{name}/state", trial_keep=3)) as terminal:
        yield terminal
