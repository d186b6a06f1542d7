"""Edits one block of a YAML file: a mapping below a top-level key, as Goose keeps its extensions.

Only what such files look like is understood: block style, indented with spaces. Anything else is
refused, so that nothing is guessed. Values are written as JSON, which YAML reads. Pure.
"""

import json
from collections.abc import Mapping, Sequence

from shelltie.basics.frozen import frozen
from shelltie.errors import ConfigWrong

_STEP = "  "


@frozen
class _Lines:
    """Where a key stands, and the lines below it that belong to it."""

    at: int
    end: int
    indent: str  # of what is below it; none: nothing is


def get(text: str, path: Sequence[str]) -> object | None:
    """The mapping of plain values at that path; None if there is none.

    Raises: ConfigWrong.
    """
    top, name = path
    lines = _lines_of(text)
    outer = _find(lines, top, 0, len(lines), "")
    inner = outer and _find(lines, name, outer.at + 1, outer.end, outer.indent)
    return None if inner is None else _values(lines[inner.at + 1 : inner.end])


def put(text: str, path: Sequence[str], mapping: Mapping[str, object]) -> str:
    """The text in which that block has these values and no others.

    Raises: ConfigWrong.
    """
    top, name = path
    lines = drop(text, path).rstrip("\n").split("\n") if text.strip() else []
    outer = _find(lines, top, 0, len(lines), "")
    indent = (outer and outer.indent) or _STEP
    block = [f"{indent}{name}:"]
    block += [f"{indent}{_STEP}{key}: {json.dumps(value)}" for key, value in mapping.items()]
    if outer is None:
        return "\n".join([*lines, f"{top}:", *block, ""])
    return "\n".join([*lines[: outer.at], f"{top}:", *block, *lines[outer.at + 1 :], ""])


def drop(text: str, path: Sequence[str]) -> str:
    """The text without that block.

    Raises: ConfigWrong.
    """
    top, name = path
    lines = _lines_of(text)
    outer = _find(lines, top, 0, len(lines), "")
    inner = outer and _find(lines, name, outer.at + 1, outer.end, outer.indent)
    if outer is None or inner is None:
        return text
    left = [*lines[: inner.at], *lines[inner.end :]]
    if not any(map(_counts, lines[outer.at + 1 : inner.at] + lines[inner.end : outer.end])):
        left[outer.at] = f"{top}: {{}}"
    return "\n".join(left)


def _find(lines: list[str], key: str, start: int, end: int, indent: str) -> _Lines | None:
    for at in range(start, end):
        line = lines[at]
        names = (f"{indent}{key}:", f'{indent}"{key}":', f"{indent}'{key}':")
        found = next((name for name in names if line.startswith(name)), None)
        if found is None:
            continue
        rest = line[len(found) :].partition(" #")[0].strip()
        if rest not in ("", "{}"):
            raise ConfigWrong(f"{key} is not a block of lines: change it by hand")
        return _extent(lines, at, end, len(indent))
    return None


def _lines_of(text: str) -> list[str]:
    if any(line.lstrip(" ").startswith("\t") for line in text.split("\n")):
        raise ConfigWrong("it is indented with tabs, which YAML forbids")
    return text.split("\n")


def _extent(lines: list[str], at: int, end: int, own: int) -> _Lines:
    """All lines that are indented more; blank ones and comments at its end are not its own."""
    last, indent = at + 1, ""
    for place in range(at + 1, end):
        line = lines[place]
        if not _counts(line):
            continue
        depth = len(line) - len(line.lstrip(" "))
        if depth <= own:
            break
        indent, last = indent or " " * depth, place + 1
    return _Lines(at, last, indent)


def _counts(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _values(lines: list[str]) -> dict[str, object]:
    values: dict[str, object] = {}
    key = ""
    for line in filter(_counts, lines):
        word = line.strip()
        if word.startswith("- ") and key:
            items = values.get(key)
            values[key] = [*(items if isinstance(items, list) else []), _scalar(word[2:])]
        elif ":" in word:
            key, _, rest = word.partition(":")
            values[key] = _scalar(rest.strip())
    return values


def _scalar(word: str) -> object:
    try:
        return json.loads(word)
    except ValueError:
        return word.strip("'")
