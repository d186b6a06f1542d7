"""A finding of `shelltie doctor`: level, text and remedy."""

from dataclasses import dataclass

GOOD, UNUSED, POOR, BAD = "good", "unused", "poor", "bad"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    group: str
    name: str
    level: str
    text: str
    remedy: str | None = None
