"""Shell builtins (eval, exec, source, trap, read, …) that need more than a rule. Pure."""

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile

from shelltie.basics.lazy_regex import lazy
from shelltie.safety.arg import Arg
from shelltie.safety.by_rule import use
from shelltie.safety.dataflow import rate_input, scan_given
from shelltie.safety.inspection import Inspection
from shelltie.safety.option_split import SplitArguments
from shelltie.safety.rule import Role, Rule
from shelltie.safety.shell_syntax import rate_expression, rate_pair, rate_variable_name
from shelltie.shell.script import PartKind
from shelltie.verdict import Code, Rating

_COMMAND = lazy(r"\$\(|`")
_COMPARISONS = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
_LOOKS_UP = frozenset(("-p", "-v", "-V", "-pv", "-pV", "-vp", "-Vp"))
_SHOWS = Rule(("",), "", Rating.SAFE)  # what is printed is seen


def _eval(case: Inspection) -> None:
    case.unknown(Code.INTERPRETER, "eval runs its words as code")
    use(case, Role.SHELL, case.words, Rule(("eval",), "", Rating.UNKNOWN))


def _trap(case: Inspection) -> None:
    words = [arg for arg in case.words if arg.value not in ("-l", "-p", "--")]
    if words:
        case.unknown(Code.CHANGES_STATE, "trap runs a command later")
    if len(words) > 1 and words[0].value not in ("-", ""):
        case.shell(words[:1], "trap")


def _alias(case: Inspection) -> None:
    for arg in case.words:
        for guess in arg.guesses:
            _, equals, text = guess.partition("=")
            if equals:
                case.unknown(Code.CHANGES_STATE, "alias changes what a name runs", arg)
                case.again.danger_in_text(text, case, "alias", arg.span)


def _declare(case: Inspection) -> None:
    case.unknown(Code.ENV_INJECTION, f"{case.program} changes or shows variables")
    options = [arg.head for arg in case.words if arg.head.startswith(("-", "+"))]
    if {"i", "n"} & {*"".join(options)} or not all(arg.exact for arg in case.words):
        scan_given(case)  # `read a; declare -i n=$a`: what it is set to is evaluated
    for arg in case.words:
        if arg.head not in options:
            for guess in arg.guesses:
                _declared(case, guess, arg, evaluated="i" in "".join(options))


def _declared(case: Inspection, text: str, arg: Arg, *, evaluated: bool) -> None:
    name, equals, value = text.partition("=")
    if _COMMAND.search(name) or (evaluated and _COMMAND.search(value)):
        case.dangerous(Code.DYNAMIC_ARGUMENT, f"arithmetic runs the code in {arg.text}", arg)
    elif equals:
        rate_pair(case, name.rstrip("+"), (value,), arg, before_command=False)


def _unset(case: Inspection) -> None:
    case.unknown(Code.ENV_INJECTION, "unset changes what later commands see")
    for arg in case.words:
        rate_variable_name(case, arg)


def _source(case: Inspection) -> None:
    case.unknown(Code.RUNS_CODE, f"{case.program} runs a file in the shell itself")
    rule = Rule((case.program,), "", Rating.UNKNOWN, stdin=Role.SHELL)
    rate_input(case, rule, SplitArguments(operands=[*case.words[:1]]))


def _exec(case: Inspection) -> None:
    words = _after(case.words, value="a", plain="cl")
    if words:
        case.again.command(words, case, "exec")


def _builtin(case: Inspection) -> None:
    if case.words:
        case.again.command(case.words, case, "builtin")


def _command(case: Inspection) -> None:
    # `command test -v x`: only before the name is -v its own.
    options = [*takewhile(lambda word: word in _LOOKS_UP, (arg.value for arg in case.words))]
    if any(option != "-p" for option in options):
        return
    words = _after(case.words, plain="p")
    if words:
        case.again.command(words, case, "command")


def _after(words: Sequence[Arg], *, value: str = "", plain: str) -> Sequence[Arg]:
    """The words behind the options; `value` and `plain` are their letters: `exec -ca z`."""
    at = 0
    while at < len(words) and words[at].head.startswith("-") and words[at].head not in ("-", "--"):
        letters = words[at].head[1:].lstrip(plain)
        if letters and letters[0] not in value:
            break
        at += 2 if letters and letters in value else 1
    return words[at + 1 :] if at < len(words) and words[at].value == "--" else words[at:]


def _test(case: Inspection) -> None:
    for before, arg in zip(case.words, case.words[1:], strict=False):
        if _may_look_up(before):
            rate_variable_name(case, arg)
    for arg in case.words:
        if not arg.exact and not arg.single and not _is_numeric(case, arg):
            # `[ $x = y ]` may become `[ -v a[$(cmd)] = y ]`
            case.unknown(Code.DYNAMIC_ARGUMENT, f"{arg.text} may become several words", arg)


def _may_look_up(operator: Arg) -> bool:
    """`[ "$x" 'a[$(cmd)]' ]`: it may be -v, whatever x was set to in plain sight."""
    if operator.exact:
        return operator.value in ("-v", "-R")
    known = takewhile(lambda part: part.kind is PartKind.TEXT, operator.parts)
    return "".join(part.text for part in known)[:2] in ("", "-", "-v", "-R")


def _is_numeric(case: Inspection, arg: Arg) -> bool:
    return not arg.pattern and all(
        part.kind is PartKind.TEXT
        or (part.kind is PartKind.VARIABLE and case.where.values.is_number(part.text))
        for part in arg.parts
    )


