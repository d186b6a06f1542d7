"""Allowlist and denylist of command names: trusted, dangerous, and the user's own. Pure."""

import re
from collections.abc import Sequence

from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy
from shelltie.basics.safe_regex import Pattern, compile_pattern
from shelltie.safety.inspection import Inspection
from shelltie.verdict import Code, Rating

SAFE_NAMES = (
    *("awk", "cat", "cd", "chdir", "diff", "echo", "find", "git", "grep", "head", "help"),
    *("hostname", "id", "ipconfig", "tee", "ls", "netstat", "ps", "pwd", "sort", "tail", "tree"),
    *("type", "uname", "uniq", "wc", "which", "touch", "mkdir", "npm", "yarn", "bun", "tsc"),
    *("node", "npx", "bunx", "vitest"),
)
DANGEROUS_PATTERNS = (
    r"(^|\s)dd\s",
    r"(^|\s)rm.*-.*r",
    r"(^|\s)chmod.*-.*r",
    r"(^|\s)chown.*-.*r",
    r"(^|\s)rmdir\s",
    r"find.*-(delete|exec)",
    r"(^|\s)sudo\s",
    r"(^|\s)del\s",
    r"(^|\s)format\s",
    r"(^|\s)reboot",
    r"(^|\s)shutdown",
    r"git.*reset",
)

# The twelve, told precisely: what the command is, and which of its arguments matter.
_ALWAYS = {
    "dd": (Code.DESTROYS_DATA, "overwrites whatever it is pointed at"),
    "rmdir": (Code.DESTROYS_DATA, "removes directories"),
    "sudo": (Code.PRIVILEGE, "runs a command as somebody else"),
    "del": (Code.DESTROYS_DATA, "deletes files"),
    "format": (Code.DESTROYS_DATA, "erases a disk"),
    "reboot": (Code.CHANGES_SYSTEM, "stops the machine"),
    "shutdown": (Code.CHANGES_SYSTEM, "stops the machine"),
}
_RECURSIVE = {
    "rm": (Code.DESTROYS_DATA, "rm -r deletes whole trees"),
    "chmod": (Code.CHANGES_SYSTEM, "chmod -R changes the rights of whole trees"),
    "chown": (Code.CHANGES_SYSTEM, "chown -R changes the owner of whole trees"),
}
# The small r of chmod is a mode: `chmod -r f` takes the right to read f.
_RECURSIVE_OPTION = lazy(r"-[A-Za-z]*R[A-Za-z]*|--r[a-z-]*")
_RECURSIVE_OF_RM = lazy(r"-[a-z]*r[a-z]*|--r[a-z-]*", re.IGNORECASE)
_LISTED = frozenset(SAFE_NAMES)
_PLAIN = lazy(r"[\w./:@+ -]+")
_WINDOW = 2  # windows over a long text overlap by half


def rate_by_list(case: Inspection) -> None:
    """The twelve, wherever a command stands, unless a rule has said it already."""
    if any(reason.rating is Rating.DANGEROUS for reason in case.reasons):
        return
    name = case.program.lower()
    if name in _ALWAYS:
        code, why = _ALWAYS[name]
        case.dangerous(code, f"{name} {why}")
    elif name in _RECURSIVE and _is_recursive(case):
        case.dangerous(*_RECURSIVE[name])
    elif name == "find" and any(arg.value == "-delete" for arg in case.words):
        case.dangerous(Code.DESTROYS_DATA, "find -delete removes what it finds")
    elif name == "git" and _first_operand(case) == "reset":
        case.dangerous(Code.DESTROYS_DATA, "git reset moves the branch and may discard changes")


def _is_recursive(case: Inspection) -> bool:
    option = _RECURSIVE_OF_RM if case.program.lower() == "rm" else _RECURSIVE_OPTION
    for arg in case.words:
        if arg.value == "--":
            return False
        if any(option.fullmatch(value) for value in arg.values):
            return True
    return False


def _first_operand(case: Inspection) -> str | None:
    return next((arg.value for arg in case.words if not arg.head.startswith("-")), None)


def is_listed(program: str) -> bool:
    """Whether the seed trusts the name."""
    return program.lower() in _LISTED


@frozen
class Lists:
    """A user's own patterns: dangerous ones are searched in the whole text, safe ones in each
    command."""

    safe: tuple[Pattern, ...] = ()
    dangerous: tuple[Pattern, ...] = ()

    def dangerous_in(self, text: str) -> str | None:
        """The first dangerous pattern that is found."""
        return next((one.text for one in self.dangerous if _found(one, text)), None)

    def trusts(self, command: str) -> bool:
        """Whether a safe pattern is found in one command."""
        return any(one.found_in(command) for one in self.safe)


def _found(pattern: Pattern, text: str) -> bool:
    """Anywhere in the text, piece by piece: the time a pattern takes must be bounded."""
    step = pattern.head // _WINDOW
    return any(
        pattern.regex.search(text, start, start + pattern.head) is not None
        for start in range(0, max(len(text) - step, 1), step)
    )


def lists_of(safe: Sequence[str] = (), dangerous: Sequence[str] = ()) -> Lists:
    """A user's patterns, ready for use. Plain words in `safe` are what a command begins with.

    Raises: ValueError, which names the pattern and says what is wrong with it.
    """
    return Lists(tuple(_compiled(_words(text)) for text in safe), tuple(map(_compiled, dangerous)))


def _words(text: str) -> str:
    """`npm test` is for `npm test -x`, and neither for `npm testing` nor for `xnpm test`."""
    if not _PLAIN.fullmatch(text):
        return text
    return rf"^{' '.join(map(re.escape, text.split()))}(?= |$)"


def _compiled(text: str) -> Pattern:
    try:
        return compile_pattern(text)
    except ValueError as error:
        raise ValueError(f"{text!r} {error}") from error
