"""MCP tools `agent_task` and `agent_wait`: start another agent, wait for its events."""

import json
from collections.abc import Mapping
from typing import Any

import anyio
from mcp_types import CallToolResult, TextContent

from shelltie.agents.advice import Advice
from shelltie.agents.agent_limits import MODES, agent_limits
from shelltie.agents.timeout_watchdog import PartialResults
from shelltie.basics.frozen import frozen, mutable
from shelltie.basics.ids import MillisecondIds
from shelltie.basics.safe_regex import compile_for_output
from shelltie.errors import CommandDenied, ConfigWrong, TerminalError, UnknownSession
from shelltie.frontends.api import Options, parse_options
from shelltie.frontends.mcp.request import FollowedRun, ToolCall
from shelltie.frontends.mcp.run_to_session import Handover, running_fields
from shelltie.frontends.mcp.tools.schema import (
    COUNT,
    CWD,
    ENV,
    FLAG,
    GOES_ON,
    OBJECT,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    Acts,
    Schema,
    answer_fields,
    declare,
    optional,
    or_null,
    read,
    required,
    schema_of,
    sendable,
)
from shelltie.frontends.reports import agent_report
from shelltie.frontends.reports.agent_report import AgentTask, Heartbeats, TaskAnswer
from shelltie.frontends.reports.run_report import refusal_report
from shelltie.frontends.reports.state_names import MillisecondLimits
from shelltie.running.options import RunOptions
from shelltie.sessions.session import Session
from shelltie.settings.all_settings import AgentTaskSettings
from shelltie.settings.config import Config

_ENDED_KEPT, _ENDED_KEPT_FOR = 50, 600.0  # tasks that ended and were not asked for since


@frozen
class TaskArguments:
    """What `agent_task` takes."""

    command: str = required(
        'The program, such as "codex exec --json -" or "claude -p".', minLength=1
    )
    task: str | None = optional("What it shall do, on its stdin.")
    mode: str | None = optional(
        "Its limits: read-only 2 min idle, 10 in all; workspace-write 5 and 20; cloud none.",
        enum=[*MODES],
    )
    idle_ms: float | None = optional(
        "End it after no output for so long (300000).",
        "idleTimeoutMs",
        minimum=0,
    )
    hard_ms: float | None = optional(
        "End it after so long in all (1200000).",
        "hardTimeoutMs",
        minimum=0,
    )
    cwd: str | None = optional(CWD)
    env: Mapping[str, str] | None = optional(ENV)


@frozen
class WaitArguments:
    """What `agent_wait` takes."""

    task_id: str = required("That of agent_task.", "taskId")


_MOMENT = {"type": "string", "format": "date-time"}
_ERROR = answer_fields(
    agent_report.TaskError,
    null=True,
    kind={"enum": ["inactivity", "deadline", "exit", "spawn", "refused"]},
    started_at=_MOMENT,
    last_activity_at=_MOMENT,
    errno=TEXT,
)
_PARTIAL = answer_fields(
    PartialResults,
    last_events={"type": "array", "items": {"type": "object"}, "maxItems": 50},
    last_activity_at=_MOMENT,
)
_ADVICE = answer_fields(Advice)
_LIMITS = {**answer_fields(MillisecondLimits, null=True), "notes": TEXTS}
_OUTPUT: Schema = {
    "type": "object",
    "properties": {
        "success": FLAG,
        "taskId": TEXT,
        "status": {"enum": ["completed", "failed", "timeout", "running", "refused"]},
        "error": {"type": "object", "properties": _ERROR},
        "partial": {**OBJECT, "description": "as output"},
        "output": {"type": "object", "properties": _PARTIAL},
        "recovery": {
            "type": "object",
            "properties": {
                "suggestions": TEXTS,
                "advice": {"type": "object", "properties": _ADVICE},
            },
        },
        "summary": TEXT,
        "exitCode": or_null({"type": "integer"}),
        "durationMs": COUNT,
        "neverStarted": FLAG,
        "lastEvent": or_null({"type": "object"}),
        "heartbeats": COUNT,
        "limits": {"type": "object", "properties": _LIMITS},
        "warnings": TEXTS,
        "provider": TEXT,
        "isolation": TEXT,
        "runId": TEXT,
        **GOES_ON,
        "hint": TEXT,
        "verdict": TEXT_OR_NULL,
        "reasons": {"type": "array", "items": {"type": "object"}},
        "details": {"type": "object"},
    },
    "required": ["success", "status"],
}

TASK = declare(
    "agent_task",
    "Run another agent",
    """\
Run another agent's command line, or a program that takes minutes and prints JSON lines, and \
notice when it hangs: at a limit it is ended with everything it started. For ordinary commands use \
`run`.

- The answer has its last 50 events, the ends of stdout and stderr, and after a bad end `error` \
and `recovery.advice`: whether to try again, and how.
- If it takes longer than you can wait, `status` is "running": call agent_wait with its `taskId` \
until it has ended; do not start it again.""",
    Acts.RUNS,
    schema_of(TaskArguments),
    _OUTPUT,
)

