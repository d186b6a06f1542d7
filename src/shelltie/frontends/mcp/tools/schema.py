"""JSON Schema from dataclasses, argument validation, and tool results."""

import difflib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, field, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations

from shelltie.basics.json_codec import wire_name
from shelltie.basics.visible_text import brief
from shelltie.errors import InvalidParameters

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TEXTS: Schema = {"type": "array", "items": TEXT}
SECONDS: Schema = {"type": "number", "minimum": 0}
OBJECT: Schema = {"type": "object"}
OBJECTS: Schema = {"type": "array", "items": OBJECT}


def or_null(schema: Schema) -> Schema:
    """That, or nothing. Clients for models with a smaller dialect refuse a list of types."""
    return {"anyOf": [schema, {"type": "null"}]}


TEXT_OR_NULL = or_null(TEXT)
COUNT_OR_NULL = or_null(COUNT)
SECONDS_OR_NULL = or_null(SECONDS)

TIMEOUT_REASON: Schema = {"enum": [None, "exec_timeout", "no_output_timeout"]}
TERMINATION_MODE: Schema = {"enum": [None, "soft", "hard"]}

# What an answer about a run that goes on as a session has.
GOES_ON: Schema = {
    "sessionId": TEXT,
    "position": COUNT,
    "endsIn": {"type": "object", "properties": {"execMs": COUNT, "silenceMs": COUNT}},
}

_QUOTED = 80  # characters of what was wrong that an answer repeats
_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}


_PLAIN: Mapping[object, Schema] = {
    str: TEXT,
    float: {"type": "number"},
    int: {"type": "integer"},
    bool: FLAG,
    list[str]: TEXTS,
    Mapping[str, str]: {"type": "object", "additionalProperties": TEXT},
}

# In an answer a number counts or measures something.
_ANSWERED: Mapping[object, Schema] = {str: TEXT, bool: FLAG, int: COUNT, float: SECONDS}

_Arguments = TypeVar("_Arguments")


def required(description: str, name: str = "", **bounds: object) -> Any:  # noqa: ANN401  as its field
    """A field of a tool's arguments; `name` is what clients call it, unless as the field."""
    return field(metadata={"name": name, "schema": {**bounds, "description": description}})


def optional(
    description: str,
    name: str = "",
    *,
    default: object = None,
    says_default: bool = False,
    **bounds: object,
) -> Any:  # noqa: ANN401  as its field
    """The same for one that may be left out, or be null; the schema may say what it is then."""
    bounds = {"default": default, **bounds} if says_default else bounds
    about = {"name": name, "schema": {**bounds, "description": description}}
    return field(default=default, metadata=about)


# What several tools say of what they take.
COMMAND = "Shell text."
CWD = "Directory to run in."
ENV = "Variables to add or replace."
AT = "Another machine: a place of the user's settings."


@cache
def schema_of(kind: type) -> Schema:
    """The schema of what a tool takes: a dataclass of `required` and `optional` fields."""
    known = _parameters(kind)
    needed = [known[f.name][0] for f in fields(kind) if f.default is MISSING]
    return strict(dict(known.values()), *needed)


def wire_names(kind: type) -> Mapping[str, str]:
    """The names that clients use, each with its field's."""
    return {name: ours for ours, (name, _) in _parameters(kind).items()}


@cache
def _parameters(kind: type) -> Mapping[str, tuple[str, Schema]]:
    """For each field the name and the schema that it has on the wire."""
    made, types = {}, get_type_hints(kind)
    for f in fields(kind):
        plain = types[f.name]
        if NoneType in get_args(plain):
            plain, _ = get_args(plain)
        made[f.name] = f.metadata["name"] or f.name, {**_PLAIN[plain], **f.metadata["schema"]}
    return made


def answer_fields(
    kind: type, /, *, null: bool = False, without: str | None = None, **own: Schema
) -> Schema:
    """The properties of an answer that is made of this dataclass, by the names on the wire.

    What may be `None` is left out of a lean answer; with `null` it is there. `own` are of fields
    of which their types do not say enough.
    """
    types = get_type_hints(kind)
    return {
        wire_name(f.name): own[f.name] if f.name in own else _answered(types[f.name], null=null)
        for f in fields(kind)
        if f.name != without
    }


def _answered(kind: Any, *, null: bool) -> Schema:  # noqa: ANN401  the annotation of a field
    inner = get_args(kind)
    if NoneType in inner:
        schema = _answered(inner[0], null=null)
        return or_null(schema) if null else schema
    if get_origin(kind) is tuple:
        return {"type": "array", "items": _answered(inner[0], null=null)}
    return OBJECT if is_dataclass(kind) else _ANSWERED[kind]


def read(arguments: Mapping[str, object], kind: type[_Arguments]) -> _Arguments:
    """What a call has given, as an object; what is optional may be null, which is as if absent.

    Raises: InvalidParameters, with what to do.
    """
    takes: type = kind
    schema = schema_of(takes)
    for name, value in arguments.items():
        _check(name, value, schema)
    for name in schema["required"]:
        if name not in arguments:
            advice = schema["properties"][name]["description"]
            raise InvalidParameters(f"{name} is missing. {advice}")
    given = {ours: arguments.get(name) for ours, (name, _) in _parameters(takes).items()}
    return kind(**{ours: value for ours, value in given.items() if value is not None})


