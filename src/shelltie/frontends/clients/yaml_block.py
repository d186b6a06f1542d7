"""Edits one block of a YAML file: a mapping below a top-level key, as Goose keeps its extensions.

Only what such files look like is understood: block style, indented with spaces. Anything else is
refused, so that nothing is guessed. Values are written as JSON, which YAML reads. Pure.
"""

import json
import re
from collections.abc import Container, Mapping, Sequence

from shelltie.basics.frozen import frozen
from shelltie.errors import ConfigWrong

_STEP = "  "
_BY_HAND = "change it by hand"
_EMPTY = re.compile(r":[ ]*\{\}")
_KEY = re.compile(r"""("[^"]*"|'[^']*'|[^\s"'#?{}\[\]&*!|>%@`,:\ufeff-][^:#]*):(\s|$)""")


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
    """The text in which that block has these values; others that it has stay.

    Raises: ConfigWrong.
    """
    top, name = path
    lines = _lines_of(text.rstrip("\n")) if text.strip() else []
    outer = _find(lines, top, 0, len(lines), "")
    if outer is None:
        outer = _Lines(len(lines), len(lines) + 1, "")
        lines = [*lines, f"{top}:"]
    inner = _find(lines, name, outer.at + 1, outer.end, outer.indent)
    indent = outer.indent or _STEP
    below = (inner and inner.indent) or indent + _STEP
    block = [f"{indent}{name}:" if inner is None else _EMPTY.sub(":", lines[inner.at])]
    block += [f"{below}{key}: {json.dumps(value)}" for key, value in mapping.items()]
    start, end = (inner.at, inner.end) if inner else (outer.at + 1, outer.at + 1)
    kept = _without_keys(lines[start + 1 : end], below, mapping)
    head = _EMPTY.sub(":", lines[outer.at])
    between = lines[outer.at + 1 : start]
    return "\n".join([*lines[: outer.at], head, *between, *block, *kept, *lines[end:], ""])


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
        left[outer.at] = lines[outer.at].replace(":", ": {}", 1)
    return "\n".join(left)


def _find(lines: list[str], key: str, start: int, end: int, indent: str) -> _Lines | None:
    name = re.compile(rf"""{indent}(["']?){re.escape(key)}\1[ ]*:(?=\s|$)""")
    for at in range(start, end):
        found = name.match(lines[at])
        if found is None:
            continue
        rest = lines[at][found.end() :].partition(" #")[0].strip()
        block = _extent(lines, at, end, len(indent))
        if rest not in ("", "{}") or not _is_mapping(lines[at + 1 : end], block.indent):
            raise ConfigWrong(f"{key} is not a block of lines: {_BY_HAND}")
        return block
    return None


def _is_mapping(lines: list[str], indent: str) -> bool:
    """Whether what is below a key begins with a key, if anything is: not a list, nor `{`."""
    first = next(filter(_counts, lines), "")
    return not first.startswith("-") and (not indent or _KEY.match(first.strip()) is not None)


def _lines_of(text: str) -> list[str]:
    lines = text.split("\n")
    if any(line.lstrip(" ").startswith("\t") for line in lines):
        raise ConfigWrong("it is indented with tabs, which YAML forbids")
    outermost = [line for line in lines if _counts(line) and not line.startswith(" ")]
    if outermost[:1] == ["---"]:
        outermost = outermost[1:]
    for at, line in enumerate(outermost):
        if not (_KEY.match(line) or (at and line.startswith("- "))):
            raise ConfigWrong(f"it is not a mapping with a key on each line: {_BY_HAND}")
    return lines


def _without_keys(lines: list[str], indent: str, keys: Container[str]) -> list[str]:
    """Without those keys and what is below them: a list may stand as far left as its key."""
    kept, dropped = [], False
    for line in lines:
        if line.startswith(indent) and _KEY.match(line[len(indent) :]):
            dropped = line.partition(":")[0].strip(" \"'") in keys
        if not dropped:
            kept.append(line)
    return kept


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
