"""Memoization (lru_cache) of pure functions of short texts, since agents repeat them. Pure."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar, TypeVarTuple, cast

_LATEST = 512
_LENGTH_MAX = 4096  # what is longer is seldom the same, and would fill the memory

Ts = TypeVarTuple("Ts")
T = TypeVar("T")


def memoized(ask: Callable[[str, *Ts], T]) -> Callable[[str, *Ts], T]:
    """The same function, which knows its latest answers. All it is given must be hashable."""
    known = cast(Callable[[str, *Ts], T], lru_cache(_LATEST)(ask))

    @wraps(ask)
    def answer(text: str, *more: *Ts) -> T:
        return (known if len(text) <= _LENGTH_MAX else ask)(text, *more)

    return answer
