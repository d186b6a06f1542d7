"""The clients that shelltie can be installed into: programs, configuration files, keys, entries."""

import json
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from shelltie.basics.frozen import frozen
from shelltie.errors import InvalidParameters
from shelltie.frontends.clients import json_comments, toml_table, yaml_block
from shelltie.settings import paths

NAME = "shelltie"
Environ = Mapping[str, str]
Entry = dict[str, Any]
_MAC = sys.platform == "darwin"


@frozen
class FileFormat:
    """How a mapping in the text of a file is read, set and deleted; what else it has stays."""

    get: Callable[[str, Sequence[str]], object | None]
    put: Callable[[str, Sequence[str], Any], str]
    drop: Callable[[str, Sequence[str]], str]


JSON = FileFormat(json_comments.get, json_comments.update, json_comments.drop)
_TOML = FileFormat(toml_table.get, toml_table.put, toml_table.drop)
_YAML = FileFormat(yaml_block.get, yaml_block.put, yaml_block.drop)


@frozen
class OwnCommands:
    """A client's own command line: the words behind its program that add and remove a server.

    With `replaces` it overwrites a server of that name; else the old one is removed first.
    """

    add: Callable[[list[str]], list[str]]
    remove: tuple[str, ...] | None
    replaces: bool = True


@frozen
class Hooks:
    """Where a client's hooks are, and what is put into the array of each event."""

    file: Callable[[Environ], Path]
    entries: Callable[[list[str]], Mapping[str, Entry]]
    base: Entry = field(default_factory=dict)  # what a new file needs beside them


@frozen
class Client:
    """An agent or editor."""

    name: str
    title: str
    program: str  # what it is started with; none for one that has no program of its own
    file: Callable[[Environ], Path]  # where its MCP servers are
    key: tuple[str, ...]
    format: FileFormat = JSON
    entry: Callable[[list[str]], Entry] = field(
        default=lambda argv: {"command": argv[0], "args": argv[1:]}
    )
    own: OwnCommands | None = None
    hooks: Hooks | None = None
    shell_file: Callable[[Environ], Path] | None = None  # which takes a prefix for its shell tool
    note: str = ""

    def find_program(self) -> str | None:
        """Its path, if it is on PATH."""
        return shutil.which(self.program) if self.program else None

    def place(self) -> tuple[str, ...]:
        """The keys that lead to our server."""
        return (*self.key, NAME)


def find(name: str) -> Client:
    """The client of that name.

    Raises: InvalidParameters.
    """
    if name not in CLIENTS:
        raise InvalidParameters(f"unknown client {name!r}; known: {', '.join(CLIENTS)}")
    return CLIENTS[name]


def _home(environ: Environ, *parts: str) -> Path:
    return paths.home_dir(environ).joinpath(*parts)


def _config(environ: Environ, *parts: str) -> Path:
    """Below ~/.config, or where XDG_CONFIG_HOME says."""
    given = Path(environ.get("XDG_CONFIG_HOME") or "")
    return (given if given.is_absolute() else _home(environ, ".config")).joinpath(*parts)


def _application(environ: Environ, *parts: str) -> Path:
    support = ("Library", "Application Support")
    return _home(environ, *support, *parts) if _MAC else _config(environ, *parts)


def _named(environ: Environ, variable: str, *fallback: str) -> Path:
    given = environ.get(variable)
    return Path(given) if given else _home(environ, *fallback)


def _claude_servers(environ: Environ) -> Path:
    return _named(environ, "CLAUDE_CONFIG_DIR") / ".claude.json"


def _claude_settings(environ: Environ) -> Path:
    return _named(environ, "CLAUDE_CONFIG_DIR", ".claude") / "settings.json"


def _codex(environ: Environ, name: str) -> Path:
    return _named(environ, "CODEX_HOME", ".codex") / name


def _claude_hooks(argv: list[str]) -> dict[str, Entry]:
    """With `args` no shell comes in between. If it fails, the command is blocked."""
    hook = {"type": "command", "command": argv[0], "args": [*argv[1:], "hook", "claude"]}
    before = {**hook, "timeout": 30, "onFailure": "block"}
    return {"PreToolUse": {"matcher": "Bash", "hooks": [before]}}


