"""Copy of a directory tree: reflinks (FICLONE) where possible, holes, links, modes and times kept.

To move things between file systems.
"""

import errno
import fcntl
import os
import stat
from contextlib import suppress
from itertools import count
from pathlib import Path

from shelltie.errors import ChangesUnreadable
from shelltie.providers.workspace.held_tree import HeldTree

_FICLONE = 0x40049409
_CHUNK = 1024 * 1024


class TreeCopy:
    """Copies entries from one tree to another; names of one file stay names of one file.

    Raises: ChangesUnreadable for a device, OSError.
    """

    def __init__(self, source: HeldTree, target: HeldTree) -> None:
        self._source = source
        self._target = target
        self._linked: dict[tuple[int, int], str] = {}

    def copy(self, path: str, to: str) -> None:
        """The entry at a path and all that is below it."""
        found = self._source.lstat(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        key = found.st_dev, found.st_ino
        if not stat.S_ISDIR(found.st_mode) and key in self._linked:
            self._link(self._linked[key], to)
            return
        self._make(path, found, to)
        self._keep_rights(found, *self._target.place(to))
        if found.st_nlink > 1:
            self._linked[key] = to

    def _make(self, path: str, found: os.stat_result, to: str) -> None:
        directory, name = self._target.place(to)
        if stat.S_ISDIR(found.st_mode):
            os.mkdir(name, 0o700, dir_fd=directory)
            for inner in self._source.names(path):
                self.copy(f"{path}/{inner}", f"{to}/{inner}")
        elif stat.S_ISREG(found.st_mode):
            self._file(path, directory, name)
        elif stat.S_ISLNK(found.st_mode):
            os.symlink(self._source.readlink(path), name, dir_fd=directory)
        elif stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode):
            os.mknod(name, stat.S_IFMT(found.st_mode) | 0o600, dir_fd=directory)
        else:
            raise ChangesUnreadable(f"{path} is a device, which is not copied")

    def _link(self, old: str, new: str) -> None:
        from_directory = os.dup(self._target.place(old)[0])  # the next place closes it
        try:
            directory, name = self._target.place(new)
            base = old.rpartition("/")[2]
            os.link(base, name, src_dir_fd=from_directory, dst_dir_fd=directory)
        finally:
            os.close(from_directory)

    def _keep_rights(self, found: os.stat_result, directory: int, name: str) -> None:
        """Owner, mode and times, as far as this user can set them."""
        with suppress(PermissionError):
            os.chown(name, found.st_uid, found.st_gid, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISLNK(found.st_mode):
            os.chmod(name, self._source.mode(found), dir_fd=directory)
        times = (found.st_atime_ns, found.st_mtime_ns)
        os.utime(name, ns=times, dir_fd=directory, follow_symlinks=False)

    def _file(self, path: str, directory: int, name: str) -> None:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        with (
            os.fdopen(self._source.open(path), "rb", buffering=0) as old,
            os.fdopen(os.open(name, flags, 0o600, dir_fd=directory), "wb", buffering=0) as new,
        ):
            copy_content(old.fileno(), new.fileno())
            _copy_attributes(old.fileno(), new.fileno())


def copy_content(old: int, new: int) -> None:
    """All bytes of an open file into an empty one; holes stay holes. Raises: OSError."""
    with suppress(OSError):
        fcntl.ioctl(new, _FICLONE, old)
        return
    size = os.fstat(old).st_size
    os.ftruncate(new, size)
    at = 0
    while at < size:
        try:
            at = os.lseek(old, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                return
            raise
        end = os.lseek(old, at, os.SEEK_HOLE)
        while at < end:
            data = os.pread(old, min(_CHUNK, end - at), at)
            if not data:
                return
            at += os.pwrite(new, data, at)


def _copy_attributes(old: int, new: int) -> None:
    for name in os.listxattr(old):
        if name.startswith(("user.", "system.posix_acl_")) and not name.startswith("user.overlay."):
            with suppress(OSError):  # tmpfs has no attributes of users
                os.setxattr(new, name, os.getxattr(old, name))


def remove_tree(path: Path) -> None:
    """Everything there, of any depth and with any modes; nothing outside.

    Directories are moved up beside `path` first: no name becomes too long, and nothing recurses.
    Raises: OSError.
    """
    names = (f"{path}.gone-{os.getpid()}-{number}" for number in count())
    pending = [str(path)] if os.path.lexists(path) else []
    while pending:
        place = pending.pop()
        os.chmod(place, 0o700)  # noqa: PTH101  of a text, as below
        with os.scandir(place) as found:
            entries = list(found)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                with suppress(OSError):  # most are empty, and a rename costs more than the attempt
                    os.rmdir(entry.path)  # noqa: PTH106
                    continue
                os.chmod(entry.path, 0o700)  # noqa: PTH101  else it cannot be moved
                pending.append(next(names))
                os.rename(entry.path, pending[-1])  # noqa: PTH104
            else:
                os.unlink(entry.path)  # noqa: PTH108
        os.rmdir(place)  # noqa: PTH106
