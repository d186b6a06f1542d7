"""How S4 names what went wrong, and what happened."""

import pytest

from shelltie.errors import (
    CannotStart,
    CommandDenied,
    CommandNotAllowed,
    ConfigWrong,
    ConfirmationRequired,
    ContextClosedEarly,
    KillFailed,
    SessionBusy,
    TerminalError,
    TooManySessions,
    UnknownSession,
    UnsafeArguments,
    WrongFields,
)
from shelltie.events import (
    Asker,
    ContextClosed,
    ContextOpened,
    ContextRan,
    ContextRefused,
    Leaked,
)
from shelltie.frontends.reports.context_report import CONTEXT_ERROR_CODES, failure
from shelltie.frontends.reports.terminal_events import as_terminal_event, event_type
from shelltie.model import ExitStatus, Limit, Limits, Outcome, RunId, State

ASKER = Asker("term-T-1-1697123456789", "T-1", "agent-1")
AT = 1697123456.789
RUN = RunId("01ARZ3NDEKTSV4RRFFQ69G5FAV")


@pytest.mark.parametrize(
    ("error", "code", "details"),
    [
        (CommandNotAllowed("no", details={"command": "rm"}), "COMMAND_NOT_ALLOWED", "rm"),
        (CommandDenied("no"), "COMMAND_NOT_ALLOWED", ""),
        (ConfirmationRequired("no"), "COMMAND_NOT_ALLOWED", "confirmation_required"),
        (UnsafeArguments("no", details={"index": 0}), "UNSAFE_ARGUMENTS", "index"),
        (UnknownSession("no"), "SESSION_NOT_FOUND", ""),
        (TooManySessions("no", 50, 50), "MAX_SESSIONS_EXCEEDED", "'max': 50"),
        (WrongFields({"task": "is missing"}), "INVALID_PARAMETERS", "taskId"),
        (SessionBusy("no"), "EXECUTION_ERROR", "busy"),
        (ContextClosedEarly("no"), "EXECUTION_ERROR", "session_closed"),
        (CannotStart("no"), "EXECUTION_ERROR", "cannot_start"),
        (KillFailed("no", (7,)), "EXECUTION_ERROR", "not_ended"),
        (ConfigWrong("no"), "EXECUTION_ERROR", ""),
        (TerminalError("no"), "EXECUTION_ERROR", ""),
    ],
)
@pytest.mark.proves("S4-32", "C-37")
def test_every_error_has_a_code_that_s4_knows(
    error: TerminalError, code: str, details: str
) -> None:
    answer = failure(error)

    assert list(answer) == ["success", "error", "message", "details"]
    assert (answer["success"], answer["error"]) == (False, code)
    assert code in CONTEXT_ERROR_CODES
    assert details in str(answer["details"])


def test_a_field_has_the_name_of_the_wire() -> None:
    answer = failure(WrongFields({"task": "is missing", "cwd": "is bad"}))

    assert answer["message"] == "taskId is missing; workingDirectory is bad"
    assert answer["details"] == {
        "fields": {"taskId": "is missing", "workingDirectory": "is bad"},
    }


def ran(outcome: Outcome) -> ContextRan:
    return ContextRan(ASKER, AT, "npm test", RUN, Limits(60, None, ""), outcome, 5, truncated=False)


GOOD = Outcome(State.FINISHED, ExitStatus(code=0), 1.5)


@pytest.mark.parametrize(
    ("event", "name"),
    [
        (ContextOpened(ASKER, AT, "/project"), "terminal:session:created"),
        (ContextClosed(ASKER, AT, "it was closed", 3), "terminal:session:closed"),
        (ran(GOOD), "terminal:command:executed"),
        (ran(Outcome(State.FINISHED, ExitStatus(code=1), 1.0)), "terminal:command:failed"),
        (
            ran(Outcome(State.TIMED_OUT, ExitStatus(signal=15), 60.0, limit=Limit.TOTAL)),
            "terminal:command:failed",
        ),
        (ran(Outcome(State.SPAWN_FAILED, ExitStatus(code=127), 0.0)), "terminal:command:failed"),
        (ran(Outcome(State.KILLED, ExitStatus(signal=9), 0.1)), "terminal:command:failed"),
        (
            ContextRefused(RUN, AT, "rm -rf /", "COMMAND_NOT_ALLOWED", "no", ASKER, {}),
            "terminal:security:violation",
        ),
    ],
)
@pytest.mark.proves("C-34")
def test_an_event_has_the_name_and_the_ids_of_s4(event: object, name: str) -> None:
    seen = as_terminal_event(event)

    assert seen is not None
    assert seen["type"] == name
    assert seen["timestamp"] == "2023-10-12T15:10:56.789Z"
    assert (seen["sessionId"], seen["taskId"], seen["agentId"]) == (
        "term-T-1-1697123456789",
        "T-1",
        "agent-1",
    )
    assert isinstance(seen["data"], dict)


def test_what_a_command_did_is_in_its_event() -> None:
    seen = as_terminal_event(ran(GOOD)) or {}

    assert seen["data"] == {
        "command": "npm test",
        "success": True,
        "exitCode": 0,
        "error": None,
        "duration": 1500,
        "outputSize": 5,
        "truncated": False,
        "runId": RUN,
    }


def test_other_events_have_no_name_in_s4() -> None:
    assert as_terminal_event(Leaked(RUN, AT, ())) is None


@pytest.mark.proves("C-34")
def test_short_names_stand_for_the_long_ones() -> None:
    assert event_type("session:created") == "terminal:session:created"
    assert event_type("terminal:command:failed") == "terminal:command:failed"
    assert event_type("command:walked") is None
