"""JSON schemas and descriptions of the session tools, by which a model chooses one."""

from collections.abc import Mapping

from mcp_types import Tool

from shelltie.basics.frozen import frozen
from shelltie.frontends.mcp.tools.schema import (
    COMMAND,
    COUNT,
    COUNT_OR_NULL,
    CWD,
    ENV,
    FLAG,
    GOES_ON,
    TERMINATION_MODE,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    TIMEOUT_REASON,
    Acts,
    Schema,
    declare,
    optional,
    or_null,
    required,
    schema_of,
)
from shelltie.running.placement import LEVELS

_SESSION_ID = 'The ID that terminal_start gave, such as "term-1".'
_WAIT_FOR = (
    "Answer as soon as the output holds this regular expression, such as "
    '"listening on|error", instead of when it falls silent.'
)
_MAX_WAIT = "Seconds to wait for output at most (30); 0 answers at once."


@frozen
class BashArguments:
    """What `bash` takes."""

    command: str = required(COMMAND, minLength=1)


@frozen
class StartArguments:
    """What `terminal_start` takes."""

    command: str = required(COMMAND, minLength=1)
    mode: str = optional(
        "program (default): the command is the session's process. shell: a bash "
        "that stays; each command has its own output, end and exit code.",
        default="program",
        enum=["program", "shell"],
    )
    stdin: str | None = optional("A first line of input.")
    cwd: str | None = optional(CWD)
    env: Mapping[str, str] | None = optional(ENV)
    wait_for: str | None = optional(_WAIT_FOR, "waitFor")
    max_wait: float | None = optional(_MAX_WAIT, "maxWait", minimum=0)
    pty: bool = optional(
        "false: plain pipes in place of a terminal; no echo, no prompts.", default=True
    )
    rows: int | None = optional("Size of the terminal (24).")
    columns: int | None = optional("Size of the terminal (80).")
    timeout: float | None = optional(
        "End it after this time; absent: never.", "timeoutSeconds", minimum=0
    )
    isolation: str | None = optional(
        "As for `run`: keep it from the rest of the machine.", enum=list(LEVELS)
    )
    silence: float | None = optional(
        "End it after no output for this time; absent: never.", "silenceSeconds", minimum=0
    )


@frozen
class ContinueArguments:
    """What `terminal_continue` takes."""

    session_id: str = required(_SESSION_ID, "sessionId", minLength=1)
    command: str | None = optional(
        'The next command; only in a session of mode "shell", and only when none runs there.',
        minLength=1,
    )
    stdin: str | None = optional("Text to type, followed by Enter.")
    keys: list[str] | None = optional(
        'Keys to press after it: "ctrl-c", "up", "enter", "tab", "f1", "alt-x".'
    )
    raw: bool = optional(
        r"Send stdin exactly as it is, without a newline (\u0003 is ctrl-c).", default=False
    )
    paste: bool = optional(
        "Send stdin as pasted text, so that an editor or REPL takes it whole.", default=False
    )
    end: bool = optional("End its input: ctrl-d, or the pipe is closed.", default=False)
    rows: int | None = optional("Resize the terminal; with columns.")
    columns: int | None = optional("Resize the terminal; with rows.")
    wait_for: str | None = optional(_WAIT_FOR, "waitFor")
    max_wait: float | None = optional(_MAX_WAIT, "maxWait", minimum=0)


@frozen
class OutputArguments:
    """What `terminal_output` takes."""

    session_id: str = required(_SESSION_ID, "sessionId", minLength=1)
    start: int = optional("Position to read from (0).", "from", default=0, minimum=0)
    limit: int | None = optional(
        "How many characters at most (10000).", minimum=1, maximum=1_000_000
    )
    view: str = optional(
        "clean text (default), raw with escapes, or the screen as it is now.",
        default="clean",
        enum=["clean", "raw", "screen"],
    )


@frozen
class StopArguments:
    """What `terminal_stop` takes."""

    session_id: str = required(_SESSION_ID, "sessionId", minLength=1)


@frozen
class ListArguments:
    """`terminal_list` takes nothing."""


