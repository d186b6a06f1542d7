"""MCP tools for task contexts: allowlisted commands, a directory for each task, no shell."""

from collections.abc import Mapping
from typing import Any

from mcp_types import CallToolResult

from shelltie.basics.frozen import frozen
from shelltie.basics.validate import known_instead
from shelltie.contexts.context import StillRunning
from shelltie.contexts.registry import Contexts
from shelltie.errors import TerminalError, WrongFields
from shelltie.frontends.mcp.request import FollowedRun, ToolCall
from shelltie.frontends.mcp.run_to_session import Handover, running_fields
from shelltie.frontends.mcp.tools.schema import (
    COUNT,
    FLAG,
    GOES_ON,
    TEXT,
    TEXT_OR_NULL,
    Acts,
    Schema,
    answer_fields,
    declare,
    optional,
    or_null,
    required,
    result,
    schema_of,
    wire_names,
)
from shelltie.frontends.reports import context_report
from shelltie.frontends.reports.state_names import MillisecondLimits
from shelltie.output.redact import Redactor
from shelltie.running.run import Run

_SESSION_ID = "The `sessionId` that terminal_create_session returned."


@frozen
class CreateArguments:
    """What `terminal_create_session` takes."""

    task: str = required(
        "The task's id, such as BUILD-001: letters, digits, '.', '_', '-'.",
        "taskId",
        pattern="^[A-Za-z0-9._-]{1,128}$",
    )
    agent: str = required(
        "Who you are, such as agent-1.", "agentId", pattern="^[A-Za-z0-9._:@/+-]{1,128}$"
    )
    cwd: str | None = optional(
        "Relative to the project's root, which it also is when absent.", "workingDirectory"
    )
    environment: Mapping[str, str] | None = optional(
        "Variables to add for all commands, such as NODE_ENV or CI."
    )


@frozen
class ExecuteArguments:
    """What `terminal_execute_command` takes."""

    session_id: str = required(_SESSION_ID, "sessionId", minLength=1)
    command: str = required(
        "The name of an allowed program, such as npm.", minLength=1, maxLength=1000
    )
    args: list[str] | None = optional("Its arguments, exactly as it shall get them.")
    timeout: float | None = optional(
        "Milliseconds; more than 300000 is lowered to that.", minimum=1000
    )
    queue: bool = optional(
        "Whether to wait while another command of the session runs.",
        default=True,
        says_default=True,
    )


@frozen
class SessionArguments:
    """What `terminal_close_session` and `terminal_get_status` take."""

    session_id: str = required(_SESSION_ID, "sessionId", minLength=1)


_MOMENT = {"type": "string", "format": "date-time"}
# What every answer may have instead of the rest.
_FAILURE: Schema = {
    "error": {"enum": [*context_report.CONTEXT_ERROR_CODES]},
    "message": TEXT,
    "details": {"type": "object"},
}
_LIMITS = answer_fields(MillisecondLimits, null=True)
_STATUS = answer_fields(
    context_report.ContextStatus,
    state={"enum": ["idle", "running", "completed", "failed"]},
    created_at=_MOMENT,
    last_command_at=or_null(_MOMENT),
)


def _output(properties: Schema) -> Schema:
    known = {"success": FLAG, **properties, **_FAILURE}
    return {"type": "object", "properties": known, "required": ["success"]}


