import math

import pytest

from shelltie.running.settling import AT_ONCE, Waiting, answer_at

WAITING = Waiting(least=0.2, settle=0.5, most=5)


@pytest.mark.proves("S2-64", "S2-65", "S2-12", "T2-23")
def test_silence_counts_from_the_least_wait_and_from_the_last_byte() -> None:
    assert answer_at(WAITING, 100, None, ended=False) == pytest.approx(100.7)
    assert answer_at(WAITING, 100, 100.1, ended=False) == pytest.approx(100.7)
    assert answer_at(WAITING, 100, 103.0, ended=False) == pytest.approx(103.5)


@pytest.mark.proves("S2-66", "S2-12")
def test_the_longest_wait_counts_from_the_call_and_ends_it_in_any_case() -> None:
    assert answer_at(WAITING, 100, 104.9, ended=False) == 105
    assert answer_at(Waiting(least=10, settle=10, most=5), 100, None, ended=False) == 105


def test_a_process_that_has_ended_is_not_waited_for() -> None:
    assert answer_at(WAITING, 100, 104.0, ended=True) == 100


@pytest.mark.proves("C-54")
def test_zero_answers_at_once_and_none_is_no_cap() -> None:
    assert answer_at(AT_ONCE, 100, None, ended=False) == 100
    assert answer_at(Waiting(least=1, settle=1, most=0), 100, 100.0, ended=False) == 100
    assert Waiting(most=None).ends(100) == math.inf
    assert answer_at(Waiting(1, 1, None), 100, 900.0, ended=False) == 901


def test_no_wait_goes_on_after_the_moment_it_was_told() -> None:
    patient = Waiting(least=10, settle=10, most=None, until=103)

    assert answer_at(patient, 100, None, ended=False) == 103
    assert Waiting(most=1, until=103).ends(100) == 101
