"""MCP tool `run`: schema, arguments, retries and result."""

from collections.abc import Mapping
from typing import Any

from mcp_types import CallToolResult

from shelltie.basics.frozen import frozen
from shelltie.basics.json_codec import as_json
from shelltie.errors import CommandDenied, InternalError, TerminalError
from shelltie.frontends.api import Options, parse_options
from shelltie.frontends.mcp.request import FollowedRun, ToolCall
from shelltie.frontends.mcp.run_to_session import Handover, advice, running_fields
from shelltie.frontends.mcp.tools.schema import (
    AT,
    COMMAND,
    COUNT,
    CWD,
    ENV,
    FLAG,
    GOES_ON,
    OBJECT,
    OBJECTS,
    TERMINATION_MODE,
    TEXT,
    TEXTS,
    TIMEOUT_REASON,
    Acts,
    answer_fields,
    declare,
    lean,
    optional,
    or_null,
    read,
    required,
    result,
    schema_of,
)
from shelltie.frontends.reports.run_report import (
    Result,
    printed_text,
    refusal_report,
    report,
)
from shelltie.frontends.reports.text_for_models import run_text
from shelltie.frontends.reports.verdict_report import LimitsReport
from shelltie.model import ISOLATION_LEVELS, OUTSIDE, Bar, LimitNames
from shelltie.running.retry import RETRIES_MAX, Attempts
from shelltie.settings.config import Config
from shelltie.verdict import Rating

_NOT_RUN = 125  # what GNU timeout says when it failed itself
_REFUSED = 126

_DESCRIPTION = """\
Run a shell command (bash) to its end and return what it printed, its exit code and what happened.

- Each call is a shell of its own: `cd` and variables do not last. Use `cwd` and `env`, or `a && b`.
- Two clocks run, total time and time without output, by the kind of command: set `timeout_sec` \
only if you know better. At a limit the command is ended with everything it started; you get what \
it printed and a hint what to try next.
- Nobody answers prompts: stdin is empty unless you give `stdin`. Use flags such as -y.
- Not for servers and watchers: use terminal_start. Background processes are ended with the command.
- A dangerous command (deletes trees, rewrites history, reads credentials…) waits for a person's \
yes; without one it is not run (CONFIRMATION_REQUIRED). Do not work around it: say what you need \
and why, or find a milder command."""


