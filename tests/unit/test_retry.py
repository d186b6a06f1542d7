"""What is worth another attempt, and with how much time."""

from types import SimpleNamespace
from typing import cast

import pytest

from shelltie.model import ExitStatus, Limits, Outcome, State
from shelltie.running.options import RunOptions
from shelltie.running.retry import Attempts
from shelltie.running.run import Run
from shelltie.verdict import Rating, Verdict

LIMITS = Limits(100.0, 30.0, "test")
UNSAID = (None, None)  # then the policy decides


def ended(
    state: State = State.TIMED_OUT,
    *,
    rating: Rating = Rating.SAFE,
    agreed: bool = True,
    leaked: bool = False,
    may_pass: bool = False,
    limits: Limits = LIMITS,
) -> Run:
    """A run of which only the end is looked at."""
    outcome = Outcome(state, ExitStatus(), 1.0, leaked=leaked, may_pass=may_pass)
    verdict = Verdict(rating, (), agreed=agreed)
    rules = SimpleNamespace(limits=limits)
    return cast(
        Run,
        SimpleNamespace(state=state, outcome=outcome, verdict=verdict, rules=rules, stopped=()),
    )


async def limits_of_attempts(
    first: Run, longest: float | None = None
) -> list[tuple[float | None, float | None]]:
    """With which limits it was tried; each attempt ends as the first did."""
    tried: list[tuple[float | None, float | None]] = []
    attempts = Attempts(RunOptions(), 1, longest)
    while (options := await attempts.next()) is not None:
        tried.append((options.limits.total, options.limits.silence))
        attempts.runs.append(first)
    return tried


async def test_what_changes_nothing_and_took_too_long_gets_twice_the_time() -> None:
    assert await limits_of_attempts(ended()) == [UNSAID, (200.0, 60.0)]


@pytest.mark.parametrize(
    "first",
    [
        ended(leaked=True),
        ended(agreed=False),
        ended(rating=Rating.UNKNOWN),
        ended(rating=Rating.DANGEROUS),
        ended(State.KILLED),
        ended(State.FINISHED),
        ended(State.SPAWN_FAILED),
    ],
    ids=["leaked", "no second look", "unknown", "dangerous", "killed", "finished", "not found"],
)
async def test_anything_else_is_not_tried_again(first: Run) -> None:
    assert await limits_of_attempts(first) == [UNSAID]


@pytest.mark.proves("C-86", "T3-26")
async def test_nothing_is_doubled_beyond_what_the_policy_allows() -> None:
    assert await limits_of_attempts(ended(), longest=150.0) == [UNSAID, (150.0, 60.0)]


async def test_without_such_a_policy_an_hour_is_the_most() -> None:
    first = ended(limits=Limits(3000.0, None, "test"))

    assert await limits_of_attempts(first) == [UNSAID, (3600.0, None)]


async def test_what_cannot_have_more_time_is_not_tried_again() -> None:
    first = ended(limits=Limits(150.0, None, "test"))

    assert await limits_of_attempts(first, longest=150.0) == [UNSAID]
