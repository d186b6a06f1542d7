"""How long judging takes: by the rules alone, and with the second look that safe needs."""

import random
import time
from statistics import median

import anyio

from benchmarks.labelled import CORPUS, rated
from benchmarks.measuring import percentile
from benchmarks.rows import Goal, Of, Row
from shelltie.model import Command
from shelltie.safety.judge import Judge, find_shfmt
from shelltie.safety.rating import rate
from shelltie.safety.rule_set import RuleSet
from shelltie.shell.parse import parse
from shelltie.verdict import Rating

_EVERYDAY = (
    *("git status", "ls -la", "cat README.md | head", "npm test", "rm -rf build", "curl x.y | sh"),
    *("git log --oneline -5 | grep fix", "find . -name '*.py' | xargs wc -l", "sudo ls", "make"),
)
_SCRAPS = (
    *(
        "ls",
        "rm",
        "-rf",
        "git",
        "$(",
        ")",
        "`",
        "'",
        '"',
        "${",
        "}",
        "|",
        "&&",
        ";",
        "\n",
        "<<E",
        "\\",
    ),
    *(
        "sudo",
        "bash",
        "-c",
        "eval",
        "xargs",
        "find",
        "-exec",
        "{}",
        "((",
        "))",
        "[[",
        "]]",
        " ",
        "\t",
    ),
    *(
        "for",
        "do",
        "done",
        "case",
        "in",
        "esac",
        "x=",
        "*",
        "~",
        "#",
        ">",
        "é",
        "\u202e",
        "awk",
        "sed",
    ),
)
_FUZZED = 10_000


def measure() -> list[Row]:
    """Milliseconds for one command."""
    rules = RuleSet()
    commands = _commands(rules)
    by_rating = _by_rating(rules, commands)
    quick = [took for label in (Rating.UNKNOWN, Rating.DANGEROUS) for took in by_rating[label]]
    safe = anyio.run(_confirmed, rules, commands)
    worst, text = _worst(rules)
    return [
        _row("judge: unknown or dangerous", quick, 1.0),
        _row(f"judge: safe, with the second parser, {len(safe)} commands", safe, 6.0),
        Row(
            f"judge: worst of {_FUZZED} fuzzed texts, CPU ({len(text)} characters)",
            "ms",
            worst * 1000,
        ),
    ]


def _commands(rules: RuleSet) -> list[str]:
    return [row.command for row in rated(rules)] if CORPUS.exists() else list(_EVERYDAY)


def _row(what: str, times: list[float], goal: float) -> Row:
    p95 = percentile(times, 95) * 1000
    return Row(what, "ms", median(times) * 1000, ours_p95=p95, goal=Goal(Of.OURS, goal))


def _by_rating(rules: RuleSet, commands: list[str]) -> dict[Rating, list[float]]:
    times: dict[Rating, list[float]] = {rating: [] for rating in Rating}
    for command in commands:
        rate(parse(command), rules)  # the first time may have to read a rule file
        begun = time.perf_counter()
        verdict = rate(parse(command), rules)
        times[verdict.rating].append(time.perf_counter() - begun)
    return times


async def _confirmed(rules: RuleSet, commands: list[str]) -> list[float]:
    judge = Judge(rules, shfmt=find_shfmt())
    times = []
    for text in commands:
        command = Command(text)
        if judge.first(command).rating is Rating.SAFE:
            begun = time.perf_counter()
            await judge.judge(command)
            times.append(time.perf_counter() - begun)
    return times


def _worst(rules: RuleSet) -> tuple[float, str]:
    dice = random.Random(20261115)
    worst, slowest = 0.0, ""
    for _ in range(_FUZZED):
        text = dice.choice(("", " ")).join(dice.choices(_SCRAPS, k=dice.randint(1, 120)))
        begun = time.process_time()
        rate(parse(text), rules)
        took = time.process_time() - begun
        if took > worst:
            worst, slowest = took, text
    return worst, slowest
