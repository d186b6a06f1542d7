"""JSON schemas and descriptions of the session tools, by which a model chooses one."""

from collections.abc import Mapping

from mcp_types import Tool

from shelltie.basics.frozen import frozen
from shelltie.frontends.mcp.tools.schema import (
    COMMAND,
    CWD,
    ENV,
    FLAG,
    GOES_ON,
    OBJECT,
    OBJECTS,
    TEXT,
    TEXTS,
    Acts,
    Schema,
    answer_fields,
    declare,
    optional,
    or_null,
    required,
    schema_of,
)
from shelltie.frontends.reports.session_report import ListedSession, SessionReport
from shelltie.model import ISOLATION_LEVELS, OUTSIDE

_SESSION_ID = 'Such as "term-1".'
_WAIT_FOR = 'Regular expression ("listening on|error"): answer as soon as the output has it.'
_MAX_WAIT = "Seconds to wait for output at most (30)."


@frozen
class BashArguments:
    """What `bash` takes."""

    command: str = required(COMMAND, minLength=1)


@frozen
class StartArguments:
    """What `terminal_start` takes."""

    command: str = required(COMMAND, minLength=1)
    mode: str = optional(
        "shell: a bash that stays; each command has its own output and exit code.",
        default="program",
        enum=["program", "shell"],
    )
    stdin: str | None = optional("First line of input.")
    cwd: str | None = optional(CWD)
    env: Mapping[str, str] | None = optional(ENV)
    wait_for: str | None = optional(_WAIT_FOR, "waitFor")
    max_wait: float | None = optional(_MAX_WAIT, "maxWait", minimum=0)
    pty: bool = optional("false: pipes, no terminal.", default=True)
    rows: int | None = optional("Size (24).")
    columns: int | None = optional("Size (80).")
    timeout: float | None = optional("End it after so long (never).", "timeoutSeconds", minimum=0)
    isolation: str | None = optional("As for `run`.", enum=[*ISOLATION_LEVELS, OUTSIDE])
    trial: bool = optional("As for `run`.", default=False)
    at: str | None = optional("As for `run`.", minLength=1)
    stays: bool = optional("Let it outlive this server: its restart, its crash.", default=False)
    silence: float | None = optional(
        "End it after so long without output (never).", "silenceSeconds", minimum=0
    )


@frozen
class ContinueArguments:
    """What `terminal_continue` takes."""

    session_id: str = required(_SESSION_ID, "sessionId")
    command: str | None = optional(
        'Next command of a session of mode "shell".',
        minLength=1,
    )
    stdin: str | None = optional("Text to type, followed by Enter.")
    keys: list[str] | None = optional(
        'Keys to press after it: "ctrl-c", "up", "tab", "f1", "alt-x".'
    )
    raw: bool = optional("Send stdin without Enter.", default=False)
    paste: bool = optional("Send stdin as a paste, for editors and REPLs.", default=False)
    end: bool = optional("End its input (ctrl-d).", default=False)
    rows: int | None = optional("New size.")
    columns: int | None = optional("New size.")
    wait_for: str | None = optional(_WAIT_FOR, "waitFor")
    max_wait: float | None = optional(_MAX_WAIT, "maxWait", minimum=0)


@frozen
class OutputArguments:
    """What `terminal_output` takes."""

    session_id: str = required(_SESSION_ID, "sessionId")
    start: int = optional("Position to read from (0).", "from", default=0, minimum=0)
    limit: int | None = optional("Characters at most (10000).", minimum=1, maximum=1_000_000)
    view: str = optional(
        "raw: with escapes; screen: as it is now.",
        default="clean",
        enum=["clean", "raw", "screen"],
    )


@frozen
class StopArguments:
    """What `terminal_stop` takes."""

    session_id: str = required(_SESSION_ID, "sessionId")


@frozen
class ListArguments:
    """`terminal_list` takes nothing."""


