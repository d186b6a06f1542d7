"""inotify on a set of directories: calls back when an entry is created or moved into one."""

import asyncio
import ctypes
import os
from collections.abc import Callable, Iterable
from contextlib import suppress

_CREATED, _MOVED_HERE = 0x100, 0x80
_MODE_CHANGED = 0x4
_ONLY_DIRECTORIES = 0x01000000
_MASK = _CREATED | _MOVED_HERE | _MODE_CHANGED | _ONLY_DIRECTORIES
_READ_SIZE = 64 * 1024


class DirectoryWatch:
    """Calls `tell` for what comes to these directories, which are open descriptors.

    Where the kernel cannot, it does not.
    """

    def __init__(self, directories: Iterable[int], tell: Callable[[], None]) -> None:
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        kernel = ctypes.CDLL(None)
        self._descriptor = -1
        if not hasattr(kernel, "inotify_init1"):
            return
        self._descriptor = int(kernel.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        if self._descriptor >= 0:
            for directory in directories:
                # By this link the kernel comes to the directory itself, whatever its name is now.
                place = f"/proc/self/fd/{directory}".encode()
                kernel.inotify_add_watch(self._descriptor, place, _MASK)
            self._loop.add_reader(self._descriptor, self._hear)

    def close(self) -> None:
        """Hear no more."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _hear(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._descriptor, _READ_SIZE)  # who came is of no interest, only that
        self._tell()