# Names by which other tools take the same, in plain letters; the first that a tool knows is meant.
_SYNONYMS: Sequence[tuple[Collection[str], Sequence[str]]] = (
    (
        frozenset(("cmd", "cmdline", "commandline", "commands", "script", "code", "shell", "bash")),
        ("command",),
    ),
    (
        frozenset(("timeout", "timeoutms", "timeoutseconds", "timelimit", "maxtime", "ms")),
        ("timeout_sec", "timeoutSeconds", "hardTimeoutMs", "timeout"),
    ),
    (
        frozenset(("silence", "idletimeout", "idletimeoutms", "inactivitytimeout", "nooutput")),
        ("no_output_timeout_sec", "silenceSeconds", "idleTimeoutMs"),
    ),
    (
        frozenset(("workdir", "workingdir", "workingdirectory", "directory", "dir", "path", "cd")),
        ("cwd", "workingDirectory"),
    ),
    (frozenset(("environment", "envvars", "variables", "vars")), ("env", "environment")),
    (frozenset(("input", "text", "data", "line", "prompt", "send")), ("stdin", "task")),
    (frozenset(("key", "press", "sendkeys")), ("keys",)),
    (
        frozenset(("id", "session", "sessionid", "terminal", "terminalid", "shellid", "bashid")),
        ("sessionId",),
    ),
    (frozenset(("id", "task", "taskid")), ("taskId",)),
    (frozenset(("wait", "waitms", "yieldtimems", "maxwaitms", "timeout")), ("maxWait",)),
    (frozenset(("expect", "until", "pattern", "regex", "waituntil")), ("waitFor",)),
    (frozenset(("sandbox", "sandboxed", "container")), ("isolation",)),
    (frozenset(("tty", "terminal", "interactive")), ("pty",)),
    (frozenset(("offset", "position", "start", "since")), ("from",)),
    (frozenset(("max", "maxchars", "maxlength", "count")), ("limit",)),
)


def _meant(name: str, known: Collection[str]) -> str | None:
    """The parameter that a wrong name is for: by what other tools call it, or by its letters."""
    plain = "".join(filter(str.isalnum, name[:_QUOTED])).lower()
    for names, ours in _SYNONYMS:
        if plain in names and (same := [one for one in ours if one in known]):
            return same[0]
    spelled = [one for one in known if "".join(filter(str.isalnum, one)).lower() == plain]
    return next(iter(spelled or difflib.get_close_matches(name[:_QUOTED], known, 1)), None)


def _check(name: str, value: object, schema: Schema) -> None:
    known = schema["properties"]
    if name not in known:
        meant = _meant(name, known)
        advice = f"did you mean {meant}?" if meant else f"known are {', '.join(known)}"
        raise InvalidParameters(f"unknown parameter {brief(name, _QUOTED)}: {advice}")
    kind = known[name]["type"]
    if value is None and name not in schema["required"]:
        return
    if type(value) not in _KINDS[kind]:
        kinds = (known for known, types in _KINDS.items() if type(value) in types)
        raise InvalidParameters(f"{name} must be of type {kind}, not {next(kinds, 'null')}")
    _check_value(name, value, known[name])


def _check_value(name: str, value: object, schema: Schema) -> None:
    choices = schema.get("enum")
    if choices and value not in choices:
        told = brief(str(value), _QUOTED)
        raise InvalidParameters(f"{name} must be one of {', '.join(choices)}, not {told}")
    if isinstance(value, list) and len(value) < schema.get("minItems", 0):
        raise InvalidParameters(f"{name} is empty: leave it out, or name at least one")
    least, most = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    if isinstance(value, int | float) and not least <= value <= most:
        told = f"at least {least}" if math.isinf(most) else f"between {least} and {most}"
        raise InvalidParameters(f"{name} must be {told}, not {value!r}")


def lean(
    answer: Mapping[str, object], always: Collection[str] = (), zero: Collection[str] = ()
) -> dict[str, object]:
    """The same without what is empty: null, false, 0, no text, no items.

    But with the fields of `always`, and with those of `zero` where they are false or 0.
    """
    return {
        name: value
        for name, value in answer.items()
        if value or name in always or (name in zero and value is not None)
    }


def result(answer: dict[str, object], *, ok: bool, text: str | None = None) -> CallToolResult:
    """The object for programs, and the same, or a text, for whoever reads."""
    answer = sendable(answer)
    said = json.dumps(answer, ensure_ascii=False) if text is None else text
    said = said if _encodable(said) else said.encode("utf-8", "replace").decode()
    return CallToolResult(
        content=[TextContent(type="text", text=said)], structured_content=answer, is_error=not ok
    )


def sendable(answer: dict[str, Any]) -> dict[str, Any]:
    """The same, with something in place of bytes of a name or of output that are no UTF-8."""
    said = json.dumps(answer, ensure_ascii=False)
    if _encodable(said):
        return answer
    replaced: dict[str, Any] = json.loads(said.encode("utf-8", "replace"))
    return replaced


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Acts(Enum):
    """What a tool can do: read, make something of ours, end it, or whatever a command does.

    Each is whether it destroys, whether to call it twice changes nothing more, and whether it
    reaches beyond this server.
    """

    READS = (False, True, False)
    OPENS = (False, False, False)
    ENDS = (True, True, False)
    RUNS = (True, False, True)


def declare(
    name: str, title: str, description: str, acts: Acts, takes: Schema, answers: Schema
) -> Tool:
    """A tool whose hints are true to what it does."""
    destroys, repeatable, beyond = acts.value
    return Tool(
        name=name,
        title=title,
        description=description,
        input_schema=takes,
        output_schema=answers,
        annotations=ToolAnnotations(
            title=title,
            read_only_hint=acts is Acts.READS,
            destructive_hint=destroys,
            idempotent_hint=repeatable,
            open_world_hint=beyond,
        ),
    )


def strict(properties: Schema, *required: str) -> Schema:
    """An object that has these and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*required],
        "additionalProperties": False,
    }
