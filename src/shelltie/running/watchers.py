"""Who watches what runs here: what a supervisor, and whoever shows it, wants of them. Pure."""

from collections.abc import Sequence
from typing import Protocol

from shelltie.model import Sample


class Memory(Protocol):
    """Who remembers how long commands took."""

    async def recall(self, shape: str, cwd: str) -> tuple[str, Sequence[Sample]]:
        """The project of that directory, and runs of that shape in it, the last one last."""


class Measures(Protocol):
    """What is counted and measured, for whoever shows it."""

    def text(self) -> str:
        """In the words of Prometheus."""

    def to_json(self) -> list[dict[str, object]]:
        """The same, for another process that puts several together."""

    def health(self) -> list[dict[str, object]]:
        """Every figure that has a threshold, and whether it is well."""
