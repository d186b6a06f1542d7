"""Wrapper commands that run another one: sudo, xargs, find -exec. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from shelltie.basics.lazy_regex import lazy
from shelltie.safety.arg import HOLE, Arg, unseen
from shelltie.safety.file_name_sources import (
    DISCREET,
    NAMES,
    finds_harmless_names,
    lists_harmless_names,
)
from shelltie.safety.inspection import Inspection, base_name
from shelltie.safety.option_split import SplitArguments
from shelltie.safety.protected_names import is_secret_path
from shelltie.shell.invocation import read_invocation
from shelltie.verdict import Code

_SEARCHES = frozenset(("grep", "egrep", "fgrep", "rg", "zgrep"))
_NAMES_ONLY = frozenset(("-l", "-L", "-c", "-q", "-rl", "-il", "--files-with-matches", "--count"))


def names_known_files(case: Inspection, inner: Sequence[Arg]) -> bool:
    """Whether a program that reads the files it is told here shows nothing it should not."""
    program = base_name(inner[0].value or "")
    if program in DISCREET:
        return True
    if _names_only(inner):
        return True
    return lists_harmless_names(case.feeders())


_SUFFIXES_MAX = 30
_PLACEHOLDER = "{}"
_SHELLS = frozenset(("sh", "bash", "zsh", "dash", "ksh", "ash", "eval"))
_GOES = frozenset(("cd", "chdir", "pushd"))
_DIRECTORY_OPTIONS = frozenset(("-C", "--chdir", "--directory", "--cwd"))
_ATTACHED_DIRECTORY = lazy(r"-C(?=.)|--(?:chdir|directory|cwd)=")


def rate_inner(
    case: Inspection, args: Sequence[Arg], given: SplitArguments, *, appends: bool | None = None
) -> None:
    """Rate the command that a wrapper runs; `appends` is `None` for what follows `-exec`."""
    if not args:
        return
    if appends is False:  # `{}` is the inner command's: timeout 2 find . -exec cat {} +
        case.again.command(args, case, case.program)
        return
    known = names_known_files(case, args) if appends else _finds(case, args, given)
    replaced = _replaced(given) if appends else {_PLACEHOLDER}
    filled = [_filled(case, arg, given, known=known and arg.value in replaced) for arg in args]
    if appends and not any(_placeholders(given) & set(arg.values) for arg in args):
        # Two, because the first may be the value that the last option wants.
        filled += [unseen(args[0].span, _seen_before(case), known=known)] * 2
    if _runs_its_input(args, given):
        case.dangerous(Code.REMOTE_CODE, f"{case.program} runs what it reads as commands", args[0])
    case.again.command(filled, case, case.program)


def _finds(case: Inspection, args: Sequence[Arg], given: SplitArguments) -> bool:
    """Whether what `find -exec` runs may read every file that is found."""
    if base_name(args[0].value or "") in DISCREET or _names_only(args):
        return True
    named = [it.value for it in given.flags if it.flag.name in NAMES and it.value is not None]
    names = [it.guesses[0] for it in named]
    starts = [text for operand in given.operands for text in operand.guesses] or ["."]
    if not any(
        it.flag.name == "-type" and it.value and it.value.value == "f" for it in given.flags
    ):
        # A link may have the name, too. Those right where the search begins are looked at.
        case.files.update(f"{start}/{name}" for start in starts for name in names)
    return finds_harmless_names(starts, names)


def _names_only(args: Sequence[Arg]) -> bool:
    """A search that shows which files match, and not what is in them."""
    program = base_name(args[0].value or "")
    return program in _SEARCHES and bool(_NAMES_ONLY & {arg.value for arg in args[1:]})


def _placeholders(given: SplitArguments) -> set[str]:
    """What may stand for the unseen argument: `{}`, or what `-I` says."""
    return {_PLACEHOLDER, *_replaced(given)}


def _replaced(given: SplitArguments) -> set[str]:
    """What xargs replaces, if anything; without it, `{}` is the inner command's own."""
    wanted = [it.value for it in given.flags if it.flag.name in ("-I", "-i", "--replace")]
    return {_PLACEHOLDER if it is None else it.value or _PLACEHOLDER for it in wanted}


