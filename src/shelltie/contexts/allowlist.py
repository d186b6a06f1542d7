"""Allowlist of programs for task contexts, and the JSON file that it is read from."""

import json
import os
import re
import reprlib
import shlex
import stat
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, TypeVar

from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy
from shelltie.basics.validate import (
    InvalidValue,
    did_you_mean,
    invalid,
    json_boolean,
    json_list,
    json_text,
    known_instead,
    without_comments,
)
from shelltie.contexts.argument_filter import ArgumentRules, Denied
from shelltie.errors import ConfigWrong
from shelltie.settings.files import WatchedFile, read_small_text

_Item = TypeVar("_Item")

_ENTRIES_MAX = 1000
# Only ASCII, so that no other letter can look like one of these.
_NAME = lazy(r"[A-Za-z0-9_][A-Za-z0-9_.+@-]{0,254}")


@frozen
class AllowedProgram:
    """One program that may be run."""

    name: str
    path: str | None = None
    arguments: ArgumentRules = field(default_factory=ArgumentRules)
    relative_path: bool = False


@frozen
class Allowlist:
    """What a file allows, and what else it says (`about`). With a `problem` nothing is allowed."""

    entries: Mapping[str, AllowedProgram] = field(default_factory=dict)
    about: Mapping[str, object] = field(default_factory=dict)
    problem: str | None = None


def parse(text: str) -> Allowlist:
    """The allowlist of a file.

    Raises: InvalidValue, which names the place in the file.
    """
    try:
        document = json.loads(without_comments(text), object_pairs_hook=_pairs)
    except InvalidValue:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidValue(f"not valid JSON: {error}") from error
    if isinstance(document, list):
        return Allowlist(_entries("", document))
    if not isinstance(document, dict):
        raise InvalidValue('must be a list of commands, or an object with "commands"')
    if "commands" not in document:
        meant = (f"; is it {name}?" for name in document if did_you_mean(name, ["commands"]))
        raise InvalidValue(f"commands: is missing{next(meant, '')}")
    about = {key: value for key, value in document.items() if key != "commands"}
    for key in sorted(about.keys() & _RULES.keys()):
        raise InvalidValue(f"{key}: belongs into the entry of a command, not beside commands")
    return Allowlist(_entries("commands", document["commands"]), about)


