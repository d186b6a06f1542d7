"""A run of a command that does nothing, in the library."""

import asyncio

from benchmarks.measuring import TRUE, Samples, bare_spawn, fresh_terminal, take_turns
from benchmarks.rows import Goal, Of, Row

_BASH = ("/bin/bash", "--noprofile", "--norc", "-c", "true")


def measure() -> list[Row]:
    """The library against asyncio's subprocess, with and without a shell."""
    bare_true, run_true, bare_bash, run_bash = asyncio.run(_measure())
    cpu = run_true.cpu_each, bare_true.cpu_each
    return [
        _row(f"library run of {TRUE}, p50", bare_true, run_true, 1.25),
        Row("its CPU in the server", "ms", *cpu, goal=Goal(Of.RATIO, 1.3)),
        _row("library run of bash -c true, p50", bare_bash, run_bash, 1.2),
    ]


async def _measure() -> list[Samples]:
    async with fresh_terminal() as terminal:
        return await take_turns(
            lambda: bare_spawn(TRUE),
            lambda: terminal.run([TRUE]),
            lambda: bare_spawn(*_BASH),
            lambda: terminal.run("true"),
            rounds=30,
            calls=20,
        )


def _row(what: str, floor: Samples, ours: Samples, most: float) -> Row:
    return Row(what, "ms", ours.p50, floor.p50, ours.p95, floor.p95, Goal(Of.RATIO, most))
