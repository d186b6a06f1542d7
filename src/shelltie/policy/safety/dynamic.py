"""Programs whose name is only known at run time. Pure."""

from fnmatch import fnmatchcase

from shelltie.policy.safety.args import HOLE, Arg, literal
from shelltie.policy.safety.case import Case, base_name
from shelltie.policy.safety.flows import scan_given
from shelltie.policy.safety.sources import Source, origin_of
from shelltie.regex import regex
from shelltie.verdict import Code

_GLOB = regex(r"[*?\[\]]")
_MATCHES_MAX = 8
_HIDDEN = (
    *("rm", "dd", "sudo", "su", "sh", "bash", "chmod", "chown", "mv", "shred", "truncate", "kill"),
    *("curl", "wget", "nc", "python3", "perl", "node", "git", "find", "xargs", "env", "crontab"),
)
_FORCE = regex(r"-[a-zA-Z]*(?:rf|fr|Rf|fR)[a-zA-Z]*")


def rate_dynamic_program(case: Case) -> None:
    """A program that is a variable, a substitution or a pattern: never safe, maybe dangerous."""
    program = case.args[0]
    case.unknown(
        Code.DYNAMIC_PROGRAM, f"which program {program.text} is, is known only at run time", program
    )
    source = origin_of(case, program)
    if source is not Source.PROGRAM:
        case.dangerous(Code.REMOTE_CODE, "runs what a substitution fetches or decodes", program)
    for name in _candidates(program):
        case.again.danger([literal(name, program.span), *case.words], case, program.text)
    scan_given(case)
    if HOLE in program.shape and any(_FORCE.fullmatch(arg.head) for arg in case.words):
        case.dangerous(
            Code.DESTROYS_DATA, "an unknown program is told to delete whole trees", program
        )


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
