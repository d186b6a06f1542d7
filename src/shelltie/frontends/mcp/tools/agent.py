"""MCP tools `agent_task` and `agent_wait`: start another agent, wait for its events."""

import json
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import anyio
from mcp_types import CallToolResult, TextContent

from shelltie.agents.agent_limits import MODES, AgentCaps, AllowedRange, agent_limits
from shelltie.basics.safe_regex import compile_for_output
from shelltie.errors import CommandDenied, ConfigWrong, TerminalError, UnknownSession
from shelltie.frontends.api import Options, parse_options
from shelltie.frontends.mcp.handover import Handover, running_fields
from shelltie.frontends.mcp.request import FollowedRun, ToolCall
from shelltie.frontends.mcp.tools.schema import (
    COUNT,
    COUNT_OR_NULL,
    FLAG,
    GOES_ON,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    Acts,
    Schema,
    check,
    declare,
    or_null,
    sendable,
    strict,
)
from shelltie.frontends.wire import agent
from shelltie.frontends.wire.agent import AgentTask, Heartbeats, TaskAnswer
from shelltie.frontends.wire.run import refusal_report
from shelltie.running.options import RunOptions
from shelltie.sessions.session import Session
from shelltie.settings.config import Config

_log = logging.getLogger(__name__)

_KEPT_MOST, _KEPT_FOR = 50, 600.0  # tasks that ended and were not asked for since
_MS: Schema = {"type": "number", "minimum": 0}