_STATUS: Schema = {"enum": ["running", "success", "timeout", "error"]}
_PORTS: Schema = or_null({"type": "array", "items": {"type": "object"}})
_REPORT: Schema = {
    "id": TEXT,
    "command": TEXT,
    "output": TEXT,
    "position": COUNT,
    "complete": FLAG,
    "exitCode": or_null({"type": "integer"}),
    "running": FLAG,
    "waitingForInput": FLAG,
    "password": FLAG,
    "lastLine": TEXT_OR_NULL,
    "truncated": FLAG,
    "readFrom": COUNT_OR_NULL,
    "skipped": COUNT,
    "found": or_null(FLAG),
    "hint": TEXT_OR_NULL,
    "warnings": TEXTS,
    "isolation": TEXT_OR_NULL,
    "ended": or_null(FLAG),
    "cwd": TEXT_OR_NULL,
    "cursorRow": COUNT_OR_NULL,
    "cursorColumn": COUNT_OR_NULL,
    "status": {"enum": ["running", "success", "timeout", "error", "lost"]},
    "timeoutReason": TIMEOUT_REASON,
    "terminationMode": TERMINATION_MODE,
    "cancelled": FLAG,
    "ports": _PORTS,
}
_FAILED: Schema = {
    "error": TEXT,
    "errorCode": TEXT,
    "verdict": TEXT_OR_NULL,
    "reasons": {"type": "array", "items": {"type": "object"}},
    "details": {"type": "object"},
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
Run a shell command (bash) to its end, at most 60 s, and return its exit code and output. Like \
`run`, but stricter: only what is proved read-only runs at once, everything else waits for a \
person's yes, or runs isolated if nobody can be asked. Prefer `run` for ordinary work such as \
builds and tests. If your client waits less long than the command takes, it goes on as a session \
(`sessionId`): follow it with terminal_continue.""",
    BashArguments,
    {
        "ok": {**or_null(FLAG), "description": "null while it runs"},
        "status": _STATUS,
        "output": TEXT,
        "exitCode": or_null({"type": "integer"}),
        "stdout": TEXT,
        "stderr": TEXT,
        "truncated": {**FLAG, "description": "outputFile has what is left out here"},
        "outputFile": TEXT_OR_NULL,
        "timeoutReason": TIMEOUT_REASON,
        "isolation": TEXT,
        "warnings": TEXTS,
        "hint": TEXT_OR_NULL,
        **GOES_ON,
    },
)

START = _tool(
    "terminal_start",
    "Start a session",
    """\
Start a process that stays: a dev server, a watcher, a REPL, a program that asks questions, a \
build that takes long. It gets a terminal (PTY) and no time limit. The answer comes when its first \
output has settled, or with `waitFor` as soon as that appears; it has the session's ID, its output \
and its position. Go on with terminal_continue; end it with terminal_stop. For commands that end \
by themselves use `run`; for several that share a directory and variables, `mode` "shell": then \
`command` is the first one, and each further one goes to terminal_continue as `command`.""",
    StartArguments,
    _REPORT,
)

CONTINUE = _tool(
    "terminal_continue",
    "Write to a session and read on",
    """\
Send input to a session (optional) and get what it printed since the last call. `stdin` is a line \
of text; its newline is added if it is missing. Special keys go in `keys`. The answer comes when \
the output has settled; `Complete: true` means that the process has ended, with its exit code, and \
that this was the rest. Call it without input to see how a server or a build is doing. In a \
session of `mode` "shell", `command` runs a command and answers at its end (`ended`, `exitCode`), \
while `stdin` and `keys` go to the command that runs.""",
    ContinueArguments,
    _REPORT,
)

OUTPUT = _tool(
    "terminal_output",
    "Read a session's output again",
    """\
Read what a session printed, from any position, as often as you like; nothing is consumed. Use it \
after "Output truncated" (from the position named there), or with `view` "screen" to see what a \
full-screen program such as top or vim shows now.""",
    OutputArguments,
    _REPORT,
    Acts.READS,
)

STOP = _tool(
    "terminal_stop",
    "Stop a session",
    "End a session's process and everything it started, and forget the session.",
    StopArguments,
    {
        "id": TEXT,
        "stopped": FLAG,
        "exitCode": or_null({"type": "integer"}),
        "status": _STATUS,
        "timeoutReason": TIMEOUT_REASON,
        "cancelled": FLAG,
    },
    Acts.ENDS,
)

_LISTED: Schema = {
    "id": TEXT,
    "command": TEXT,
    "position": COUNT,
    "running": FLAG,
    "status": _STATUS,
    "timeoutReason": TIMEOUT_REASON,
    "exitCode": or_null({"type": "integer"}),
    "uptimeSeconds": {"type": "number"},
    "waitingForInput": FLAG,
    "ports": _PORTS,
}
_LOST: Schema = {
    "id": TEXT,
    "runId": TEXT,
    "command": TEXT,
    "cwd": TEXT,
    "startedAt": TEXT,
    "outputBytes": COUNT,
}
LIST = _tool(
    "terminal_list",
    "List sessions",
    "List your sessions: those that run, those whose last output you have not read, and what was "
    "lost here when a server died.",
    ListArguments,
    {
        "sessions": {"type": "array", "items": {"type": "object", "properties": _LISTED}},
        "lost": {"type": "array", "items": {"type": "object", "properties": _LOST}},
    },
    Acts.READS,
)

FOLLOWING = [CONTINUE, OUTPUT, STOP, LIST]  # what is needed for whatever goes on as a session
TOOLS = [BASH, START, *FOLLOWING]
