"""How much of the event loop a text can take: its CPU in the loop's thread, from call to start."""

import json
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import anyio

from benchmarks.labelled import CORPUS, rated
from benchmarks.measuring import percentile, rounds_of
from benchmarks.nasty import LONGEST, texts
from benchmarks.rows import Goal, Of, Row
from shelltie import Config, Terminal
from shelltie.assemble_parts import judge_of
from shelltie.model import Command
from shelltie.safety.rule_set import RuleSet
from shelltie.shell.parse import parse
from shelltie.verdict import Rating

_WORST, _P99, _SAFE = 50.0, 5.0, 2.0  # milliseconds
_PAUSE = 0.01  # seconds between two commands
_EACH = 10_000  # commands at most: all that are labelled
_SIZES = (510, 4000, 16_000, LONGEST)


def measure() -> list[Row]:
    """Milliseconds of CPU for one text."""
    everyday, nasty = anyio.run(_measure)
    worst = max(nasty, key=lambda text: nasty[text])
    return [
        *_rows(f"judging: {len(everyday)} labelled commands", everyday, _P99),
        *_rows(f"judging: {len(nasty)} nasty texts (worst: {worst})", list(nasty.values()), _WORST),
        *anyio.run(_safe_rows),
    ]


def _rows(what: str, times: list[float], p99: float) -> list[Row]:
    return [
        Row(f"{what}, p50", "ms", median(times)),
        Row(f"{what}, p99", "ms", percentile(times, 99), goal=Goal(Of.OURS, p99)),
        Row(f"{what}, worst", "ms", max(times), goal=Goal(Of.OURS, _WORST)),
    ]


async def _safe_rows() -> list[Row]:
    """From the text to a verdict that is confirmed, on the wall; no text comes twice."""
    judge = judge_of(Config(), Path("/usr"), stays=True)
    plain, second = list[float](), list[float]()
    for one in rated(RuleSet()):
        if one.got is not Rating.SAFE:
            continue
        kind = plain if parse(one.command).plain else second
        if len(kind) == rounds_of(_EACH):
            continue
        begun = time.perf_counter()
        await judge.judge(Command(one.command))
        kind.append((time.perf_counter() - begun) * 1000)
        await anyio.sleep(_PAUSE)  # an agent reads what was printed
    await judge.close()
    return [
        Row(f"safe verdict: {len(times)} {how}, p50", "ms", median(times), goal=goal)
        for how, times in (("plain commands", plain), ("that shfmt parses as well", second))
        for goal in [Goal(Of.OURS, _SAFE)]
    ]


async def _measure() -> tuple[list[float], dict[str, float]]:
    lines = CORPUS.read_text(encoding="utf-8").split("\n")
    commands = [json.loads(line)["command"] for line in lines if line]
    commands = commands[: rounds_of(_EACH)]
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
                for size in _SIZES[: rounds_of(len(_SIZES))]
                for name, text in texts(size)
            }
    return everyday, nasty


async def _cost(terminal: Terminal, text: str) -> float:
    begun = time.thread_time()
    run = await terminal.start(text)
    took = time.thread_time() - begun
    await run.wait()
    return took * 1000
