"""What setting an environment variable can do, by its name and value. Pure."""

import re
from enum import StrEnum

from shelltie.policy.safety.data import any_of, table
from shelltie.policy.secrets import is_hook_name, is_inert_name
from shelltie.regex import regex

_LISTS = table("variables")
_HARMLESS = any_of(_LISTS["harmless"])
_LOADS = any_of(_LISTS["loads"])
_RUNS = any_of(_LISTS["runs"])
_STEERS = any_of(_LISTS["steers"], re.IGNORECASE)
_LOADING_OPTIONS = {name: regex(pattern) for name, pattern in _LISTS["loading_options"].items()}
# Where everybody may put a program, and whatever is relative.
_DOUBTFUL_DIRECTORY = regex(r"(?:/tmp|/var/tmp|/dev/shm)(?:/.*)?|(?![/~$\0]).*", re.DOTALL)


class Effect(StrEnum):
    """What setting a variable can do to the programs that see it."""

    NONE = "none"
    LOADS = "loads"  # code is loaded from where it says
    RUNS = "runs"  # its value is a command
    STEERS = "steers"  # it may change what runs, or where


def effect(name: str, value: str) -> Effect:
    """What `name=value` can do."""
    if is_harmless(name):
        return Effect.NONE
    if _LOADS.fullmatch(name) or _loads(name, value):
        return Effect.LOADS
    if _RUNS.fullmatch(name):
        return Effect.RUNS
    return Effect.STEERS if _STEERS.fullmatch(name) or is_hook_name(name) else Effect.NONE


def _loads(name: str, value: str) -> bool:
    if name == "PATH":
        return any(map(_DOUBTFUL_DIRECTORY.fullmatch, value.split(":")))
    options = _LOADING_OPTIONS.get(name)
    return options is not None and options.search(value) is not None


def is_harmless(name: str) -> bool:
    """Whether any value of it may stand before a command that is safe."""
    return is_inert_name(name) or _HARMLESS.fullmatch(name) is not None
