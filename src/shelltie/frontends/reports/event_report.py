"""JSON encoding of every event, with secrets redacted."""

from collections.abc import Mapping

from shelltie.basics.times import iso_utc
from shelltie.events import (
    Alerted,
    ApprovalAnswered,
    ApprovalAsked,
    CommandRefused,
    ContextClosed,
    ContextOpened,
    ContextRan,
    ContextRefused,
    Escalated,
    Event,
    FilesUsed,
    HookAnswered,
    Leaked,
    LimitNear,
    LimitReached,
    LimitsExtended,
    ReachChanged,
    RunEnded,
    RunHeld,
    RunLost,
    RunReady,
    RunReleased,
    RunStarted,
    SafeCorrected,
    SessionNamed,
    ShellCommandBegan,
    ShellCommandEnded,
    SilentButWorking,
    TrialChanged,
    Unusual,
)
from shelltie.frontends.reports.terminal_events import as_terminal_event
from shelltie.model import signal_name
from shelltie.record.facts import FactMaker

NAMES: Mapping[type, str] = {
    CommandRefused: "command:refused",
    HookAnswered: "hook:answered",
    SafeCorrected: "command:corrected",
    TrialChanged: "trial:changed",
    FilesUsed: "files:used",
    ApprovalAsked: "approval:asked",
    ApprovalAnswered: "approval:answered",
    RunReady: "run:ready",
    RunStarted: "run:started",
    LimitNear: "limit:near",
    SilentButWorking: "limit:forgiven",
    Unusual: "run:unusual",
    LimitsExtended: "limit:extended",
    LimitReached: "limit:reached",
    Escalated: "run:signalled",
    Leaked: "run:leaked",
    RunEnded: "run:ended",
    RunLost: "run:lost",
    RunHeld: "run:held",
    RunReleased: "run:released",
    ReachChanged: "run:reach",
    Alerted: "alert",
    SessionNamed: "session:named",
    ShellCommandBegan: "shell:began",
    ShellCommandEnded: "shell:ended",
    ContextOpened: "session:opened",
    ContextClosed: "session:closed",
    ContextRan: "session:ran",
    ContextRefused: "session:refused",
}


class EventJson:
    """Remembers who asked for what, so that each object says all that a record would."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._scribe = FactMaker(secrets)

    def of(self, event: Event) -> dict[str, object] | None:
        """The object, or nothing for what only prepares another event."""
        fact = self._scribe.fact(event)
        name = NAMES.get(type(event))
        body = _more(event) if fact is None else fact.body
        if name is None or body is None:
            return None
        run = getattr(event, "run", None)
        seed = as_terminal_event(event)
        known = {} if seed is None else {"event": seed["type"]}
        return {"type": name, **known, "at": iso_utc(event.at), "runId": run, **body}


def _more(event: Event) -> dict[str, object] | None:
    """What no record needs, because the end of the run says it again."""
    match event:
        case LimitReached():
            told = {"limit": str(event.limit), "idle": round(event.idle, 3)}
            return {**told, "message": event.message}
        case Unusual():
            return {"why": event.why, "message": event.message}
        case Alerted():
            figures = {"value": event.value, "threshold": event.threshold, "over": event.over}
            return {"alert": event.alert, "message": event.message, **figures}
        case SilentButWorking():
            return {"idle": round(event.idle, 3), "message": event.message}
        case Escalated():
            return {"signal": signal_name(event.signal)}
        case RunLost():
            told = {"command": event.command, "cwd": event.cwd, "client": event.client}
            return {**told, "leftovers": list(event.ended), "file": event.file, "kept": event.size}
        case _:
            return None