def _whole(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": [*properties]}


CREATE = declare(
    "terminal_create_session",
    "Open a session for a task",
    """\
Open a session in which a task's commands run, and get its `sessionId`. Do this once for a task, \
before terminal_execute_command; close it with terminal_close_session when the task ends, also \
when it failed.

- All commands of a session share its directory and environment; nothing else lasts between them.
- Secrets (API_KEY, *_TOKEN, *_PASSWORD, DATABASE_URL…) are kept from commands, whether you pass \
them or the server has them. PATH, LD_PRELOAD, NODE_OPTIONS and the like are refused.
- A session that is not used for an hour is closed. Too many: MAX_SESSIONS_EXCEEDED; close some.
- This is not a terminal: for a dev server, a REPL or a prompt use terminal_start.""",
    Acts.OPENS,
    schema_of(CreateArguments),
    _output({"sessionId": TEXT, "workingDirectory": TEXT, "createdAt": _MOMENT, "warning": TEXT}),
)

EXECUTE = declare(
    "terminal_execute_command",
    "Run a command of a task",
    """\
Run one allowed program in a task's session, to its end, and return its exit code and output.

- No shell: give the program in `command` and each argument on its own in `args`, as in \
{"command": "npm", "args": ["run", "build"]}; a `command` of several words without `args` is split \
into them. Pipes, redirections, `&&`, `;`, `$VAR`, `$(…)` and \
backticks are refused (UNSAFE_ARGUMENTS): call the tool once for each program.
- Only programs of the allowlist (COMMAND_NOT_ALLOWED; `details.allowedCommands` lists them). Do \
not look for a way around it.
- `timeout` is in milliseconds: 60000 unless you say otherwise, 300000 at most (`limits` in the \
answer says what held). A command that takes longer is ended with everything it started: \
TIMEOUT_EXCEEDED, exitCode -1, and what it printed until then.
- Nobody answers prompts: its input is empty. Use flags such as --yes.
- The first 1 MiB of stdout and of stderr are returned; with more, `truncated` is true, and the \
command still runs to its end.
- Commands of one session run one after another; a call waits for its turn, which costs it nothing \
of its timeout. With `queue: false` it fails at once instead (EXECUTION_ERROR, session busy).
- If it takes longer than your client waits for an answer, `status` is "running": it goes on as \
session `sessionId`; follow it with terminal_continue. The next command waits for its end.
- A program that ends with a code other than 0 has `success` false, no `error`: read `stderr`.""",
    Acts.RUNS,
    schema_of(ExecuteArguments),
    _output(
        {
            "exitCode": {
                **or_null({"type": "integer"}),
                "description": "-1 after a timeout, 128+n after signal n, null while it runs",
            },
            "status": {"enum": ["running"]},
            **GOES_ON,
            "hint": TEXT,
            "stdout": TEXT,
            "stderr": TEXT,
            "duration": {**COUNT, "description": "milliseconds"},
            "truncated": FLAG,
            "limits": _whole(_LIMITS),
            "runId": TEXT_OR_NULL,
            "signal": TEXT,
            "warning": TEXT,
        }
    ),
)

CLOSE = declare(
    "terminal_close_session",
    "Close a task's session",
    """\
Close a task's session when the task ends, also when it failed. A command that still runs in it is \
ended with everything it started. To close it again is no mistake.""",
    Acts.ENDS,
    schema_of(SessionArguments),
    _output({"sessionId": TEXT}),
)

STATUS = declare(
    "terminal_get_status",
    "Look at a task's session",
    """\
How a task's session is: `idle` before its first command, `running`, then `completed` or `failed` \
as the last command ended (a failed one can still be used), with the number of commands and the \
time of the last one. What commands printed is in the answer of terminal_execute_command.""",
    Acts.READS,
    schema_of(SessionArguments),
    _output({"session": _whole(_STATUS)}),
)

TOOLS = [CREATE, EXECUTE, CLOSE, STATUS]
_TAKES: Mapping[str, type] = {
    CREATE.name: CreateArguments,
    EXECUTE.name: ExecuteArguments,
    CLOSE.name: SessionArguments,
    STATUS.name: SessionArguments,
}


def by_field(tool: str, arguments: Mapping[str, object]) -> dict[str, Any]:
    """What a call has given, by the engine's names; `None` is for what it has not.

    Every field is checked by the engine, which tells all that is wrong at once.
    Raises: WrongFields.
    """
    known = wire_names(_TAKES[tool])
    if wrong := {
        name: f"is not known{known_instead(name, known)}" for name in arguments if name not in known
    }:
        raise WrongFields(wrong)
    return {ours: arguments.get(name) for name, ours in known.items()}


async def answer(contexts: Contexts, call: ToolCall) -> CallToolResult:
    """Open, close, or look at a task's session.

    Raises: TerminalError.
    """
    return _result(
        await context_report.CALLS[call.name](
            contexts, by_field(call.name, call.arguments), call.owner
        )
    )


async def execute(
    contexts: Contexts, handover: Handover, redactor: Redactor | None, call: ToolCall
) -> CallToolResult:
    """Run a command in a task's session; a redactor hides secrets in what it printed.

    Raises: TerminalError.
    """

    def started(run: Run) -> None:
        call.follow(FollowedRun(run))

    done = await context_report.execute(
        contexts, by_field(call.name, call.arguments), call.owner, call.until, started
    )
    answer = context_report.command_answer(done, contexts.limits.output)
    if isinstance(done, StillRunning):
        session = handover.continue_as_session(done.run, call.owner)
        answer |= running_fields(session, shown=not answer["truncated"])
    if redactor is not None:
        answer |= {name: redactor.text(str(answer[name])) for name in ("stdout", "stderr")}
    return _result(answer)


def refused(error: TerminalError) -> CallToolResult:
    """Why there is nothing else to answer."""
    return _result(context_report.failure(error))


def _result(answer: context_report.ContextAnswer) -> CallToolResult:
    return result(answer, ok=answer["success"] is True)
