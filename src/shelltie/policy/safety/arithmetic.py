"""Places where the shell evaluates text as arithmetic, which can run commands. Pure.

`[ -v 'a[$(cmd)]' ]` runs `cmd`, quotes or not: the subscript of an array is evaluated again.
"""

import re
from collections.abc import Iterable, Iterator

from shelltie.policy.safety.args import HOLE, Arg
from shelltie.policy.safety.case import Case
from shelltie.policy.secrets import is_hook_name
from shelltie.regex import regex
from shelltie.shell.script import Kind, Part, Simple, Word
from shelltie.verdict import Code

_COMMAND = regex(r"\$\(|`|\$\{")
_NAME = regex(r"[A-Za-z_]\w*", re.ASCII)
_SUBSCRIPT = regex(r"\[(?!\s*[@*\d]*\s*\])")
# ${x:offset:length}
_SUBSTRING = regex(r"\$\{[\w@*#?-]+(?:\[[^]]*\])?:(?![-=?+])(.*)\}", re.DOTALL)
_SETS = regex(r"([A-Za-z_]\w*)\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)", re.ASCII)
_SETS_BEFORE = regex(r"(?:\+\+|--)\s*([A-Za-z_]\w*)", re.ASCII)
_DEFAULT = regex(r"\$\{([A-Za-z_]\w*):?=", re.ASCII)
_PROMPT = regex(r"@[PA]\}|\$\{!")
_SUBSTITUTION = regex(r"\$\([^()]*\)|`[^`]*`")
_HEX = regex(r"\b0[xX][0-9a-fA-F]+\b|\b\d+#\w+")


def rate_variable_name(case: Case, arg: Arg) -> None:
    """A word that names a variable, as `read` and `test -v` take it."""
    for guess in arg.guesses:
        if _COMMAND.search(guess):
            case.dangerous(Code.DYNAMIC_ARGUMENT, f"the subscript in {arg.text} runs code", arg)
        elif HOLE in guess or "[" in guess:
            case.unknown(Code.DYNAMIC_ARGUMENT, f"{arg.text} may run code in a subscript", arg)


def rate_expression(case: Case, arg: Arg) -> None:
    """A word that is evaluated as arithmetic."""
    for guess in arg.guesses:
        if _COMMAND.search(guess):
            case.dangerous(Code.DYNAMIC_ARGUMENT, f"arithmetic runs the code in {arg.text}", arg)
            return
    text = arg.text if not arg.exact else arg.guesses[0]
    rate_names(case, text, arg)


def rate_names(case: Case, text: str, arg: Arg) -> None:
    """The variables in an expression: what they hold is evaluated, and some must not be set."""
    _rate_settings(case, (*_SETS.findall(text), *_SETS_BEFORE.findall(text)), arg)
    names = _NAME.findall(_HEX.sub("0", text))
    unsure = [name for name in names if not case.where.values.is_number(name)]
    if any(_COMMAND.search(value) for name in unsure for value in case.where.values.known(name)):
        case.dangerous(Code.DYNAMIC_ARGUMENT, f"arithmetic runs what {unsure[0]} holds", arg)
    elif unsure:
        case.unknown(
            Code.DYNAMIC_ARGUMENT, f"arithmetic evaluates {unsure[0]}, whatever it holds", arg
        )


def _rate_settings(case: Case, names: Iterable[str], arg: Arg) -> None:
    for name in names:
        if is_hook_name(name):
            case.unknown(
                Code.ENV_INJECTION, f"{arg.text} sets {name}, which decides what runs", arg
            )


def rate_expansions(case: Case) -> None:
    """Expansions anywhere in a command that evaluate what a variable holds."""
    for word in words_of(case.simple):
        for part in word.parts:
            arg = Arg((), part.text, word.span, part.text)
            if part.kind is Kind.EXPANSION:
                _rate_settings(case, _DEFAULT.findall(part.text), arg)
            if part.kind is Kind.ARITHMETIC:
                _rate_arithmetic(case, part, arg)
            elif part.kind is Kind.EXPANSION and (piece := _SUBSTRING.match(part.text)):
                rate_names(case, piece[1], arg)
            elif part.kind is Kind.EXPANSION and _PROMPT.search(part.text):
                case.unknown(Code.DYNAMIC_ARGUMENT, f"{part.text} evaluates a value", arg)
            elif part.kind is Kind.EXPANSION and _SUBSCRIPT.search(part.text):
                case.unknown(Code.DYNAMIC_ARGUMENT, f"{part.text} evaluates a subscript", arg)


def _rate_arithmetic(case: Case, part: Part, arg: Arg) -> None:
    if part.commands:
        # What it prints is evaluated: `a[$(…)]` would run.
        case.unknown(Code.DYNAMIC_ARGUMENT, f"{part.text} evaluates what a command prints", arg)
    rate_names(case, _SUBSTITUTION.sub("0", part.text.removeprefix("$")), arg)


def words_of(simple: Simple) -> Iterator[Word]:
    """Every word of a command, those of its redirections and assignments included."""
    yield from simple.words
    for assignment in simple.assignments:
        if assignment.value is not None:
            yield assignment.value
    for redirect in simple.redirects:
        yield from (word for word in (redirect.target, redirect.body) if word is not None)
