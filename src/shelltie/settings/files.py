"""Reads small regular files, and tells when one changed (stat signature)."""

import os
import stat
from pathlib import Path

from shelltie.errors import ConfigWrong

SIZE_MAX = 1024 * 1024
# Two writes within one tick of a file system's clock (up to 2 s) leave the same time behind.
TICK = 2.0
FileStamp = tuple[int, ...]
_UNREADABLE: FileStamp = (0,)


def mark(path: Path) -> FileStamp | None:
    """What changes when the file does, the latest change first; `None` when there is no file."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError):
        return _UNREADABLE
    # Anybody may set the time of a write; the time of the last change is the kernel's.
    return found.st_ctime_ns, found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev


def read_text(path: Path, *, guarded: bool = False) -> str:
    """The text of a regular file of at most 1 MiB; one that is `guarded` is not everybody's.

    Raises: ConfigWrong, which does not name the file.
    """
    try:
        with open(path, "rb", opener=_open_now) as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise ConfigWrong("not a regular file")
            if guarded and mode & stat.S_IWOTH:
                raise ConfigWrong("everybody may write it, so nothing in it counts: chmod o-w it")
            content = file.read(SIZE_MAX + 1)
    except FileNotFoundError as error:
        raise ConfigWrong("no such file") from error
    except (OSError, ValueError) as error:
        raise ConfigWrong(f"cannot be read: {getattr(error, 'strerror', error)}") from error
    if len(content) > SIZE_MAX:
        raise ConfigWrong("larger than 1 MiB")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigWrong(f"not UTF-8 text: save it as UTF-8 ({error.reason})") from error


def _open_now(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # else a FIFO waits for its writer for ever