_STATUS: Schema = {"enum": ["running", "success", "timeout", "error"]}
_PORTS: Schema = {**or_null(OBJECTS), "description": "null: none can be reached"}
_REASON: Schema = {"enum": ["exec_timeout", "no_output_timeout"]}
_EXIT_CODE: Schema = {"type": "integer"}
# What is empty, false or 0 is left out of an answer.
_REPORT = answer_fields(
    SessionReport,
    exit_code=_EXIT_CODE,
    status={"enum": ["running", "success", "timeout", "error", "lost"]},
    timeout_reason=_REASON,
    ports=_PORTS,
)
_FAILED: Schema = {
    "error": TEXT,
    "errorCode": TEXT,
    "verdict": TEXT,
    "reasons": OBJECTS,
    "details": OBJECT,
}


def _tool(
    name: str,
    title: str,
    description: str,
    takes: type,
    answer: Schema,
    acts: Acts = Acts.RUNS,
) -> Tool:
    told = {"type": "object", "properties": {**answer, **_FAILED}}
    return declare(name, title, description, acts, schema_of(takes), told)


BASH = _tool(
    "bash",
    "Run a command that is safe or approved",
    """\
Run a shell command (bash) to its end, at most 60 s, and return its exit code and output. Stricter \
than `run`: what is not proved read-only waits for a person's yes, or runs isolated if nobody can \
be asked. Prefer `run` for ordinary work such as builds and tests.""",
    BashArguments,
    {
        "ok": {**or_null(FLAG), "description": "null while it runs"},
        "status": _STATUS,
        "output": TEXT,
        "exitCode": or_null(_EXIT_CODE),
        "stdout": TEXT,
        "stderr": TEXT,
        "truncated": {**FLAG, "description": "outputFile has what is left out here"},
        "outputFile": TEXT,
        "timeoutReason": _REASON,
        "isolation": TEXT,
        "warnings": TEXTS,
        "hint": TEXT,
        "outside": {
            "enum": ["ask", "never"],
            "description": "whether a person can let a blocked command run outside",
        },
        **GOES_ON,
    },
)

START = _tool(
    "terminal_start",
    "Start a session",
    """\
Start a process that stays: a dev server, a watcher, a REPL, a program that asks. It gets a PTY \
and no time limit. The answer has the session's ID and its first output, when that has settled or \
`waitFor` appears. Go on with terminal_continue, end it with terminal_stop. For what ends by \
itself use `run`; for commands that share a directory and variables `mode` "shell".""",
    StartArguments,
    _REPORT,
)

CONTINUE = _tool(
    "terminal_continue",
    "Write to a session and read on",
    """\
Send input to a session (optional) and get what it printed since the last call, when that has \
settled. `stdin` is a line of text, Enter is added. `Complete: true`: the process has ended and \
this was the rest. Without input it tells how a server or a build is doing. In `mode` "shell", \
`command` runs the next command and answers at its end.""",
    ContinueArguments,
    _REPORT,
)

OUTPUT = _tool(
    "terminal_output",
    "Read a session's output again",
    """\
Read what a session printed, from any position: after "Output truncated", or with `view` "screen" \
what a full-screen program such as top or vim shows now.""",
    OutputArguments,
    _REPORT,
    Acts.READS,
)

STOP = _tool(
    "terminal_stop",
    "Stop a session",
    "End a session's process and everything it started.",
    StopArguments,
    {
        "id": TEXT,
        "stopped": FLAG,
        "exitCode": _EXIT_CODE,
        "status": _STATUS,
        "timeoutReason": _REASON,
        "cancelled": FLAG,
    },
    Acts.ENDS,
)

_LISTED = answer_fields(
    ListedSession,
    status=_STATUS,
    timeout_reason=_REASON,
    exit_code=_EXIT_CODE,
    uptime_seconds={"type": "number"},
    ports=_PORTS,
)
LIST = _tool(
    "terminal_list",
    "List sessions",
    "List your sessions, those with unread output, and what was lost here when a server died.",
    ListArguments,
    {
        "sessions": {"type": "array", "items": {"type": "object", "properties": _LISTED}},
        "lost": OBJECTS,
    },
    Acts.READS,
)

FOLLOWING = [CONTINUE, OUTPUT, STOP, LIST]  # what is needed for whatever goes on as a session
TOOLS = [BASH, START, *FOLLOWING]
