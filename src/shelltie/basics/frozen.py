"""Frozen dataclasses with slots, at a quarter of the start-up cost of `dataclasses`. Pure.

For each class `dataclasses` writes and compiles six methods, which takes most of a millisecond; for
two hundred classes that was a third of what `shelltie run` costs. Here one is compiled, `__init__`,
when the first object is made, and the others are the same functions for all.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import Any, NoReturn, TypeVar, dataclass_transform

_T = TypeVar("_T")
_ABSENT = object()  # stands for the default of a field that makes its own


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[_T]) -> type[_T]:
    """A dataclass with slots that cannot be changed, and is compared and hashed by its fields."""
    made: Any = dataclass(slots=True, init=False, repr=False, eq=False)(cls)
    made.__init__ = _init(made)
    made.given_names = tuple(f.name for f in fields(made) if f.init)
    names = [f.name for f in fields(made) if f.compare]
    made.compared_by = attrgetter(*names) if names else type
    for name, method in _SHARED.items():
        if name not in cls.__dict__:
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]  # it is what `dataclass` returned


def replace(thing: _T, /, **changes: object) -> _T:
    """The same with other values: `dataclasses.replace`, in a fifth of its steps."""
    cls: Any = type(thing)
    values = {name: getattr(thing, name) for name in cls.given_names}
    return cls(**{**values, **changes})  # type: ignore[no-any-return]  # it is of that class


def _init(cls: type) -> Callable[..., None]:
    """Compiled when it is first used: of most classes a process makes no object."""

    def first(self: object, /, *args: object, **named: object) -> None:
        made = _compiled(cls)
        cls.__init__ = made  # type: ignore[misc]  # of this very class
        made(self, *args, **named)

    return first


def _compiled(cls: type) -> Callable[..., None]:
    known: dict[str, Any] = {"absent": _ABSENT}
    words, body = ["self"], []
    for f in sorted(fields(cls), key=lambda f: bool(f.kw_only)):
        if f.init:
            words += ["*"] if f.kw_only and "*" not in words else []
            words.append(_parameter(f, known))
            known[f"set_{f.name}"] = getattr(cls, f.name).__set__
            body.append(f"set_{f.name}(self, {_value(f)})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    exec(f"def __init__({', '.join(words)}): {'; '.join(body) or 'pass'}", known)  # noqa: S102  our own names
    made: Callable[..., None] = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _parameter(f: "Field[Any]", known: dict[str, Any]) -> str:
    if f.default_factory is not MISSING:
        known[f"make_{f.name}"] = f.default_factory
        return f"{f.name}=absent"
    if f.default is MISSING:
        return f.name
    known[f"default_{f.name}"] = f.default
    return f"{f.name}=default_{f.name}"


def _value(f: "Field[Any]") -> str:
    makes = f.default_factory is not MISSING
    return f"make_{f.name}() if {f.name} is absent else {f.name}" if makes else f.name


def _repr(self: Any) -> str:  # noqa: ANN401  any class that is made here
    shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
    return f"{type(self).__qualname__}({shown})"


def _eq(self: Any, other: Any) -> object:  # noqa: ANN401  as above
    if type(other) is not type(self):
        return NotImplemented
    return self.compared_by(self) == self.compared_by(other)


def _hash(self: Any) -> int:  # noqa: ANN401  as above
    return hash(self.compared_by(self))


def _no_change(self: object, name: str, *_: object) -> NoReturn:
    raise FrozenInstanceError(f"a {type(self).__qualname__} does not change: {name} stays")


def _set_state(self: object, state: tuple[None, dict[str, object]]) -> None:
    for name, value in state[1].items():
        object.__setattr__(self, name, value)


_SHARED: dict[str, Callable[..., object]] = {
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__setattr__": _no_change,
    "__delattr__": _no_change,
    "__setstate__": _set_state,  # for copies and pickles
}
