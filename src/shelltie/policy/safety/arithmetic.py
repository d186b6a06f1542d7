"""Places where the shell evaluates text as arithmetic, which can run commands. Pure.

`[ -v 'a[$(cmd)]' ]` runs `cmd`, quotes or not: the subscript of an array is evaluated again.
"""

import re
from collections.abc import Iterator

from shelltie.model import Code
from shelltie.policy.safety.args import HOLE, Arg
from shelltie.policy.safety.case import Case
from shelltie.shell.script import Kind, Simple, Word

_COMMAND = re.compile(r"\$\(|`|\$\{")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SUBSCRIPT = re.compile(r"\[(?!\s*[@*\d]*\s*\])")
_SUBSTRING = re.compile(r"\$\{[\w@*#?-]+:(?![-=?+])(.*)\}", re.DOTALL)  # ${x:offset:length}
_PROMPT = re.compile(r"@[PA]\}|\$\{!")
_HEX = re.compile(r"\b0[xX][0-9a-fA-F]+\b|\b\d+#\w+")


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
    _rate_names(case, text, arg)


def _rate_names(case: Case, text: str, arg: Arg) -> None:
    names = _NAME.findall(_HEX.sub("0", text))
    unsure = [name for name in names if not case.where.values.is_number(name)]
    if any(_COMMAND.search(value) for name in unsure for value in case.where.values.known(name)):
        case.dangerous(Code.DYNAMIC_ARGUMENT, f"arithmetic runs what {unsure[0]} holds", arg)
    elif unsure:
        case.unknown(
            Code.DYNAMIC_ARGUMENT, f"arithmetic evaluates {unsure[0]}, whatever it holds", arg
        )


def rate_expansions(case: Case) -> None:
    """Expansions anywhere in a command that evaluate what a variable holds."""
    for word in words_of(case.simple):
        for part in word.parts:
            arg = Arg((), part.text, word.span, part.text)
            if part.kind is Kind.ARITHMETIC:
                _rate_names(case, _without_substitutions(part.text), arg)
            elif part.kind is Kind.EXPANSION and (piece := _SUBSTRING.match(part.text)):
                _rate_names(case, piece[1], arg)
            elif part.kind is Kind.EXPANSION and _PROMPT.search(part.text):
                case.unknown(Code.DYNAMIC_ARGUMENT, f"{part.text} evaluates a value", arg)
            elif part.kind is Kind.EXPANSION and _SUBSCRIPT.search(part.text):
                case.unknown(Code.DYNAMIC_ARGUMENT, f"{part.text} evaluates a subscript", arg)


def _without_substitutions(text: str) -> str:
    """Commands inside are judged themselves; what they print is taken as a number."""
    return re.sub(r"\$\([^()]*\)|`[^`]*`", "0", text.removeprefix("$"))


def words_of(simple: Simple) -> Iterator[Word]:
    """Every word of a command, those of its redirections and assignments included."""
    yield from simple.words
    for assignment in simple.assignments:
        if assignment.value is not None:
            yield assignment.value
    for redirect in simple.redirects:
        yield from (word for word in (redirect.target, redirect.body) if word is not None)
