"""Word splitting: which other words of a command an expansion may make names of files. Pure.

With a value that only the run will tell, `grep $x .env f` reads `.env` (`-e foo`), `nl $x f` reads
f or a number (`-v`), and `grep $(find .) f` reads every file but the first.
"""

from collections.abc import Iterator

from shelltie.safety.arg import HOLE, Arg
from shelltie.safety.inspection import Inspection
from shelltie.safety.option_split import SplitArguments
from shelltie.safety.protected_names import secrecy
from shelltie.safety.rule import Role, Rule
from shelltie.shell.script import PartKind
from shelltie.verdict import Code, Rating


def rate_open_words(case: Inspection, rule: Rule, given: SplitArguments) -> None:
    """Words that may fall apart or become options, where the program shows files that it is told.

    What has none of its parts from the shell is not looked at here: it is what another program
    appends (`xargs`), or a pattern, of which the names are looked at on disk.
    """
    loose = [arg for arg in given.loose if _is_open(case, arg)]
    if not loose or not _shows_files(rule):
        return
    for arg in loose:
        if not arg.single and not case.where.values.tells(arg):
            message = f"{arg.text} may become several words, and some of them names of files"
            case.unknown(Code.DYNAMIC_ARGUMENT, message, arg)
    for arg in case.words:
        for text in (*arg.guesses, *_with_empty(case, arg)):
            _may_read(case, text.split())


def rate_empty_value(case: Inspection, arg: Arg) -> None:
    """A file that is shown, named by a variable that is set on one way alone: `false && d=x`."""
    _may_read(case, _with_empty(case, arg))


def _with_empty(case: Inspection, arg: Arg) -> Iterator[str]:
    texts = case.where.values.with_empty(arg)
    if texts is None:
        case.unknown(Code.DYNAMIC_ARGUMENT, f"{arg.text} may be more than is looked at", arg)
    yield from texts or ()


def _may_read(case: Inspection, texts: Iterator[str] | list[str]) -> None:
    for text in texts:
        if text and HOLE not in text:
            case.perhaps_files.add(text)
            if secrecy(text, case.directories) is not Rating.SAFE:
                case.unknown(Code.SECRET_READ, f"{text} may be read as a file with credentials")


def _is_open(case: Inspection, arg: Arg) -> bool:
    if all(part.kind in (PartKind.TEXT, PartKind.ARITHMETIC) for part in arg.parts):
        return False
    values = case.where.values
    return len(arg.values) != 1 or not values.tells(arg) or not values.always_set(arg)


def _shows_files(rule: Rule) -> bool:
    slots = [*rule.operands, *(slot for _, each in rule.operands_with for slot in each)]
    roles = {slot.role for slot in slots} | {flag.role for flag in rule.flags.values()}
    return Role.READ in roles
