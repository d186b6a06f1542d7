"""Environment variables that choose which code runs, as part of the command that is judged.

A call may not set PATH or LD_PRELOAD beside its command, but frameworks do.
"""

from collections.abc import Mapping, Sequence

from shelltie.environment.variable_kinds import is_hook_name

_ENV = "/usr/bin/env"  # by no PATH


def judged_variables(
    argv: Sequence[str], env: Mapping[str, str]
) -> tuple[list[str], dict[str, str | None]]:
    """The command with such variables before it, and the others."""
    hooks = [f"{name}={value}" for name, value in env.items() if is_hook_name(name)]
    others: dict[str, str | None] = {k: v for k, v in env.items() if not is_hook_name(k)}
    return ([_ENV, *hooks, *argv] if hooks else [*argv]), others
