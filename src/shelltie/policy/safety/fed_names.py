"""Whether the names that xargs and its kin are fed are those of ordinary files. Pure."""

from collections.abc import Sequence

from shelltie.policy.safety.args import Arg
from shelltie.policy.safety.case import Case, base_name
from shelltie.policy.safety.paths import secrecy
from shelltie.shell.script import Simple
from shelltie.verdict import Rating

_LISTS = frozenset(("find", "gfind", "fd", "fdfind", "ls", "gls", "tree"))
_LISTS_WITH = {
    "git": frozenset(("ls-files", "--name-only", "rev-parse")),
    "grep": frozenset(("-l", "-rl", "-lr", "-L", "-rL", "--files-with-matches")),
    "rg": frozenset(("-l", "--files", "--files-with-matches")),
}
# They drop names or change their order; what changes names, such as sed, could make any.
_FILTERS = frozenset(("sort", "uniq", "head", "tail", "grep", "egrep", "fgrep", "rg"))
# Whatever the file, they show nothing of what is in it.
_DISCREET = frozenset(
    (
        *("wc", "ls", "stat", "file", "du", "basename", "dirname", "realpath", "readlink"),
        *("md5sum", "sha1sum", "sha256sum", "sha512sum", "cksum", "b2sum", "shasum", "md5", "test"),
    )
)
_SEARCHES = frozenset(("grep", "egrep", "fgrep", "rg", "zgrep"))
_NAMES_ONLY = frozenset(("-l", "-L", "-c", "-q", "-rl", "-il", "--files-with-matches", "--count"))


def names_known_files(case: Case, inner: Sequence[Arg]) -> bool:
    """Whether a program that reads the files it is told here shows nothing it should not."""
    program = base_name(inner[0].value or "")
    if program in _DISCREET:
        return True
    if program in _SEARCHES and _NAMES_ONLY & {arg.value for arg in inner[1:]}:
        return True
    feeders = case.feeders()
    return any(map(_lists, feeders)) and all(_lists(one) or _filters(one) for one in feeders)


def _lists(simple: Simple) -> bool:
    words = [word.value for word in simple.words]
    program = base_name(words[0] or "") if words else ""
    if program in _LISTS:
        return all(secrecy(word or "") is Rating.SAFE for word in words[1:])
    return bool(_LISTS_WITH.get(program, frozenset()) & {*words})


def _filters(simple: Simple) -> bool:
    return bool(simple.words) and base_name(simple.words[0].value or "") in _FILTERS