WAIT = declare(
    "agent_wait",
    "Wait for another agent",
    """\
Wait for a task of agent_task: the same answer, "running" or its end, which is told once. To end a \
task, give its `sessionId` to terminal_stop.""",
    Acts.READS,
    schema_of(WaitArguments),
    _OUTPUT,
)

TOOLS = [TASK, WAIT]


@mutable
class _StartedTask:
    """A task that goes on, whose it is, and the session it goes on as."""

    owner: str
    task: AgentTask
    session: Session


class AgentTools:
    """The tasks of all clients; each sees its own only."""

    def __init__(self, handover: Handover, config: Config) -> None:
        self._handover = handover
        self._redact = config.output.redact
        self._beats = _heartbeats(config.agent)
        self._caps = config.agent
        self._ids = MillisecondIds()
        self._kept: dict[str, _StartedTask] = {}

    async def start(self, call: ToolCall) -> CallToolResult:
        """Start a task, and wait for it as long as the client does.

        Raises: TerminalError; then nothing was started.
        """
        given = read(call.arguments, TaskArguments)
        limits = agent_limits(given.idle_ms, given.hard_ms, given.mode, self._caps)
        about: Options = {"cwd": given.cwd, "env": given.env, "stdin": given.task}
        command, _ = parse_options(given.command, about)
        options = RunOptions(limits=limits, requester=call.requester)
        run = await self._handover.supervisor.start(command, options)
        task = AgentTask(f"task-{self._ids.new()}", run, self._beats, redact=self._redact)
        session = await self._handover.wait(FollowedRun(run, task.id, task.activity), call)
        if session is None:
            return _result(agent_report.answer(task))
        self._forget_old()
        kept = self._kept[task.id] = _StartedTask(call.owner, task, session)
        return _result(_goes_on(kept))

    async def wait(self, call: ToolCall) -> CallToolResult:
        """Wait for a task that goes on.

        Raises: InvalidParameters, UnknownSession.
        """
        kept = self._find(read(call.arguments, WaitArguments).task_id, call.owner)
        task, run = kept.task, kept.task.run
        call.follow(FollowedRun(run, task.id, task.activity))
        with anyio.move_on_at(call.until):
            await run.wait()
        if run.outcome is None:
            return _result(_goes_on(kept))
        kept.session.mark_delivered(0, kept.session.position)  # nobody needs it any more
        self._kept.pop(task.id, None)
        return _result(agent_report.answer(task))

    def _find(self, task_id: str, owner: str) -> _StartedTask:
        self._forget_old()
        kept = self._kept.get(task_id)
        if kept is None or kept.owner != owner:
            raise UnknownSession(
                f"Task {task_id[:100]} not found: it is not yours, or its end was told already"
            )
        return kept

    def _forget_old(self) -> None:
        ended = [one for one in self._kept.values() if one.task.run.outcome is not None]
        old = [one for one in ended if one.session.idle > _ENDED_KEPT_FOR]
        for one in [*old, *ended[: max(0, len(ended) - _ENDED_KEPT)]]:
            self._kept.pop(one.task.id, None)


def _heartbeats(agent: AgentTaskSettings) -> Heartbeats:
    """What the settings say about them.

    Raises: ConfigWrong.
    """
    if agent.heartbeat is None:
        return Heartbeats(agent.heartbeat_counts)
    try:
        pattern = compile_for_output(agent.heartbeat)
    except ValueError as error:
        raise ConfigWrong(f"agent.heartbeat {error}") from error
    return Heartbeats(agent.heartbeat_counts, pattern.found_in)


def _goes_on(kept: _StartedTask) -> TaskAnswer:
    more = running_fields(kept.session, shown=False)
    name = kept.task.id
    hint = (
        f'It goes on as task {name}. Call agent_wait with {{"taskId": "{name}"}} until it has'
        f" ended; do not start it again. terminal_stop ends it ({kept.session.id})."
    )
    return agent_report.answer(kept.task) | more | {"hint": hint}


def refused(error: TerminalError) -> CallToolResult:
    """Why nothing was run."""
    more = refusal_report(error) if isinstance(error, CommandDenied) else None
    return _result(agent_report.failure(error.code, str(error), more))


def _result(answer: dict[str, Any]) -> CallToolResult:
    """Pretty-printed, as whoever reads a timeout by eye wants it."""
    answer = sendable(answer)
    said = json.dumps(answer, ensure_ascii=False, indent=2)
    return CallToolResult(
        content=[TextContent(type="text", text=said)],
        structured_content=answer,
        is_error=answer["success"] is not True,
    )
