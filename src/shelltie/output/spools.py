"""The folder in which output is kept: files for new runs, and which of the old ones go."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from shelltie.model import RunId
from shelltie.output.spool import Spool
from shelltie.output.times import SUFFIX, Times

_KEEP = 200  # files that have ended
_KEEP_BYTES = 1024 * 1024 * 1024
_TURN = 50  # files are made between two looks at all of them

Aside = Callable[[Callable[[], None]], object]


class Spools:
    """For all servers that share the folder, at once.

    It only grows when a file is made, so that is when it is looked at, now and then: `aside` does
    something where it holds nobody up.
    """

    def __init__(self, folder: Path, cap: int, aside: Aside) -> None:
        self._folder = folder
        self._cap = cap
        self._aside = aside
        self._until_sweep = 1

    def new(self, run: RunId, threshold: int, *, timed: bool) -> Spool:
        """The file of a run; with `timed` it can be replayed."""
        path = self._folder / f"{run}.log"
        times = Times(path.with_suffix(SUFFIX)) if timed else None
        return Spool(path, self._cap, threshold, times, self._count)

    def _count(self) -> None:
        self._until_sweep -= 1
        if self._until_sweep == 0:
            self._until_sweep = _TURN
            with suppress(RuntimeError):  # everything is being closed: the next one does it
                self._aside(self.sweep)

    def sweep(self) -> None:
        """Keep the newest only, and whatever somebody still writes to."""
        kept = 0
        with suppress(OSError):
            for place, (_, size, path) in enumerate(sorted(self._found(), reverse=True)):
                kept += size
                if place >= _KEEP or kept > _KEEP_BYTES:
                    _remove(path)

    def _found(self) -> Iterator[tuple[float, int, Path]]:
        for path in self._folder.glob("*.log"):
            with suppress(OSError):
                status = path.lstat()
                yield status.st_mtime, status.st_size, path


def _remove(path: Path) -> None:
    """Unless somebody has it locked, or nobody can tell."""
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
            path.with_suffix(SUFFIX).unlink(missing_ok=True)
        finally:
            os.close(fd)
