"""Setting variables: some load code, some hold a command, some change what will run. Pure."""

import re
from collections.abc import Sequence

from shelltie.policy.safety.args import HOLE, Arg
from shelltie.policy.safety.arithmetic import rate_names
from shelltie.policy.safety.case import Case
from shelltie.policy.safety.sources import Source, origin_of
from shelltie.policy.safety.values import CASE
from shelltie.policy.safety.variables import Effect, effect, is_harmless
from shelltie.regex import regex
from shelltie.verdict import Code

_NAME = regex(r"[A-Za-z_]\w*", re.ASCII)
_EVALUATED = regex(r"\$\(|`")
# Their value goes through the shell's expansions before it is shown.
_PROMPTS = frozenset(("PS0", "PS1", "PS2", "PS4"))


def rate_assignments(case: Case) -> None:
    """The `NAME=value` before a command, or alone."""
    for assignment in case.simple.assignments:
        word = assignment.value
        args = case.where.values.of(word) if word is not None else ()
        arg = args[0] if args else Arg((), "", assignment.span, "")
        guesses = arg.guesses if args else ("",)
        if "[" in assignment.name:
            subscript(case, assignment.name, arg)
        name = _NAME.match(assignment.name)
        if name and not _only_splits_a_line(case, name[0]):
            rate_pair(case, name[0], guesses, arg, before_command=bool(case.simple.words))


def _only_splits_a_line(case: Case, name: str) -> bool:
    """`IFS= read -r line`: it is back to what it was when the line is read."""
    words = case.simple.words
    return name == "IFS" and bool(words) and words[0].value in ("read", "mapfile", "readarray")


def rate_loop(case: Case) -> None:
    """A loop sets its variable, whatever that is called."""
    name = case.simple.loop
    if name is not None and name != CASE:
        args = case.where.values.args(case.simple.words)
        values = [guess for arg in args for guess in arg.guesses] or [""]
        rate_pair(case, name, values, Arg((), "", case.simple.span, name), before_command=False)


def subscript(case: Case, name: str, arg: Arg) -> None:
    """The index of an array is arithmetic, and arithmetic runs what is in `$(…)`."""
    if _EVALUATED.search(name):
        case.unknown(Code.DYNAMIC_ARGUMENT, "a subscript runs a command", arg)
    else:
        rate_names(case, name.partition("[")[2], arg)


def rate_pair(
    case: Case, name: str, values: Sequence[str], arg: Arg, *, before_command: bool
) -> None:
    """`name=value`, wherever a command or the shell is told so."""
    for value in values:
        match effect(name, value):
            case Effect.LOADS:
                case.dangerous(
                    Code.ENV_INJECTION, f"{name} makes programs load code from elsewhere", arg
                )
            case Effect.RUNS:
                _hook(case, name, value, arg)
            case Effect.STEERS:
                case.unknown(Code.ENV_INJECTION, f"{name} can change what runs", arg)
            case Effect.NONE if before_command and not is_harmless(name):
                case.unknown(Code.ENV_INJECTION, f"{name} may mean something to the program", arg)


def _hook(case: Case, name: str, value: str, arg: Arg) -> None:
    """The value is itself a command."""
    case.unknown(Code.ENV_INJECTION, f"the value of {name} is run as a command", arg)
    if name in _PROMPTS:
        if _EVALUATED.search(value):
            case.dangerous(Code.ENV_INJECTION, f"{name} runs a command at every prompt", arg)
        return
    if HOLE not in value and not value.startswith("-"):
        case.again.danger_in_text(value.lstrip("|!"), case, f"{name}=", arg.span)
    if origin_of(case, arg) is not Source.PROGRAM:
        case.dangerous(Code.REMOTE_CODE, f"{name} is set to code from elsewhere", arg)
