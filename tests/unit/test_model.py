import pytest

from shelltie.model import (
    Command,
    EscalationStep,
    ExitStatus,
    human_duration,
    human_size,
    seconds,
    signal_name,
)
from shelltie.running.messages import start_failure
from shelltie.running.options import new_run_id, with_sigkill


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (0, "0ms"),
        (0.35, "350ms"),
        (4.2, "4.2s"),
        (5, "5s"),
        (45, "45s"),
        (59.7, "1m"),
        (270, "4m 30s"),
        (3600, "1h"),
        (3900, "1h 5m"),
    ],
)
def test_durations_are_for_people(span: float, text: str) -> None:
    assert human_duration(span) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (12_300, "12.3 KB"), (4_000_000, "4.0 MB"), (9**13, "2541.9 GB")],
)
def test_sizes_are_for_people(size: int, text: str) -> None:
    assert human_size(size) == text


def test_any_signal_has_a_name() -> None:
    assert [signal_name(number) for number in (1, 9, 11, 15, 34, 37)] == [
        "SIGHUP",
        "SIGKILL",
        "SIGSEGV",
        "SIGTERM",
        "SIGRTMIN",
        "SIGRTMIN+3",
    ]


def test_an_exit_status_counts_like_a_shell() -> None:
    assert ExitStatus(code=3).number == 3
    assert ExitStatus(signal=9).number == 137
    assert ExitStatus().number is None


@pytest.mark.parametrize(("value", "number"), [(None, None), (0, None), (1, 1.0), (2.5, 2.5)])
def test_seconds_may_be_left_out(value: object, number: float | None) -> None:
    assert seconds(value, "x") == number


@pytest.mark.parametrize("value", [True, "1", -1, float("nan"), float("inf"), [1], 10**400])
def test_seconds_are_nothing_else(value: object) -> None:
    with pytest.raises(ValueError, match="x must be"):
        seconds(value, "x")


def test_an_escalation_ends_with_a_kill() -> None:
    polite = (EscalationStep(2, 1.0),)

    assert [step.signal for step in with_sigkill(polite)] == [2, 9]
    assert with_sigkill(with_sigkill(polite)) == with_sigkill(polite)


def test_run_ids_sort_by_time_and_differ() -> None:
    ids = [new_run_id() for _ in range(1000)]

    assert len(set(ids)) == 1000
    assert all(len(run) == 26 for run in ids)
    assert ids[0][:10] <= ids[-1][:10]


@pytest.mark.parametrize(
    ("step", "errno", "says", "code"),
    [
        ("exec", 2, "not found", 127),
        ("exec", 13, "permission denied", 126),
        ("exec", 7, "too long", 126),
        ("chdir", 2, "cannot enter the directory", 126),
        ("fork", 11, "too many processes", 126),
        ("tty", 25, "ENOTTY", 126),
    ],
)
def test_a_failed_start_says_what_failed(step: str, errno: int, says: str, code: int) -> None:
    message, exit_code, _ = start_failure(step, errno, Command("x", ("x",)))

    assert says in message
    assert exit_code == code
