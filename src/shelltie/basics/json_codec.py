"""Dataclasses as JSON objects with camelCase names, and back: `exit_code` is `exitCode`. Pure."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar

_T = TypeVar("_T")
_PLAIN = frozenset((NoneType, bool, int, float, str))


def as_json(record: object) -> dict[str, object]:
    """The object of a dataclass, and of those within it; a tuple is a list."""
    kind: type = type(record)
    return {wire: _value(getattr(record, name)) for name, wire in _names(kind)}


@cache
def _names(kind: type) -> tuple[tuple[str, str], ...]:
    """Of each field, here and on the wire; once, as every answer of a tool is made from them."""
    return tuple((f.name, wire_name(f.name)) for f in fields(kind))


def _value(value: object) -> object:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, tuple):
        return [_value(item) for item in value]
    return as_json(value) if is_dataclass(value) else value


def from_json(kind: type[_T], said: Mapping[str, Any]) -> _T:
    """The dataclass again, if its fields are texts, numbers, flags, enums, or one of these or None.

    Raises: KeyError, TypeError, ValueError if this is none.
    """
    known = fields(kind)  # type: ignore[arg-type]  # any dataclass
    return kind(**{f.name: _converted(f.type, said[wire_name(f.name)]) for f in known})


def _converted(kind: Any, value: object) -> object:  # noqa: ANN401  the annotation of a field
    if isinstance(kind, UnionType):
        if value is None:
            return None
        (kind,) = (one for one in kind.__args__ if one is not NoneType)
    return kind(value)


@cache
def wire_name(name: str) -> str:
    """The name of a field on the wire: `exit_code` is `exitCode`."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
