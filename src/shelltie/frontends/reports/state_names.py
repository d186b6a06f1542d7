"""State and error code tables: how each front-end names the same end of a run, and its limits."""

from shelltie.basics.frozen import frozen
from shelltie.basics.times import milliseconds
from shelltie.errors import TerminalError
from shelltie.model import Limit, Limits, Outcome, State

TIMEOUT_EXCEEDED = "TIMEOUT_EXCEEDED"  # of task contexts; no error of ours, but the end of a run

# The words of ACP terminals, of task contexts, and of the structured timeout error.
_TERMINAL = {
    State.CREATED: "Created",
    State.RUNNING: "Running",
    State.FINISHED: "Finished",
    State.TIMED_OUT: "TimedOut",
    State.KILLED: "Killed",
    State.RELEASED: "Released",
}
_CONTEXT = {State.CREATED: "idle", State.RUNNING: "running"}


def terminal_state(state: State) -> str:
    """ACP. A terminal that could not be started has no state: its creation failed."""
    return _TERMINAL[state]


def context_state(outcome: Outcome | None, state: State) -> str:
    """Task contexts: idle, running, completed, failed."""
    if outcome is None:
        return _CONTEXT[state]
    return "completed" if outcome.ok else "failed"


def limit_code(limit: Limit) -> tuple[str, str]:
    """Agent tasks: code and kind of a clock that ran out."""
    return ("EIDLE", "inactivity") if limit is Limit.SILENCE else ("ETIMEDOUT", "deadline")


def timeout_code(outcome: Outcome) -> tuple[str, str] | None:
    """Agent tasks: code and kind, after an end that we brought about."""
    if outcome.limit is not None:
        return limit_code(outcome.limit)
    return limit_code(Limit.TOTAL) if outcome.state is State.KILLED else None


@frozen
class MillisecondLimits:
    """Task contexts and agent tasks: the limits that hold, and who set them."""

    exec_ms: int | None
    idle_ms: int | None
    source: str
    clamped: bool


def limits_in_ms(limits: Limits) -> MillisecondLimits:
    """The same limits in milliseconds."""
    total, silence = milliseconds(limits.total), milliseconds(limits.silence)
    return MillisecondLimits(total, silence, limits.source, limits.clamped)


def context_error(outcome: Outcome) -> str | None:
    """Task contexts: the code of an end that is not the command's own."""
    match outcome.state:
        case State.TIMED_OUT:
            return TIMEOUT_EXCEEDED
        case State.KILLED | State.SPAWN_FAILED:
            return TerminalError.code
        case _:
            return None
