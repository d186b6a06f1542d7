"""Descriptions of settings from the docstrings of fields: meaning, type, default, who may set it.

The text below a field of a section is its description. It is read from the source when somebody
asks, so that no start-up pays for it.
"""

import ast
import inspect
import re
from collections.abc import Mapping
from dataclasses import MISSING
from functools import cache
from types import ModuleType
from typing import Any

from shelltie import model
from shelltie.basics.frozen import fields, frozen, is_record
from shelltie.settings import all_settings, checks, config, places
from shelltie.settings.all_settings import Check, Merge
from shelltie.settings.config import SETTINGS, Config, Setting
from shelltie.settings.toml_list import as_value

FIRST_VERSION = "0.1.0"
_MEANT = re.compile(r"must be (.+?)(?:, not <object.*)?$", re.DOTALL)
_SINCE = re.compile(r" Since (\d+\.\d+\.\d+)\.$")
_PROJECT_MAY: dict[Merge | None, str] = {
    None: "no",
    checks.as_given: "yes",
    checks.shorter: "make shorter",
    checks.more: "add to it",
    checks.fewer: "keep some of it",
    checks.stronger_level: f"make it stricter: none < auto, {' < '.join(model.Isolation)}",
    checks.both: "switch it off",
    checks.once_true: "switch it on",
    checks.milder: "set off or suggest",
}


@frozen
class Description:
    """What a person wants to know about one setting."""

    key: str
    meaning: str
    accepts: str
    default: str
    project_may: str
    since: str


def describe(key: str) -> Description:
    """All about a key that exists."""
    setting = SETTINGS[key]
    text = _docstring(setting)
    since = _SINCE.search(text)
    return Description(
        key,
        _SINCE.sub("", text),
        _accepts(setting.check),
        "not set" if setting.default in (None, "") else as_value(setting.default),
        _project_may(setting),
        since[1] if since else FIRST_VERSION,
    )


def describe_place(kind: type[places.Place]) -> list[Description]:
    """All about the keys of a place of that kind, in the order in which they are declared."""
    found = []
    for f in fields(kind):
        owner = places.Place if hasattr(places.Place, f.name) else kind
        default = None if f.default is MISSING else f.default
        key = f.metadata.get("key", f.name)
        needed = "none: it must be set" if key in kind.required else "not set"
        told = needed if default in (None, "") else as_value(default)
        meaning = _docstrings()[owner.__name__, f.name]
        found.append(Description(key, meaning, _accepts(checks.for_field(f)), told, "", ""))
    return found


def _accepts(check: Check) -> str:
    """In the words of the error that anything else would get."""
    try:
        check(object())
    except ValueError as error:
        found = _MEANT.search(str(error))
        assert found is not None
        return found[1]
    raise AssertionError("no setting takes just any object")


def _project_may(setting: Setting) -> str:
    if isinstance(setting.project, checks.StrictestOf):
        return f"make it stricter: {' < '.join(setting.project.words)}"
    return _PROJECT_MAY[setting.project]


def _docstring(setting: Setting) -> str:
    """What stands below the field in the source; "" if nothing does."""
    section: Any = Config
    *sections_above, name = setting.path.split(".")
    for part in sections_above:
        default = next(f.default for f in fields(section) if f.name == part)
        assert is_record(default)
        section = type(default)
    return _docstrings().get((section.__name__, name), "")


@cache
def _docstrings() -> Mapping[tuple[str, str], str]:
    """By class and field."""
    found: dict[tuple[str, str], str] = {}
    for module in (all_settings, config, model, places):
        found |= _docstrings_of(module)
    return found


def _docstrings_of(module: ModuleType) -> Mapping[tuple[str, str], str]:
    found = {}
    tree = ast.parse(inspect.getsource(module))
    for section in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for field, below in zip(section.body, section.body[1:], strict=False):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    found[section.name, name] = " ".join(text.split())
                case _:
                    pass
    return found
