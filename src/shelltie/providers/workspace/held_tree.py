"""A directory tree that is held open: openat(2) without following links, for every path in it.

Commands may replace any directory of a workspace by a link at any time. So nothing goes by a path
from the root of the file system: the tree is opened once, and each part of a relative path is
opened from the directory above it, never through a link.
"""

import errno
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from shelltie.errors import ChangesUnreadable
from shelltie.providers.workspace.watched_names import open_directory

_DIRECTORY = os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe must not hold us

T = TypeVar("T")


class HeldTree:
    """What is below one directory, by relative paths with `/` between; "" is the directory itself.

    In a tree that is `ours`, directories that their owner may not enter are opened until it is
    closed: a command may have made them so. Raises: ChangesUnreadable if it is no directory, or is
    reached by a link.
    """

    def __init__(self, path: Path, *, ours: bool = False) -> None:
        root = open_directory(path)
        if root is None:
            raise ChangesUnreadable(f"{path} is no directory any more, or is reached by a link")
        self.path = path
        self.root = root
        self._ours = ours
        self._way: list[tuple[str, int]] = []  # the directories to the last path, all open
        self._opened: dict[tuple[int, int], tuple[int, int]] = {}  # descriptor and true mode

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the tree go, with every directory as closed as it was."""
        self.forget()
        for descriptor, mode in self._opened.values():
            os.chmod(f"/proc/self/fd/{descriptor}", mode)  # noqa: PTH101  of O_PATH
            os.close(descriptor)
        os.close(self.root)

    def forget(self) -> None:
        """Find the way anew next time: a directory on it was moved."""
        for _, descriptor in self._way:
            os.close(descriptor)
        self._way = []

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode of the directory."""
        found = os.fstat(self.root)
        return found.st_dev, found.st_ino

    @property
    def mount(self) -> tuple[int, str]:
        """Device and mount: between two paths that share both, rename(2) works."""
        lines = Path(f"/proc/self/fdinfo/{self.root}").read_text(encoding="utf-8").splitlines()
        found = next((line for line in lines if line.startswith("mnt_id:")), "")
        return os.fstat(self.root).st_dev, found

    def directory(self, path: str) -> int:
        """A descriptor of a directory, good until the next call. Raises: OSError."""
        parts = path.split("/") if path else []
        same = 0
        while same < min(len(parts), len(self._way)) and self._way[same][0] == parts[same]:
            same += 1
        while len(self._way) > same:
            os.close(self._way.pop()[1])
        for part in parts[same:]:
            if part in ("", ".", ".."):
                raise FileNotFoundError(f"{path!r} is no path below a directory")
            above = self._way[-1][1] if self._way else self.root
            descriptor = self._entered(above, partial(os.open, part, _DIRECTORY, dir_fd=above))
            self._way.append((part, descriptor))
        return self._way[-1][1] if self._way else self.root

    def _entered(self, directory: int, act: Callable[[], T]) -> T:
        """Do something in a directory, once more with its owner let in where that was refused."""
        try:
            return act()
        except PermissionError:
            self._open_up(directory)
            return act()

    def _open_up(self, directory: int) -> None:
        """Let its owner into a directory. Raises: PermissionError."""
        found = os.fstat(directory)
        if not self._ours or found.st_uid != os.geteuid():
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self.path))
        mode = stat.S_IMODE(found.st_mode)
        os.chmod(f"/proc/self/fd/{directory}", mode | stat.S_IRWXU)  # noqa: PTH101  of O_PATH
        self._opened[found.st_dev, found.st_ino] = os.dup(directory), mode

    def mode(self, found: os.stat_result) -> int:
        """The mode of an entry as it is when this tree is not held."""
        _, mode = self._opened.get((found.st_dev, found.st_ino), (0, stat.S_IMODE(found.st_mode)))
        return mode

    def place(self, path: str) -> tuple[int, str]:
        """The directory that a path is in, and its name there. Raises: OSError."""
        above, _, name = path.rpartition("/")
        if name in ("", ".", ".."):
            raise FileNotFoundError(f"{path!r} is no path below a directory")
        return self.directory(above), name

    def lstat(self, path: str) -> os.stat_result | None:
        """What is there, a link as itself; `None` for nothing."""
        try:
            directory, name = self.place(path)
            return self._entered(
                directory, lambda: os.stat(name, dir_fd=directory, follow_symlinks=False)
            )
        except (FileNotFoundError, NotADirectoryError):
            return None

    def lstat_directory(self, path: str) -> os.stat_result | None:
        """Of a directory, also of the uppermost one; `None` if there is none."""
        try:
            return os.fstat(self.directory(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def readlink(self, path: str) -> str:
        """Where a link points to. Raises: OSError."""
        directory, name = self.place(path)
        return self._entered(directory, lambda: os.readlink(name, dir_fd=directory))

    def open(self, path: str, flags: int = _READ) -> int:
        """A descriptor of a file, which is no link. Raises: OSError."""
        directory, name = self.place(path)
        return self._entered(directory, lambda: os.open(name, flags, dir_fd=directory))

    def read(self, path: str, most: int) -> bytes | None:
        """The whole file; `None` if it has more bytes, or cannot be read."""
        try:
            with os.fdopen(self.open(path), "rb") as file:
                content = file.read(most + 1)
        except OSError:
            return None
        return content if len(content) <= most else None

    def names(self, path: str) -> list[str]:
        """The names in a directory, sorted. Raises: OSError."""
        directory = self.directory(path)
        descriptor = self._entered(
            directory, lambda: os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
        )
        try:
            return sorted(os.listdir(descriptor))  # noqa: PTH208  of a descriptor
        finally:
            os.close(descriptor)
