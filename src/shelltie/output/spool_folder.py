"""Spool directory: new spool files, and eviction of the oldest by count and size."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from shelltie.model import RunId
from shelltie.output.spool import Spool
from shelltie.output.stream_origins import ORIGINS, StreamOrigins
from shelltie.output.timing_file import SUFFIX, TimingFile

# No more than this at any time. To look at all of them is dear, so it is done when some were made
# or much was written, and leaves room for as many and as much again.
_FILES_KEPT, _SWEEP_EVERY = 200, 10  # files
_BYTES_KEPT, _SWEEP_EVERY_BYTES = 1024 * 1024 * 1024, 64 * 1024 * 1024

Aside = Callable[[Callable[[], None]], object]


class Spools:
    """For all servers that share the folder, at once.

    We count what we add to it, and look at it when that is much: `aside` does something where it
    holds nobody up. What others add between two looks is seen at the next one.
    """

    def __init__(self, folder: Path, cap: int, aside: Aside) -> None:
        self._folder = folder
        self._cap = cap
        self._aside = aside
        self._files_left = 1  # until the next look
        self._bytes_left = _SWEEP_EVERY_BYTES
        self._crowded = False  # there was too much that is still written to

    def new(self, run: RunId, threshold: int, *, timed: bool, outlives: bool = False) -> Spool:
        """The file of a run; with `timed` it can be replayed. If that `outlives` us, whoever holds
        it next goes on with the file.
        """
        stem = f"{self._folder}/{run}"  # no Path: few print enough for a file
        times = TimingFile(f"{stem}{SUFFIX}") if timed else None
        origins = StreamOrigins(Path(f"{stem}{ORIGINS}")) if outlives else None
        return Spool(
            f"{stem}.log", self._cap, threshold, times, self._created, self._wrote, origins
        )

    def _created(self) -> None:
        self._files_left -= 1
        self._sweep_if(self._files_left <= 0)

    def _wrote(self, size: int) -> None:
        """Nothing more, if it is closed: then it can be removed."""
        self._bytes_left -= size
        self._sweep_if(self._bytes_left <= 0 or (size == 0 and self._crowded))

    def _sweep_if(self, due: bool) -> None:
        if due:
            self._files_left, self._bytes_left = _SWEEP_EVERY, _SWEEP_EVERY_BYTES
            with suppress(RuntimeError):  # everything is being closed: the next one does it
                self._aside(self.sweep)

    def sweep(self) -> None:
        """Keep the newest only, and whatever somebody still writes to."""
        files = size = 0
        crowded = False
        with suppress(OSError):
            for _, length, path in sorted(self._files(), reverse=True):
                fits = (
                    files < _FILES_KEPT - _SWEEP_EVERY
                    and size + length <= _BYTES_KEPT - _SWEEP_EVERY_BYTES
                )
                if not fits and _removed(path):
                    continue
                files, size, crowded = files + 1, size + length, not fits
        self._crowded = crowded

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        for path in self._folder.glob("*.log"):
            with suppress(OSError):
                status = path.lstat()
                yield status.st_mtime, status.st_size, path


def _removed(path: Path) -> bool:
    """False if somebody has it locked, or nobody can tell."""
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
            path.with_suffix(SUFFIX).unlink(missing_ok=True)
            path.with_suffix(ORIGINS).unlink(missing_ok=True)
            return True
        finally:
            os.close(fd)
    return False
