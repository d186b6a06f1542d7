import pytest

from shelltie.model import Command, EscalationStep, ExitStatus, signal_name
from shelltie.running.messages import start_failure
from shelltie.running.options import with_sigkill


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


def test_an_escalation_ends_with_a_kill() -> None:
    polite = (EscalationStep(2, 1.0),)

    assert [step.signal for step in with_sigkill(polite)] == [2, 9]
    assert with_sigkill(with_sigkill(polite)) == with_sigkill(polite)


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