_INPUT = strict(
    {
        "command": {
            "type": "string",
            "minLength": 1,
            "description": 'The program, such as "codex exec --json -" or "claude -p".',
        },
        "task": {
            "type": "string",
            "description": "What it shall do; it reads this from its stdin.",
        },
        "mode": {
            "type": "string",
            "enum": [*MODES],
            "description": "Which limits it gets: read-only 2 min idle and 10 min in all, "
            "workspace-write 5 and 20, cloud none. It does not limit what it may do.",
        },
        "idleTimeoutMs": {
            **_MS,
            "description": "Ended after no output for this long (300000; 60000 to 1800000).",
        },
        "hardTimeoutMs": {
            **_MS,
            "description": "Ended after this long in any case (1200000; 300000 to 3600000).",
        },
        "cwd": {
            "type": "string",
            "description": "Directory to run in; absent: where the server was started.",
        },
        "env": {
            "type": "object",
            "additionalProperties": TEXT,
            "description": "Environment variables to add or replace.",
        },
    },
    "command",
)
_WAIT_INPUT = strict(
    {
        "taskId": {
            "type": "string",
            "minLength": 1,
            "description": "The `taskId` that agent_task gave.",
        }
    },
    "taskId",
)
_MOMENT = {"type": "string", "format": "date-time"}
_ERROR: Schema = {
    "type": "object",
    "properties": {
        "code": TEXT,
        "kind": {"enum": ["inactivity", "deadline", "exit", "spawn", "refused"]},
        "reason": TEXT,
        "message": TEXT,
        "idleMs": COUNT,
        "wallClockMs": COUNT,
        "pid": COUNT_OR_NULL,
        "killed": FLAG,
        "signal": TEXT_OR_NULL,
        "startedAt": _MOMENT,
        "lastActivityAt": _MOMENT,
        "errno": TEXT,
    },
    "required": ["code", "kind", "message"],
}
_PARTIAL: Schema = {
    "type": "object",
    "properties": {
        "lastEvents": {"type": "array", "items": {"type": "object"}, "maxItems": 50},
        "stdoutTail": TEXT,
        "stderrTail": TEXT,
        "lastActivityAt": _MOMENT,
        "eventsCount": COUNT,
        "eventsDropped": COUNT,
    },
    "required": ["lastEvents", "stdoutTail", "stderrTail", "lastActivityAt", "eventsCount"],
}
_ADVICE: Schema = {
    "type": "object",
    "properties": {"action": TEXT, "retry": FLAG, "why": TEXT},
    "required": ["action", "retry", "why"],
}
_LIMITS: Schema = {
    "execMs": COUNT_OR_NULL,
    "idleMs": COUNT_OR_NULL,
    "source": TEXT,
    "clamped": FLAG,
    "notes": TEXTS,
}
_OUTPUT: Schema = {
    "type": "object",
    "properties": {
        "success": FLAG,
        "taskId": TEXT,
        "status": {"enum": ["completed", "failed", "timeout", "running", "refused"]},
        "error": _ERROR,
        "partial": _PARTIAL,
        "output": _PARTIAL,
        "recovery": {
            "type": "object",
            "properties": {"suggestions": TEXTS, "advice": _ADVICE},
            "required": ["suggestions"],
        },
        "summary": TEXT,
        "exitCode": or_null({"type": "integer"}),
        "durationMs": COUNT,
        "neverStarted": FLAG,
        "lastEvent": or_null({"type": "object"}),
        "heartbeats": COUNT,
        "limits": {"type": "object", "properties": _LIMITS, "required": [*_LIMITS]},
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
Run another agent's command line, or any program that takes minutes and prints a JSON object a \
line, and notice when it hangs: after `idleTimeoutMs` without output, or `hardTimeoutMs` in all, \
it is ended with everything it started. For ordinary commands use `run`.

- The answer has its last 50 events, the ends of stdout and stderr, and after a bad end `error` \
(`kind` inactivity or deadline after a timeout) and `recovery.advice`: whether to try again, and \
how. `neverStarted` is true if it printed nothing at all.
- It mostly takes longer than you can wait: then `status` is "running". Call agent_wait with its \
`taskId` until it has ended; do not start it again.
- Lines such as {"type": "heartbeat"} keep it alive and are not among the events.""",
    Acts.RUNS,
    _INPUT,
    _OUTPUT,
)

WAIT = declare(
    "agent_wait",
    "Wait for another agent",
    """\
Wait for a task of agent_task, and get the same answer again: "running" with what there is so far, \
or its end, which is told once. To end a task, give its `sessionId` to terminal_stop.""",
    Acts.READS,
    _WAIT_INPUT,
    _OUTPUT,
)

TOOLS = [TASK, WAIT]


@dataclass(slots=True)
class _StartedTask:
    """A task that goes on, whose it is, and the session it goes on as."""

    owner: str
    task: AgentTask
    session: Session


class AgentTools:
    """The tasks of all clients; each sees its own only."""

    def __init__(self, attendant: Handover, config: Config) -> None:
        self._attendant = attendant
        self._redact = config.redact
        self._beats = _heartbeats(config)
        self._caps = AgentCaps(
            AllowedRange(config.agent_idle_min, config.agent_idle_max, config.agent_idle),
            AllowedRange(config.agent_hard_min, config.agent_hard_max, config.agent_hard),
        )
        self._last = 0
        self._kept: dict[str, _StartedTask] = {}
        self._calls: dict[str, Callable[[ToolCall], Awaitable[TaskAnswer]]] = {
            TASK.name: self._task,
            WAIT.name: self._wait,
        }

    async def call(self, call: ToolCall) -> CallToolResult:
        """Whatever goes wrong on our side is an answer, too."""
        try:
            answer = await self._calls[call.name](call)
        except CommandDenied as refusal:
            answer = agent.failure(refusal.code, str(refusal), refusal_report(refusal))
        except TerminalError as error:
            answer = agent.failure(error.code, str(error))
        except Exception:  # noqa: BLE001  the server lives on, whatever it was
            _log.exception("a call of `%s` failed", call.name)
            problem = "shelltie failed and says why on its stderr"
            answer = agent.failure(TerminalError.code, problem)
        return _result(answer)

    async def _task(self, call: ToolCall) -> TaskAnswer:
        given = call.arguments
        check(given, _INPUT)
        mode = given.get("mode")
        limits = agent_limits(
            given.get("idleTimeoutMs"),
            given.get("hardTimeoutMs"),
            None if mode is None else str(mode),
            self._caps,
        )
        options = {"cwd": given.get("cwd"), "env": given.get("env"), "stdin": given.get("task")}
        command, _ = parse_options(given["command"], cast(Options, options))
        wish = RunOptions(limits=limits, requester=call.requester)
        run = await self._attendant.supervisor.start(command, wish)
        task = AgentTask(self._new_id(), run, self._beats, redact=self._redact)
        session = await self._attendant.wait(FollowedRun(run, task.id, task.activity), call)
        if session is None:
            return agent.answer(task)
        self._forget_old()
        kept = self._kept[task.id] = _StartedTask(call.owner, task, session)
        return _goes_on(kept)

    async def _wait(self, call: ToolCall) -> TaskAnswer:
        check(call.arguments, _WAIT_INPUT)
        kept = self._find(str(call.arguments["taskId"]), call.owner)
        task, run = kept.task, kept.task.run
        call.follow(FollowedRun(run, task.id, task.activity))
        with anyio.move_on_at(call.until):
            await run.wait()
        if run.outcome is None:
            return _goes_on(kept)
        kept.session.mark_delivered(0, kept.session.position)  # nobody needs it any more
        self._kept.pop(task.id, None)
        return agent.answer(task)

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
        old = [one for one in ended if one.session.idle > _KEPT_FOR]
        for one in [*old, *ended[: max(0, len(ended) - _KEPT_MOST)]]:
            self._kept.pop(one.task.id, None)

    def _new_id(self) -> str:
        """Milliseconds that nobody has had, also when several come in one."""
        self._last = max(time.time_ns() // 1_000_000, self._last + 1)
        return f"task-{self._last}"


def _heartbeats(config: Config) -> Heartbeats:
    """What the settings say about them.

    Raises: ConfigWrong.
    """
    if config.heartbeat is None:
        return Heartbeats(config.heartbeat_counts)
    try:
        pattern = compile_for_output(config.heartbeat)
    except ValueError as error:
        raise ConfigWrong(f"agent.heartbeat {error}") from error
    return Heartbeats(config.heartbeat_counts, pattern.found_in)


def _goes_on(kept: _StartedTask) -> TaskAnswer:
    more = running_fields(kept.session, shown=False)
    name = kept.task.id
    hint = (
        f'It goes on as task {name}. Call agent_wait with {{"taskId": "{name}"}} until it has'
        f" ended; do not start it again. terminal_stop ends it ({kept.session.id})."
    )
    return agent.answer(kept.task) | more | {"hint": hint}


def _result(answer: dict[str, Any]) -> CallToolResult:
    """Pretty-printed, as whoever reads a timeout by eye wants it."""
    answer = sendable(answer)
    said = json.dumps(answer, ensure_ascii=False, indent=2)
    return CallToolResult(
        content=[TextContent(type="text", text=said)],
        structured_content=answer,
        is_error=answer["success"] is not True,
    )
