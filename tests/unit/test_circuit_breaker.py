"""When a machine that cannot start anything is given a rest."""

import pytest

from shelltie.model import ExitStatus, Outcome, State
from shelltie.running.retry import CircuitBreaker

SHORT = Outcome(State.SPAWN_FAILED, ExitStatus(126), 0.0, may_pass=True)
MISSING = Outcome(State.SPAWN_FAILED, ExitStatus(127), 0.0)
FAILED = Outcome(State.FINISHED, ExitStatus(1), 0.0)


@pytest.mark.proves("C-89")
def test_it_opens_after_three_failures_in_a_row_and_lets_one_try_after_a_pause() -> None:
    breaker = CircuitBreaker(3, 30)
    breaker.note(SHORT, 1)
    breaker.note(SHORT, 2)
    assert breaker.left(2) == 0
    breaker.note(SHORT, 3)
    assert (breaker.left(3), breaker.left(23), breaker.left(33)) == (30, 10, 0)

    breaker.note(SHORT, 40)
    assert breaker.left(40) == 30
    breaker.note(FAILED, 80)
    breaker.note(SHORT, 81)
    assert breaker.left(81) == 0


@pytest.mark.proves("C-89")
@pytest.mark.parametrize("outcome", [FAILED, MISSING])
def test_a_command_that_fails_or_is_not_there_never_opens_it(outcome: Outcome) -> None:
    breaker = CircuitBreaker(3, 30)
    for _ in range(10):
        breaker.note(outcome, 1)

    assert breaker.left(1) == 0


def test_it_is_off_with_zero() -> None:
    breaker = CircuitBreaker(0, 30)
    for _ in range(10):
        breaker.note(SHORT, 1)

    assert breaker.left(1) == 0
