import signal

import pytest

from shelltie.model import DEFAULT_ESCALATION, Limit, Limits
from shelltie.running.watchdog import (
    GiveUp,
    LookAtTree,
    Observe,
    Send,
    Step,
    TimeOut,
    Warn,
    Watchdog,
)


def dog(
    total: float | None, silence: float | None, *, literal: bool = True, lead: float = 30.0
) -> Watchdog:
    limits = Limits(total, silence, "test", literal=literal)
    return Watchdog(limits, started=0.0, warn_lead=lead)


def watch(watchdog: Watchdog, until: float, step: float = 1.0) -> list[tuple[float, Step]]:
    """Everything that is due, asked in steps like a loop that is never late by more than one."""
    seen: list[tuple[float, Step]] = []
    now = 0.0
    while now <= until and not watchdog.ending:
        seen += [(now, due) for due in watchdog.due(now)]
        now += step
    return seen


@pytest.mark.proves("T3-24", "S3-1", "S3-4", "S3-6", "S3-17", "S3-40", "C-16", "T3-5", "S3-72")
def test_a_hang_of_36_minutes_is_warned_of_at_4_30_and_ended_at_5_00() -> None:
    watchdog = dog(20 * 60, 5 * 60)

    seen = watch(watchdog, 36 * 60)

    assert seen == [
        (270, Warn(Limit.SILENCE, idle=270, left=30)),
        (300, TimeOut(Limit.SILENCE, idle=300, elapsed=300)),
    ]


@pytest.mark.proves("D11")
def test_nobody_is_warned_of_a_silence_limit_that_the_total_one_comes_before() -> None:
    watchdog = dog(20, 20, literal=False)

    assert watch(watchdog, 60) == [
        (10, Warn(Limit.TOTAL, idle=10, left=10)),
        (20, TimeOut(Limit.TOTAL, idle=20, elapsed=20)),
    ]


@pytest.mark.proves("S3-5", "S3-59", "T3-3", "C-16")
def test_steady_output_is_never_inactive_but_the_deadline_holds() -> None:
    watchdog = dog(100, 10)
    seen: list[tuple[float, Step]] = []
    for now in range(101):
        seen += [(now, step) for step in watchdog.due(now)]
        watchdog.last = now

    assert seen[0] == (70, Warn(Limit.TOTAL, idle=1, left=30))
    assert seen[1:] == [(100, TimeOut(Limit.TOTAL, idle=1, elapsed=100))]


@pytest.mark.proves("T3-4", "S3-58", "S3-4")
def test_silence_is_measured_from_the_last_byte() -> None:
    watchdog = dog(None, 10)
    watchdog.last = 95.0

    assert watchdog.due(100.0) == [Warn(Limit.SILENCE, idle=5.0, left=5.0)]
    assert watchdog.due(104.9) == []
    assert watchdog.due(105.0) == [TimeOut(Limit.SILENCE, idle=10, elapsed=105)]


@pytest.mark.proves("T3-5", "S3-33", "S3-40", "S3-6")
def test_each_silent_period_is_warned_of_once() -> None:
    watchdog = dog(None, 60)

    first = watch(watchdog, 50)
    watchdog.last = 50.0
    second = watchdog.due(80.0) + watchdog.due(81.0) + watchdog.due(85.0)

    assert first == [(30, Warn(Limit.SILENCE, idle=30, left=30))]
    assert second == [Warn(Limit.SILENCE, idle=30, left=30)]


@pytest.mark.proves("T3-6", "C-15")
def test_a_lead_longer_than_the_limit_does_not_warn_at_once() -> None:
    assert watch(dog(None, 10), 9) == [(5, Warn(Limit.SILENCE, idle=5, left=5))]
    assert watch(dog(None, 4), 3.9, 0.1) == []


@pytest.mark.proves("T0-26", "C-18")
def test_the_total_limit_wins_a_tie() -> None:
    assert dog(10, 10).due(10) == [TimeOut(Limit.TOTAL, idle=10, elapsed=10)]


@pytest.mark.proves("C-17")
def test_a_silence_limit_beyond_the_total_one_never_ends_anything() -> None:
    assert [step for _, step in watch(dog(20, 60), 60) if isinstance(step, TimeOut)] == [
        TimeOut(Limit.TOTAL, idle=20, elapsed=20)
    ]


@pytest.mark.proves("C-1")
def test_without_limits_nothing_is_ever_due() -> None:
    watchdog = dog(None, None)

    assert watchdog.next_at is None
    assert watchdog.due(1e9) == []


@pytest.mark.proves("C-18")
def test_the_end_is_decided_once() -> None:
    watchdog = dog(10, 5)

    first = watchdog.time_out(Limit.SILENCE, 5.0)
    second = watchdog.time_out(Limit.TOTAL, 10.0)

    assert (len(first), second, watchdog.due(20.0)) == (1, [], [])


@pytest.mark.proves("C-14", "D10")
def test_a_silence_the_policy_chose_is_looked_at_before_it_ends_anything() -> None:
    watchdog = dog(600, 60, literal=False)

    assert watchdog.due(30) == [Observe(), Warn(Limit.SILENCE, idle=30, left=30)]
    assert watchdog.due(60) == [LookAtTree(idle=60)]
    watchdog.extend_silence(60)
    assert watchdog.due(61) == []
    assert watchdog.due(119.9) == []
    assert watchdog.due(120) == [LookAtTree(idle=120)]


@pytest.mark.proves("D10")
def test_a_silence_the_caller_gave_is_literal() -> None:
    assert dog(None, 10, literal=True).due(10) == [TimeOut(Limit.SILENCE, idle=10, elapsed=10)]


