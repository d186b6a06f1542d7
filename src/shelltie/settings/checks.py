"""Validators of settings: types, ranges, and how an untrusted file may tighten them. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import Field
from posixpath import normpath
from typing import Any, TypeVar, cast

from shelltie.basics import validate
from shelltie.basics.frozen import frozen
from shelltie.model import AUTO, Adaptive, Isolation
from shelltie.settings.network_list import expanded

_Value = TypeVar("_Value")
_TMPFS_MIN, _BYTES_MAX = 1024 * 1024, 2**50
_MEMORY_MIN = 6 * 1024 * 1024  # Docker takes no less
_STAY_MIN, _STAY_MAX = 64 * 1024, 2**30
_CPUS_MIN, _CPUS_MAX = 0.01, 10_000
_PROCESSES_MIN, _PROCESSES_MAX = 8, 2**22  # the kernel has no more pids
_OWN_PLACES = ("/", "/dev", "/proc", "/run", "/tmp", "/var/run", "/var/tmp", "~")  # noqa: S108  only compared


def _of_text(
    read: Callable[[str], object], check: Callable[[object], _Value]
) -> Callable[[object], _Value]:
    """A check that also takes what is a text because a variable of the environment has it."""

    def checked(value: object) -> _Value:
        try:
            given = read(value) if isinstance(value, str) else value
        except ValueError:
            given = value
        return check(given)

    return checked


def _whole(text: str) -> object:
    return int(text) if text.isdecimal() else text


number = _of_text(float, validate.number_of("seconds"))
days = _of_text(float, validate.number_of("days"))
share = _of_text(float, validate.number("a number from 0 to 1", 0, 1))
size = _of_text(_whole, validate.whole_number("a whole number, 0 or more", 0))
count = _of_text(_whole, validate.whole_number("a whole number, 1 or more", 1))
zero_to_two = _of_text(_whole, validate.whole_number("0, 1 or 2", 0, 2))
# Of a file system in memory: the kernel takes 0 for no limit at all.
tmpfs_size = _of_text(
    _whole,
    validate.whole_number(
        f"a number of bytes from {_TMPFS_MIN} to {_BYTES_MAX}", _TMPFS_MIN, _BYTES_MAX
    ),
)
# Of a container, as engines take it.
memory = _of_text(
    _whole,
    validate.whole_number(
        f"0, for no limit, or a number of bytes from {_MEMORY_MIN} to {_BYTES_MAX}",
        _MEMORY_MIN,
        _BYTES_MAX,
        or_zero=True,
    ),
)
cpus = _of_text(
    float,
    validate.number(
        f"0, for no limit, or a number of CPUs from {_CPUS_MIN} to {_CPUS_MAX}, such as 1.5",
        _CPUS_MIN,
        _CPUS_MAX,
        or_zero=True,
    ),
)
# In a container a keeper, a leash and a shell have to be.
processes = _of_text(
    _whole,
    validate.whole_number(
        f"0, for no limit, or a number from {_PROCESSES_MIN} to {_PROCESSES_MAX}"
        " (shelltie itself needs some)",
        _PROCESSES_MIN,
        _PROCESSES_MAX,
        or_zero=True,
    ),
)
# Of a keeper that stays: shorter than this, nobody could ask for it in time.
lease = _of_text(float, validate.number("seconds, from 1 to 31536000", 1, 365 * 86400))
stay_output = _of_text(
    _whole,
    validate.whole_number(
        f"a number of bytes from {_STAY_MIN} to {_STAY_MAX}", _STAY_MIN, _STAY_MAX
    ),
)
port = _of_text(_whole, validate.whole_number("a port from 1 to 65535", 1, 65535))
keeper = validate.one_of("auto", "c", "python")
_milliseconds = _of_text(float, validate.number_of("milliseconds"))


def milliseconds(value: object) -> float:
    """Seconds; a variable of the environment has milliseconds."""
    return _milliseconds(value) / 1000 if isinstance(value, str) else number(value)


def text(value: object) -> str:
    """A text that can be the name of a file, or its path."""
    if "\0" in validate.text(value):
        raise validate.invalid("a text without NUL bytes", value)
    return str(value)


def absolute(value: object) -> str:
    if not text(value).startswith("/"):
        raise validate.invalid("an absolute path", value)
    return str(value)


def flag(value: object) -> bool:
    word = value.lower() if isinstance(value, str) else value
    if word in (True, "true", "yes", "1"):
        return True
    if word in (False, "false", "no", "0", ""):
        return False
    raise validate.invalid("true or false", value)


def texts(value: object) -> tuple[str, ...]:
    """A list; in a variable of the environment its items are separated by commas."""
    items = [item.strip() for item in value.split(",")] if isinstance(value, str) else value
    return tuple(text(item) for item in validate.texts(items) if item != "")


def some_of(*words: str) -> Callable[[object], tuple[str, ...]]:
    def check(value: object) -> tuple[str, ...]:
        return tuple(map(validate.one_of(*words), texts(value)))

    return check


def sandbox_paths(value: object) -> tuple[str, ...]:
    """Directories to be seen in a sandbox, which has its own of some."""
    places = texts(value)
    for place in places:
        if normpath(place).replace("//", "/") in _OWN_PLACES:
            raise validate.InvalidValue(f"{place} cannot be shown: name what is needed of it")
    return places


def hosts(value: object) -> tuple[str, ...]:
    """Entries of a network list."""
    entries = texts(value)
    expanded(entries)
    return entries


def table(value: object) -> Mapping[str, str]:
    """Names with texts."""
    items = validate.json_object(value)
    if not all(isinstance(name, str) and isinstance(text, str) for name, text in items.items()):
        raise validate.invalid("a table of texts", value)
    return dict(items)


_BY_TYPE: dict[object, Callable[[object], object]] = {
    bool: flag,
    int: size,
    int | None: size,
    float: number,
    float | None: number,
    str: text,
    str | None: text,
    tuple[str, ...]: texts,
    Mapping[str, str]: table,
}


def for_field(field: "Field[Any]") -> Callable[[object], object]:
    """What checks a value for it: its own check, or that of its type."""
    check: Callable[[object], object] = field.metadata.get("check") or _BY_TYPE[field.type]
    return check


# What a file that nobody trusts may do to a value: never make it looser.


def as_given(_: object, given: object) -> object:
    return given


def more(current: object, given: object) -> object:
    return (*cast(tuple[str, ...], current), *cast(tuple[str, ...], given))


def fewer(current: object, given: object) -> object:
    """Of two lists, what is in both."""
    return tuple(
        item for item in cast(tuple[str, ...], given) if item in cast(tuple[str, ...], current)
    )


def shorter(current: object, given: object) -> object:
    return min(cast(float, current), cast(float, given))


def both(current: object, given: object) -> object:
    return bool(current) and bool(given)


@frozen
class StrictestOf:
    """Of words from the mildest to the strictest, the stricter one."""

    words: tuple[str, ...]

    def __call__(self, current: object, given: object) -> object:
        """What holds, of what held and what a project says."""
        return max(str(current), str(given), key=self.words.index)


def stronger_level(current: object, given: object) -> object:
    """Of two levels of isolation. `auto` may be more than a sandbox, or less: so of these two the
    one stays that holds already.
    """

    def rank(level: object) -> int:
        return (Isolation.SANDBOX if level == AUTO else Isolation(str(level))).rank

    return given if rank(given) > rank(current) else current


def milder(current: object, given: object) -> object:
    """A file that nobody trusts may not have limits made longer."""
    return given if given != Adaptive.APPLY else current


def once_true(current: object, given: object) -> object:
    return current or given