def _filled(case: Inspection, arg: Arg, given: SplitArguments, *, known: bool) -> Arg:
    """A placeholder is an argument that nobody sees, but find says what it may be called."""
    holders = _placeholders(given)
    if arg.value not in holders:
        # A placeholder inside a word is replaced as well.
        shape = arg.shape
        for holder in holders:
            shape = shape.replace(holder, HOLE)
        return replace(arg, values=(), shape=shape, exact=False) if shape != arg.shape else arg
    named = [
        text
        for option in given.flags
        if option.flag.name in NAMES and option.value is not None
        for text in option.value.values
    ]
    named += [f"{start}/x" for operand in given.operands for start in operand.values]
    return unseen(arg.span, _secret(named) or _seen_before(case), known=known)


def _seen_before(case: Inspection) -> tuple[str, ...]:
    """The secret files that the commands name whose output becomes arguments."""
    words = [word for simple in case.feeders() for word in simple.words[1:]]
    return _secret([text for arg in case.where.values.args(words) for text in arg.values])


def _secret(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(text for text in texts if is_secret_path(text))


def _runs_its_input(args: Sequence[Arg], given: SplitArguments) -> bool:
    """`xargs -I{} sh -c '{}'`, or `xargs` with `{}` as the program."""
    holders = _placeholders(given)
    if args[0].value in holders:
        return True
    if base_name(args[0].value or "") not in _SHELLS:
        return False
    rest = args[1:]
    if args[0].value != "eval":
        invocation = read_invocation([arg.head for arg in rest])
        if not invocation.has_command:
            return False
        rest = rest[invocation.rest :]
    if not rest:  # what is read becomes the text
        return True
    return any((value.split() or [""])[0].strip("\"'") in holders for value in rest[0].values)


def scan_suffixes(case: Inspection, args: Sequence[Arg]) -> None:
    """Danger in any of the commands that may stand behind options we do not know."""
    if case.again.guessing:
        return
    for start in range(min(len(args), _SUFFIXES_MAX)):
        if args[start].value is not None and not args[start].head.startswith("-"):
            if case.again.danger(args[start:], case, case.program):
                return
            if " " in (args[start].value or ""):
                case.again.danger_in_text(
                    args[start].value or "", case, case.program, args[start].span
                )


def scan_words(case: Inspection) -> None:
    """Danger among the words of a program that we do not know: it may run them as a command.

    A program's name alone is more often a subcommand, so there must be words behind it.
    """
    if case.again.guessing:
        return
    tried = 0
    for start, arg in enumerate(case.words[:-1]):
        if arg.exact and case.again.rules.names(base_name(arg.value or "")):
            tried += 1
            if case.again.danger(case.words[start:], case, case.program) or tried > _SUFFIXES_MAX:
                return


def places_of(case: Inspection) -> Iterator[str | None]:
    """The directories a command goes to: by `cd`, or by an option such as `git -C`."""
    words = case.words
    if case.program in _GOES and words:
        named = [arg for arg in words if arg.value == "-" or not arg.head.startswith("-")]
        yield from _places(named[:1])
    if any(arg.value in ("-execdir", "-okdir") for arg in words):
        yield None
    for before, arg in pairwise(words):
        if before.value in _DIRECTORY_OPTIONS:
            yield from _places([arg])
    for arg in words:
        option = _ATTACHED_DIRECTORY.match(arg.head)
        if option:
            yield from _places([arg.after(option.end())])


def _places(args: Sequence[Arg]) -> Iterator[str | None]:
    for arg in args:
        sure = arg.values if not arg.pattern and arg.value != "-" else ()
        yield from sure or (None,)
