"""JSON answers about task contexts: create, execute, close, status and error codes.

Times on this wire are milliseconds, and moments are ISO 8601 in UTC.
"""

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from shelltie.basics.frozen import frozen
from shelltie.basics.json_codec import as_json
from shelltie.basics.times import human_duration, human_size, iso_utc, milliseconds
from shelltie.contexts.context import Context, Executed, StillRunning
from shelltie.contexts.registry import Contexts
from shelltie.errors import (
    CannotStart,
    CommandDenied,
    CommandNotAllowed,
    ConfirmationRequired,
    ContextClosedEarly,
    ProcessError,
    SessionBusy,
    TerminalError,
    TooManySessions,
    UnknownSession,
    UnsafeArguments,
    WrongFields,
)
from shelltie.frontends.reports.state_names import (
    TIMEOUT_EXCEEDED,
    context_error,
    context_state,
    limits_in_ms,
    timeout_code,
)
from shelltie.frontends.reports.terminal_events import exit_code, whole_ms
from shelltie.model import Outcome, State
from shelltie.output.head_tail import Window
from shelltie.output.text import cut_head, decode, whole_end
from shelltie.running.run import Run

ContextAnswer = dict[str, object]
Given = Mapping[str, Any]  # what a caller gave, by the engine's names; None where nothing

CONTEXT_ERROR_CODES = (
    CommandNotAllowed.code,
    UnsafeArguments.code,
    UnknownSession.code,
    TIMEOUT_EXCEEDED,
    TerminalError.code,
    WrongFields.code,
    TooManySessions.code,
)
_DENIED = (CommandDenied.code, ConfirmationRequired.code)
_LEAST_TIMEOUT = 1.0  # seconds
# The wire's names for what the engine takes.
_WIRE = {"session": "sessionId", "task": "taskId", "agent": "agentId", "cwd": "workingDirectory"}
_REASONS: tuple[tuple[type[TerminalError], str], ...] = (
    (SessionBusy, "busy"),
    (ContextClosedEarly, "session_closed"),
    (CannotStart, "cannot_start"),
    (ProcessError, "not_ended"),
)


async def create(contexts: Contexts, given: Given, owner: str) -> ContextAnswer:
    """A session for a task.

    Raises: TerminalError.
    """
    context = contexts.create(**given, owner=owner)
    said: ContextAnswer = {
        "success": True,
        "sessionId": context.id,
        "workingDirectory": context.cwd,
        "createdAt": iso_utc(context.created),
    }
    return said | _warning(context.warnings)


async def execute(
    contexts: Contexts,
    given: Given,
    owner: str,
    until: float = math.inf,
    started: Callable[[Run], None] | None = None,
) -> Executed | StillRunning:
    """One command in a session, which is told to `started`; it goes on if it takes longer.

    Raises: TerminalError.
    """
    timeout = _seconds(given["timeout"])
    if isinstance(timeout, float) and 0 < timeout < _LEAST_TIMEOUT:
        raise WrongFields({"timeout": "must be at least 1000 milliseconds"})
    queue = True if given["queue"] is None else given["queue"]
    asked = {**given, "timeout": timeout, "queue": queue}
    return await contexts.execute(**asked, owner=owner, until=until, started=started)


async def _execute(contexts: Contexts, given: Given, owner: str) -> ContextAnswer:
    done = await execute(contexts, given, owner)
    return command_answer(done, contexts.limits.output)


async def close(contexts: Contexts, given: Given, owner: str) -> ContextAnswer:
    """The end of a session.

    Raises: TerminalError.
    """
    session_id = given["session_id"]
    closed = await contexts.close(session_id, owner=owner)
    message = "Session closed and resources freed" if closed else "Session already closed"
    return {"success": True, "message": message, "sessionId": session_id}


async def status(contexts: Contexts, given: Given, owner: str) -> ContextAnswer:
    """How a session is.

    Raises: TerminalError.
    """
    context = contexts.get(given["session_id"], owner)
    return {"success": True, "session": as_json(described(context))}


CALLS: Mapping[str, Callable[[Contexts, Given, str], Awaitable[ContextAnswer]]] = {
    "terminal_create_session": create,
    "terminal_execute_command": _execute,
    "terminal_close_session": close,
    "terminal_get_status": status,
}


# Objects


@frozen
class ContextStatus:
    """A session as an object."""

    id: str
    task_id: str
    agent_id: str
    working_directory: str
    state: str
    created_at: str
    last_command_at: str | None
    command_count: int


def described(context: Context) -> ContextStatus:
    """How a session is."""
    last = context.last_command
    return ContextStatus(
        id=context.id,
        task_id=context.asker.task,
        agent_id=context.asker.agent,
        working_directory=context.cwd,
        state=_state(context),
        created_at=iso_utc(context.created),
        last_command_at=None if last is None else iso_utc(last),
        command_count=context.commands,
    )


def command_answer(done: Executed | StillRunning, shown: int) -> ContextAnswer:
    """How a command ended, or is, with at most `shown` bytes of each stream."""
    return _executed(done, shown) if isinstance(done, Executed) else _so_far(done, shown)


