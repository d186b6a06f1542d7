"""JSON answers about agent tasks: state, heartbeats, errors, suggestions; times in ms."""

import time
from collections.abc import Callable, Mapping
from typing import Any, cast

from shelltie.agents import advice as agent_advice
from shelltie.agents.advice import advise, missing_program
from shelltie.agents.jsonl_events import EventLines, ParsedChunk
from shelltie.agents.timeout_watchdog import EVENTS_MAX, TAIL_MAX, PartialResults
from shelltie.basics import visible_text
from shelltie.basics.frozen import frozen
from shelltie.basics.json_codec import as_json
from shelltie.basics.times import human_duration, iso_utc, milliseconds
from shelltie.frontends.reports.state_names import limit_code, limits_in_ms
from shelltie.model import Ended, Limit, Outcome, State, Stream
from shelltie.output.redact import Redactor
from shelltie.output.text import decode, last_line, whole_start
from shelltie.running import messages
from shelltie.running.run import Run
from shelltie.shell import shape

TaskAnswer = dict[str, object]
_ACTIVITY_MAX = 60
_NO_NAME = "The command"
_NAMES = {"codex": "Codex CLI", "claude": "Claude Code", "gemini": "Gemini CLI"}


@frozen
class Heartbeats:
    """Whether they keep a task alive, and which lines are some beside events of that type."""

    count: bool = True
    found_in: Callable[[str], bool] | None = None


@frozen
class TaskError:
    """Why a task ended badly; `errno` is for a timeout alone."""

    code: str
    kind: str
    reason: str
    message: str
    idle_ms: int
    wall_clock_ms: int
    pid: int | None
    killed: bool
    signal: str | None
    started_at: str
    last_activity_at: str
    errno: str = "ETIMEDOUT"


class AgentTask:
    """Another agent at work: a run, and the events it prints to stdout, one JSON object a line."""

    def __init__(
        self,
        task_id: str,
        run: Run,
        beats: Heartbeats = Heartbeats(),  # noqa: B008  frozen
        *,
        redact: bool = False,
    ) -> None:
        """Make it as soon as the run is there: what was printed before is not looked at."""
        self.id = task_id
        self.run = run
        self.subject = name_of(run.command.text)
        self.heartbeats = 0
        self.lines = EventLines(EVENTS_MAX, TAIL_MAX, beats.found_in)
        self._seen = ParsedChunk()
        self._redactor = Redactor(run.surroundings.secrets)
        self._redacts = redact
        run.on_output.append(self._hear)
        run.is_silence = None if beats.count else self._only_beats
        run.on_ended.append(self._end)

    def activity(self) -> str:
        """What it says it does, in a few words without secrets."""
        last = self.last_event
        kind = "" if last is None else str(last.get("type", ""))
        return visible_text.brief(self._redactor.text(kind), _ACTIVITY_MAX)

    @property
    def last_event(self) -> dict[str, Any] | None:
        """The newest one."""
        events = self.lines.events
        return events[-1] if events else None

    def partial(self) -> TaskAnswer:
        """What there is so far."""
        return as_json(
            PartialResults(
                last_events=tuple(self.plain(event) for event in self.lines.events),
                stdout_tail=self._tail(Stream.STDOUT),
                stderr_tail=self._tail(Stream.STDERR),
                last_activity_at=iso_utc(time.time() - self.run.idle),
                events_count=self.lines.count,
                events_dropped=self.lines.dropped,
            )
        )

    def _hear(self, stream: Stream, chunk: memoryview) -> None:
        if stream is Stream.STDOUT:
            self._seen = self.lines.feed(bytes(chunk))
            self.heartbeats += self._seen.heartbeats

    def _only_beats(self, stream: Stream) -> bool:
        said = self._seen.events or self._seen.others or self.lines.in_text
        return stream is Stream.STDOUT and not said

    def _end(self) -> None:
        self.heartbeats += self.lines.flush().heartbeats

    def _tail(self, stream: Stream) -> str:
        part = self.run.output.view(stream, 0, TAIL_MAX)
        text = decode(whole_start(part.tail) if part.omitted else part.tail)
        return self._redactor.text(text) if self._redacts else text

    def plain(self, value: object) -> object:
        """An event, without secrets if they are not wanted."""
        if not self._redacts:
            return value
        match value:
            case str():
                return self._redactor.text(value)
            case list():
                return [self.plain(item) for item in value]
            case dict():
                return {self.plain(name): self.plain(item) for name, item in value.items()}
            case _:
                return value


def name_of(command: str) -> str:
    """What people call the program: `Codex CLI` for `codex exec …`."""
    name = shape.program(command)
    if name == shape.NO_PROGRAM:
        return _NO_NAME
    return _NAMES.get(name) or visible_text.brief(name, _ACTIVITY_MAX)


def answer(task: AgentTask) -> TaskAnswer:
    """How a task is, or how it ended."""
    run, outcome, limits = task.run, task.run.outcome, task.run.rules.limits
    ok = outcome is None or outcome.ok
    made: TaskAnswer = {"success": ok, "taskId": task.id, "status": _status(outcome)}
    if outcome is not None and not outcome.ok:
        made["error"] = _error(task, outcome)
        made["partial"] = task.partial()
        made["recovery"] = _recovery(task, outcome)
        made["summary"] = _summary(task, outcome)
    else:
        made["partial" if outcome is None else "output"] = task.partial()
    return made | {
        "exitCode": None if outcome is None else outcome.exit.number,
        "durationMs": milliseconds(run.elapsed if outcome is None else outcome.duration),
        "neverStarted": run.output.total == 0,
        "lastEvent": task.plain(task.last_event),
        "heartbeats": task.heartbeats,
        "limits": {**as_json(limits_in_ms(limits)), "notes": [*limits.notes]},
        "warnings": [*limits.notes, *run.warnings],
        "provider": run.provider,
        "isolation": run.isolation,
        "runId": run.id,
    }