@frozen
class RunArguments:
    """What `run` takes."""

    command: str = required(COMMAND, minLength=1)
    timeout_sec: float | None = optional(
        "Seconds it may take in all; absent: the policy decides.", minimum=0
    )
    no_output_timeout_sec: float | None = optional(
        "Seconds without output; 0: no limit; absent: the policy's, or a quarter of timeout_sec"
        " (60 at most) if that is longer.",
        minimum=0,
    )
    cwd: str | None = optional(CWD)
    env: Mapping[str, str] | None = optional(ENV)
    stdin: str | None = optional("Text it can read, then its end.")
    pty: bool = optional("Give it a terminal; stderr is then stdout.", default=False)
    retry: int | None = optional(
        "Further attempts after a timeout, if it changes nothing (0).",
        minimum=0,
        maximum=RETRIES_MAX,
    )
    isolation: str | None = optional(
        "sandbox: writes only in the project, no network; auto: the strongest there is; outside: a"
        " person is asked. Absent: the policy decides.",
        enum=[*ISOLATION_LEVELS, OUTSIDE],
    )

    trial: bool = optional("Keep its changes apart, for the tool `trial`.", default=False)
    at: str | None = optional(AT, minLength=1)

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
            "trial": self.trial,
            "at": self.at,
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
# What is empty, false or 0 is left out of an answer, so none of these is ever null.
_OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        **_ALWAYS,
        "exitMeaning": {**TEXT, "description": "why a code other than 0 is no failure"},
        "signal": TEXT,
        "limits": {
            "type": "object",
            "properties": answer_fields(LimitsReport, without="pattern"),
        },
        "truncated": FLAG,
        "survivors": COUNT,
        "leaked": FLAG,
        "leakedPids": {"type": "array", "items": COUNT},
        "provider": TEXT,
        "isolation": TEXT,
        "at": {**TEXT, "description": "the place on another machine where it ran"},
        "unreachable": {**FLAG, "description": "its connection is lost; it goes on there"},
        "blocked": {"type": "array", "items": {"enum": [str(bar) for bar in Bar]}},
        "verdict": {"enum": [str(rating) for rating in Rating]},
        "reasons": OBJECTS,
        "details": OBJECT,
        "warnings": TEXTS,
        "hint": TEXT,
        "runId": TEXT,
        "error": TEXT,
        "errorCode": TEXT,
        "cancelled": FLAG,
        "timedOutAtMs": COUNT,
        "stdoutBytes": COUNT,
        "stderrBytes": COUNT,
        "outputFile": TEXT,
        "waitsForInput": FLAG,
        "cpuMs": COUNT,
        "cpuMsWhileSilent": COUNT,
        **GOES_ON,
        "shell": TEXT,
        "pathSource": TEXT,
        "cwd": TEXT,
        "exhausted": TEXTS,
        "refusedHosts": {**OBJECTS, "description": "host, and the entry that would allow it"},
        "triedOutside": {**OBJECT, "description": "writes and hosts that were blocked"},
        "outside": {
            "enum": ["ask", "never"],
            "description": "whether a person can let a blocked command run outside",
        },
        "attempts": OBJECTS,
        "trial": {**OBJECT, "description": "what was changed on trial, and its id"},
        "usual": {**OBJECT, "description": "how long such commands take here"},
    },
    "required": [*_ALWAYS],
}
# What goes without saying: where it ran, unless isolated, and by which shell, unless something was
# not found.
_USUAL = {"provider": "local", "isolation": "none"}
_OF_THE_SHELL = ("shell", "pathSource")
_NOT_FOUND = (126, 127)

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
    runs, notes, output = attempts.runs, attempts.notes(), config.output
    made = report(runs[-1], output.shown, redact=output.redact, attempts=runs, notes=notes)
    printed = printed_text(runs[-1], output.shown, redact=output.redact)
    answer = _fields(made)
    if session is None:
        return result(answer, ok=not made.failed, text=run_text(made, printed))
    answer |= running_fields(session, shown=not made.truncated)
    text = run_text(made, printed, session=session.id, advice=advice(session))
    return result(answer, ok=True, text=text)


def _fields(made: Result) -> dict[str, object]:
    """What a program is told: the seven fields, and whatever else is not empty or as usual."""
    answer = lean(made.to_json(), _ALWAYS)
    answer["limits"] = lean({**as_json(made.limits), "pattern": None})
    if made.error is not None:
        answer["stderr"] = ""  # there it would stand once more
    if made.trial is not None:
        told = as_json(made.trial)
        answer["trial"] = lean({name: told[name] for name in told if name != "folder"})
    needless = [name for name, value in _USUAL.items() if answer.get(name) == value]
    if made.exit_code not in _NOT_FOUND:
        needless += _OF_THE_SHELL
    return {name: value for name, value in answer.items() if name not in needless}


def refused(error: TerminalError) -> CallToolResult:
    """The answer when there is no run to report on, with the fields that every answer has."""
    answer: dict[str, object] = {
        "status": "error",
        "stdout": "",
        "stderr": "",
        "exitCode": _NOT_RUN,
        "timeoutReason": None,
        "terminationMode": None,
        "durationMs": 0,
        "error": str(error),
        "errorCode": error.code,
    }
    if isinstance(error, CommandDenied):
        answer |= {"exitCode": _REFUSED, **lean(refusal_report(error))}
    text = str(error) if isinstance(error, InternalError) else f"Not run: {error}"
    return result(answer, ok=False, text=text)