def _executed(ended: Executed, shown: int) -> ContextAnswer:
    """How a command ended, with at most `shown` bytes of each stream.

    A code of its own is no error of ours, and neither is a signal.
    """
    outcome = ended.outcome
    stdout, less_out = _text(ended.stdout, shown)
    stderr, less_err = _text(ended.stderr, shown)
    said: ContextAnswer = {
        "success": outcome.ok,
        "exitCode": exit_code(outcome),
        "stdout": stdout,
        "stderr": stderr,
        "duration": whole_ms(outcome.duration),
        "truncated": less_out or less_err,
        "limits": as_json(limits_in_ms(ended.limits)),
        "runId": ended.run,
    }
    if (code := context_error(outcome)) is not None:
        said |= {"error": code, "message": _what_happened(ended), "details": _how(ended)}
    if outcome.exit.signal_name is not None:
        said["signal"] = outcome.exit.signal_name
    told = (*ended.limits.notes, *outcome.warnings, *_missing(ended, said), *_leaked(outcome))
    return said | _warning(told)


def _so_far(going: StillRunning, shown: int) -> ContextAnswer:
    """How a command that goes on is."""
    run = going.run
    stdout, less_out = _text(going.stdout, shown)
    stderr, less_err = _text(going.stderr, shown)
    said: ContextAnswer = {
        "success": True,
        "exitCode": None,
        "stdout": stdout,
        "stderr": stderr,
        "duration": whole_ms(run.elapsed),
        "truncated": less_out or less_err,
        "limits": as_json(limits_in_ms(run.rules.limits)),
        "runId": run.id,
    }
    return said | _warning([*run.rules.limits.notes, *run.warnings])


def failure(error: TerminalError) -> ContextAnswer:
    """Why there is nothing else to answer."""
    code = CommandNotAllowed.code if error.code in _DENIED else error.code
    message, details = str(error), _details(error)
    if isinstance(error, WrongFields):
        wrong = {_WIRE.get(name, name): why for name, why in error.fields.items()}
        message, details = str(WrongFields(wrong)), {"fields": wrong}
    return {
        "success": False,
        "error": code if code in CONTEXT_ERROR_CODES else TerminalError.code,
        "message": message,
        "details": details,
    }


# Pieces


def _seconds(timeout: object) -> object:
    """Milliseconds as seconds; what is no number stays as it is, to be refused."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        return timeout
    try:
        return timeout / 1000
    except OverflowError:
        return float("inf")


def _details(error: TerminalError) -> ContextAnswer:
    match error:
        case ConfirmationRequired():
            return {**error.details, "reason": "confirmation_required"}
        case CommandDenied():
            return dict(error.details)
        case TooManySessions():
            return {"active": error.active, "max": error.most}
        case UnknownSession():
            return {}
        case _:
            reason = next((why for kind, why in _REASONS if isinstance(error, kind)), None)
            return {} if reason is None else {"reason": reason}


def _state(context: Context) -> str:
    if context.running:
        return "running"
    last = context.last
    return "idle" if last is None else context_state(last, last.state)


def _what_happened(ended: Executed) -> str:
    outcome = ended.outcome
    if outcome.state is State.TIMED_OUT:
        total = human_duration(ended.limits.total or 0)
        return f"The command took longer than {total} and was ended with everything it started"
    if outcome.error is not None:
        return outcome.error
    return f"The command was ended before it came to its end: {outcome.stop_reason}"


def _how(ended: Executed) -> ContextAnswer:
    outcome = ended.outcome
    if outcome.state is State.TIMED_OUT:
        kind = (timeout_code(outcome) or ("", ""))[1]
        return {"kind": kind, "timeout": milliseconds(ended.limits.total or 0)}
    if outcome.state is State.SPAWN_FAILED:
        return {"reason": "cannot_start"}
    return {"reason": "cancelled" if outcome.stop_reason == "cancelled" else "ended"}


def _text(stream: Window, shown: int) -> tuple[str, bool]:
    """The beginning of a stream in at most `shown` bytes, and whether more was printed."""
    head = stream.head_bytes()
    more = stream.total > len(head)
    text = decode(whole_end(head) if more else head)
    encoded = text.encode()  # longer than `head` where that is no UTF-8
    return (text, more) if len(encoded) <= shown else (decode(cut_head(encoded, shown)), True)


def _missing(ended: Executed, said: ContextAnswer) -> Iterator[str]:
    if said["truncated"]:
        out, err = human_size(ended.stdout.total), human_size(ended.stderr.total)
        yield f"it printed {out} to stdout and {err} to stderr; only the beginning is here"


def _leaked(outcome: Outcome) -> Iterator[str]:
    if outcome.leaked:
        pids = ", ".join(map(str, outcome.leaked_pids)) or "of this command"
        yield f"processes {pids} could not be ended"


def _warning(notes: Sequence[str]) -> ContextAnswer:
    return {"warning": "; ".join(notes)} if notes else {}
