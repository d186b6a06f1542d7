"""Event → journal fact with secrets redacted (FactMaker). Pure."""

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cache, partial, singledispatchmethod

from shelltie.basics.frozen import frozen, mutable
from shelltie.basics.memo import memoized
from shelltie.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Asker,
    CommandAsked,
    CommandJudged,
    CommandRefused,
    ContextClosed,
    ContextOpened,
    ContextRan,
    ContextRefused,
    Event,
    FilesUsed,
    HookAnswered,
    Leaked,
    LimitNear,
    LimitsExtended,
    ReachChanged,
    RunEnded,
    RunHeld,
    RunReady,
    RunReleased,
    RunStarted,
    SafeCorrected,
    SessionNamed,
    ShellCommandBegan,
    ShellCommandEnded,
    TrialChanged,
)
from shelltie.model import Limits, Outcome, Printed, Sample, State
from shelltie.output.redact import Redactor
from shelltie.verdict import Decision, Rating, foremost

_NOT_RUN = (126, 127)  # there was nothing to run, so it says nothing about how long it takes


def sample_of(ready: RunReady, outcome: Outcome) -> Sample | None:
    """What is remembered of a run; nothing if somebody stopped it, or if it has no shape.

    A limit that the caller gave says nothing about the policy's.
    """
    if not ready.shape:
        return None
    seen = Sample(outcome.duration, outcome.longest_silence, outcome.longest_idle)
    match outcome.state:
        case State.FINISHED:
            ran = outcome.exit.signal is None and outcome.exit.code not in _NOT_RUN
            return seen if ran else None
        case State.TIMED_OUT if ready.limits.by_policy:
            return Sample(seen.duration, seen.silence, seen.idle, by_limit=True)
        case _:
            return None


_ASKED_MAX = 300  # what a shell is asked first is never settled: the oldest are forgotten
_REASONS_MAX = 10
_TREE_MAX = 30  # processes
_COMMAND_MAX = 16 * 1024
_SOURCE_MAX = 120  # it may quote a long pattern

Body = dict[str, object]


@frozen
class Fact:
    """One thing to be recorded."""

    run: str
    at: float
    kind: str
    body: Body


CORRECTED = "corrected"  # what was rated safe, and was not


@mutable
class _Case:
    """What is known of a command that has not been settled."""

    asked: CommandAsked
    redactor: Redactor
    judged: CommandJudged | None = None
    approved_by: str | None = None
    begun: bool = False
    ready: RunReady | None = None