def test_forgiven_silence_still_ends_at_the_total_limit() -> None:
    watchdog = dog(100, 60, literal=False)
    watchdog.due(60)
    watchdog.extend_silence(60)

    assert watchdog.next_at == 70  # the warning before the total limit
    watchdog.due(70)
    assert watchdog.next_at == 100
    assert watchdog.due(100) == [TimeOut(Limit.TOTAL, idle=100, elapsed=100)]


@pytest.mark.proves("S0-29", "C-41", "C-42", "T0-16", "S0-47", "S1-15")
def test_the_end_goes_from_polite_to_forced_to_giving_up() -> None:
    watchdog = dog(1, None)
    watchdog.due(1)

    assert watchdog.end(DEFAULT_ESCALATION, 1.0) == [Send(signal.SIGTERM)]
    assert watchdog.next_at == 6.0
    assert watchdog.due(5.9) == []
    assert watchdog.due(6.0) == [Send(signal.SIGKILL)]
    assert watchdog.due(8.0) == [GiveUp()]
    assert watchdog.next_at is None


def test_next_at_never_lies_before_the_next_thing_to_do() -> None:
    watchdog = dog(100, 20, literal=False)
    now = 0.0
    while not watchdog.ending:
        at = watchdog.next_at
        assert at is not None
        assert at >= now
        due = watchdog.due(at)
        assert due
        if isinstance(due[0], LookAtTree):
            watchdog.extend_silence(at)
        now = at
    assert now == 100


def test_the_longest_silence_stays_the_longest() -> None:
    watchdog = dog(None, 100)

    for now in (5.0, 35.0, 36.0, 40.0):
        watchdog.heard(now)

    assert (watchdog.longest, watchdog.last) == (30.0, 40.0)


def test_silence_ends_nothing_before_it_counts() -> None:
    limits = Limits(None, 10, "test", literal=True, silence_from=60)
    watchdog = Watchdog(limits, started=0.0)

    assert watchdog.next_at == 55  # the warning
    assert watchdog.due(54.0) == []
    assert watchdog.due(55.0) == [Warn(Limit.SILENCE, idle=55, left=5)]
    assert watchdog.due(59.9) == []
    assert watchdog.due(60.0) == [TimeOut(Limit.SILENCE, idle=60, elapsed=60)]


def test_a_silence_that_is_forgiven_is_not_warned_of_again() -> None:
    watchdog = dog(None, 60, literal=False)

    first = watchdog.due(30)
    watchdog.due(60)
    watchdog.extend_silence(60)
    later = [step for now in range(61, 120) for step in watchdog.due(now)]

    assert Warn(Limit.SILENCE, idle=30, left=30) in first
    assert later == []


def test_a_byte_after_a_silence_was_forgiven_begins_a_new_one() -> None:
    watchdog = dog(None, 60, literal=False)
    watchdog.due(60)
    watchdog.extend_silence(60)

    watchdog.heard(100)

    assert watchdog.next_at == 130
    assert watchdog.due(120) == []
    assert watchdog.due(130) == [Observe(), Warn(Limit.SILENCE, idle=30, left=30)]
    assert watchdog.due(160) == [LookAtTree(idle=60)]


def test_a_byte_before_a_silence_was_forgiven_does_not_shorten_the_next() -> None:
    watchdog = dog(None, 60, literal=False)
    watchdog.heard(10)
    watchdog.due(70)

    watchdog.extend_silence(70)

    assert watchdog.due(129) == []
    assert watchdog.due(130) == [LookAtTree(idle=120)]


def test_what_is_heard_after_the_end_was_decided_changes_nothing() -> None:
    watchdog = dog(100, 10)
    watchdog.time_out(Limit.SILENCE, 10.0)
    watchdog.end(DEFAULT_ESCALATION, 10.0)

    watchdog.heard(11.0)

    assert watchdog.next_at == 15.0
    assert watchdog.due(15.0) == [Send(signal.SIGKILL)]


def test_only_the_given_clock_counts() -> None:
    watchdog = dog(10, None)

    watchdog.due(9.0)
    assert watchdog.due(9.99) == []
    assert watchdog.due(10.0) == [TimeOut(Limit.TOTAL, idle=10.0, elapsed=10.0)]


def test_what_is_extended_is_warned_of_again_and_ends_later() -> None:
    watchdog = dog(100, 50)
    before = watchdog.deadlines
    first = watch(watchdog, 30)

    limits = watchdog.lengthen(300)

    assert [(one.limit, one.at, one.warn_at) for one in before] == [
        (Limit.SILENCE, 50, 25),
        (Limit.TOTAL, 100, 70),
    ]
    assert first == [(25, Warn(Limit.SILENCE, idle=25, left=25))]
    assert (limits.total, limits.silence) == (400, 350)
    assert [(one.limit, one.at) for one in watchdog.deadlines] == [
        (Limit.SILENCE, 350),
        (Limit.TOTAL, 400),
    ]
    assert watch(watchdog, 400) == [
        (320, Warn(Limit.SILENCE, idle=320, left=30)),
        (350, TimeOut(Limit.SILENCE, idle=350, elapsed=350)),
    ]
    assert watchdog.deadlines == ()


def test_where_there_is_no_limit_there_is_none_to_extend() -> None:
    watchdog = dog(None, None)

    assert watchdog.deadlines == ()
    assert (watchdog.lengthen(60).total, watchdog.lengthen(60).silence) == (None, None)
