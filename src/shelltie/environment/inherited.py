"""Our own environment variables, as we were started with them."""

import os


def inherited() -> dict[str, str]:
    """Our own environment, whole."""
    return dict(os.environ)


def inherited_variable(name: str) -> str:
    """One of them, or nothing; to copy all takes a hundred times as long."""
    return os.environ.get(name, "")


def login_shell() -> str:
    """The shell whose profile sets this user's PATH."""
    return os.environ.get("SHELL") or "/bin/bash"