@mutable
class FactMaker:
    """Turns events into facts. `secrets` are values that no record may have, by their names."""

    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    _usual: Redactor = field(init=False)
    _told_usually: Callable[[str], str] = field(init=False, repr=False)
    _cases: dict[str, _Case] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._usual = Redactor(self.secrets)
        self._told_usually = memoized(partial(_told, self._usual))

    def fact(self, event: Event) -> Fact | None:
        """What to record about it, if anything."""
        made = _WRITES(type(event))(self, event)
        if made is None:
            return None
        kind, body = made
        run = getattr(event, "run", None)
        return Fact(run or "", event.at, kind, body)

    @singledispatchmethod
    def _write(self, _: object) -> tuple[str, Body] | None:
        return None  # not of interest to a record

    # What was asked, and may it

    @_write.register
    def _(self, event: CommandAsked) -> None:
        more = {k: v for k, v in event.secrets.items() if self.secrets.get(k) != v}
        redactor = Redactor({**self.secrets, **more}) if more else self._redactor(event.run)
        before = self._cases.get(event.run)  # a shell that runs, and is asked for more
        begun = before is not None and before.begun
        self._cases[event.run] = _Case(event, redactor, begun=begun)
        if len(self._cases) > _ASKED_MAX:
            idle = (run for run, case in self._cases.items() if not case.begun)
            del self._cases[next(idle, next(iter(self._cases)))]

    @_write.register
    def _(self, event: CommandJudged) -> None:
        if (case := self._cases.get(event.run)) is not None:
            case.judged = event

    @_write.register
    def _(self, event: ApprovalAsked) -> tuple[str, Body]:
        return "asked", {**self._known(event.run), "question": event.question}

    @_write.register
    def _(self, event: ApprovalAnswered) -> tuple[str, Body]:
        case = self._cases.get(event.run)
        if case is not None and event.allowed:
            case.approved_by = event.by
        return "answered", {
            "question": event.question,
            "allowed": event.allowed,
            "by": event.by,
            "scope": event.scope,
            "reason": self._usual.audit(event.reason),
        }

    @_write.register
    def _(self, event: CommandRefused) -> tuple[str, Body]:
        return "refused", self._refusal(event)

    @_write.register
    def _(self, event: HookAnswered) -> tuple[str, Body]:
        body = {**self._known(event.run), "answer": event.answer or "none"}
        if event.answer != "deny":  # else its refusal follows
            self._cases.pop(event.run, None)
        return "hook", body

    @_write.register
    def _(self, event: SafeCorrected) -> tuple[str, Body]:
        told = _told(self._redactor(event.run), event.command)
        return CORRECTED, {"command": told, "message": event.message}

    @_write.register
    def _(self, event: TrialChanged) -> tuple[str, Body]:
        return "trial", {
            "trial": event.trial,
            "status": event.status,
            "summary": event.summary,
            "workspace": event.workspace,
            "by": event.by,
            "paths": [self._usual.audit(path) for path in event.paths],
        }

    @_write.register
    def _(self, event: FilesUsed) -> tuple[str, Body]:
        caller = event.caller
        return "files", {
            "action": event.action,
            "path": _told(self._usual, event.path),
            "workspace": self._told(self._usual, event.workspace),
            "provider": event.provider,
            "client": caller.client,
            "agent": caller.agent,
            "task": caller.task,
            "session": caller.session,
            "bytes": event.size,
            "entries": event.entries,
            "local": _told(self._usual, event.local),
            "problem": event.problem,
        }

    @_write.register
    def _(self, event: ContextRefused) -> tuple[str, Body]:
        body = {**self._refusal(event), **_asker(event.asker)}
        return "refused", {**body, "details": self._clean(event.details)}

    def _refusal(self, event: CommandRefused) -> Body:
        known, redactor = self._known(event.run), self._redactor(event.run)
        if (case := self._cases.get(event.run)) is not None and not case.begun:
            del self._cases[event.run]  # otherwise it was for a shell that runs on
        return {
            **known,
            "command": _told(redactor, event.command),
            "code": event.code,
            "message": redactor.audit(event.message),
        }

    # Runs

    @_write.register
    def _(self, event: RunReady) -> tuple[str, Body]:
        place: Body = {"provider": event.provider, "isolation": event.isolation}
        if (case := self._cases.get(event.run)) is not None:
            case.begun = True
            case.ready = event
        if event.size is not None:
            place |= {"rows": event.size.rows, "columns": event.size.columns}
        return "ready", {**self._known(event.run), **place, "limits": _limits(event.limits)}

    @_write.register
    def _(self, event: RunStarted) -> tuple[str, Body]:
        return "started", {"pid": event.pid}

    @_write.register
    def _(self, event: LimitNear) -> tuple[str, Body]:
        times = {"idle": round(event.idle, 3), "left": round(event.left, 3)}
        return "warned", {"limit": str(event.limit), **times, "message": event.message}

    @_write.register
    def _(self, event: LimitsExtended) -> tuple[str, Body]:
        return "extended", {"by": event.by, "limits": _limits(event.limits)}

    @_write.register
    def _(self, event: Leaked) -> tuple[str, Body]:
        return "leaked", {"pids": list(event.pids)}

    @_write.register
    def _(self, event: RunEnded) -> tuple[str, Body]:
        redactor = self._redactor(event.run)
        case = self._cases.pop(event.run, None)
        body = {**_outcome(event.outcome, redactor), "output": _printed(event.printed)}
        if case is not None and case.ready is not None:
            body |= _sample(case.ready, event.outcome, redactor)
        return "ended", body

    @_write.register
    def _(self, event: RunHeld) -> tuple[str, Body]:
        return "held", {"client": event.client}

    @_write.register
    def _(self, event: RunReleased) -> tuple[str, Body]:
        return "released", {"reason": event.reason}

    @_write.register
    def _(self, event: ReachChanged) -> tuple[str, Body]:
        reach = {"place": event.place, "reachable": event.reachable}
        return "reach", {**reach, "message": event.message}

    @_write.register
    def _(self, event: SessionNamed) -> tuple[str, Body]:
        return "session_named", {"session": event.session}

    @_write.register
    def _(self, event: ShellCommandBegan) -> tuple[str, Body]:
        command = _told(self._redactor(event.run), event.command)
        return "shell_began", {"number": event.number, "command": command}

    @_write.register
    def _(self, event: ShellCommandEnded) -> tuple[str, Body]:
        return "shell_ended", {"number": event.number, "exitCode": event.exit_code}

    # Contexts

    @_write.register
    def _(self, event: ContextOpened) -> tuple[str, Body]:
        return "session_opened", {
            **_asker(event.asker),
            "cwd": self._told(self._usual, event.cwd),
        }

    @_write.register
    def _(self, event: ContextClosed) -> tuple[str, Body]:
        told: Body = {"reason": event.reason, "commands": event.commands}
        return "session_closed", {**_asker(event.asker), **told}

    @_write.register
    def _(self, event: ContextRan) -> tuple[str, Body] | None:
        """A run has its own end. Only of a program that was not there this is all there is."""
        if event.run is not None:
            return None
        command = _told(self._usual, event.command)
        outcome = _outcome(event.outcome, self._usual)
        return "ended", {**_asker(event.asker), "command": command, **outcome}

    # What was said before

    def _known(self, run: str) -> Body:
        case = self._cases.get(run)
        if case is None:
            return {}
        asked, caller = case.asked, case.asked.caller
        body: Body = {
            "command": self._told(case.redactor, asked.command),
            "cwd": self._told(case.redactor, asked.cwd),
            "client": caller.client,
            "agent": caller.agent,
            "task": caller.task,
            "session": caller.session,
            "staysOpen": asked.stays_open,
        }
        if case.judged is not None:
            body |= _verdict(case.judged, case.redactor)
        if case.approved_by is not None:
            body |= {"approvedBy": case.approved_by}
        return body

    def _redactor(self, run: str) -> Redactor:
        case = self._cases.get(run)
        return self._usual if case is None else case.redactor

    def _told(self, redactor: Redactor, command: str) -> str:
        """What is told with the secrets of a call in mind is not remembered, nor are they."""
        return self._told_usually(command) if redactor is self._usual else _told(redactor, command)

    def _clean(self, value: object) -> object:
        """Anything, in the words of JSON and without secrets."""
        if isinstance(value, Mapping):
            return {str(key): self._clean(one) for key, one in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self._clean(one) for one in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        return self._usual.audit(str(value))


# By kind of event, once: to look it up each time costs more than to write.
_WRITES: Callable[[type], Callable[[FactMaker, Event], tuple[str, Body] | None]] = cache(
    FactMaker.__dict__["_write"].dispatcher.dispatch
)


def folded(facts: list[Fact]) -> list[Fact]:
    """The same, without starts whose end is there, too: that says who it was as well."""
    started = {fact.run: fact for fact in facts if fact.kind == "started"}
    if not started:
        return facts
    ended = {fact.run: fact for fact in facts if fact.kind == "ended" and fact.run in started}
    for run, end in ended.items():
        end.body["pid"] = started[run].body["pid"]
    return [fact for fact in facts if fact.kind != "started" or fact.run not in ended]


def _told(redactor: Redactor, command: str) -> str:
    """A command without secrets. It is cut last: half a secret could not be recognised."""
    text = redactor.audit(command)
    more = len(text) - _COMMAND_MAX
    return text if more <= 0 else f"{text[:_COMMAND_MAX]}… ({more} characters more)"


def _asker(asker: Asker) -> Body:
    return {"session": asker.session, "task": asker.task, "agent": asker.agent}


def _verdict(judged: CommandJudged, redactor: Redactor) -> Body:
    reasons = foremost(judged.verdict.reasons, _REASONS_MAX)
    verdict = judged.verdict
    proved = verdict.agreed or verdict.rating is not Rating.SAFE
    body: Body = {
        "verdict": str(verdict.rating if proved else Rating.UNKNOWN),
        "decision": str(judged.decision),
        "reasons": [str(reason.code) for reason in reasons],
    }
    if judged.decision is not Decision.ALLOW:
        body["why"] = [redactor.audit(reason.message) for reason in reasons]
    return body


def _limits(limits: Limits) -> Body:
    return {
        "total": limits.total,
        "silence": limits.silence,
        "source": limits.source[:_SOURCE_MAX],
        "category": limits.category,
    }


def _outcome(outcome: Outcome, redactor: Redactor) -> Body:
    return {
        "state": str(outcome.state),
        "exitCode": outcome.exit.number,
        "signal": outcome.exit.signal_name,
        "duration": round(outcome.duration, 6),
        "limit": None if outcome.limit is None else str(outcome.limit),
        "idle": round(outcome.idle, 3),
        "endedBy": None if outcome.ended is None else str(outcome.ended),
        "stopReason": None if outcome.stop_reason is None else redactor.audit(outcome.stop_reason),
        "survivors": outcome.survivors,
        "leaked": list(outcome.leaked_pids) if outcome.leaked else None,
        "cpu": outcome.cpu,
        "error": None if outcome.error is None else redactor.audit(outcome.error),
        "warnings": [redactor.audit(warning) for warning in outcome.warnings],
        **_last_look(outcome, redactor),
    }


def _last_look(outcome: Outcome, redactor: Redactor) -> Body:
    """The processes before they were ended, and whether they waited for somebody to type."""
    seen = outcome.sighting
    if outcome.state not in (State.TIMED_OUT, State.KILLED) or seen is None:
        return {}
    rows = (
        {"pid": one.pid, "parent": one.parent, "name": redactor.audit(one.name), "cpu": one.cpu}
        for one in outcome.tree[:_TREE_MAX]
    )
    waits = "password" if seen.password else "input"
    told = {"processes": seen.processes, "tree": [*rows]}
    return {**told, "waitedFor": waits if seen.waits_for_input else None}


def _sample(ready: RunReady, outcome: Outcome, redactor: Redactor) -> Body:
    sample = sample_of(ready, outcome)
    # What is secret in it is there only once: there is nothing to learn from it.
    if sample is None or any(redactor.audit(one) != one for one in (ready.shape, ready.project)):
        return {}
    return {
        "sample": {
            "shape": ready.shape,
            "project": ready.project,
            "silence": round(sample.silence, 3),
            "idle": round(sample.idle, 3),
            "byLimit": sample.by_limit,
        }
    }


def _printed(printed: Printed) -> Body:
    return {
        "stdout": printed.stdout,
        "stderr": printed.stderr,
        "file": printed.file,
        "kept": printed.kept,
        "sha256": printed.digest,
    }
