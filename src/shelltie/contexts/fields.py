"""Validation of the fields of a task context: ids, directory, variables, arguments, timeouts."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from re import Pattern

from shelltie.basics.lazy_regex import lazy
from shelltie.basics.times import human_duration
from shelltie.basics.validate import duration, json_boolean, json_text, problem, texts
from shelltie.environment import child, variable_kinds
from shelltie.environment.child import Sifted
from shelltie.errors import InvalidParameters, WrongFields
from shelltie.model import Limits
from shelltie.settings.all_settings import TaskLimits

_TASK = lazy(r"[A-Za-z0-9._-]{1,128}")
_AGENT = lazy(r"[A-Za-z0-9._:@/+-]{1,128}")
_PATH_MAX = 4096
_VARIABLES_MAX = 500
_VARIABLES_SIZE_MAX = 100 * 1024  # the kernel takes 128 KiB for one variable, and no more
_SHOWN = 100
OWN = ("CAWS_TASK_ID", "CAWS_AGENT_ID", "CAWS_SESSION_ID")


def check(**fields: str | None) -> None:
    """Nothing may be wrong with any of them.

    Raises: WrongFields.
    """
    if wrong := {name: why for name, why in fields.items() if why is not None}:
        raise WrongFields(wrong)


def wrong_task(value: object) -> str | None:
    """What is wrong with the id of a task."""
    return _wrong_id(value, _TASK, "give the id of the task", "'.', '_' or '-'")


def wrong_agent(value: object) -> str | None:
    """What is wrong with the id of an agent."""
    return _wrong_id(value, _AGENT, "say which agent asks", "or one of . _ - : @ / +")


def _wrong_id(value: object, known: Pattern[str], missing: str, marks: str) -> str | None:
    if not isinstance(value, str):
        return _no_text(value, missing)
    fine = known.fullmatch(value)
    return None if fine else f"must be 1 to 128 letters (a-z, A-Z), digits, {marks}"


def wrong_session(value: object) -> str | None:
    """What is wrong with the id of a context, before anybody looks for it."""
    if not isinstance(value, str) or not value:
        return _no_text(
            None if value == "" else value, "give the id that creating the session returned"
        )
    return None


def wrong_directory(value: object) -> str | None:
    """What is wrong with the name of a directory, whether it is there or not."""
    if value is None:
        return None
    if not isinstance(value, str):
        return _no_text(value)
    if "\0" in value or not _encodable(value):
        return "has a NUL byte or half a character, which no path can have"
    if len(value) > _PATH_MAX:
        return f"has {len(value)} characters, and a path may have {_PATH_MAX}"
    return None


def no_directory(path: str) -> str | None:
    """What is wrong with a place that commands can never run in; what is missing may still come."""
    place = Path(path)
    return f"is {path}, which is not a directory" if place.exists() and not place.is_dir() else None


def wrong_variables(value: object, base: Sifted) -> dict[str, str]:
    """What is wrong with variables, by the name of each: `environment.PATH`."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or len(value) > _VARIABLES_MAX:
        return {"environment": f"must be an object with up to {_VARIABLES_MAX} texts by name"}
    wrong = dict(_not_texts(value))
    if wrong:
        return wrong
    if sum(len(_bytes(name + text)) for name, text in value.items()) > _VARIABLES_SIZE_MAX:
        return {"environment": f"has more than {_VARIABLES_SIZE_MAX} bytes"}
    return dict(_refused(value, base))


def wrong_command(value: object) -> str | None:
    """What is wrong with the name of a program, whether it is allowed or not."""
    if not isinstance(value, str) or not value.strip():
        return _no_text(None if isinstance(value, str) else value, "give the name of a program")
    return None


def wrong_args(value: object) -> str | None:
    """What is wrong with the arguments of a program, whatever they say."""
    return None if value is None else problem(value, texts)


def wrong_timeout(value: object) -> str | None:
    """What is wrong with a time a command may take; `None` is none given."""
    # The value is not told: a front-end may have been given it in another unit.
    fine = value is None or problem(value, duration) is None
    return None if fine else "must be a number greater than 0"


def wrong_flag(value: object) -> str | None:
    """What is wrong with a yes or no."""
    return problem(value, json_boolean)


def limits_for(timeout: float | None, limits: TaskLimits) -> Limits:
    """How long a command may take: what the call says, within what is allowed."""
    asked = limits.default if timeout is None else timeout
    source = "default of task sessions" if timeout is None else "timeout of the call"
    if asked <= limits.most:
        return Limits(asked, None, source)
    note = (
        f"the timeout of {human_duration(asked)} was lowered to {human_duration(limits.most)},"
        " the most that is allowed"
    )
    return Limits(limits.most, None, source, clamped=True, notes=(note,))


def sanitized(given: Mapping[str, str], base: Sifted) -> dict[str, str]:
    """The variables that commands really get: no secrets, and none that we set ourselves.

    Raises: InvalidParameters.
    """
    given = {name: value for name, value in given.items() if name not in OWN}
    child.build(base, given, path=None, pty=False, run="")
    return dict(child.sift(given, base.passed).kept)


def _not_texts(given: Mapping[object, object]) -> Iterator[tuple[str, str]]:
    for name, value in given.items():
        if not isinstance(value, str):
            yield _variable(name), "must be a text in quotes"  # and perhaps a secret one
        elif not isinstance(name, str) or not _encodable(name + value):
            yield _variable(name), "has half a character, which no variable can have"


def _refused(given: Mapping[str, str], base: Sifted) -> Iterator[tuple[str, str]]:
    try:
        sanitized(given, base)
    except InvalidParameters:
        for name, value in given.items():
            try:
                sanitized({name: value}, base)
            except InvalidParameters:
                yield _variable(name), _why(name)


def _why(name: str) -> str:
    if variable_kinds.is_hook_name(name):
        return (
            "decides which code programs run, so a session may not set it; the user can allow it"
            " with environment.pass"
        )
    return "must have a name without '=', and neither name nor value may have a NUL byte"


def _variable(name: object) -> str:
    shown = repr(name) if not isinstance(name, str) else name
    shown = shown if shown.isprintable() and shown else repr(shown)
    return f"environment.{shown[:_SHOWN]}"


def _no_text(value: object, wanted: str = "") -> str:
    return f"is missing: {wanted}" if value is None else problem(value, json_text) or ""


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _encodable(text: str) -> bool:
    try:
        _bytes(text)
    except UnicodeEncodeError:
        return False
    return True
