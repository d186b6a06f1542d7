"""`shelltie config`: list, get, set, add, unset and edit settings; descriptions and origins."""

import os
import shlex
import subprocess
import sys
import tomllib
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from shelltie.approval.ancestry import why_not_a_person
from shelltie.basics import visible_text
from shelltie.environment import child
from shelltie.errors import ConfigWrong, InvalidParameters
from shelltie.frontends.cli.console import Style, marked, print_error, print_json, wrap
from shelltie.frontends.cli.find_question import REFUSED
from shelltie.settings import edit, paths
from shelltie.settings.config import SETTINGS, checked, nearest
from shelltie.settings.describe import Description, describe
from shelltie.settings.layers import check_text, load, variable
from shelltie.settings.toml_list import as_value

_EDITORS = ("VISUAL", "EDITOR")


def main(args: Namespace) -> int:
    """Do what the action says."""
    actions: dict[str, Callable[[Namespace], int]] = {
        "list": _list,
        "get": _get,
        "set": _set,
        "add": _add,
        "unset": _unset,
        "edit": _edit,
        "path": _path,
    }
    if args.action in ("set", "add", "unset", "edit"):
        why = why_not_a_person(os.getpid())
        if why is not None:
            print_error(f"only a person may change settings, and this process may not: {why}")
            return REFUSED
    return actions[args.action](args)


def _list(args: Namespace) -> int:
    config = load(paths.here())
    rows = [
        row
        for row in config.rows()
        if (args.key is None or f"{row[0]}.".startswith(f"{args.key}."))
        and not (args.changed and row[2] == "default")
    ]
    if args.key is not None and not any(f"{key}.".startswith(f"{args.key}.") for key in SETTINGS):
        raise InvalidParameters(f"no setting begins with {args.key}{nearest(args.key, SETTINGS)}")
    if args.json:
        print_json([_as_json(*row) for row in rows])
        return 0
    ink = Style(sys.stdout, args.color)
    for key, value, origin in rows:
        # Coloured only now: escapes would count as width.
        print(wrap(f"{key} = {_shown(value)}", "", "    ").replace(key, ink("bold", key), 1))
        print(ink("dim", _about(describe(key), origin)))
    for ignored in config.ignored:
        print(marked(ink, "⚠", f"ignored: {visible_text.inline(ignored)}"))
    return 0


def _about(description: Description, origin: str) -> str:
    """What a setting means, what it may be, and where its value came from, in lines that fit."""
    came_from = origin if origin == "default" else f"{origin}; default: {description.default}"
    facts = f"Takes {description.accepts}. [{came_from}]"
    return "\n".join(wrap(text, "  ", "  ") for text in (description.meaning, facts))


def _as_json(key: str, value: object, origin: str) -> dict[str, object]:
    about = describe(key)
    return {
        "key": key,
        "value": value,
        "origin": origin,
        "default": SETTINGS[key].default,
        "meaning": about.meaning,
        "accepts": about.accepts,
        "projectMay": about.project_may,
        "variable": variable(key),
        "since": about.since,
    }


def _shown(value: object) -> str:
    return "(not set)" if value is None else as_value(value)


def _get(args: Namespace) -> int:
    """The value alone, for scripts: nothing is printed for one that is not set."""
    found = {key: value for key, value, _ in load(paths.here()).rows()}
    value = found[_known(args.key)]
    if args.json:
        print_json(value)
    elif value is not None:
        print(value if isinstance(value, str) else as_value(value))
    return 0


def _known(key: str) -> str:
    if key not in SETTINGS:
        raise InvalidParameters(f"unknown setting {key}{nearest(key, SETTINGS)}")
    return key


def _set(args: Namespace) -> int:
    key, path = _known(args.key), _file(args)
    value = _value(key, args.value)
    _change(key, path, lambda _: value)
    return 0


def _add(args: Namespace) -> int:
    """More values for a list: those in the file stay."""
    key, path = _known(args.key), _file(args)
    if not isinstance(SETTINGS[key].default, tuple):
        raise InvalidParameters(f"{key} is no list: use `shelltie config set`")
    if not all(value.strip() for value in args.values):
        raise InvalidParameters(f"an empty value means nothing in {key}: nothing was added")

    def longer(text: str) -> list[object]:
        there = edit.flatten(tomllib.loads(text)).get(key, SETTINGS[key].default)
        kept = there if isinstance(there, list | tuple) else ()
        return [*dict.fromkeys((*kept, *args.values))]

    _change(key, path, longer)
    return 0


def _change(key: str, path: Path, value: Callable[[str], object]) -> None:
    """Have the key the value that follows from the text of the file."""
    written: object = None

    def change(text: str) -> str:
        nonlocal written
        written = value(text)
        new = edit.changed(text, key, written, describe(key).meaning)
        check_text(new, path)
        return new

    edit.rewrite(path, change)
    print(f"{key} = {as_value(written)} in {visible_text.inline(str(path))}")
    _tell_if_without_effect(key, path)


def _value(key: str, text: str) -> object:
    """As TOML if it can be read so (`5`, `true`, `["a", "b"]`), else as a plain text.

    Raises: ConfigWrong, which says what it may be.
    """
    try:
        value: object = tomllib.loads(f"value = {text}")["value"]
        checked(key, value, "config set")
    except (tomllib.TOMLDecodeError, ConfigWrong):
        given = checked(key, text, "config set")
        value = [*given] if isinstance(given, tuple) else given
        if isinstance(value, str):
            value = str(value)
    return value


def _tell_if_without_effect(key: str, path: Path) -> None:
    config = load(paths.here())
    origin = config.origins.get(key, "default")
    if origin == str(path):
        return
    ignored = [line for line in config.ignored if line.startswith(f"{path}: {key} ")]
    print_error(f"it has no effect here: {ignored[0] if ignored else f'{origin} sets it, too'}")


def _unset(args: Namespace) -> int:
    key, path = _known(args.key), _file(args)
    edit.rewrite(path, lambda text: edit.removed(text, key, describe(key).meaning))
    value = {name: value for name, value, _ in load(paths.here()).rows()}[key]
    print(f"{key} is not in {visible_text.inline(str(path))}; now: {_shown(value)}")
    return 0


def _edit(args: Namespace) -> int:
    path, environ = _file(args), child.inherited()
    if not path.exists():
        edit.rewrite(path, lambda _: edit.HEADING)
    editor = next((environ[name] for name in _EDITORS if environ.get(name)), "vi")
    with subprocess.Popen([*shlex.split(editor), str(path)]) as process:
        code = process.wait()
    check_text(path.read_text(encoding="utf-8"), path)
    return code


def _path(args: Namespace) -> int:
    """The file alone, for scripts."""
    print(_file(args))
    return 0


def _file(args: Namespace) -> Path:
    if args.system:
        return paths.system_file()
    return paths.project_file(paths.here()) if args.project else paths.user_file()
