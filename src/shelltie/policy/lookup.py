"""Where programs are: found in trusted directories, and the same one every time.

A program is run by the path under which it was found, links not followed: what it does may depend
on its name (busybox, a Python environment). So whoever could change a link on the way could have
another program run, and such a program is refused.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

_LINKS_MAX = 40  # the kernel follows no more


class Lookup:
    """Finds programs in the absolute directories of a PATH. The first finding stays."""

    def __init__(self, path: str) -> None:
        parts = dict.fromkeys(part for part in path.split(":") if part.startswith("/"))
        self.directories = tuple(map(Path, parts))
        self._found: dict[tuple[str, str | None], Path] = {}

    def find(self, name: str, path: str | None = None) -> Path | None:
        """The program at `path`, or the first one of that name; what was found once stays.

        So a program that is put into an earlier directory later does not replace it.
        """
        known = self._found.get((name, path))
        if known is not None and runnable(known):
            return known
        candidates = [Path(path)] if path else [place / name for place in self.directories]
        found = next(filter(runnable, candidates), None)
        if found is not None:
            self._found[name, path] = found
        return found


def runnable(program: Path) -> bool:
    """Whether it is a file that we may execute."""
    try:
        return program.is_file() and os.access(program, os.X_OK)
    except (OSError, ValueError):
        return False


def same_file(one: Path, other: Path) -> bool:
    """Whether both paths lead to the same place."""
    try:
        return one.resolve(strict=True) == other.resolve(strict=True)
    except (OSError, ValueError, RuntimeError):  # RuntimeError: links in a circle
        return False


def replaceable(program: Path) -> bool:
    """Whether everybody on this machine could put another program in its place."""
    try:
        return any(map(_replaceable_here, _hops(program))) or _everybody_writes(program)
    except (OSError, RuntimeError):
        return True


def _hops(path: Path) -> Iterator[Path]:
    """The path, and every path that its links lead through."""
    for _ in range(_LINKS_MAX):
        yield from {path, path.parent.resolve(strict=True) / path.name}
        if not path.is_symlink():
            return
        path = path.parent / path.readlink()
    raise OSError("too many links")


def _replaceable_here(path: Path) -> bool:
    """Whether everybody may change the directory it is in, or replace one above that."""
    if _everybody_writes(path.parent):
        return True
    ways = zip(path.parent.parents, (path.parent, *path.parent.parents), strict=False)
    return any(_everybody_writes(above) and not _kept(above, below) for above, below in ways)


def _everybody_writes(path: Path) -> bool:
    return bool(path.stat().st_mode & stat.S_IWOTH)


def _kept(above: Path, below: Path) -> bool:
    """A sticky directory, like /tmp, leaves an entry to its owner."""
    sticky = above.stat().st_mode & stat.S_ISVTX
    return bool(sticky) and below.lstat().st_uid in (0, os.geteuid())