def _pairs(items: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(items)
    if len(result) < len(items):
        keys = [key for key, _ in items]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InvalidValue(f"{reprlib.repr(twice)}: is given twice in one object")
    return result


def _entries(at: str, value: object) -> Mapping[str, AllowedProgram]:
    items = _placed(at, json_list, value)
    if len(items) > _ENTRIES_MAX:
        raise InvalidValue(
            f"{at or 'the list'}: has {len(items)} commands, more than {_ENTRIES_MAX}"
        )
    entries: dict[str, AllowedProgram] = {}
    for index, item in enumerate(items):
        entry = _entry(f"{at}[{index}]", item)
        if entries.setdefault(entry.name, entry) != entry:
            raise InvalidValue(f"{at}[{index}]: {entry.name} is listed twice, with other rules")
    return entries


def _entry(at: str, value: object) -> AllowedProgram:
    if isinstance(value, str):
        return AllowedProgram(_placed(at, _name, value))
    if not isinstance(value, dict):
        raise InvalidValue(f"{at}: must be a name or an object {{…}}, not {reprlib.repr(value)}")
    for key in value:
        if key not in _KEYS:
            instead = known_instead(key, _KEYS)
            raise InvalidValue(f"{at}.{reprlib.repr(key)[1:-1]}: is not known{instead}")
    if "name" not in value:
        raise InvalidValue(f"{at}: name is missing")
    checked = {key: _placed(f"{at}.{key}", _KEYS[key], item) for key, item in value.items()}
    return AllowedProgram(
        checked["name"],
        checked.get("path"),
        ArgumentRules(**{key: checked[key] for key in _RULES if key in checked}),
        checked.get("allow_relative_path", False),
    )


def _placed(at: str, check: Callable[[object], _Item], value: object) -> _Item:
    try:
        return check(value)
    except InvalidValue as error:
        raise InvalidValue(f"{at}: {error}" if at else str(error)) from error


def _name(value: object) -> str:
    name = json_text(value)
    if _NAME.fullmatch(name):
        return name
    if len(words := name.split()) > 1 and _NAME.fullmatch(words[0]):
        form = json.dumps({"name": words[0], "allow": [" ".join(words[1:])[:100]]})
        raise InvalidValue(f"is a command with arguments, not a name; write {form}")
    raise InvalidValue(
        f"must be the bare name of a program, without a path, blanks or patterns,"
        f" not {reprlib.repr(name)}"
    )


def _path(value: object) -> str:
    path = json_text(value)
    if not path.startswith("/") or "\0" in path or path.endswith("/"):
        raise invalid("the absolute path of a program", path)
    return path


def _list_of(check: Callable[[str], _Item]) -> Callable[[object], tuple[_Item, ...]]:
    def checked(value: object) -> tuple[_Item, ...]:
        items = json_list(value)
        if not items:
            raise InvalidValue("is empty; leave the key out if nothing is meant")
        return tuple(check(json_text(item)) for item in items)

    return checked


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise InvalidValue(f"{reprlib.repr(text)} cannot be split into words: {error}") from error


def _beginning(text: str) -> tuple[str, ...]:
    if not (words := _words(text)):
        raise InvalidValue(
            "an empty text would allow everything; leave the key out if that is meant"
        )
    return words


def _denied(text: str) -> Denied:
    words = _words(text)
    if not 1 <= len(words) <= 2 or not words[0].strip("-"):
        raise InvalidValue(
            f"must be an option or a word, or one and how its value begins,"
            f" not {reprlib.repr(text)}"
        )
    return Denied(*words)


def _option(text: str) -> str:
    if not re.fullmatch(r"-[^\s=-]|--?[^\s=-][^\s=]+", text):
        raise invalid("an option like -m or --message", text)
    return text


_RULES: Mapping[str, Callable[[object], Any]] = {
    "allow": _list_of(_beginning),
    "allow_exactly": _list_of(_words),
    "deny": _list_of(_denied),
    "free_text_after": _list_of(_option),
}
_KEYS: Mapping[str, Callable[[object], Any]] = {
    "name": _name,
    "path": _path,
    **_RULES,
    "allow_relative_path": json_boolean,
    "note": json_text,
}


PROJECT_FILE = "apps/tools/caws/tools-allow.json"
BUILTIN = "builtin"
SHIPPED_FILE = Path(__file__).with_name("tools-allow.json")


def find_allowlist(project: Path, configured: str | None) -> "AllowlistFile":
    """The file somebody configured, or the project's own; `builtin` is the one we ship."""
    if configured == BUILTIN:
        return AllowlistFile(SHIPPED_FILE, BUILTIN)
    name = configured or PROJECT_FILE
    return AllowlistFile(project / name, name if configured is None else Path(name).name)


class AllowlistFile:
    """An allowlist that follows its file. Whatever is wrong with the file, nothing is allowed.

    `name` is what people are told instead of the whole path.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name
        self._file = WatchedFile(path)
        self._text: str | None = None
        self._allowlist = Allowlist(problem="not read yet")
        self._load()

    def current(self) -> Allowlist:
        """The allowlist of this moment; looks whether the file has changed."""
        if self._file.changed():
            self._load()
        return self._allowlist

    def _load(self) -> None:
        try:
            text = read_small_text(self.path, problem=_writable_by_all)
            if text != self._text:
                self._allowlist, self._text = parse(text), text
        except (ConfigWrong, InvalidValue) as error:
            self._allowlist, self._text = Allowlist(problem=f"{self.name}: {error}"), None


def _writable_by_all(status: os.stat_result) -> str | None:
    if status.st_mode & stat.S_IWOTH:
        return "everybody may write it, so nothing in it counts: chmod o-w it"
    return None
