"""Caches for sandboxes: directories for what commands add to the user's own package caches.

A sandbox sees those caches copy-on-write, so that nothing of the user's is spoiled. What it adds is
kept for the next sandbox of its workspace as long as this process lives: nothing is downloaded
twice. A directory is for one sandbox at a time, as the kernel wants it.
"""

import fcntl
import hashlib
import os
import shutil
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

_LOCK = "lock"
_AGE_MAX = 86400.0  # seconds; then what was added is thrown away
_SIZE_MAX = 2 * 1024**3
_FILES_MAX = 50_000  # looked at for its size; with more it is too large


class KeptCaches:
    """Directories below `folder`, which are gone when this is closed; at most of that size."""

    def __init__(self, folder: Path, size_max: int = _SIZE_MAX) -> None:
        self._all = folder
        self._size_max = size_max
        self._own: Path | None = None
        self._lock = -1
        self._taken: set[Path] = set()

    def take(self, workspace: Path) -> Path:
        """A directory for a sandbox there, with what an earlier one has added, unless that is old
        or too large. Blocks. Raises: OSError.
        """
        name = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16]
        places = (self._opened() / f"{name}-{number}" for number in count())
        place = next(one for one in places if one not in self._taken)
        if place.exists() and self._outlived(place):
            remove(place)
        place.mkdir(mode=0o700, exist_ok=True)
        for cache in place.iterdir():  # the kernel mounts no overlay again that it left like this
            remove(cache / "work")
        self._taken.add(place)
        return place

    def give_back(self, place: Path) -> None:
        """Its sandbox is over: another may have it."""
        self._taken.discard(place)

    def close(self) -> None:
        """Forget everything that was added."""
        if self._own is not None:
            remove(self._own)
            os.close(self._lock)
            self._own = None

    def _opened(self) -> Path:
        if self._own is None:
            self._all.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._remove_dead()
            own = self._all / f"{os.getpid()}-{time.time_ns()}"
            own.mkdir(mode=0o700)
            self._lock = os.open(own / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            self._own = own
        return self._own

    def _remove_dead(self) -> None:
        """What processes have left that were killed: their locks are free."""
        for place in list(self._all.iterdir()):
            with suppress(OSError):
                descriptor = os.open(place / _LOCK, os.O_RDWR | os.O_CLOEXEC)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove(place)
                finally:
                    os.close(descriptor)

    def _outlived(self, place: Path) -> bool:
        if time.time() - place.stat().st_mtime > _AGE_MAX:
            return True
        total = files = 0
        for folder, _, names in os.walk(place):
            files += len(names)
            for name in names:
                with suppress(OSError):
                    total += os.lstat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH118  of texts
            if total > self._size_max or files > _FILES_MAX:
                return True
        return False


def remove(place: Path) -> None:
    """A tree, with directories that their owner may not enter: the kernel makes such ones."""
    for folder, names, _ in os.walk(place):
        for name in names:
            with suppress(OSError, NotImplementedError):  # the latter for a link
                os.chmod(os.path.join(folder, name), 0o700, follow_symlinks=False)  # noqa: PTH101, PTH118  as above
    shutil.rmtree(place, ignore_errors=True)
