"""What is usual, and what follows from it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.learned_limits import simulate
from shelltie.limits.experience import Experience, Usual, expected, proposed, quantile, usual
from shelltie.model import Limits, Sample

TABLE = Limits(60, 15, "category quick, pattern ^x", "quick")
SPANS = st.floats(0, 10_000)
SAMPLES = st.lists(st.builds(Sample, SPANS, SPANS, SPANS, st.booleans()), max_size=300)


def known(*durations: float, silence: float = 1.0, limits_hit: int = 0) -> Usual:
    samples = [Sample(one, silence) for one in durations]
    found = usual("x", [*samples, *[Sample(1, 1, by_limit=True)] * limits_hit])
    assert found is not None
    return found


def test_quantiles_are_values_that_were_seen() -> None:
    ordered = [float(n) for n in range(1, 101)]

    assert (quantile(ordered, 0.5), quantile(ordered, 0.95), quantile([7.0], 0.95)) == (50, 95, 7)


def test_one_straggler_does_not_change_what_is_usual() -> None:
    steady, with_one = known(*[2.0] * 50), known(*[2.0] * 50, 5000.0)

    assert (with_one.p50, with_one.p95) == (steady.p50, steady.p95) == (2.0, 2.0)
    assert with_one.longest == 5000


def test_old_runs_are_forgotten() -> None:
    assert known(*[100.0] * 300, *[1.0] * 200).longest == 1


@pytest.mark.proves("T3-25")
def test_a_suggestion_needs_enough_runs() -> None:
    few = [Sample(100, 50)] * 19

    assert Experience("x", "/", few).usual is None
    assert Experience("x", "/", [*few, Sample(1, 1, by_limit=True)]).usual is None
    assert Experience("x", "/", [*few, Sample(100, 50)]).usual is not None


@pytest.mark.proves("S3-66")
def test_limits_are_raised_far_beyond_what_was_seen_and_say_so() -> None:
    better = proposed(TABLE, known(*[100.0] * 100, silence=50))

    assert (better.total, better.silence) == (360, 180)
    assert better.source == "learned from 100 runs of 'x' (95 % took 1m 40s or less)"
    assert (better.category, better.silence_from) == ("quick", 100)


def test_limits_that_are_long_enough_stay_as_they_are() -> None:
    assert proposed(TABLE, known(*[0.1] * 100, silence=0.05)) is TABLE


@pytest.mark.parametrize(
    "limits",
    [
        replace(TABLE, source="timeout_sec"),
        replace(TABLE, source="session policy"),
        replace(TABLE, source="command_timeouts.cargo"),
        replace(TABLE, literal=True),
    ],
)
def test_what_somebody_has_given_is_never_touched(limits: Limits) -> None:
    assert proposed(limits, known(*[1000.0] * 100)) is limits


@pytest.mark.proves("D11")
def test_a_silence_limit_that_was_left_to_the_policy_is_raised_up_to_the_given_total() -> None:
    given = replace(TABLE, total=300.0, source="timeout_sec")

    better = proposed(given, known(*[100.0] * 100, silence=50))
    most = proposed(given, known(*[1000.0] * 100, silence=500))

    assert (better.total, better.silence, most.silence) == (300, 180, 300)
    assert better.source.startswith("timeout_sec; silence: learned from 100 runs")


def test_no_silence_limit_stays_none() -> None:
    assert proposed(replace(TABLE, silence=None), known(*[1000.0] * 100)).silence is None


def test_the_longest_that_the_policy_allows_is_the_longest() -> None:
    assert proposed(TABLE, known(*[10_000.0] * 50), cap=900).total == 900
    assert proposed(TABLE, known(*[10_000.0] * 50)).total == 3600


def test_a_limit_that_ends_runs_gives_way_and_comes_back() -> None:
    often = known(*[10.0] * 30, limits_hit=5)
    assert often.slack == 4

    recovered = usual("x", [Sample(1, 1, by_limit=True), *[Sample(10, 1)] * 40])
    assert recovered is not None
    assert recovered.slack == 1


def test_something_short_is_not_called_slow() -> None:
    thresholds = expected(known(*[0.01] * 50, silence=0.01))

    assert (thresholds.idle, thresholds.silent, thresholds.slow) == (3, 10, 5)


@given(SAMPLES, st.floats(0.1, 5000), st.floats(0.1, 5000))
def test_no_history_makes_a_limit_shorter(
    samples: list[Sample], total: float, silence: float
) -> None:
    limits = replace(TABLE, total=total, silence=silence)
    found = usual("x", samples)
    if found is None:
        return

    better = proposed(limits, found)
    assert better.total is not None
    assert better.silence is not None
    assert better.total >= total
    assert better.silence >= silence


def test_the_simulation_reaches_its_goals() -> None:
    table, _, learned = simulate(10_000, seed=7).values()

    assert table.false_kills > 5
    assert learned.false_kills <= 0.2
    assert learned.told_after <= 5
