"""Whether a run costs more the more there is: commands that live, output, rules of the user's."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measuring import TRUE, fresh_terminal, take_turns
from benchmarks.rows import Goal, Of, Row
from shelltie.safety.rating import rate
from shelltie.safety.rule_set import RuleFile, RuleSet
from shelltie.shell.parse import parse

_LIVING = (100, 1000)
_FEW = 10
_LITTLE, _MUCH = 16, 160  # MB of output
_RULES = (100, 1000)
_RULE = """
[[rule]]
command = "tool-{number}"
verdict = "unknown"
code = "changes_state"
why = "a tool of ours"
match = ["tool-{number} a"]
not_match = ["ls"]
"""
_JUDGED = ("tool-7 a", "git status", "ls -la | wc -l", "find . -name '*.py'", "make all")


def measure() -> list[Row]:
    """Each beside the same with little of it."""
    living = [asyncio.run(_beside_others(count)) for count in _LIVING]
    return [*living, asyncio.run(_output()), *_rules()]


async def _beside_others(count: int) -> Row:
    """A run while so many commands live, and while ten do."""
    async with fresh_terminal() as many, fresh_terminal() as few:
        for terminal, number in ((many, count), (few, _FEW)):
            for _ in range(number):
                await terminal.start(["/bin/sleep", "600"], timeout=600, silence=0)
        floor, ours = await take_turns(
            lambda: few.run([TRUE]), lambda: many.run([TRUE]), rounds=15, calls=10
        )
    what = f"library run of {TRUE} beside {count} that live, CPU in the server"
    return Row(what, "ms", ours.cpu_each, floor.cpu_each, goal=Goal(Of.RATIO, 1.1))


async def _output() -> Row:
    """The CPU in the server for a megabyte of much output, and of little."""
    async with fresh_terminal() as terminal:

        async def printed(size: int) -> None:
            await terminal.run(["/usr/bin/head", "-c", f"{size}M", "/dev/zero"])

        floor, ours = await take_turns(
            lambda: printed(_LITTLE), lambda: printed(_MUCH), rounds=6, calls=2
        )
    what = f"a megabyte of {_MUCH} that a run prints, against of {_LITTLE}, CPU in the server"
    spans = ours.cpu_each / _MUCH, floor.cpu_each / _LITTLE
    return Row(what, "ms", *spans, goal=Goal(Of.RATIO, 1.1))


def _rules() -> Iterator[Row]:
    """To judge a few commands that were not judged before, with so many rules beside ours."""
    with TemporaryDirectory() as place:
        floor = _judging(RuleSet())
        for count in _RULES:
            file = Path(place, f"{count}.toml")
            file.write_text(
                "".join(_RULE.format(number=number) for number in range(count)), encoding="utf-8"
            )
            what = f"judging with {count} rules of the user's, CPU"
            ours = _judging(RuleSet((RuleFile(file),)))
            yield Row(what, "ms", ours, floor, goal=Goal(Of.RATIO, 1.1))


def _judging(rules: RuleSet) -> float:
    """Milliseconds of CPU for one command, at best."""
    scripts = [parse(text) for text in _JUDGED]
    spans = []
    for _ in range(200):
        begun = time.process_time()
        for script in scripts:
            rate(script, rules)
        spans.append(time.process_time() - begun)
    return min(spans) / len(scripts) * 1000
