"""Reads small regular files, and tells which one it is and when it changed (stat)."""

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

from shelltie.errors import ConfigWrong, MissingFile
from shelltie.model import Directory

SIZE_MAX = 1024 * 1024
StatProblem = Callable[[os.stat_result], str | None]  # what is wrong with a file's owner or mode
# Two writes within one tick of a file system's clock (up to 2 s) leave the same time behind.
_TICK = 2.0
_UNREADABLE = (0,)


def read_small_file(
    path: Path,
    *,
    size_max: int = SIZE_MAX,
    problem: StatProblem = lambda _: None,
    named: bool = True,
) -> bytes:
    """The content of a regular file, if `problem` finds none.

    Raises: MissingFile; ConfigWrong, whose message begins with the path unless it is not `named`.
    """
    where = f"{path}: " if named else ""
    try:
        with open(path, "rb", opener=open_at_once) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ConfigWrong(f"{where}not a regular file")
            if found := problem(status):
                raise ConfigWrong(f"{where}{found}")
            content = file.read(size_max + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingFile(f"{where}no such file") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", error)
        raise ConfigWrong(f"{where}cannot be read: {reason}") from error
    if len(content) > size_max:
        size = "1 MiB" if size_max == SIZE_MAX else f"{size_max // 1024} KiB"
        raise ConfigWrong(f"{where}larger than {size}")
    return content


def file_identity(path: Path | str) -> Directory | None:
    """Which file or directory has this name now, links followed; `None` if there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116  of a text, at every command
    except OSError:
        return None
    return status.st_dev, status.st_ino


def open_at_once(path: str, flags: int) -> int:
    """An `opener` of `open`: without it a FIFO waits for its writer for ever."""
    return os.open(path, flags | os.O_NONBLOCK)


def read_small_text(path: Path, *, problem: StatProblem = lambda _: None) -> str:
    """The text of a file that must be UTF-8.

    Raises: MissingFile, ConfigWrong, which do not name the file.
    """
    try:
        return read_small_file(path, problem=problem, named=False).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigWrong(f"not UTF-8 text: save it as UTF-8 ({error.reason})") from error


class WatchedFile:
    """A file that is read when it is first seen, and again whenever it has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp = _stamp(path)

    @property
    def exists(self) -> bool:
        """Whether there was a file at the last look."""
        return self._stamp is not None

    def changed(self) -> bool:
        """Whether it may be another one than at the last look; this is one."""
        before, self._stamp = self._stamp, _stamp(self.path)
        if self._stamp is None:
            return before is not None
        return self._stamp != before or time.time() - self._stamp[0] / 1e9 < _TICK


def _stamp(path: Path) -> tuple[int, ...] | None:
    """What changes when the file does, the latest change first; `None` when there is no file."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError):
        return _UNREADABLE
    # Anybody may set the time of a write; the time of the last change is the kernel's.
    return found.st_ctime_ns, found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev
