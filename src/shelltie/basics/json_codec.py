"""Dataclasses as JSON objects with camelCase names, and back: `exit_code` is `exitCode`. Pure."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar

_T = TypeVar("_T")


def as_json(record: object) -> dict[str, object]:
    """The object of a dataclass, and of those within it; a tuple is a list."""
    return {wire_name(f.name): _value(getattr(record, f.name)) for f in fields(record)}  # type: ignore[arg-type]  # any dataclass


def _value(value: object) -> object:
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
