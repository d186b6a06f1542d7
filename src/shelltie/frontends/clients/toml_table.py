"""Edits one table of a TOML file: added at the end, changed in place, or taken out.

The result is parsed again: unless exactly that table differs, nothing is changed.
"""

import tomllib
from collections.abc import Mapping, Sequence

from shelltie.errors import ConfigWrong
from shelltie.settings import edit
from shelltie.settings.toml_list import as_value

_BY_HAND = "it stands in an unusual place: change it by hand"


def get(text: str, path: Sequence[str]) -> object | None:
    """The table or value at that path; None if there is none.

    Raises: ConfigWrong if the text cannot be read.
    """
    found: object = _parsed(text)
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def put(text: str, path: Sequence[str], table: Mapping[str, object]) -> str:
    """The text in which that table has these values; others that it has stay.

    Raises: ConfigWrong.
    """
    name = ".".join(path)
    if get(text, path) is not None:
        for key, value in table.items():
            text = edit.changed(text, f"{name}.{key}", value)
        return text
    lines = [f"[{name}]", *(f"{key} = {as_value(value)}" for key, value in table.items())]
    before = text.rstrip("\n")
    new = "\n".join([*([before, ""] if before else []), *lines, ""])
    if get(new, path) != dict(table):
        raise ConfigWrong(f"{name}: {_BY_HAND}")
    return new


def drop(text: str, path: Sequence[str]) -> str:
    """The text without that table and those in it.

    Raises: ConfigWrong.
    """
    name = ".".join(path)
    expected = _parsed(text)
    if get(text, path) is None:
        return text
    kept, ours = [], False
    for line in text.split("\n"):
        if line.lstrip().startswith("["):
            head = line.strip().lstrip("[").partition("]")[0].replace(" ", "")
            ours = head == name or head.startswith(f"{name}.")
        if not ours or line.lstrip().startswith("#"):
            kept.append(line)
    new = "\n".join(kept).rstrip("\n") + "\n"
    if _parsed(new) not in _without(expected, path):
        raise ConfigWrong(f"{name}: {_BY_HAND}")
    return new.lstrip("\n")


def _without(tree: dict[str, object], path: Sequence[str]) -> list[dict[str, object]]:
    """The tree without it, and the same without the tables that are empty then."""
    head, *rest = path
    if not rest:
        return [{key: value for key, value in tree.items() if key != head}]
    inner = tree[head]
    assert isinstance(inner, dict)
    found = _without(inner, rest)
    others = {key: value for key, value in tree.items() if key != head}
    return [{**tree, head: one} for one in found] + [others for one in found if not one]


def _parsed(text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigWrong(f"it is not TOML: {error}") from error
