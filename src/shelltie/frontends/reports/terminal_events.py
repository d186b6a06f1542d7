"""Terminal events (`terminal:command:executed`, …): our events under their public names.

Moments are ISO 8601 in UTC, and durations milliseconds.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import field

from shelltie.basics.frozen import mutable
from shelltie.basics.times import iso_utc
from shelltie.basics.validate import did_you_mean
from shelltie.errors import InvalidParameters
from shelltie.events import (
    CommandAsked,
    CommandRefused,
    ContextClosed,
    ContextEvent,
    ContextOpened,
    ContextRan,
    ContextRefused,
    Event,
    RunEnded,
    RunLost,
    RunReady,
)
from shelltie.frontends.reports.state_names import context_error
from shelltie.model import Outcome, State
from shelltie.output.redact import Redactor

TerminalEvent = dict[str, object]

CREATED, CLOSED = "terminal:session:created", "terminal:session:closed"
EXECUTED, FAILED = "terminal:command:executed", "terminal:command:failed"
VIOLATION = "terminal:security:violation"
EVENT_TYPES = (CREATED, CLOSED, EXECUTED, FAILED, VIOLATION)
_TYPES = {ContextOpened: CREATED, ContextClosed: CLOSED, ContextRefused: VIOLATION}
_NOT_STARTED = "NOT_STARTED"
_ASKED_MAX = 1000


def event_type(name: str) -> str | None:
    """The whole name of a type of events, which may be given without `terminal:`."""
    whole = name if name.startswith("terminal:") else f"terminal:{name}"
    return whole if whole in EVENT_TYPES else None


def as_terminal_event(event: object) -> TerminalEvent | None:
    """A context's event as a terminal event, or nothing if there is none for it."""
    if not isinstance(event, ContextEvent):
        return None
    asker = event.asker
    if isinstance(event, ContextRan):
        kind = EXECUTED if event.outcome.ok else FAILED
    else:
        kind = _TYPES[type(event)]
    return _told(kind, event.at, (asker.session, asker.task, asker.agent), _data(event))


@mutable
class TerminalEvents:
    """The same for everything that runs, whether in a context or not.

    A run outside of one is told as if it had been a session with its own id. Commands are told
    without secrets.
    """

    _asked: dict[str, CommandAsked] = field(default_factory=dict)
    _contexts: set[str] = field(default_factory=set)

    def __call__(self, event: Event) -> TerminalEvent | None:
        """The terminal event for it, if there is one."""
        if isinstance(event, ContextEvent):
            self._note_context(event)
            return _redacted(as_terminal_event(event), Redactor())
        match event:
            case CommandAsked():
                self._asked.setdefault(event.run, event)
                if len(self._asked) > _ASKED_MAX:
                    del self._asked[next(iter(self._asked))]
            case RunReady():
                return self._ready(event)
            case RunEnded():
                return self._ended(event)
            case CommandRefused() if event.code != _NOT_STARTED:
                return self._refused(event)
            case RunLost():
                data: TerminalEvent = {"command": event.command, "success": False, "exitCode": -1}
                more: TerminalEvent = {"error": "EXECUTION_ERROR", "lost": True, "runId": event.run}
                return _told(FAILED, event.at, (event.run, "", ""), {**data, **more})
            case _:
                pass
        return None

    def _note_context(self, event: ContextEvent) -> None:
        if isinstance(event, ContextOpened):
            self._contexts.add(event.asker.session)
        elif isinstance(event, ContextClosed):
            self._contexts.discard(event.asker.session)

    def _ready(self, event: RunReady) -> TerminalEvent | None:
        asked = self._asked.get(event.run)
        if asked is None or not asked.stays_open:
            return None
        return self._of(asked, CREATED, event.at, {"workingDirectory": asked.cwd})

    def _ended(self, event: RunEnded) -> TerminalEvent | None:
        asked, outcome = self._asked.pop(event.run, None), event.outcome
        if asked is None or asked.caller.session in self._contexts:
            return None  # its context tells
        if asked.stays_open:
            reason = outcome.stop_reason or str(outcome.state)
            return self._of(asked, CLOSED, event.at, {"reason": reason, "commandCount": 1})
        size = event.printed.stdout + event.printed.stderr
        data = {**_result(asked.command, outcome, size), "runId": event.run}
        return self._of(asked, EXECUTED if outcome.ok else FAILED, event.at, data)

    def _refused(self, event: CommandRefused) -> TerminalEvent | None:
        asked = self._asked.get(event.run)
        data: TerminalEvent = {
            "command": event.command,
            "error": event.code,
            "message": event.message,
        }
        if asked is None:
            return _redacted(_told(VIOLATION, event.at, (event.run, "", ""), data), Redactor())
        return self._of(asked, VIOLATION, event.at, data)

    def _of(
        self, asked: CommandAsked, kind: str, at: float, data: TerminalEvent
    ) -> TerminalEvent | None:
        caller = asked.caller
        ids = (caller.session or asked.run, caller.task, caller.agent)
        return _redacted(_told(kind, at, ids, data), Redactor(asked.secrets))


def listener(
    names: Sequence[str], tell: Callable[[TerminalEvent], None]
) -> Callable[[Event], None]:
    """Hears events, and tells of those that are terminal events of one of the names.

    Raises: InvalidParameters for a name that no terminal event has.
    """
    wanted = {_known(name) for name in names}
    view = TerminalEvents()

    def hear(event: Event) -> None:
        told = view(event)
        if told is not None and told["type"] in wanted:
            tell(told)

    return hear


def _known(name: str) -> str:
    whole = event_type(name)
    if whole is None:
        close = did_you_mean(name, EVENT_TYPES) or f"; there are {', '.join(EVENT_TYPES)}"
        raise InvalidParameters(f"there is no event {name!r}{close}")
    return whole


def exit_code(outcome: Outcome) -> int:
    """-1 for an end that is not the command's own."""
    number = outcome.exit.number
    return -1 if outcome.state is State.TIMED_OUT or number is None else number


def whole_ms(span: float) -> int:
    """Nothing that ran took no time."""
    return math.ceil(span * 1000)


def _told(kind: str, at: float, ids: tuple[str, str, str], data: TerminalEvent) -> TerminalEvent:
    session, task, agent = ids
    return {
        "type": kind,
        "timestamp": iso_utc(at),
        "sessionId": session,
        "taskId": task,
        "agentId": agent,
        "data": data,
    }


def _redacted(told: TerminalEvent | None, redactor: Redactor) -> TerminalEvent | None:
    if told is not None and isinstance(data := told["data"], dict):
        for name in ("command", "message"):
            if name in data:
                data[name] = redactor.audit(str(data[name]))
    return told


def _data(event: ContextEvent) -> TerminalEvent:
    match event:
        case ContextOpened():
            return {"workingDirectory": event.cwd}
        case ContextClosed():
            return {"reason": event.reason, "commandCount": event.commands}
        case ContextRefused():
            told = {"error": event.code, "message": event.message, "details": dict(event.details)}
            return {"command": event.command, **told}
        case ContextRan():
            result = _result(event.command, event.outcome, event.printed)
            return {**result, "truncated": event.truncated, "runId": event.run}


def _result(command: str, outcome: Outcome, size: int) -> TerminalEvent:
    return {
        "command": command,
        "success": outcome.ok,
        "exitCode": exit_code(outcome),
        "error": context_error(outcome),
        "duration": whole_ms(outcome.duration),
        "outputSize": size,
    }
