"""ACP terminal protocol: records and errors of `terminal/*`, by its own names. Pure."""

from collections.abc import Mapping
from typing import Any

from shelltie.basics.frozen import frozen
from shelltie.basics.validate import number_of
from shelltie.errors import InvalidParameters, parameter
from shelltie.model import Limit, Outcome, State

OUTPUT_LIMIT = 1024 * 1024  # bytes, where a request names none
OUTPUT_LIMIT_MAX = 8 * 1024 * 1024  # more would be one message of that size, at every look

_REASONS = {Limit.TOTAL: "exec_timeout", Limit.SILENCE: "no_output_timeout"}
_STATES = {
    State.CREATED: "created",
    State.RUNNING: "running",
    State.FINISHED: "finished",
    State.TIMED_OUT: "timed_out",
    State.KILLED: "killed",
    State.RELEASED: "released",
}
_EXTENSIONS = ("timeoutMs", "signal", "graceMs", "timedOut", "trial", "isolation")

_MILLISECONDS = number_of("milliseconds")

Meta = dict[str, object]


@frozen
class CreatedTerminal:
    """The answer to `terminal/create`; `field_meta` says what was decided about the command."""

    terminal_id: str
    field_meta: Meta


@frozen
class TerminalExit:
    """How the command ended: a code, or the name of a signal. Both are None while it runs."""

    exit_code: int | None = None
    signal: str | None = None
    field_meta: Meta | None = None


@frozen
class TerminalOutput:
    """What can be read now; `exit_status` is there once the command has ended."""

    output: str
    truncated: bool
    exit_status: TerminalExit | None
    field_meta: Meta


def exit_of(outcome: Outcome) -> TerminalExit:
    """The exit status as ACP wants it: a code is never negative, a signal has its name."""
    return TerminalExit(outcome.exit.code, outcome.exit.signal_name)


def ending(state: State, outcome: Outcome | None) -> Meta:
    """What the standard fields have no place for."""
    said: Meta = {"state": _STATES.get(state, str(state))}
    if outcome is None:
        return said
    ended_by_us = outcome.state in (State.TIMED_OUT, State.KILLED)
    return said | {
        "timedOut": outcome.state is State.TIMED_OUT,
        "killed": ended_by_us,
        "terminationMode": None if outcome.ended is None else str(outcome.ended),
        "timeoutReason": None if outcome.limit is None else _REASONS[outcome.limit],
        "leaked": outcome.leaked,
        "survivors": outcome.survivors,
    }


def known(meta: Mapping[str, Any]) -> dict[str, Any]:
    """What we understand of a request's `_meta`; the rest is other people's."""
    return {name: meta[name] for name in _EXTENSIONS if name in meta}


def span(meta: Mapping[str, object], name: str) -> float | None:
    """Seconds, from the milliseconds that a request names.

    Raises: InvalidParameters.
    """
    value = meta.get(name)
    return None if value is None else parameter(name, value, _MILLISECONDS) / 1000


def variables(given: object) -> dict[str, str]:
    """An environment, from a list of names and values, or a mapping.

    Raises: InvalidParameters.
    """
    if isinstance(given, Mapping):
        given = [{"name": name, "value": value} for name, value in given.items()]
    items = [] if given is None else given
    if not isinstance(items, list):
        raise InvalidParameters(f"env must be a list of names and values, not {brief(given)}")
    found: dict[str, str] = {}
    for item in items:
        match item:
            case {"name": str(name), "value": str(value)}:
                found[name] = value
            case _:
                raise InvalidParameters(f"env needs a name and a value each: {brief(item)}")
    return found


def brief(value: object) -> str:
    """A value in an error message, cut to what anybody reads."""
    return repr(value)[:80]
