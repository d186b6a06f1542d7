"""The environment a command gets: ours, made prompt-free, with the caller's changes."""

import os
from collections.abc import Mapping

from shelltie.errors import InvalidParameters

# Nobody is there to page through output, to answer a prompt or to admire colours.
_QUIET = {
    "PYTHONUNBUFFERED": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "PIP_NO_INPUT": "1",
    "DEBIAN_FRONTEND": "noninteractive",
    "NO_COLOR": "1",
}
_FALLBACK_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
RUN_MARK = "SHELLTIE_RUN"  # lets a person find what belongs to a run


def inherited() -> dict[str, str]:
    """Our own environment, as the base of every command's."""
    return dict(os.environ)


def login_shell() -> str:
    """The shell whose profile sets this user's PATH."""
    return os.environ.get("SHELL") or "/bin/bash"


def build(
    base: Mapping[str, str],
    changes: Mapping[str, str | None],
    *,
    path: str | None,
    pty: bool,
    run: str,
) -> dict[str, str]:
    """The whole environment of one command; what the caller names wins over our defaults.

    Raises: InvalidParameters for a name or value that no environment can hold.
    """
    env = {**base, **_QUIET, "TERM": "xterm-256color" if pty else "dumb"}
    env["PATH"] = path or base.get("PATH") or _FALLBACK_PATH
    for name, value in changes.items():
        _check(name, value)
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    env[RUN_MARK] = run
    return env


def join_paths(first: str, second: str) -> str:
    """Both lists of directories without repetition, the first one's before."""
    return ":".join(dict.fromkeys(part for part in f"{first}:{second}".split(":") if part))


def _check(name: object, value: object) -> None:
    if not isinstance(name, str) or not name or "=" in name or "\0" in name:
        raise InvalidParameters(
            f"env: {name!r} cannot be the name of a variable; use letters, digits and '_'"
        )
    if value is not None and (not isinstance(value, str) or "\0" in value):
        raise InvalidParameters(f"env: {name} must be text without NUL bytes, or null to unset it")