def _shell_text(argv: list[str], client: str) -> str:
    return shlex.join([*argv, "hook", client])


def _codex_hooks(argv: list[str]) -> dict[str, Entry]:
    hook = {"type": "command", "command": _shell_text(argv, "codex"), "timeout": 30}
    return {
        "PreToolUse": {"matcher": "Bash", "hooks": [hook]},
        "PermissionRequest": {"matcher": "Bash", "hooks": [hook]},
    }


def _gemini_hooks(argv: list[str]) -> dict[str, Entry]:
    command = _shell_text(argv, "gemini")
    hook = {"name": NAME, "type": "command", "command": command, "timeout": 30_000}
    return {"BeforeTool": {"matcher": "run_shell_command", "hooks": [hook]}}


def _cursor_hooks(argv: list[str]) -> dict[str, Entry]:
    command = _shell_text(argv, "cursor")
    return {"beforeShellExecution": {"command": command, "timeout": 30, "failClosed": True}}


CLIENTS: Mapping[str, Client] = {
    client.name: client
    for client in (
        Client(
            *("claude", "Claude Code", "claude", _claude_servers, ("mcpServers",)),
            own=OwnCommands(
                lambda argv: ["mcp", "add", "--scope", "user", NAME, "--", *argv],
                ("mcp", "remove", "--scope", "user", NAME),
                replaces=False,
            ),
            hooks=Hooks(_claude_settings, _claude_hooks),
            shell_file=_claude_settings,
        ),
        Client(
            *("codex", "Codex", "codex", lambda e: _codex(e, "config.toml"), ("mcp_servers",)),
            format=_TOML,
            own=OwnCommands(
                lambda argv: ["mcp", "add", NAME, "--", *argv], ("mcp", "remove", NAME)
            ),
            hooks=Hooks(lambda e: _codex(e, "hooks.json"), _codex_hooks),
            note="Codex skips a hook without a word until you trust it: start codex, type /hooks",
        ),
        Client(
            *("gemini", "Gemini CLI", "gemini"),
            *(lambda e: _home(e, ".gemini", "settings.json"), ("mcpServers",)),
            own=OwnCommands(
                lambda argv: ["mcp", "add", "--scope", "user", NAME, argv[0], "--", *argv[1:]],
                ("mcp", "remove", "--scope", "user", NAME),
            ),
            hooks=Hooks(lambda e: _home(e, ".gemini", "settings.json"), _gemini_hooks),
        ),
        Client(
            *("cursor", "Cursor", "cursor"),
            *(lambda e: _home(e, ".cursor", "mcp.json"), ("mcpServers",)),
            hooks=Hooks(
                lambda e: _home(e, ".cursor", "hooks.json"), _cursor_hooks, base={"version": 1}
            ),
        ),
        Client(
            *("vscode", "VS Code", "code"),
            *(lambda e: _application(e, "Code", "User", "mcp.json"), ("servers",)),
            entry=lambda argv: {"type": "stdio", "command": argv[0], "args": argv[1:]},
            own=OwnCommands(
                lambda argv: [
                    "--add-mcp",
                    json.dumps({"name": NAME, "command": argv[0], "args": argv[1:]}),
                ],
                None,  # it can add only
            ),
        ),
        Client(
            *("zed", "Zed", "zed"),
            *(lambda e: _config(e, "zed", "settings.json"), ("context_servers",)),
        ),
        Client(
            *("goose", "Goose", "goose"),
            *(lambda e: _config(e, "goose", "config.yaml"), ("extensions",)),
            format=_YAML,
            entry=lambda argv: {
                "enabled": True,
                "type": "stdio",
                "name": NAME,
                "description": "A terminal for AI agents, on a leash",
                "cmd": argv[0],
                "args": argv[1:],
                "envs": {},
                "timeout": 300,
            },
        ),
        Client(
            *("claude-desktop", "Claude Desktop", ""),
            *(lambda e: _application(e, "Claude", "claude_desktop_config.json"), ("mcpServers",)),
        ),
        Client(
            *("windsurf", "Windsurf", "windsurf"),
            *(lambda e: _home(e, ".codeium", "windsurf", "mcp_config.json"), ("mcpServers",)),
        ),
        Client("json", "plain JSON", "", lambda _: Path(".mcp.json"), ("mcpServers",)),
    )
}
