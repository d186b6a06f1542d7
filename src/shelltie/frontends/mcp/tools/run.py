"""MCP tool `run`: schema, arguments, retries and result."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mcp_types import CallToolResult

from shelltie.basics.frozen import frozen
from shelltie.basics.json_codec import as_json
from shelltie.errors import CommandDenied, TerminalError
from shelltie.frontends.api import Options, parse_options
from shelltie.frontends.mcp.handover import Handover, running_fields
from shelltie.frontends.mcp.request import FollowedRun, ToolCall
from shelltie.frontends.mcp.tools.schema import (
    COMMAND,
    COUNT,
    COUNT_OR_NULL,
    CWD,
    ENV,
    FLAG,
    GOES_ON,
    SECONDS_OR_NULL,
    TERMINATION_MODE,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    TIMEOUT_REASON,
    Acts,
    declare,
    optional,
    or_null,
    read,
    required,
    result,
    schema_of,
)
from shelltie.frontends.wire.run import refusal_report, report
from shelltie.model import Bar, LimitNames
from shelltie.running.placement import LEVELS
from shelltie.running.retry import MOST, Attempts
from shelltie.settings.config import Config
from shelltie.verdict import Code, Rating

_NOT_RUN = 125  # what GNU timeout says when it failed itself
_REFUSED = 126

_DESCRIPTION = """\
Run a shell command (bash) to its end and return what it printed, its exit code and what happened.

- Each call is a shell of its own: `cd` and variables do not last. Use `cwd` and `env`, or `a && b`.
- Two clocks always run: total time, and time without output. Their length follows the kind of \
command (builds and installs get more); `limits` in the answer says which held and why. Set \
`timeout_sec` only if you know better. A command that times out is ended with everything it \
started; what it printed until then is returned, and `hint` says what to try next.
- Nobody answers prompts: stdin is empty and closed unless you give `stdin`. Use flags such as -y.
- Not for servers, watchers or what never ends: use terminal_start. Background processes are \
ended with the command.
- A command rated dangerous (deletes trees, rewrites history, reads credentials, runs fetched \
code…) waits for a person's yes; without one it is not run (`errorCode` CONFIRMATION_REQUIRED, \
`reasons`). Do not work around it: say what you need and why, or find a milder command.
- Long output is cut in the middle (`truncated`). `outputFile` then has it (up to \
64 MiB): read it with grep, head or tail.
- `status` is "success" for exit code 0, "error" for any other end, "timeout" if a clock ran out \
(`timeoutReason`), "running" if it takes longer than your client waits for an answer: then it goes \
on as session `sessionId`; follow it with terminal_continue, and do not start it again."""


@frozen
class RunArguments:
    """What `run` takes."""

    command: str = required(COMMAND, minLength=1)
    timeout_sec: float | None = optional(
        "Total seconds it may take; 0 or absent: the policy decides.", minimum=0
    )
    no_output_timeout_sec: float | None = optional(
        "Seconds it may be silent; 0: no such limit; absent: the policy decides, or a quarter of"
        " timeout_sec (60 at most) if that is longer.",
        minimum=0,
    )
    cwd: str | None = optional(CWD)
    env: Mapping[str, str] | None = optional(ENV)
    stdin: str | None = optional("Text the command can read; then its end.")
    pty: bool = optional(
        "Give it a terminal, for programs that need one. Stderr is then stdout.", default=False
    )
    retry: int | None = optional(
        "How often it may be run again after a timeout, with twice the time, if"
        " it is proved to change nothing (0); `attempts` has each.",
        minimum=0,
        maximum=MOST,
    )
    isolation: str | None = optional(
        "Keep it from the rest of the machine: sandbox (writes only in the"
        " project, no network) or container; auto: the strongest there is. Absent: the policy"
        " decides. What cannot be had is an error.",
        enum=list(LEVELS),
    )

    def options(self) -> Options:
        """The same in the library's words."""
        return {
            "timeout": self.timeout_sec,
            "silence": self.no_output_timeout_sec,
            "cwd": self.cwd,
            "env": self.env,
            "stdin": self.stdin,
            "pty": self.pty,
            "isolation": self.isolation,
        }


