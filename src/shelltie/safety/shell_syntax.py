"""Shell side effects: assignments, arithmetic, redirections, computed program names. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from shelltie.basics.lazy_regex import lazy
from shelltie.environment.variable_kinds import is_hook_name
from shelltie.safety.arg import HOLE, Arg, literal
from shelltie.safety.dataflow import Origin, origin_of, scan_given
from shelltie.safety.inspection import Inspection, base_name
from shelltie.safety.protected_names import (
    Effect,
    effect,
    is_harmless,
    is_harmless_target,
    protection,
    secrecy,
)
from shelltie.safety.values import CASE
from shelltie.safety.word_splitting import rate_empty_value
from shelltie.shell.script import PartKind, Redirect, Simple, Word
from shelltie.verdict import Code, Rating

_COMMAND = lazy(r"\$\(|`|\$\{")
_NAME = lazy(r"[A-Za-z_]\w*", re.ASCII)
_SUBSCRIPT = lazy(r"\[(?!\s*[@*\d]*\s*\])")
# ${x:offset:length}
_SUBSTRING = lazy(r"\$\{[\w@*#?-]+(?:\[[^]]*\])?:(?![-=?+])(.*)\}", re.DOTALL)
_SETS = lazy(r"([A-Za-z_]\w*)\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)", re.ASCII)
_SETS_BEFORE = lazy(r"(?:\+\+|--)\s*([A-Za-z_]\w*)", re.ASCII)
_DEFAULT = lazy(r"\$\{([A-Za-z_]\w*):?=", re.ASCII)
_PROMPT = lazy(r"@[PA]\}|\$\{!")
# `${x:-$((z))}`, `${PWD#${PWD:z}}`: what stands inside another expansion is expanded as well.
_NESTED = lazy(
    r"(?<!^)(?:\$\(\(|\$\[|\$\{[\w@*#?!-]+(?:\[[^]]*\])?:(?![-=?+])(?![\d\s:]*\})|@[PA]\}|\$\{!)"
)
# Inside double quotes, however deep, bash expands what is spelled there: `"$(: ${x-$'\x24(id)'})"`.
_SPELLED_DEFAULT = lazy(
    r"\$\{[\w@*#?!]+(?:\[[^]]*\])?:?[-=+?].*\$'(?!(?:[^\\$`']|\\[nrt])*')", re.DOTALL
)
_SUBSTITUTION = lazy(r"\$\([^()]*\)|`[^`]*`")
_HEX = lazy(r"\b0[xX][0-9a-fA-F]+\b|\b\d+#\w+")


def rate_variable_name(case: Inspection, arg: Arg) -> None:
    """A word that names a variable, as `read` and `test -v` take it."""
    for guess in arg.guesses:
        if _COMMAND.search(guess):
            case.dangerous(Code.DYNAMIC_ARGUMENT, f"the subscript in {arg.text} runs code", arg)
        elif HOLE in guess or "[" in guess or not case.where.values.tells(arg):
            evaluated(case, f"{arg.text} may run code in a subscript", arg)


def evaluated(case: Inspection, message: str, arg: Arg) -> None:
    """The shell evaluates a value, and may so run what it has read into it: `read a; ((a))`."""
    case.unknown(Code.DYNAMIC_ARGUMENT, message, arg)
    scan_given(case)


def rate_expression(case: Inspection, arg: Arg) -> None:
    """A word that is evaluated as arithmetic."""
    for guess in arg.guesses:
        if _COMMAND.search(guess):
            case.dangerous(Code.DYNAMIC_ARGUMENT, f"arithmetic runs the code in {arg.text}", arg)
            return
    text = arg.text if not arg.exact else arg.guesses[0]
    rate_names(case, text, arg)


def rate_names(case: Inspection, text: str, arg: Arg) -> None:
    """The variables in an expression: what they hold is evaluated, and some must not be set."""
    _rate_settings(case, (*_SETS.findall(text), *_SETS_BEFORE.findall(text)), arg)
    names = _NAME.findall(_HEX.sub("0", text))
    unsure = [name for name in names if not case.where.values.is_number(name)]
    if any(_COMMAND.search(value) for name in unsure for value in case.where.values.known(name)):
        case.dangerous(Code.DYNAMIC_ARGUMENT, f"arithmetic runs what {unsure[0]} holds", arg)
    elif unsure:
        evaluated(case, f"arithmetic evaluates {unsure[0]}, whatever it holds", arg)


def _rate_settings(case: Inspection, names: Iterable[str], arg: Arg) -> None:
    for name in names:
        if is_hook_name(name) or name.startswith("SHELLTIE_"):  # our own settings
            case.unknown(
                Code.ENV_INJECTION, f"{arg.text} sets {name}, which decides what runs", arg
            )


def rate_expansions(case: Inspection) -> None:
    """Expansions anywhere in a command that evaluate what a variable holds."""
    for word in words_of(case.simple):
        for part in word.parts:
            arg = Arg((), part.text, word.span, part.text)
            if part.kind is PartKind.ARITHMETIC:
                if part.commands:
                    # What it prints is evaluated: `a[$(…)]` would run.
                    evaluated(case, f"{part.text} evaluates what a command prints", arg)
                rate_names(case, _SUBSTITUTION.sub("0", part.text.removeprefix("$")), arg)
            elif part.kind is PartKind.EXPANSION:
                _rate_expansion(case, part.text, arg)


def _rate_expansion(case: Inspection, text: str, arg: Arg) -> None:
    _rate_settings(case, _DEFAULT.findall(text), arg)
    if _SPELLED_DEFAULT.search(text):
        evaluated(case, f"{text} may expand what it spells", arg)
    elif _NESTED.search(text):
        evaluated(case, f"{text} evaluates a value inside another expansion", arg)
    elif piece := _SUBSTRING.match(text):
        rate_names(case, piece[1], arg)
    elif _PROMPT.search(text):
        evaluated(case, f"{text} evaluates a value", arg)
    elif _SUBSCRIPT.search(text):
        evaluated(case, f"{text} evaluates a subscript", arg)


def words_of(simple: Simple) -> Iterator[Word]:
    """Every word of a command, those of its redirections, assignments and arrays included."""
    values = (assignment.value for assignment in simple.assignments)
    named = (word for it in simple.redirects for word in (it.target, it.body))
    waiting = [*simple.words, *(word for word in (*values, *named) if word is not None)]
    while waiting:
        word = waiting.pop()
        yield word
        waiting += (inner for part in word.parts for inner in part.words)


_EVALUATED = lazy(r"\$\(|`")
# Variables with the integer attribute: `OPTIND='a[$(cmd)]'` runs cmd.
_INTEGERS = frozenset(
    (
        *("OPTIND", "OPTERR", "HISTCMD", "RANDOM", "SRANDOM", "SECONDS", "LINENO", "BASHPID"),
        *("EPOCHSECONDS", "EPOCHREALTIME", "BASH_SUBSHELL", "BASH_MONOSECONDS", "PPID", "UID"),
        *("EUID", "COMP_CWORD", "COMP_POINT", "COMP_TYPE", "COMP_KEY", "FUNCNEST", "TMOUT"),
        *("COLUMNS", "LINES", "HISTSIZE", "HISTFILESIZE", "MAILCHECK", "BASH_ARGC", "SHLVL"),
    )
)
_DIGITS = lazy(r"\d+")
# Their value goes through the shell's expansions before it is shown.
_PROMPTS = frozenset(("PS0", "PS1", "PS2", "PS4"))


def rate_assignments(case: Inspection) -> None:
    """The `NAME=value` before a command, or alone."""
    for assignment in case.simple.assignments:
        word = assignment.value
        args = case.where.values.of(word) if word is not None else ()
        arg = args[0] if args else Arg((), "", assignment.span, "")
        guesses = arg.guesses if args else ("",)
        if "[" in assignment.name:
            subscript(case, assignment.name, arg)
        for element in _elements(word):
            if element.text.startswith("["):
                subscript(case, element.text.partition("]")[0], arg)
        name = _NAME.match(assignment.name)
        if name and not _only_splits_a_line(case, name[0]):
            rate_pair(case, name[0], guesses, arg, before_command=bool(case.simple.words))


def _elements(word: Word | None) -> Iterator[Word]:
    """What stands between the brackets of `a=(…)`."""
    if word is not None:
        yield from (element for part in word.parts for element in part.words)


def _only_splits_a_line(case: Inspection, name: str) -> bool:
    """`IFS= read -r line`: it is back to what it was when the line is read."""
    return name == "IFS" and case.simple.program in ("read", "mapfile", "readarray")


def rate_loop(case: Inspection) -> None:
    """A loop sets its variable, whatever that is called."""
    name = case.simple.loop
    if name is not None and name != CASE:
        args = case.where.values.args(case.simple.words)
        values = [guess for arg in args for guess in arg.guesses] or [""]
        parts = tuple(part for word in case.simple.words for part in word.parts)
        arg = Arg((), "", case.simple.span, name, parts=parts)
        rate_pair(case, name, values, arg, before_command=False)


def subscript(case: Inspection, name: str, arg: Arg) -> None:
    """The index of an array is arithmetic, and arithmetic runs what is in `$(…)`."""
    if _EVALUATED.search(name):
        case.unknown(Code.DYNAMIC_ARGUMENT, "a subscript runs a command", arg)
    else:
        rate_names(case, name.partition("[")[2], arg)


def rate_pair(
    case: Inspection, name: str, values: Sequence[str], arg: Arg, *, before_command: bool
) -> None:
    """`name=value`, wherever a command or the shell is told so."""
    told = all(map(_DIGITS.fullmatch, values)) and case.where.values.tells(arg)
    if name in _INTEGERS and not told:
        evaluated(case, f"{name} is a number: the shell evaluates what it is set to", arg)
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


def _hook(case: Inspection, name: str, value: str, arg: Arg) -> None:
    """The value is itself a command."""
    case.unknown(Code.ENV_INJECTION, f"the value of {name} is run as a command", arg)
    if name in _PROMPTS:
        if _EVALUATED.search(value):
            case.dangerous(Code.ENV_INJECTION, f"{name} runs a command at every prompt", arg)
        scan_given(case)
        return
    if HOLE not in value and not value.startswith("-"):
        case.again.danger_in_text(value.lstrip("|!"), case, f"{name}=", arg.span)
    if origin_of(case, arg) is not Origin.PROGRAM:
        case.dangerous(Code.REMOTE_CODE, f"{name} is set to code from elsewhere", arg)


_DESCRIPTOR = lazy(r"\d+-?|-")
_WRITES = {
    Code.NETWORK_EXFIL: "sends data to another machine",
    Code.PERSISTENCE: "changes a file that is run later, or steers a tool",
    Code.PRIVILEGE: "changes who may do what",
    Code.PROTECTED_PATH: "changes a file of the system",
}


def rate_redirects(case: Inspection) -> None:
    """Every redirection of a command."""
    for redirect in case.simple.redirects:
        if redirect.descriptor.startswith("{"):
            case.unknown(
                Code.ENV_INJECTION, f"{redirect.descriptor}{redirect.operator} sets a name"
            )
        if redirect.body is not None:
            secrets = case.where.values.secrets_in(redirect.body) if case.simple.words else ()
            for name in secrets:
                case.dangerous(Code.SECRET_READ, f"shows the value of ${name}")
        elif redirect.target is not None:
            for arg in case.where.values.of(redirect.target):
                _rate_target(case, redirect, arg)


def _rate_target(case: Inspection, redirect: Redirect, arg: Arg) -> None:
    if redirect.operator in (">&", "<&") and _DESCRIPTOR.fullmatch(arg.value or ""):
        return
    if any(part.kind is PartKind.PROCESS for part in arg.parts):
        return  # what runs in there is judged itself
    if redirect.operator == "<":
        _reads(case, arg)
    else:
        _writes(case, redirect, arg)


def _reads(case: Inspection, arg: Arg) -> None:
    for guess in arg.guesses:
        if protection(guess) is Code.NETWORK_EXFIL:
            case.dangerous(Code.NETWORK_EXFIL, f"opens a connection: {arg.text}", arg)
        rating = secrecy(guess, case.directories)
        if rating is not Rating.SAFE:
            case.say(rating, Code.SECRET_READ, f"{arg.text} may hold credentials", arg)
    case.files.update(arg.guesses)
    rate_empty_value(case, arg)
    if not (arg.exact or (arg.bound and arg.single)):
        case.unknown(
            Code.DYNAMIC_ARGUMENT, f"which file {arg.text} is, is known only at run time", arg
        )


def _writes(case: Inspection, redirect: Redirect, arg: Arg) -> None:
    if arg.exact and arg.value is not None and is_harmless_target(arg.value) and arg.value != "-":
        return
    for guess in arg.guesses:
        if (code := protection(guess, case.directories)) is not None:
            case.dangerous(code, f"{redirect.operator} {arg.text} {_WRITES[code]}", arg)
            return
    case.unknown(Code.WRITE_REDIRECT, f"{redirect.operator} writes {arg.text}", arg)


_GLOB = lazy(r"[*?\[\]]")
_MATCHES_MAX = 8
_HIDDEN = (
    *("rm", "dd", "sudo", "su", "sh", "bash", "chmod", "chown", "mv", "shred", "truncate", "kill"),
    *("curl", "wget", "nc", "python3", "perl", "node", "git", "find", "xargs", "env", "crontab"),
)
_FORCE = lazy(r"-[a-zA-Z]*(?:rf|fr|Rf|fR)[a-zA-Z]*")


def rate_dynamic_program(case: Inspection) -> None:
    """A program that is a variable, a substitution or a pattern: never safe, maybe dangerous."""
    program = case.args[0]
    case.unknown(
        Code.DYNAMIC_PROGRAM, f"which program {program.text} is, is known only at run time", program
    )
    source = origin_of(case, program)
    if source is not Origin.PROGRAM:
        case.dangerous(Code.REMOTE_CODE, "runs what a substitution fetches or decodes", program)
    for name in _candidates(program):
        case.again.danger([literal(name, program.span), *case.words], case, program.text)
    for arg in _told_elsewhere(case, program):
        case.again.danger_in_text(arg.guesses[0], case, program.text, arg.span)
    scan_given(case)
    if HOLE in program.shape and any(_FORCE.fullmatch(arg.head) for arg in case.words):
        case.dangerous(
            Code.DESTROYS_DATA, "an unknown program is told to delete whole trees", program
        )


def _told_elsewhere(case: Inspection, program: Arg) -> Iterator[Arg]:
    """Commands that it may be: what several commands of a substitution print one after the other,
    and what `read` is given, for itself or by the loop around it.
    """
    values = case.where.values
    for part in program.parts:
        if part.kind is PartKind.COMMAND and len(part.commands) > 1:
            printed = (values.output_of((place,)) for place in part.commands)
            yield literal(" ".join(filter(None, printed)), program.span)
    yield from values.given_to_read


def _candidates(program: Arg) -> list[str]:
    """The programs it may be; for a pattern, those that somebody may want to hide."""
    if not program.pattern:
        return list(program.values)[:_MATCHES_MAX]
    found = []
    for value in program.values:
        name = base_name(value)
        if not _GLOB.search(name):
            found.append(value)
        if _GLOB.sub("", name):
            found += [hidden for hidden in _HIDDEN if fnmatchcase(hidden, name)]
    return found[:_MATCHES_MAX]