def suggestions(subject: str) -> list[str]:
    """What may help after a timeout."""
    return [
        "Increase timeout for this task type",
        f"Check {'its' if subject == _NO_NAME else subject} logs for errors",
        "Verify network connectivity",
        "Try with smaller scope or simpler task",
    ]


def to_find(program: str) -> list[str]:
    """What may help when a program is not there."""
    return [
        f"Install {program} where the server runs",
        "Give the whole path of the program as command",
        "Pass a PATH that has it with env",
        "Check how its name is spelled",
    ]


def _status(outcome: Outcome | None) -> str:
    if outcome is None:
        return "running"
    if outcome.state is State.TIMED_OUT:
        return "timeout"
    return "completed" if outcome.ok else "failed"


def _error(task: AgentTask, outcome: Outcome) -> TaskAnswer:
    code, kind, reason, message = _what(task, outcome)
    after = outcome.timed_out_after
    error = TaskError(
        code=code,
        kind=kind,
        reason=reason,
        message=message,
        idle_ms=milliseconds(outcome.idle),
        wall_clock_ms=milliseconds(outcome.duration if after is None else after),
        pid=task.run.pid,
        killed=outcome.ended is not None,
        signal=_signal(outcome),
        started_at=iso_utc(task.run.started_at),
        last_activity_at=iso_utc(time.time() - task.run.idle),
    )
    timed_out = kind in ("inactivity", "deadline")
    return {name: it for name, it in as_json(error).items() if timed_out or name != "errno"}


def _what(task: AgentTask, outcome: Outcome) -> tuple[str, str, str, str]:
    """Code, kind, reason and a sentence."""
    subject, limits = task.subject, task.run.rules.limits
    if outcome.limit is not None:
        code, kind = limit_code(outcome.limit)
        return code, kind, kind, messages.limit_reached(outcome.limit, limits, subject)
    if outcome.state is State.KILLED:
        code, kind = limit_code(Limit.TOTAL)
        why = f"{subject} execution was manually aborted: {outcome.stop_reason}."
        return code, kind, "manual", why
    if outcome.state is State.SPAWN_FAILED:
        return "SPAWN_ERROR", "spawn", "spawn", f"{subject} could not be started: {outcome.error}"
    missing = missing_program(outcome.exit.code, _stderr_end(task))
    if missing is not None:
        why = f"{task.plain(missing)} was not found: it is not installed, or not on the PATH"
        return "EXIT_ERROR", "exit", "exit", f"{why} that commands get here (exit code 127)."
    how = f"exit code {outcome.exit.code}"
    if outcome.exit.signal_name is not None:
        how = f"signal {outcome.exit.signal_name}, which shelltie did not send"
    said = task.plain(last_line(task.run.output.view(None, 0, 4096).tail))
    more = f" Its last line: {said!r}." if said else ""
    return "EXIT_ERROR", "exit", "exit", f"{subject} ended with {how}.{more}"


def _signal(outcome: Outcome) -> str | None:
    """What we sent last, or what it died of."""
    if outcome.ended is None:
        return outcome.exit.signal_name
    return "SIGKILL" if outcome.ended is Ended.HARD else "SIGTERM"


def _recovery(task: AgentTask, outcome: Outcome) -> TaskAnswer:
    kind = _what(task, outcome)[1]
    never = task.run.output.total == 0
    said, code = _stderr_end(task), outcome.exit.code
    last = cast(dict[str, Any] | None, task.plain(task.last_event))
    advice = advise(agent_advice.FailedTask(kind, task.lines.count, never, last, said, code))
    return {"suggestions": _suggested(task, outcome), "advice": as_json(advice)}


def _suggested(task: AgentTask, outcome: Outcome) -> list[str]:
    missing = missing_program(outcome.exit.code, _stderr_end(task))
    if missing is None:
        return suggestions(task.subject)
    return [str(task.plain(one)) for one in to_find(missing)]


def _stderr_end(task: AgentTask) -> str:
    return decode(task.run.output.view(Stream.STDERR, 0, 2048).tail)


def _summary(task: AgentTask, outcome: Outcome) -> str:
    """For people."""
    after = outcome.timed_out_after
    count = task.lines.count
    captured = f"{count} event{'s' * (count != 1)} captured"
    return "\n".join(
        [
            _what(task, outcome)[3],
            f"Task: {task.id}",
            f"Elapsed: {human_duration(outcome.duration if after is None else after)}",
            f"Last activity: {human_duration(outcome.idle)} ago",
            f"Partial results available ({captured}).",
            *(f"- {suggestion}" for suggestion in _suggested(task, outcome)),
        ]
    )


def failure(code: str, message: str, more: Mapping[str, object] | None = None) -> TaskAnswer:
    """Why nothing was run."""
    error = {"code": code, "kind": "refused", "reason": "refused", "message": message}
    return {"success": False, "status": "refused", "error": error, **(more or {})}
