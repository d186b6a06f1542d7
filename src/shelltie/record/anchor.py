"""Anchor file: heads of the hash chain kept elsewhere, so that a rewritten journal shows."""

import errno
import os
import stat
from pathlib import Path

from shelltie.basics.frozen import frozen
from shelltie.record.chain import Head, head_of

_TOLD_MAX = 3
_READ_MAX = 256 * 1024 * 1024  # heads of six years, one a minute


@frozen
class Anchored:
    """The heads in a file; lines that are none, and why it cannot be read at all."""

    heads: tuple[Head, ...] = ()
    torn: tuple[str, ...] = ()
    problem: str | None = None


def append(path: Path, head: Head) -> None:
    """Keep one more.

    Raises: OSError.
    """
    descriptor = _opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{head}\n".encode("ascii"))
    finally:
        os.close(descriptor)


def check(path: Path) -> None:
    """Whether heads can be appended; nothing is, and nothing is made.

    Raises: OSError.
    """
    if path.exists():
        os.close(_opened(path, os.O_WRONLY | os.O_APPEND))
    elif not os.access(path.parent, os.W_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(path.parent))


def read(path: Path) -> Anchored:
    """All of them. A line that was torn when the disk was full takes no other with it."""
    try:
        descriptor = _opened(path, os.O_RDONLY)
        with os.fdopen(descriptor, "rb") as file:
            lines = file.read(_READ_MAX).decode("ascii", "replace").split()
    except OSError as error:
        return Anchored(problem=f"{path}: the heads in it cannot be read: {error.strerror}")
    heads: list[Head] = []
    torn: list[str] = []
    for line in lines:
        try:
            heads.append(head_of(line))
        except ValueError as error:
            torn.append(f"{path}: {error}")
    more = len(torn) - _TOLD_MAX
    told = [*torn[:_TOLD_MAX], *([f"{path}: {more} lines more are no heads"] if more > 0 else [])]
    return Anchored(tuple(heads), tuple(told))


def _opened(path: Path, flags: int) -> int:
    """A regular file: a pipe would wait for its reader, a device keeps nothing."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return descriptor
