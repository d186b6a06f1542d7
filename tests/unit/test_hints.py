import signal

import pytest

from shelltie.model import Ended, ExitStatus, Limit, Limits, Outcome, Sighting, State
from shelltie.running.hints import hint

LIMITS = Limits(120, 30, "default category medium")
SILENT = Outcome(State.TIMED_OUT, ExitStatus(signal=15), 30.0, Limit.SILENCE, idle=30.0)
LATE = Outcome(State.TIMED_OUT, ExitStatus(signal=15), 120.0, Limit.TOTAL, idle=1.0)


def ended(code: int | None = None, number: int | None = None) -> Outcome:
    return Outcome(State.FINISHED, ExitStatus(code, number), 1.0)


def changed(outcome: Outcome, **changes: object) -> Outcome:
    fields = {name: getattr(outcome, name) for name in Outcome.__dataclass_fields__}
    return Outcome(**{**fields, **changes})


@pytest.mark.parametrize(
    ("outcome", "text", "last_line", "says"),
    [
        (SILENT, "sleep 99", "", "no_output_timeout_sec=60"),
        (SILENT, "apt install x", "Continue? [Y/n]", "looks like a question"),
        (SILENT, "npm run dev", "ready", "looks like a server"),
        (changed(SILENT, cpu_while_silent=9.0), "make", "", "used the CPU"),
        (changed(SILENT, sighting=Sighting(1, waits_for_input=True)), "x", "> ", "waits for input"),
        (changed(SILENT, sighting=Sighting(1, password=True)), "x", "Password:", "password"),
        (changed(SILENT, leaked=True, leaked_pids=(7, 8)), "x", "", "7, 8 could not be ended"),
        (LATE, "make", "cc x.c", "still printing"),
        (changed(LATE, idle=60.0), "make", "cc x.c", "silent for 1m"),
        (ended(1), "x", "", "printed nothing"),
        (ended(126), "x", "", "chmod +x"),
        (ended(127), "x", "", "not found"),
        (ended(None, signal.SIGKILL), "x", "", "memory"),
        (ended(None, signal.SIGSEGV), "x", "", "SIGSEGV"),
        (changed(ended(0), survivors=2), "x", "", "2 background processes of it were ended"),
        (changed(ended(0), survivors=1), "x", "", "1 background process of it was ended"),
        (Outcome(State.SPAWN_FAILED, ExitStatus(127), 0.0), "x", "", "Nothing was run"),
        (
            Outcome(State.KILLED, ExitStatus(None, 15), 1.0, ended=Ended.SOFT, stop_reason="bye"),
            "x",
            "",
            "Ended politely: bye",
        ),
    ],
)
def test_every_bad_end_has_a_hint_of_its_own(
    outcome: Outcome, text: str, last_line: str, says: str
) -> None:
    advice = hint(outcome, LIMITS, text, last_line)

    assert advice is not None
    assert says in advice


def test_a_good_end_needs_none() -> None:
    assert hint(ended(0), LIMITS, "true", "") is None


def test_a_failure_that_says_why_needs_none() -> None:
    assert hint(ended(1), LIMITS, "x", "boom") is None


def test_who_was_kept_was_not_ended() -> None:
    left = changed(ended(0), survivors=1)

    assert hint(left, LIMITS, "x", "", kept=True) == "It left 1 background process running."
