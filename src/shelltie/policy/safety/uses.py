"""What a program does with one argument, and what we think of that. Pure."""

from collections.abc import Callable, Sequence

from shelltie.policy.safety import inline
from shelltie.policy.safety.args import Arg, unseen
from shelltie.policy.safety.assignments import rate_pair
from shelltie.policy.safety.awk import rate_awk
from shelltie.policy.safety.case import Case
from shelltie.policy.safety.paths import is_harmless_target, protection, secrecy
from shelltie.policy.safety.rule import Role, Rule
from shelltie.policy.safety.sed import rate_sed
from shelltie.policy.safety.sources import Source, origin_of
from shelltie.verdict import Code, Rating

_WRITTEN = {
    Code.NETWORK_EXFIL: "opens a network connection",
    Code.PERSISTENCE: "is run later, or steers a tool",
    Code.PRIVILEGE: "decides who may do what",
    Code.PROTECTED_PATH: "belongs to the system",
}


def use(case: Case, role: Role, args: Sequence[Arg], rule: Rule, flag: str = "") -> None:
    """Rate what `rule`'s program does with these arguments, each of which has the same role."""
    if role is Role.SHELL:
        more = [unseen(args[-1].span)] if rule.appends and args else []
        case.shell([*args, *more], _label(case, rule, flag))
        _from_elsewhere(case, args)
        return
    for arg in args:
        _disclosed(case, arg, rule)
        if role is Role.WRITE:
            write(case, arg, flag)
        elif role is Role.RUNS:
            _runs(case, arg, flag)
        elif (rate := _USES.get(role)) is not None:
            rate(case, arg)


def _label(case: Case, rule: Rule, flag: str) -> str:
    name = " ".join(rule.command) or case.program
    return f"{name} {flag}".rstrip()


def _disclosed(case: Case, arg: Arg, rule: Rule) -> None:
    for name in arg.secrets:
        if rule.network:
            case.dangerous(Code.NETWORK_EXFIL, f"sends the value of ${name} away", arg)
        elif rule.verdict is Rating.SAFE:
            case.dangerous(Code.SECRET_READ, f"shows the value of ${name}", arg)
        else:
            case.unknown(Code.SECRET_READ, f"hands over the value of ${name}", arg)


def read(case: Case, arg: Arg) -> None:
    """The content of a file is shown."""
    worst = max(
        (secrecy(guess, case.directories) for guess in arg.guesses), key=lambda one: one.rank
    )
    if worst is not Rating.SAFE:
        case.say(worst, Code.SECRET_READ, f"{arg.text} may hold credentials", arg)
    if not (arg.exact or arg.pattern or (arg.bound and arg.single)):
        case.unknown(
            Code.DYNAMIC_ARGUMENT, f"which file {arg.text} is, is known only at run time", arg
        )


def write(case: Case, arg: Arg, flag: str = "") -> None:
    """A file is written."""
    if arg.value is not None and is_harmless_target(arg.value):
        return
    if not _change(case, arg):
        code = Code.WRITE_FLAG if flag else Code.WRITES_FILES
        case.unknown(code, f"{flag or case.program} writes {arg.text}", arg)


def _change(case: Case, arg: Arg) -> bool:
    """A file is changed or removed; whether it is one that must not be."""
    for guess in arg.guesses:
        if (code := protection(guess, case.directories)) is not None:
            case.dangerous(code, f"changes {arg.text}, which {_WRITTEN[code]}", arg)
            return True
    return False


def _delete(case: Case, arg: Arg) -> None:
    _change(case, arg)


def _name(case: Case, arg: Arg) -> None:
    if not arg.exact and not arg.pattern and not arg.single:
        case.unknown(Code.DYNAMIC_ARGUMENT, f"{arg.text} is known only at run time", arg)


def _url(case: Case, arg: Arg) -> None:
    if arg.head.startswith("file:"):
        read(case, arg)


def _assign(case: Case, arg: Arg) -> None:
    name, equals, value = arg.guesses[0].partition("=")
    if equals:
        rate_pair(case, name, (value,), arg, before_command=True)
    elif not arg.exact:
        case.unknown(Code.DYNAMIC_ARGUMENT, f"{arg.text} is known only at run time", arg)


def _runs(case: Case, arg: Arg, flag: str) -> None:
    case.unknown(Code.EXEC_FLAG, f"{flag or case.program} runs another program", arg)
    case.shell([arg], f"{case.program} {flag}".rstrip())
    _from_elsewhere(case, [arg])


def _code(case: Case, arg: Arg) -> None:
    case.unknown(Code.INTERPRETER, f"{case.program} runs code that is given inline", arg)
    for guess in arg.guesses:
        inline.scan(case, guess, arg)
    _from_elsewhere(case, [arg])


def _from_elsewhere(case: Case, args: Sequence[Arg]) -> None:
    """Code that comes out of a substitution."""
    for arg in args:
        source = origin_of(case, arg)
        if source is Source.FETCHED:
            case.dangerous(Code.REMOTE_CODE, "runs code that it fetches from the network", arg)
        elif source is Source.DECODED:
            case.dangerous(Code.REMOTE_CODE, "runs code that is hidden by an encoding", arg)


_USES: dict[Role, Callable[[Case, Arg], None]] = {
    Role.NAME: _name,
    Role.READ: read,
    Role.DELETE: _delete,
    Role.URL: _url,
    Role.ASSIGN: _assign,
    Role.CODE: _code,
    Role.SED: rate_sed,
    Role.AWK: rate_awk,
}
