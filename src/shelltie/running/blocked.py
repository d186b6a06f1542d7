"""What isolation kept a command from, as far as its last words tell. Pure."""

import re
from collections.abc import Set

from shelltie.model import Bar
from shelltie.regex import regex

_READ_ONLY = regex(r"read-only file ?system|EROFS", re.IGNORECASE)
_NO_NETWORK = regex(
    r"network is unreachable|could(?:n't| not) resolve|temporary failure in name resolution"
    r"|name or service not known|failed to lookup address|no address associated with hostname"
    r"|ENETUNREACH|EAI_AGAIN|getaddrinfo|network access is (?:denied|disabled)",
    re.IGNORECASE,
)
_MISSING = regex(r"no such file or directory|ENOENT|not found|cannot find", re.IGNORECASE)
# Every place to run has these, so a file that is missing there is missing. A /tmp is its own.
_SHOWN = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt", "/nix", "/gnu"),
    *("/dev", "/proc", "/sys"),
)
_ABSOLUTE = regex(r"(?<![\w.~-])(/[\w.+@/-]+)")


def blocked(said: str, bars: Set[Bar], cwd: str) -> tuple[Bar, ...]:
    """Which bars it ran into, in that directory.

    Nobody looks whether a file exists outside: the answer would tell a command what is hidden.
    """
    found = []
    if Bar.WRITE in bars and _READ_ONLY.search(said):
        found.append(Bar.WRITE)
    if Bar.NETWORK in bars and _NO_NETWORK.search(said):
        found.append(Bar.NETWORK)
    shown = (*_SHOWN, cwd)
    if Bar.FILES in bars and not all(_within(path, shown) for path in _missing(said)):
        found.append(Bar.FILES)
    return tuple(found)


def _within(path: str, roots: tuple[str, ...]) -> bool:
    return any(f"{path}/".startswith(f"{root}/") for root in roots)


def _missing(said: str) -> list[str]:
    lines = [line for line in said.splitlines() if _MISSING.search(line)]
    return [path.rstrip(".:") for line in lines[-5:] for path in _ABSOLUTE.findall(line)]


_HINTS = {
    Bar.WRITE: "only its workspace and /tmp can be written there; sandbox.writable adds more",
    Bar.NETWORK: "there is no network there; sandbox.network = 'on' allows it",
    Bar.FILES: "it asked for a file that is not shown there; sandbox.readable adds more",
}
_CONTAINER_HINTS = {
    Bar.WRITE: "only its workspace and /tmp can be written there; container.mounts adds more",
    Bar.NETWORK: "there is no network there; container.network = 'on' allows it",
    Bar.FILES: "it asked for a file of this machine; container.mounts shows it",
}


def blocked_hint(found: tuple[Bar, ...], provider: str) -> str | None:
    """Why it may have failed, and who can change that."""
    if not found:
        return None
    hints = _CONTAINER_HINTS if provider == "container" else _HINTS
    reasons = "; ".join(hints[bar] for bar in found)
    return f"It ran isolated ({provider}): {reasons}. Only the user can: ask for it, or do without."
