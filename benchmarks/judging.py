"""How much of the event loop a text can take: its CPU in the loop's thread, from call to start."""

import json
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import anyio

from benchmarks.labelled import CORPUS
from benchmarks.measuring import percentile
from benchmarks.nasty import LONGEST, texts
from benchmarks.rows import Goal, Of, Row
from shelltie import Config, Terminal

_GOAL = 50.0
_SIZES = (510, 4000, 16_000, LONGEST)


def measure() -> list[Row]:
    """Milliseconds of CPU for one text."""
    everyday, nasty = anyio.run(_measure)
    worst = max(nasty, key=lambda text: nasty[text])
    return [
        *_rows(f"judging: {len(everyday)} labelled commands", everyday),
        *_rows(f"judging: {len(nasty)} nasty texts (worst: {worst})", list(nasty.values())),
    ]


def _rows(what: str, times: list[float]) -> list[Row]:
    return [
        Row(f"{what}, p50", "ms", median(times)),
        Row(f"{what}, p99", "ms", percentile(times, 99), goal=Goal(Of.OURS, _GOAL)),
        Row(f"{what}, worst", "ms", max(times), goal=Goal(Of.OURS, _GOAL)),
    ]


async def _measure() -> tuple[list[float], dict[str, float]]:
    lines = CORPUS.read_text(encoding="utf-8").split("\n")
    commands = [json.loads(line)["command"] for line in lines if line]
    with TemporaryDirectory() as state:
        # What is called bash does nothing: every step is taken, and no text is obeyed.
        shell = Path(state, "bash")
        shell.symlink_to("/bin/true")
        config = Config.of(state_dir=state, shell=str(shell), safety_profiles_run_dangerous="allow")
        async with Terminal(config) as terminal:
            await terminal.run("true")
            everyday = [await _cost(terminal, command) for command in commands]
            nasty = {
                f"{name}, {len(text)}": await _cost(terminal, text)
                for size in _SIZES
                for name, text in texts(size)
            }
    return everyday, nasty


async def _cost(terminal: Terminal, text: str) -> float:
    begun = time.thread_time()
    run = await terminal.start(text)
    took = time.thread_time() - begun
    await run.wait()
    return took * 1000
