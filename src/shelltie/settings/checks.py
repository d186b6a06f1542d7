"""Validators of settings: types, ranges, and how an untrusted file may tighten them. Pure."""

from collections.abc import Callable
from enum import StrEnum
from posixpath import normpath
from typing import cast

from shelltie.basics.frozen import frozen
from shelltie.basics.times import seconds
from shelltie.model import Adaptive

_ROOM_MIN, _ROOM_MAX = 1024 * 1024, 2**50
_MEMORY_MIN = 6 * 1024 * 1024  # Docker takes no less
_CPUS_MIN, _CPUS_MAX = 0.01, 10_000
_PROCESSES_MIN, _PROCESSES_MAX = 8, 2**22  # the kernel has no more pids
_OWN_PLACES = ("/", "/dev", "/proc", "/run", "/tmp", "/var/run", "/var/tmp", "~")  # noqa: S108  only compared


def number(value: object) -> float:
    try:
        span = seconds(float(value) if isinstance(value, str) else value, "it")
    except ValueError:
        raise ValueError(f"it must be a number of seconds, 0 or more, not {value!r}") from None
    return 0.0 if span is None else span


def days(value: object) -> float:
    try:
        return number(value)
    except ValueError:
        raise ValueError(f"it must be a number of days, 0 or more, not {value!r}") from None


def size(value: object) -> int:
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"it must be a whole number, 0 or more, not {value!r}")
    return number


def count(value: object) -> int:
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ValueError(f"it must be a whole number, 1 or more, not {value!r}")
    return number


def few(value: object) -> int:
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if number not in (0, 1, 2) or isinstance(number, bool):
        raise ValueError(f"it must be 0, 1 or 2, not {value!r}")
    return int(str(number))


def text(value: object) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError(f"it must be a text, not {value!r}")
    return value


def absolute(value: object) -> str:
    if not text(value).startswith("/"):
        raise ValueError(f"it must be an absolute path, not {value!r}")
    return text(value)


def room(value: object) -> int:
    """Of a file system in memory: the kernel takes 0 for no limit at all."""
    number = size(value)
    if not _ROOM_MIN <= number <= _ROOM_MAX:
        raise ValueError(f"it must be a number of bytes from {_ROOM_MIN} to {_ROOM_MAX}")
    return number


def memory(value: object) -> int:
    """Of a container, as engines take it: 0 is no limit."""
    number = size(value)
    if number and not _MEMORY_MIN <= number <= _ROOM_MAX:
        raise ValueError(
            f"it must be 0, for no limit, or a number of bytes from {_MEMORY_MIN} to {_ROOM_MAX},"
            f" not {value!r}"
        )
    return number


def cpus(value: object) -> float:
    """For a container, as engines take it: 0 is no limit."""
    try:
        share = number(value)
    except ValueError:
        share = -1.0
    if share and not _CPUS_MIN <= share <= _CPUS_MAX:
        raise ValueError(
            f"it must be 0, for no limit, or a number of CPUs from {_CPUS_MIN} to {_CPUS_MAX},"
            f" such as 1.5, not {value!r}"
        )
    return share


def processes(value: object) -> int:
    """In a container, where a keeper, a leash and a shell have to be: 0 is no limit."""
    number = size(value)
    if number and not _PROCESSES_MIN <= number <= _PROCESSES_MAX:
        raise ValueError(
            f"it must be 0, for no limit, or a number from {_PROCESSES_MIN} to {_PROCESSES_MAX},"
            f" not {value!r}: shelltie itself needs some"
        )
    return number


def one_of(*words: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        if value not in words:
            raise ValueError(f"it must be one of {', '.join(words)}, not {value!r}")
        return str(value)

    return check


def member_of(kind: type[StrEnum]) -> Callable[[object], StrEnum]:
    check = one_of(*kind)
    return lambda value: kind(check(value))


def share(value: object) -> float:
    try:
        share = float(value) if isinstance(value, str) else value
    except ValueError:
        share = None
    if not isinstance(share, int | float) or isinstance(share, bool) or not 0 <= share <= 1:
        raise ValueError(f"it must be a number from 0 to 1, not {value!r}")
    return float(share)


def some_of(*words: str) -> Callable[[object], tuple[str, ...]]:
    def check(value: object) -> tuple[str, ...]:
        return tuple(map(one_of(*words), texts(value)))

    return check


def flag(value: object) -> bool:
    word = value.lower() if isinstance(value, str) else value
    if word in (True, "true", "yes", "1"):
        return True
    if word in (False, "false", "no", "0", ""):
        return False
    raise ValueError(f"it must be true or false, not {value!r}")


def milliseconds(value: object) -> float:
    """Seconds; a variable of the environment has milliseconds."""
    if not isinstance(value, str):
        return number(value)
    try:
        return number(value) / 1000
    except ValueError:
        raise ValueError(f"it must be a number of milliseconds, not {value!r}") from None


def texts(value: object) -> tuple[str, ...]:
    """A list; in a variable of the environment its items are separated by commas."""
    items = [item.strip() for item in value.split(",")] if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise ValueError(f"it must be a list of texts, not {value!r}")  # noqa: TRY004  as the others
    return tuple(text(item) for item in items if item != "")


def displayed(value: object) -> tuple[str, ...]:
    """Directories to be seen in a sandbox, which has its own of some."""
    places = texts(value)
    for place in places:
        if normpath(place).replace("//", "/") in _OWN_PLACES:
            raise ValueError(f"{place} cannot be shown: name what is needed of it")
    return places


# What a file that nobody trusts may do to a value: never make it looser.


def as_given(_: object, given: object) -> object:
    return given


def more(current: object, given: object) -> object:
    return (*cast(tuple[str, ...], current), *cast(tuple[str, ...], given))


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
    ranks = {"none": 0, "auto": 1, "sandbox": 1, "container": 2}
    return given if ranks[str(given)] > ranks[str(current)] else current


def milder(current: object, given: object) -> object:
    """A file that nobody trusts may not have limits made longer."""
    return given if given != Adaptive.APPLY else current


def once_true(current: object, given: object) -> object:
    return current or given
