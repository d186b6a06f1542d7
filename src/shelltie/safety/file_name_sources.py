"""Commands that list names of files: find, ls, git ls-files, and filters behind them. Pure.

What reads the files of such a list shows all that is in them, so the names must not be secret ones.
"""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise

from shelltie.basics.lazy_regex import lazy
from shelltie.safety.protected_names import secrecy
from shelltie.shell.script import Simple
from shelltie.verdict import Rating

NAMES = ("-name", "-iname", "-path", "-wholename", "-ipath", "-regex")
_FIND = frozenset(("find", "gfind"))
_FD = frozenset(("fd", "fdfind"))
_LISTS_WITH = {
    "git": frozenset(("ls-files", "--name-only", "rev-parse")),
    "grep": frozenset(("-l", "-rl", "-lr", "-L", "-rL", "--files-with-matches")),
    "rg": frozenset(("-l", "--files", "--files-with-matches")),
}
# They drop names or change their order; what changes names, such as sed, could make any.
_FILTERS = frozenset(("sort", "uniq", "head", "tail", "grep", "egrep", "fgrep", "rg"))
# Whatever the file, they show nothing of what is in it.
DISCREET = frozenset(
    (
        *("wc", "ls", "stat", "file", "du", "basename", "dirname", "realpath", "readlink"),
        *("md5sum", "sha1sum", "sha256sum", "sha512sum", "cksum", "b2sum", "shasum", "md5", "test"),
    )
)
_SECRET_NAMES = (
    *(
        ".env",
        ".env.local",
        ".netrc",
        ".pgpass",
        ".npmrc",
        ".git-credentials",
        "id_rsa",
        "id_ed25519",
    ),
    *("server.key", "cert.pem", "store.p12", "credentials", "my_credential", "my_secret", "token"),
    *("secrets", "password", "shadow", "environ", "hosts.yml"),
)
_ANY_OF_ONE_KIND = lazy(r"\*\.\w+")
_WIDE = lazy(r"(?:/|~|\.\.)(?:/\.*)*|/(?:home|Users|root|etc|proc)(?:/.*)?|~/\..*|(?:\.\./)+\.*")


def lists_harmless_names(commands: Sequence[Simple]) -> bool:
    """Whether these commands, piped into one another, print names of files that may be read."""
    return any(map(_lists, commands)) and all(_lists(one) or _filters(one) for one in commands)


def finds_harmless_names(starts: Iterable[str], patterns: Sequence[str]) -> bool:
    """Whether a search from there by these names finds nothing that is known to be secret."""
    if any(_WIDE.fullmatch(start) or secrecy(start) is not Rating.SAFE for start in starts):
        return False
    return bool(patterns) and not any(map(_may_be_secret, patterns))


def _may_be_secret(pattern: str) -> bool:
    name = pattern.rpartition("/")[2].lower()
    if secrecy(name) is not Rating.SAFE:
        return True
    matching = [secret for secret in _SECRET_NAMES if fnmatchcase(secret, name)]
    if _ANY_OF_ONE_KIND.fullmatch(name):
        matching = [secret for secret in matching if secrecy(secret) is not Rating.SAFE]
    return bool(matching)


def _lists(simple: Simple) -> bool:
    words = [word.value for word in simple.words]
    if not words or None in words:
        return False
    texts = [word for word in words if word is not None]
    program = texts[0].rpartition("/")[2]
    if program in _FIND:
        return _find_is_harmless(texts[1:])
    if program in _FD:
        return any(_ANY_OF_ONE_KIND.fullmatch(f"*.{word}") for word in _after(texts, ("-e",)))
    if program in ("ls", "gls"):
        named = [word for word in texts[1:] if not word.startswith("-")]
        return finds_harmless_names((), named) and all("." in word for word in named)
    return bool(_LISTS_WITH.get(program, frozenset()) & {*texts})


def _find_is_harmless(words: Sequence[str]) -> bool:
    options = [at for at, word in enumerate(words) if word.startswith(("-", "(", "!"))]
    starts = words[: options[0]] if options else words
    return finds_harmless_names(starts or (".",), _after(words, NAMES)) and "-L" not in words


def _after(words: Sequence[str], options: Sequence[str]) -> list[str]:
    return [value for option, value in pairwise(words) if option in options]


def _filters(simple: Simple) -> bool:
    return (simple.program or "").rpartition("/")[2] in _FILTERS
