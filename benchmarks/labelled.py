"""The labelled commands that show what the rules are worth, and the report about them."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from shelltie.safety.rating import rate
from shelltie.safety.rule_set import RuleSet
from shelltie.shell.parse import parse
from shelltie.verdict import Rating, Verdict

CORPUS = Path(__file__).resolve().parent.parent / "tests" / "corpus" / "commands.jsonl"


@dataclass(frozen=True, slots=True)
class Labelled:
    """A command, what it should be, and what we say."""

    command: str
    label: Rating
    tags: frozenset[str]
    verdict: Verdict

    @property
    def got(self) -> Rating:
        """What we say, in one word."""
        return self.verdict.rating


def rated(rules: RuleSet) -> list[Labelled]:
    """Every labelled command, rated."""
    # Not splitlines: some commands hold other line separators.
    lines = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").split("\n") if line]
    return [
        Labelled(
            line["command"],
            Rating(line["verdict"]),
            frozenset(line["tags"]),
            rate(parse(line["command"]), rules),
        )
        for line in lines
    ]


def report(rows: Sequence[Labelled]) -> Iterator[str]:
    """A table, then every miss with its reasons."""
    counts = Counter((row.label, row.got) for row in rows)
    yield f"{'label':10}" + "".join(f"{got:>10}" for got in Rating)
    for label in Rating:
        yield f"{label:10}" + "".join(f"{counts[label, got]:>10}" for got in Rating)
    for row in rows:
        if row.got is not row.label:
            why = "; ".join(reason.message for reason in row.verdict.reasons[:2])
            yield f"{row.label} -> {row.got}: {row.command!r}: {why}"


if __name__ == "__main__":
    print("\n".join(report(rated(RuleSet()))))