def _conditional(case: Inspection) -> None:
    words = case.words
    for place, arg in enumerate(words):
        if arg.value in ("-v", "-R") and place + 1 < len(words):
            rate_variable_name(case, words[place + 1])
        elif arg.exact and arg.value in _COMPARISONS:
            for side in (*words[max(place - 1, 0) : place], *words[place + 1 : place + 2]):
                rate_expression(case, side)


def _printf(case: Inspection) -> None:
    if case.words and case.words[0].head.startswith("-v"):
        named = case.words[0].after(2) if case.words[0].head != "-v" else None
        case.unknown(Code.ENV_INJECTION, "printf -v sets a variable")
        for arg in [named] if named else case.words[1:2]:
            rate_variable_name(case, arg)
            rate_pair(case, arg.head, ("",), arg, before_command=False)
    elif case.words and not case.words[0].exact and case.words[0].head[:1] in ("", "-"):
        case.unknown(Code.DYNAMIC_ARGUMENT, "the format of printf may be an option")
    use(case, Role.TEXT, case.words, _SHOWS)


_READ_VALUES = frozenset(("-d", "-i", "-n", "-N", "-p", "-t", "-u", "-O", "-s", "-c"))


def _read(case: Inspection) -> None:
    if any(arg.head.startswith("-") and "e" in arg.head for arg in case.words):
        case.unknown(Code.INTERACTIVE, "read -e may run what is bound to keys")
    skip = False
    for arg in case.words:
        if skip:
            skip = False
        elif arg.value in _READ_VALUES and arg.value != "-s":
            skip = True
        elif not arg.head.startswith("-"):
            _read_name(case, arg)
        elif "a" in arg.head:  # `read -ax`
            _read_name(case, arg.after(arg.head.index("a") + 1))


def _read_name(case: Inspection, arg: Arg) -> None:
    rate_variable_name(case, arg)
    rate_pair(case, arg.head, ("",), arg, before_command=False)


def _mapfile(case: Inspection) -> None:
    for place, arg in enumerate(case.words):
        letters, option, _ = arg.head.partition("C")
        if option and letters.startswith("-"):
            text = arg.after(len(letters) + 1) if not arg.head.endswith("C") else None
            case.unknown(Code.EXEC_FLAG, f"{case.program} -C runs a command for each line", arg)
            case.shell([text] if text else case.words[place + 1 : place + 2], f"{case.program} -C")
            scan_given(case)
    _read(case)


def _wait(case: Inspection) -> None:
    for place, arg in enumerate(case.words):
        letters, option, _ = arg.head.partition("p")
        if option and letters.startswith("-"):
            case.unknown(Code.ENV_INJECTION, "wait -p sets a variable", arg)
            for named in (arg.after(len(letters) + 1), *case.words[place + 1 : place + 2]):
                rate_variable_name(case, named)


def _let(case: Inspection) -> None:
    for arg in case.words:
        rate_expression(case, arg)


def _complete(case: Inspection) -> None:
    case.unknown(Code.CHANGES_STATE, f"{case.program} changes or tries completions")
    for before, arg in zip(case.words, case.words[1:], strict=False):
        if before.value == "-C":
            case.shell([arg], f"{case.program} -C")
        elif before.value == "-W" and any(map(_COMMAND.search, arg.guesses)):
            case.dangerous(Code.EXEC_FLAG, f"{case.program} -W runs the code in its words", arg)


def _enable(case: Inspection) -> None:
    case.unknown(Code.CHANGES_STATE, "enable changes which commands are built in")
    if any(arg.head.startswith("-") and "f" in arg.head for arg in case.words):
        case.dangerous(Code.REMOTE_CODE, "enable -f loads a library into the shell")


def _hash(case: Inspection) -> None:
    case.unknown(Code.ENV_INJECTION, "hash changes where programs are found")
    if any(arg.head.startswith("-") and "p" in arg.head for arg in case.words):
        case.dangerous(Code.ENV_INJECTION, "hash -p replaces a program by another file")


def _set(case: Inspection) -> None:
    case.unknown(Code.ENV_INJECTION, f"{case.program} changes how the shell works, or shows it")


def _bind(case: Inspection) -> None:
    case.unknown(Code.CHANGES_STATE, "bind changes what keys do")
    for arg in case.words:
        for guess in arg.guesses:
            case.again.danger_in_text(
                guess.rpartition(":")[2].strip(" \"'"), case, "bind", arg.span
            )


BUILTINS: Mapping[str, Callable[[Inspection], None]] = {
    "eval": _eval,
    "trap": _trap,
    "alias": _alias,
    "export": _declare,
    "declare": _declare,
    "typeset": _declare,
    "readonly": _declare,
    "local": _declare,
    "unset": _unset,
    "source": _source,
    ".": _source,
    "exec": _exec,
    "builtin": _builtin,
    "command": _command,
    "test": _test,
    "[": _test,
    "[[": _conditional,
    "printf": _printf,
    "read": _read,
    "mapfile": _mapfile,
    "readarray": _mapfile,
    "wait": _wait,
    "let": _let,
    "((": _let,
    "compgen": _complete,
    "complete": _complete,
    "enable": _enable,
    "hash": _hash,
    "set": _set,
    "shopt": _set,
    "bind": _bind,
}
