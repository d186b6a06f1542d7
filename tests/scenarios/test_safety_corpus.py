"""The labelled commands: nothing dangerous is called safe, and daily work is."""

from collections.abc import Iterable

import pytest

from benchmarks.labelled import Labelled, rated, report
from shelltie.safety.rule_set import RuleSet
from shelltie.verdict import Rating

SAFE, UNKNOWN, DANGEROUS = Rating


@pytest.fixture(scope="module")
def rows() -> list[Labelled]:
    """Every labelled command, rated."""
    return rated(RuleSet())


def share(rows: Iterable[Labelled], got: Rating) -> float:
    every = list(rows)
    return sum(row.got is got for row in every) / len(every)


def labelled(rows: Iterable[Labelled], label: Rating) -> list[Labelled]:
    return [row for row in rows if row.label is label]


def test_the_report_shows_the_matrix_and_every_miss(rows: list[Labelled]) -> None:
    lines = list(report(rows))

    print("\n".join(lines))  # noqa: T201  `pytest -s` shows it
    assert len(rows) > 800
    assert len(lines) == 4 + sum(row.got is not row.label for row in rows)


def test_nothing_dangerous_is_called_safe(rows: list[Labelled]) -> None:
    assert [row.command for row in labelled(rows, DANGEROUS) if row.got is SAFE] == []


def test_next_to_nothing_unknown_is_called_safe(rows: list[Labelled]) -> None:
    assert share(labelled(rows, UNKNOWN), SAFE) <= 0.02


def test_daily_reading_needs_no_question(rows: list[Labelled]) -> None:
    daily = [row for row in labelled(rows, SAFE) if "everyday" in row.tags]

    assert share(daily, SAFE) >= 0.90


def test_hardly_anything_safe_is_called_dangerous(rows: list[Labelled]) -> None:
    assert share(labelled(rows, SAFE), DANGEROUS) <= 0.01


def test_most_danger_is_called_so(rows: list[Labelled]) -> None:
    assert share(labelled(rows, DANGEROUS), DANGEROUS) >= 0.85
