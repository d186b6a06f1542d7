"""The tools an agent sees: what they take, what they answer, and how they are called."""

import difflib
import json
import logging
from collections.abc import Mapping
from typing import Any, cast

from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations

from shelltie.errors import InvalidParameters, TerminalError
from shelltie.frontends.library import Options, understand
from shelltie.frontends.report import report
from shelltie.model import Command
from shelltie.running.supervisor import Supervisor, Wish

_log = logging.getLogger(__name__)

_NOT_RUN = 125  # what GNU timeout says when it failed itself
_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
}
# The names of the wire and the library's own.
_OPTIONS = {
    "timeout_sec": "timeout",
    "no_output_timeout_sec": "silence",
    "cwd": "cwd",
    "env": "env",
    "stdin": "stdin",
    "pty": "pty",
}

_DESCRIPTION = """\
Run a shell command (bash) to its end and return what it printed, its exit code and what happened.

- Each call is a shell of its own: `cd` and variables do not last. Use `cwd` and `env`, or `a && b`.
- Two clocks always run: total time, and time without output. Their length follows the kind of \
command (builds and installs get more); `limits` in the answer says which held and why. Set \
`timeout_sec` only if you know better. A command that times out is ended with everything it \
started; what it printed until then is returned, and `hint` says what to try next.
- Nobody answers prompts: stdin is empty and closed unless you give `stdin`. Use flags such as -y.
- Not for servers, watchers or anything that never ends: background processes are ended with the \
command.
- Long output is cut in the middle (`truncated`). `outputFile` then has it (up to \
64 MiB): read it with grep, head or tail.
- `status` is "success" for exit code 0, "error" for any other end, "timeout" if a clock ran out \
(`timeoutReason`)."""

_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "command": {
            "type": "string",
            "minLength": 1,
            "description": "Shell text, as you would type it.",
        },
        "timeout_sec": {
            "type": "number",
            "minimum": 0,
            "description": "Total seconds it may take; 0 or absent: the policy decides.",
        },
        "no_output_timeout_sec": {
            "type": "number",
            "minimum": 0,
            "description": "Seconds it may be silent; absent: the policy decides; 0: no such limit",
        },
        "cwd": {
            "type": "string",
            "description": "Directory to run in; absent: where the server was started.",
        },
        "env": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Environment variables to add or replace.",
        },
        "stdin": {"type": "string", "description": "Text the command can read; then its end."},
        "pty": {
            "type": "boolean",
            "description": "Give it a terminal, for programs that need one. Stderr is then stdout.",
        },
    },
    "required": ["command"],
    "additionalProperties": False,
}

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_COUNT = {"type": "integer", "minimum": 0}
_TEXTS = {"type": "array", "items": _TEXT}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_COUNT_OR_NULL = {"type": ["integer", "null"], "minimum": 0}
_SECONDS_OR_NULL = {"type": ["number", "null"], "minimum": 0}

_ALWAYS: dict[str, Any] = {
    "status": {"enum": ["success", "timeout", "error"]},
    "stdout": _TEXT,
    "stderr": _TEXT,
    "exitCode": {"type": "integer", "description": "-1 after a timeout, 128+n after signal n"},
    "timeoutReason": {"enum": [None, "exec_timeout", "no_output_timeout"]},
    "terminationMode": {"enum": [None, "soft", "hard"]},
    "durationMs": _COUNT,
}
_LIMITS: dict[str, Any] = {
    "execSec": _SECONDS_OR_NULL,
    "silenceSec": _SECONDS_OR_NULL,
    "source": _TEXT,
    "category": _TEXT_OR_NULL,
    "clamped": _FLAG,
    "notes": _TEXTS,
}
_OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        **_ALWAYS,
        "signal": _TEXT_OR_NULL,
        "limits": {"type": "object", "properties": _LIMITS, "required": [*_LIMITS]},
        "truncated": _FLAG,
        "survivors": _COUNT,
        "leaked": _FLAG,
        "leakedPids": {"type": "array", "items": _COUNT},
        "provider": _TEXT,
        "isolation": _TEXT,
        "verdict": _TEXT_OR_NULL,
        "warnings": _TEXTS,
        "hint": _TEXT_OR_NULL,
        "runId": _TEXT,
        "error": _TEXT_OR_NULL,
        "errorCode": _TEXT,
        "cancelled": _FLAG,
        "timedOutAtMs": _COUNT_OR_NULL,
        "stdoutBytes": _COUNT,
        "stderrBytes": _COUNT,
        "outputFile": _TEXT_OR_NULL,
        "waitsForInput": _FLAG,
        "cpuMs": _COUNT_OR_NULL,
        "cpuMsWhileSilent": _COUNT_OR_NULL,
        "shell": _TEXT_OR_NULL,
        "pathSource": _TEXT,
        "cwd": _TEXT,
    },
    "required": [*_ALWAYS],
}

RUN = Tool(
    name="run",
    title="Run a command",
    description=_DESCRIPTION,
    input_schema=_INPUT,
    output_schema=_OUTPUT,
    annotations=ToolAnnotations(
        title="Run a command",
        read_only_hint=False,
        destructive_hint=True,
        idempotent_hint=False,
        open_world_hint=True,
    ),
)


async def run(
    supervisor: Supervisor, arguments: Mapping[str, object], shown: int
) -> CallToolResult:
    """Run one command to its end. Whatever goes wrong on our side is an answer, too."""
    try:
        command, wish = _asked(arguments)
        answer = report(await supervisor.run(command, wish), shown).to_json()
    except TerminalError as error:
        answer = _not_run(str(error), error.code)
    except Exception:  # noqa: BLE001  the server lives on, whatever it was
        _log.exception("a call of `run` failed")
        answer = _not_run("shelltie failed and says why on its stderr", TerminalError.code)
    return _result(answer)


def _asked(arguments: Mapping[str, object]) -> tuple[Command, Wish]:
    """What the client wants, in our words.

    Raises: InvalidParameters.
    """
    if "command" not in arguments:
        raise InvalidParameters("command is missing: give the text of a command")
    for name, value in arguments.items():
        _check(name, value)
    options = {ours: arguments.get(theirs) for theirs, ours in _OPTIONS.items()}
    return understand(arguments["command"], cast(Options, options))


def _check(name: str, value: object) -> None:
    known = _INPUT["properties"]
    if name not in known:
        close = difflib.get_close_matches(name, known, 1)
        advice = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
        raise InvalidParameters(f"unknown parameter {name}: {advice}")
    kind = known[name]["type"]
    if type(value) not in _KINDS[kind] and (value is not None or name == "command"):
        raise InvalidParameters(f"{name} must be of type {kind}, not {_kind_of(value)}")


def _kind_of(value: object) -> str:
    for kind, types in _KINDS.items():
        if type(value) in types:
            return kind
    return "null" if value is None else "array"


def _not_run(message: str, code: str) -> dict[str, object]:
    """The answer when there is no run to report on, with the fields that every answer has."""
    return {
        "status": "error",
        "stdout": "",
        "stderr": f"shelltie: {message}\n",
        "exitCode": _NOT_RUN,
        "timeoutReason": None,
        "terminationMode": None,
        "durationMs": 0,
        "error": message,
        "errorCode": code,
    }


def _result(answer: dict[str, object]) -> CallToolResult:
    text = json.dumps(answer, ensure_ascii=False)
    if not _encodable(text):  # bytes of a directory's name that are no UTF-8
        text = text.encode("utf-8", "replace").decode()
        answer = json.loads(text)
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content=answer,
        is_error=answer["status"] != "success",
    )


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
