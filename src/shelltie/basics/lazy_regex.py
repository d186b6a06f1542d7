"""Lazy regular expressions: our own patterns, compiled when they are first used. Pure.

There are three hundred, a command meets a few dozen of them, and to compile all takes 60 ms. What
a person wrote into a file is compiled when the file is read, so that mistakes are told then.
"""

import re
from typing import Any, AnyStr, Generic, cast


def lazy(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """What `re.compile` gives, later."""
    return cast("re.Pattern[AnyStr]", _Later(text, flags))


class _Later(Generic[AnyStr]):
    """Has whatever a pattern has."""

    def __init__(self, text: AnyStr, flags: int) -> None:
        self._source: tuple[AnyStr, int] = text, flags

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  as above
        value = getattr(re.compile(*self._source), name)
        setattr(self, name, value)  # the next use does not come here
        return value
