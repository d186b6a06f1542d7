"""Dataclasses with slots, frozen or mutable, at a tenth of what `dataclasses` costs. Pure.

For each class `dataclasses` writes and compiles six methods, which takes most of a millisecond; for
two hundred classes that was a third of what `shelltie run` costs. Here a class is made with slots
and methods that are the same functions for all. `__init__` is compiled for those of which many
objects are made, and what `dataclasses.fields` reads is there when it is first asked for.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, MISSING, Field, FrozenInstanceError, dataclass, field
from operator import attrgetter
from typing import Any, ClassVar, NoReturn, TypeVar, dataclass_transform

_T = TypeVar("_T")
_ABSENT = object()  # stands for the default of a field that makes its own
_FEW = 8  # objects; to compile an initializer takes as long as to make twenty without
_Fields = dict[str, "Field[Any]"]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[_T]) -> type[_T]:
    """A dataclass with slots that cannot be changed, and is compared and hashed by its fields."""
    return _with_slots(cls, _FROZEN)


@dataclass_transform(field_specifiers=(field,))
def mutable(cls: type[_T]) -> type[_T]:
    """A dataclass with slots that is compared by its fields, which change."""
    return _with_slots(cls, _MUTABLE)


def _with_slots(cls: type[_T], methods: dict[str, Any]) -> type[_T]:
    own = _own_fields(cls)
    inherited: _Fields = {}
    for base in reversed(cls.__mro__[1:]):
        inherited |= base.__dict__.get("record_fields", {})
    every = inherited | own
    compared = [name for name, f in every.items() if f.compare]
    given = tuple(name for name, f in every.items() if f.init)
    members = {
        **methods,
        **{name: value for name, value in cls.__dict__.items() if name not in own},
        "__slots__": tuple(name for name in own if name not in inherited),
        "__qualname__": cls.__qualname__,
        "__match_args__": tuple(name for name, f in every.items() if f.init and not f.kw_only),
        "__dataclass_fields__": _Later(cls),
        "__dataclass_params__": _Later(cls),
        "record_fields": every,
        "given_names": given,
        "given_values": attrgetter(*given, "__class__") if given else tuple,  # at once, in C
        "compared_by": attrgetter(*compared) if compared else type,
    }
    members.pop("__dict__", None)
    members.pop("__weakref__", None)
    metaclass: Any = type(cls)
    made = metaclass(cls.__name__, cls.__bases__, members)
    made.__init__ = _init(made)
    return made  # type: ignore[no-any-return]  # it is `cls`, with slots


def is_record(value: object) -> bool:
    """Whether it is of a class that is made here, or such a class."""
    return hasattr(value, "record_fields")


def fields(record: Any) -> tuple["Field[Any]", ...]:  # noqa: ANN401  any class that is made here, or its object
    """What `dataclasses.fields` gives, which has to make them first."""
    return tuple(record.record_fields.values())


def replace(thing: _T, /, **changes: object) -> _T:
    """The same with other values: `dataclasses.replace`, in a fifth of its steps."""
    cls: Any = type(thing)
    values = dict(zip(cls.given_names, cls.given_values(thing), strict=False))
    return cls(**{**values, **changes})  # type: ignore[no-any-return]  # it is of that class


class _Later:
    """What `dataclasses` itself makes of a class, for the few who ask: `fields`, Pydantic."""

    def __init__(self, written: type) -> None:
        self._written = written  # without slots, and with the defaults as its attributes

    def __set_name__(self, made: type, name: str) -> None:
        self._made, self._name = made, name

    def __get__(self, _: object, __: type) -> object:
        if self._name not in self._written.__dict__:
            self._written.__doc__ = self._made.__name__  # else it would write a signature
            dataclass(init=False, repr=False, eq=False)(self._written)
        value = self._written.__dict__[self._name]
        setattr(self._made, self._name, value)
        return value


def _own_fields(cls: type) -> _Fields:
    own: _Fields = {}
    kw_only = False
    for name, annotation in cls.__annotations__.items():
        if annotation is KW_ONLY:
            kw_only = True
        elif getattr(annotation, "__origin__", annotation) is not ClassVar:
            default = cls.__dict__.get(name, MISSING)
            f: Field[Any] = default if isinstance(default, Field) else field(default=default)
            if f.default.__hash__ is None:
                raise ValueError(f"mutable default for field {name}: use default_factory")
            f.name, f.type = name, annotation
            if f.kw_only is MISSING:
                f.kw_only = kw_only
            own[name] = f
    return own


def _init(cls: Any) -> Callable[..., None]:  # noqa: ANN401  any class that is made here
    """Of most classes a process makes few objects, or none; the others get one that is compiled."""
    every: _Fields = cls.record_fields
    ends = hasattr(cls, "__post_init__")
    left = _FEW

    def first(self: object, /, *args: object, **named: object) -> None:
        nonlocal left
        left -= 1
        values = {**dict(zip(cls.__match_args__, args, strict=False)), **named}
        if left < 0 or len(values) != len(args) + len(named) or not _fill(self, every, values):
            compiled = _compiled(cls)
            cls.__init__ = compiled
            compiled(self, *args, **named)  # which may say what is wrong with them
        elif ends:
            cls.__post_init__(self)

    return first


def _fill(thing: object, every: _Fields, values: dict[str, object]) -> bool:
    """Whether these were the values for an object of these fields, which it has then."""
    for name, f in every.items():
        if not f.init:
            continue
        value = values.pop(name, f.default)
        if value is MISSING:
            if f.default_factory is MISSING:
                return False
            value = f.default_factory()
        object.__setattr__(thing, name, value)
    return not values


def _compiled(cls: Any) -> Callable[..., None]:  # noqa: ANN401  as above
    known: dict[str, Any] = {"absent": _ABSENT}
    words, body = ["self"], []
    for name, f in sorted(cls.record_fields.items(), key=lambda item: bool(item[1].kw_only)):
        if f.init:
            words += ["*"] if f.kw_only and "*" not in words else []
            words.append(_parameter(name, f, known))
            known[f"set_{name}"] = getattr(cls, name).__set__
            makes = f.default_factory is not MISSING
            value = f"make_{name}() if {name} is absent else {name}" if makes else name
            body.append(f"set_{name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    exec(f"def __init__({', '.join(words)}): {'; '.join(body) or 'pass'}", known)  # noqa: S102  our own names
    made: Callable[..., None] = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _parameter(name: str, f: "Field[Any]", known: dict[str, Any]) -> str:
    if f.default_factory is not MISSING:
        known[f"make_{name}"] = f.default_factory
        return f"{name}=absent"
    if f.default is MISSING:
        return name
    known[f"default_{name}"] = f.default
    return f"{name}=default_{name}"


def _repr(self: Any) -> str:  # noqa: ANN401  any class that is made here
    shown = ", ".join(
        f"{name}={getattr(self, name)!r}" for name, f in self.record_fields.items() if f.repr
    )
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


_EITHER: dict[str, Any] = {
    "__repr__": _repr,
    "__eq__": _eq,
    "__setstate__": _set_state,  # for copies and pickles
}
_FROZEN = {**_EITHER, "__hash__": _hash, "__setattr__": _no_change, "__delattr__": _no_change}
_MUTABLE = {**_EITHER, "__hash__": None}
