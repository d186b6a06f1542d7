"""What of shelltie is installed in a client: its MCP server, its hooks, its shell."""

from collections.abc import Mapping
from pathlib import Path

from shelltie.basics.frozen import frozen
from shelltie.errors import ConfigWrong
from shelltie.frontends.clients import config_file, json_comments
from shelltie.frontends.clients.registry import Client, Environ

SHELL_PREFIX = "CLAUDE_CODE_SHELL_PREFIX"
_COMMANDS = ("command", "cmd")


@frozen
class Installed:
    """Where things of ours are in a client's files; `problem`, if one of them cannot be read."""

    file: Path
    server: list[str] | None = None  # the words with which the client starts it
    hook_file: Path | None = None
    hooked: bool = False
    shell: str | None = None
    problem: str | None = None


def look(client: Client, environ: Environ) -> Installed:
    """What is installed there."""
    file = client.file(environ)
    try:
        return Installed(
            file,
            server=_words(entry_in(client, file)),
            hook_file=None if client.hooks is None else client.hooks.file(environ),
            hooked=_is_hooked(client, environ),
            shell=_shell(client, environ),
        )
    except ConfigWrong as error:
        return Installed(file, problem=str(error))


def entry_in(client: Client, file: Path) -> object | None:
    """Our server in that file.

    Raises: ConfigWrong.
    """
    text = config_file.read(file)
    try:
        return client.format.get(text, client.place()) if text.strip() else None
    except ConfigWrong as error:
        raise ConfigWrong(f"{file}: {error}") from error


def our_hooks(client: Client, text: str) -> list[tuple[str | int, ...]]:
    """The path below `hooks` of each entry of ours: of an event, or in a group with others."""
    events = json_comments.get(text, ["hooks"]) if text.strip() else None
    if not isinstance(events, Mapping):
        return []
    return [
        (event, place, *below)
        for event, items in events.items()
        for place, item in enumerate(items if isinstance(items, list) else ())
        for below in _ours_in(item, client.name)
    ]


def _ours_in(item: object, client: str) -> list[tuple[str | int, ...]]:
    """Paths in an entry of an event; the empty one if all of it is ours."""
    inner = item.get("hooks") if isinstance(item, Mapping) else None
    if not isinstance(inner, list):
        return [()] if _is_our_hook(item, client) else []
    ours = [place for place, one in enumerate(inner) if _is_our_hook(one, client)]
    return [()] if ours and len(ours) == len(inner) else [("hooks", place) for place in ours]


def _is_our_hook(item: object, client: str) -> bool:
    """Whether a hook calls `shelltie hook` for that client, wherever shelltie is."""
    if not isinstance(item, Mapping):
        return False
    args = item.get("args")
    words = f"{item.get('command')} {' '.join(map(str, args)) if isinstance(args, list) else ''}"
    return "shelltie" in words and words.strip().endswith(f" hook {client}")


def _is_hooked(client: Client, environ: Environ) -> bool:
    if client.hooks is None:
        return False
    file = client.hooks.file(environ)
    try:
        return bool(our_hooks(client, config_file.read(file)))
    except ConfigWrong as error:
        raise ConfigWrong(f"{file}: {error}") from error


def _shell(client: Client, environ: Environ) -> str | None:
    if client.shell_file is None:
        return None
    text = config_file.read(client.shell_file(environ))
    found = json_comments.get(text, ["env", SHELL_PREFIX]) if text.strip() else None
    return found if isinstance(found, str) else None


def _words(entry: object) -> list[str] | None:
    if not isinstance(entry, Mapping):
        return None
    command = next((entry[name] for name in _COMMANDS if name in entry), None)
    args = entry.get("args")
    if not isinstance(command, str):
        return None
    return [command, *(map(str, args) if isinstance(args, list) else ())]
