"""The secret files of a project (.env): which a read-only view masks for a directory.

What git tracks is no secret of this machine, and git would take a masked file for a changed one.
"""

import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from shelltie.environment.masked_places import IN_PROJECT

_ABOVE = 5  # directories that are looked into, from the given one upwards
_INDEX_MAX = 64 * 1024 * 1024  # bytes
_POINTER = "gitdir: "


def places_around(directory: str) -> tuple[str, ...]:
    """The directories whose secret files are masked: this one, which is no link, and some above."""
    parts = directory.split("/")
    ends = range(len(parts), max(1, len(parts) - _ABOVE), -1)
    return tuple("/".join(parts[:end]) for end in ends)


def secrets_in(places: Iterable[str]) -> Iterator[str]:
    """Those that are there."""
    for place in places:
        for name in IN_PROJECT:
            if os.path.lexists(path := f"{place}/{name}"):
                yield path


def is_tracked(path: str) -> bool:
    """Whether git's index has it: each entry is the length of a name, the name, and a zero."""
    file = Path(path)
    for above in file.parents:
        if (index := _index(above / ".git")) is not None:
            name = str(file.relative_to(above)).encode("utf-8", "surrogateescape")
            with suppress(OSError):
                if index.stat().st_size <= _INDEX_MAX:
                    return struct.pack(">H", len(name)) + name + b"\0" in index.read_bytes()
            return False
    return False


def _index(mark: Path) -> Path | None:
    if mark.is_dir():
        return mark / "index"
    with suppress(OSError, UnicodeError):
        pointer = mark.read_text(encoding="utf-8")
        if pointer.startswith(_POINTER):
            return mark.parent / pointer.removeprefix(_POINTER).strip() / "index"
    return None
