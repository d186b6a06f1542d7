"""Edits JSON with comments (JSONC): one value is set, appended or deleted, the rest stays. Pure.

Editors have comments and trailing commas in their settings, which `json` cannot read. Here a small
parser remembers where each value stands; an edit replaces that piece of the text alone.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shelltie.errors import ConfigWrong

Path = Sequence[str | int]
_BLANK = re.compile(r"(?:[\s\ufeff]|//[^\n]*|/\*.*?\*/)*", re.S)
_SCALAR = re.compile(r'"(?:[^"\\\n]|\\.)*"|[^\s,:{}\[\]"/]+')
_REST_OF_LINE = re.compile(r"[ \t]*,?[ \t]*(?://[^\n]*|/\*(?:(?!\*/)[^\n])*\*/[ \t]*)?(?=\n|$)")
_CLOSING = {"{": "}", "[": "]"}


@dataclass
class _Node:
    """A value, from `start` to before `end`; of an object or array also what is in it."""

    start: int
    end: int
    value: object
    children: "dict[str | int, _Node]" = field(default_factory=dict)
    key_start: int = 0  # where its key stands, in an object; else as `start`


def get(text: str, path: Path) -> object | None:
    """The value at that path; None if there is none.

    Raises: ConfigWrong if the text cannot be read.
    """
    node: _Node | None = _parse(text)
    for key in path:
        node = None if node is None else node.children.get(key)
    return None if node is None else node.value


def put(text: str, path: Path, value: object) -> str:
    """The text in which that path has this value; what is missing on the way is made.

    Raises: ConfigWrong if the text cannot be read, or the path leads through what is no object.
    """
    text = text if text.strip("\ufeff \t\r\n") else "{}\n"
    node = _parse(text)
    for at, key in enumerate(path):
        inside = node.children.get(key)
        if inside is None:
            for name in reversed(path[at + 1 :]):
                value = {name: value}
            return _inserted(text, node, path[: at + 1], value)
        node = inside
    new = _dumped(text, value, _indent_at(text, node.key_start))
    return text[: node.start] + new + text[node.end :]


def update(text: str, path: Path, values: Mapping[str, object]) -> str:
    """The text in which the object at that path has these values; others that it has stay.

    Raises: ConfigWrong.
    """
    if not isinstance(get(text, path) if text.strip() else None, dict):
        return put(text, path, values)
    for key, value in values.items():
        text = put(text, [*path, key], value)
    return text


def append(text: str, path: Path, value: object) -> str:
    """The text in which the array at that path has one item more, at its end.

    Raises: ConfigWrong.
    """
    there = get(text, path) if text.strip() else None
    if there is None:
        return put(text, path, [value])
    if not isinstance(there, list):
        raise ConfigWrong(f"{_named(path)} is no array")
    return put(text, [*path, len(there)], value)


def drop(text: str, path: Path) -> str:
    """The text without that value, and without what held nothing else.

    Raises: ConfigWrong if the text cannot be read.
    """
    nodes = [_parse(text)]
    for key in path:
        inside = nodes[-1].children.get(key)
        if inside is None:
            return text
        nodes.append(inside)
    last = len(path)
    while last > 1 and len(nodes[last - 1].children) == 1:
        last -= 1
    return _without(text, nodes[last - 1], path[last - 1])


def _named(path: Path) -> str:
    return ".".join(map(str, path)) or "the file"


def _inserted(text: str, holder: _Node, path: Path, value: object) -> str:
    """A child more, behind the last one."""
    key = path[-1]
    wanted = dict if isinstance(key, str) else list
    if not isinstance(holder.value, wanted):
        kind = "object" if wanted is dict else "array"
        raise ConfigWrong(f"{_named(path[:-1])} is no {kind}")
    own = _indent_at(text, holder.key_start)
    children = list(holder.children.values())
    on_one_line = "\n" not in text[holder.start : holder.end]
    known = children and not on_one_line
    indent = _indent_at(text, children[-1].key_start) if known else own + _unit(text)
    name = f"{json.dumps(key)}: " if isinstance(key, str) else ""
    new = f"\n{indent}{name}{_dumped(text, value, indent)}"
    tail = f"\n{own}" if on_one_line else ""
    if not children:
        at = holder.start + 1
        return text[:at] + new + tail + text[at:]
    end = children[-1].end
    rest = _REST_OF_LINE.match(text, end)
    after = rest.end() if rest else end
    has_comma = text[_skip(text, end)] == ","
    if has_comma and after <= _skip(text, end):
        after = _skip(text, end) + 1
    comma = "" if has_comma else ","
    return text[:end] + comma + text[end:after] + new + tail + text[after:]


def _without(text: str, holder: _Node, key: str | int) -> str:
    """The text without a child: its comma goes, too, and its line if nothing else is on it."""
    children = list(holder.children.values())
    child = holder.children[key]
    start, end = child.key_start, child.end
    follows = _skip(text, end)
    before = text[:start].rstrip(" \t")
    if text[follows] == ",":
        end = follows + 1
        if before.endswith("\n") and (line := re.compile(r"[ \t]*\n").match(text, end)):
            return before + text[line.end() :]
        return text[:start] + text[end:].lstrip(" \t")
    place = children.index(child)
    comma = _skip(text, children[place - 1].end) if place else None
    gap = text[holder.start + 1 if comma is None else comma + 1 : start]
    if "//" not in gap:  # else its line must not go on
        gap = gap.rstrip()
    head = text[: holder.start + 1] if comma is None else text[:comma]
    return head + gap + text[end:]


def _dumped(text: str, value: object, indent: str) -> str:
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).split("\n")
    return f"\n{indent}".join(lines)


def _unit(text: str) -> str:
    """By how much this file indents."""
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "


def _indent_at(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at].lstrip("\ufeff")
    return line[: len(line) - len(line.lstrip(" \t"))]


def _skip(text: str, at: int) -> int:
    """Behind blanks and comments."""
    found = _BLANK.match(text, at)
    assert found is not None
    return found.end()


def _parse(text: str) -> _Node:
    try:
        root = _node(text, _skip(text, 0))
        if _skip(text, root.end) != len(text):
            raise _wrong(text, root.end)
    except (IndexError, RecursionError) as error:
        raise ConfigWrong("it is not JSON: it ends too early, or is too deep") from error
    return root


def _node(text: str, at: int) -> _Node:
    if text[at] not in _CLOSING:
        found = _SCALAR.match(text, at)
        try:
            value = json.loads(found[0] if found else "")
        except ValueError:
            raise _wrong(text, at) from None
        assert found is not None
        return _Node(at, found.end(), value, key_start=at)
    holder = _Node(at, at, {} if text[at] == "{" else [], key_start=at)
    closing, at = _CLOSING[text[at]], _skip(text, at + 1)
    while text[at] != closing:
        child = _child(text, at, holder)
        at = _skip(text, child.end)
        if text[at] == ",":
            at = _skip(text, at + 1)
        elif text[at] != closing:
            raise _wrong(text, at)
    holder.end = at + 1
    return holder


def _child(text: str, at: int, holder: _Node) -> _Node:
    if isinstance(holder.value, list):
        child = _node(text, at)
        holder.children[len(holder.value)] = child
        holder.value.append(child.value)
        return child
    key = _node(text, at)
    colon = _skip(text, key.end)
    if not isinstance(key.value, str) or text[colon] != ":":
        raise _wrong(text, at)
    child = _node(text, _skip(text, colon + 1))
    child.key_start = at
    assert isinstance(holder.value, dict)
    if key.value in holder.value:
        raise ConfigWrong(f"it has {key.value!r} twice in one object")
    holder.children[key.value] = child
    holder.value[key.value] = child.value
    return child


def _wrong(text: str, at: int) -> ConfigWrong:
    return ConfigWrong(f"it is not JSON: line {text.count(chr(10), 0, at) + 1} cannot be read")