_ALWAYS: dict[str, Any] = {
    "status": {"enum": ["success", "timeout", "error", "running"]},
    "stdout": TEXT,
    "stderr": TEXT,
    "exitCode": {
        **or_null({"type": "integer"}),
        "description": "-1 after a timeout, 128+n after signal n, null while it runs",
    },
    "timeoutReason": TIMEOUT_REASON,
    "terminationMode": TERMINATION_MODE,
    "durationMs": COUNT,
}
_LIMITS: dict[str, Any] = {
    "execSec": SECONDS_OR_NULL,
    "silenceSec": SECONDS_OR_NULL,
    "source": TEXT,
    "category": TEXT_OR_NULL,
    "clamped": FLAG,
    "notes": TEXTS,
    "pattern": TEXT_OR_NULL,
}
_REASON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "code": {"enum": [str(code) for code in Code]},
        "rating": {"enum": [str(rating) for rating in Rating]},
        "message": TEXT,
        "start": COUNT,
        "end": COUNT,
        "program": TEXT,
        "rule": TEXT,
        "wrappers": TEXTS,
    },
    "required": ["code", "rating", "message"],
}
_USUAL: dict[str, Any] = {
    "shape": TEXT,
    "runs": COUNT,
    "p50Sec": SECONDS_OR_NULL,
    "p95Sec": SECONDS_OR_NULL,
    "suggestedExecSec": SECONDS_OR_NULL,
    "suggestedSilenceSec": SECONDS_OR_NULL,
}
_ATTEMPT_FIELDS: dict[str, Any] = {
    "runId": TEXT,
    "status": {"enum": ["success", "timeout", "error", "running"]},
    "timeoutReason": TIMEOUT_REASON,
    "durationMs": COUNT,
    "execSec": SECONDS_OR_NULL,
    "silenceSec": SECONDS_OR_NULL,
}
_ATTEMPT = {"type": "object", "properties": _ATTEMPT_FIELDS, "required": [*_ATTEMPT_FIELDS]}
_OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        **_ALWAYS,
        "signal": TEXT_OR_NULL,
        "limits": {"type": "object", "properties": _LIMITS, "required": [*_LIMITS]},
        "truncated": FLAG,
        "survivors": COUNT,
        "leaked": FLAG,
        "leakedPids": {"type": "array", "items": COUNT},
        "provider": TEXT,
        "isolation": TEXT,
        "blocked": {"type": "array", "items": {"enum": [str(bar) for bar in Bar]}},
        "verdict": {"enum": [None, "safe", "unknown", "dangerous"]},
        "reasons": {"type": "array", "items": _REASON},
        "details": {"type": "object"},
        "warnings": TEXTS,
        "hint": TEXT_OR_NULL,
        "runId": TEXT,
        "error": TEXT_OR_NULL,
        "errorCode": TEXT,
        "cancelled": FLAG,
        "timedOutAtMs": COUNT_OR_NULL,
        "stdoutBytes": COUNT,
        "stderrBytes": COUNT,
        "outputFile": TEXT_OR_NULL,
        "waitsForInput": FLAG,
        "cpuMs": COUNT_OR_NULL,
        "cpuMsWhileSilent": COUNT_OR_NULL,
        **GOES_ON,
        "shell": TEXT_OR_NULL,
        "pathSource": TEXT,
        "cwd": TEXT,
        "exhausted": {"type": "array", "items": {"enum": ["memory", "tasks"]}},
        "attempts": {"type": "array", "items": _ATTEMPT},
        "usual": {
            **or_null({"type": "object", "properties": _USUAL}),
            "description": "How long such commands take here, where that helps.",
        },
    },
    "required": [*_ALWAYS],
}

RUN = declare(
    "run",
    "Run a command",
    _DESCRIPTION,
    Acts.RUNS,
    schema_of(RunArguments),
    _OUTPUT,
)


async def run(handover: Handover, config: Config, call: ToolCall) -> CallToolResult:
    """Run one command to its end, or as long as the client waits.

    Raises: TerminalError; then nothing was started.
    """
    given, supervisor = read(call.arguments, RunArguments), handover.supervisor
    command, first = parse_options(given.command, given.options(), call.requester, LimitNames())
    again = config.retry.attempts if given.retry is None else given.retry
    attempts = Attempts(first, again, supervisor.max_total)
    session = None
    while (options := await attempts.next()) is not None:
        attempts.runs.append(await supervisor.start(command, options))
        session = await handover.wait(FollowedRun(attempts.runs[-1]), call)
    runs, notes = attempts.runs, attempts.notes()
    made = report(
        runs[-1], config.output.shown, redact=config.output.redact, attempts=runs, notes=notes
    )
    answer = made.to_json()
    answer["limits"] = as_json(replace(made.limits, pattern=None))
    if session is not None:
        answer |= running_fields(session, shown=not made.truncated)
    return result(answer, ok=answer["status"] in ("success", "running"))


def refused(error: TerminalError) -> CallToolResult:
    """The answer when there is no run to report on, with the fields that every answer has."""
    answer: dict[str, object] = {
        "status": "error",
        "stdout": "",
        "stderr": f"shelltie: {error}\n",
        "exitCode": _NOT_RUN,
        "timeoutReason": None,
        "terminationMode": None,
        "durationMs": 0,
        "error": str(error),
        "errorCode": error.code,
    }
    if isinstance(error, CommandDenied):
        answer |= {"exitCode": _REFUSED, **refusal_report(error)}
    return result(answer, ok=False)
