"""Redirects an agent's own commands to us: MCP server injection and a shell prefix."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shelltie.environment.child import RUN_MARK

SHELL_PREFIX = "CLAUDE_CODE_SHELL_PREFIX"
_NAME = "shelltie"
# -P: an agent starts it in a project, whose own shelltie.py must not be what runs.
_OURSELVES = (sys.executable, "-P", "-m", "shelltie")
# Agents give MCP servers a few variables only, and without these ours would write elsewhere.
_DIRECTORIES = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")
# Claude Code puts its prefix before its MCP servers and hooks, too, which must not be touched;
# only the line of its shell tool ends with the note of where it was left. The limits are Claude's.
_WRAPPER = """\
#!/bin/sh
unset {prefix}
case $1 in
*'pwd -P >|'*) exec {ourselves} run --total 24h --silence 0 -- "$1" ;;
*) exec bash -c "$1" ;;
esac
"""

Params = dict[str, Any]


def mcp_server(env: Mapping[str, str], mark: str) -> Params:
    """Our MCP server as ACP names one; `mark` is the run of the agent, by which it is counted."""
    passed = {
        name: value
        for name, value in env.items()
        if name in _DIRECTORIES or name.startswith("SHELLTIE_")
    }
    return {
        "name": _NAME,
        "command": _OURSELVES[0],
        "args": [*_OURSELVES[1:], "mcp"],
        "env": [{"name": name, "value": v} for name, v in {**passed, RUN_MARK: mark}.items()],
    }


def with_server(params: Params, server: Params) -> Params | None:
    """The parameters of a session that has this server, too; `None` if it has one of ours."""
    given = params.get("mcpServers")
    if given is not None and not isinstance(given, list):
        return None
    if any(map(_is_ours, given or ())):
        return None
    return {**params, "mcpServers": [*(given or ()), server]}


def _is_ours(server: object) -> bool:
    match server:
        case {"name": "shelltie"}:
            return True
        case {"command": str(command), "args": [*args]}:
            return "mcp" in args and (Path(command).name == _NAME or _NAME in args)
        case _:
            return False


def shell_prefix(directory: Path) -> dict[str, str]:
    """The variable with which Claude Code runs its shell commands through `shelltie run`.

    It wants one program without arguments, which is made in that directory.
    """
    wrapper = directory / "claude-shell"
    text = _WRAPPER.format(prefix=SHELL_PREFIX, ourselves=shlex.join(_OURSELVES))
    wrapper.write_text(text, encoding="utf-8")
    wrapper.chmod(0o700)
    return {SHELL_PREFIX: str(wrapper)}


def summary(terminals: int, others: Mapping[str, int] | None) -> str:
    """What was seen of an agent's commands, by the client that its other ways to us have named.

    `None`: nothing was recorded, so that nobody knows.
    """
    count = "1 command" if terminals == 1 else f"{terminals} commands"
    text = f"{count} of the agent through terminals"
    if others is None:
        text += ", and others through MCP that were not recorded"
    else:
        own = others.get("shelltie run", 0)
        text += f", {sum(others.values()) - own} through MCP"
        text += f", {own} through its shell" if own else ""
    return f"{text}; it may have run others by itself"
