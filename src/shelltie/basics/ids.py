"""Ids that come only once: ULIDs, short ones that people type, and counted milliseconds."""

import os
import time

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # base 32 without what is misheard or misread
_PAIRS = [first + second for first in _CROCKFORD for second in _CROCKFORD]
_OF_BYTES = (_CROCKFORD * 8).encode()  # a letter for each of 256, each as often
_SHORT = 6  # characters
_SHORT_IDS = len(_CROCKFORD) ** _SHORT


def ulid() -> str:
    """48 bits of milliseconds and 80 of chance, so that ids sort by time."""
    return _base32(time.time_ns() // 1_000_000, 10) + os.urandom(16).translate(_OF_BYTES).decode()


def _random(bits: int) -> int:
    """As `secrets` would; to import that takes 2 ms."""
    return int.from_bytes(os.urandom(bits // 8 + 1)) & ((1 << bits) - 1)


def _base32(value: int, length: int) -> str:
    """An even number of characters, two at a time."""
    return "".join([_PAIRS[value >> shift & 1023] for shift in range(5 * (length - 2), -1, -10)])


class ShortIds:
    """Walks through all ids there are in an order nobody can foresee, so that none comes twice."""

    def __init__(self) -> None:
        self._next = _random(5 * _SHORT)
        # Odd, so it meets all of a power of two.
        self._step = _random(5 * _SHORT) | 1

    def new(self) -> str:
        """Six letters and digits."""
        self._next = (self._next + self._step) % _SHORT_IDS
        return _base32(self._next, _SHORT)


def as_short_id(text: str) -> str:
    """What somebody typed or heard, as the short id they meant."""
    return text.strip().upper().translate(str.maketrans("OIL", "011"))


class MillisecondIds:
    """The time in milliseconds, each one once, also when many come in one or the clock is set."""

    def __init__(self) -> None:
        self._last = 0

    def new(self) -> int:
        """This millisecond, or the next that nobody has had."""
        self._last = max(time.time_ns() // 1_000_000, self._last + 1)
        return self._last
