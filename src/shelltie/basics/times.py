"""Durations, moments and sizes, as callers give them and as people and programs read them. Pure."""

import math
from datetime import UTC, datetime
from typing import overload


def seconds(value: object, name: str) -> float | None:
    """A duration a caller gave: `None` and 0 mean "not given".

    Raises: ValueError, with a message for the caller.
    """
    if value is None:
        return None
    try:
        number = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        number = math.inf
    if isinstance(value, bool) or not math.isfinite(number) or number < 0:
        raise ValueError(f"{name} must be a number of seconds, 0 or more, not {value!r}")
    return number or None


@overload
def milliseconds(span: float) -> int: ...
@overload
def milliseconds(span: None) -> None: ...
def milliseconds(span: float | None) -> int | None:
    """A duration as programs read it; where there is none, none."""
    return None if span is None else round(span * 1000)


def iso_utc(at: float, timespec: str = "milliseconds") -> str:
    """`2026-01-31T12:00:00.000Z`; to the whole second with a `timespec` of "seconds"."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def local_time(at: float) -> str:
    """`2026-01-31 12:00:00`, where the reader is."""
    return f"{_local(at):%Y-%m-%d %H:%M:%S}"


def local_clock(at: float, now: float) -> str:
    """`12:00:00` if that is today, else `01-31 12:00`, where the reader is."""
    then = _local(at)
    today = then.date() == _local(now).date()
    return then.strftime("%H:%M:%S" if today else "%m-%d %H:%M")


def _local(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC).astimezone()


def human_duration(span: float) -> str:
    """`350ms`, `4.2s`, `45s`, `2m 10s`, `1h 5m`: for people, never for programs."""
    if span < 1:
        return f"{max(0, round(span * 1000))}ms"
    if span < 10:
        return f"{span:.1f}".removesuffix(".0") + "s"
    whole = round(span)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m {rest}s" if rest else f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes}m" if minutes else f"{hours}h"


def human_size(count: int) -> str:
    """`512 B`, `12.3 KB`, `4.0 MB`: for people, never for programs."""
    size = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError("unreachable")
