import math
from dataclasses import replace
from itertools import pairwise

import pytest

from shelltie.model import Sighting
from shelltie.sessions.wait_rule import AT_ONCE, Looks, answer_at
from shelltie.settings.all_settings import Waiting

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


WAITS = Sighting(1, waits_for_input=True, first_thread=True, foreground_cpu=1.0)
BUSY = Sighting(1, foreground_cpu=1.0)


def test_it_is_certain_that_input_is_waited_for_when_two_looks_say_so() -> None:
    looks = Looks(100.0)
    looks.heard(100.0)

    first = looks.certain(looks.next_at, WAITS)
    second = looks.certain(looks.next_at, WAITS)

    assert (first, second) == (False, True)
    assert looks.next_at < 100.5


def test_who_computed_or_printed_between_two_looks_was_on_its_way() -> None:
    looks = Looks(100.0)
    looks.certain(100.1, WAITS)

    computed = looks.certain(100.2, replace(WAITS, foreground_cpu=1.01))
    looks.heard(100.25)
    printed = looks.certain(100.35, WAITS)
    again = looks.certain(100.45, WAITS)

    assert (computed, printed, again) == (False, False, True)


def test_a_thread_that_reads_beside_others_counts_once_something_was_printed() -> None:
    beside = replace(WAITS, first_thread=False)
    looks = Looks(100.0)

    silent = [looks.certain(at, beside) for at in (100.1, 100.2, 100.3)]
    looks.heard(100.4)
    then = [looks.certain(at, beside) for at in (100.5, 100.6)]

    assert silent == [False, False, False]
    assert then == [False, True]


def test_who_works_is_looked_at_less_and_less_often_until_it_prints() -> None:
    looks = Looks(100.0)
    moments = [looks.next_at]
    for _ in range(8):
        looks.certain(moments[-1], BUSY)
        moments.append(looks.next_at)

    pauses = [round(b - a, 6) for a, b in pairwise(moments)]
    looks.heard(200.0)

    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]
    assert looks.next_at == pytest.approx(200.1)
