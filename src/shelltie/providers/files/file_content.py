"""Content of a regular file: read with a limit, replaced at once by rename(2)."""

import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from anyio.from_thread import check_cancelled

from shelltie.errors import (
    FileAccessDenied,
    FileIsDirectory,
    FileMissing,
    FileNotRegular,
    FileTooLarge,
)
from shelltie.providers.workspace.held_tree import HeldTree

_CHUNK = 1024 * 1024
_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_PASSES = 3
_READABLE, _WRITABLE = 0o444, 0o222
_PERMISSIONS = 0o777  # a set-uid bit is nothing to be written or copied


def found_at(tree: HeldTree, path: str) -> os.stat_result:
    """What is there, a link as itself. Raises: FileMissing, OSError."""
    found = tree.lstat(path) if path else os.fstat(tree.root)
    if found is None:
        raise FileMissing(f"{path} does not exist in {tree.path}")
    return found


def check_regular(path: str, found: os.stat_result) -> None:
    """Raises: FileIsDirectory, FileNotRegular."""
    if stat.S_ISDIR(found.st_mode):
        raise FileIsDirectory(f"{path or '.'} is a directory: list it, or download it")
    if not stat.S_ISREG(found.st_mode):
        raise FileNotRegular(f"{path} is a pipe, a socket, a device or a link, and no file")


def read_chunks(tree: HeldTree, path: str, limit: int) -> Iterator[bytes]:
    """The bytes of a file; one that grows meanwhile has no more of them either.

    A pipe or a device is not opened. Raises: FileTooLarge, FileMissing, FileIsDirectory,
    FileNotRegular, OSError.
    """
    found = found_at(tree, path)
    check_regular(path, found)
    if not stat.S_IMODE(found.st_mode) & _READABLE:  # root could, but commands there need not be
        raise FileAccessDenied(f"{path} may be read by nobody: chmod it first")
    too_large = f"{path} has more than {limit} bytes: raise the limit, or read it by a command"
    if found.st_size > limit:
        raise FileTooLarge(too_large)
    with os.fdopen(tree.open(path), "rb", buffering=0) as file:
        check_regular(path, os.fstat(file.fileno()))  # it may have been swapped since
        left = limit
        # The size is not asked for: files of /proc have none, and others grow.
        while chunk := file.read(min(_CHUNK, left + 1)):
            check_cancelled()
            if len(chunk) > left:
                raise FileTooLarge(too_large)
            left -= len(chunk)
            yield chunk


def replace_file(
    tree: HeldTree,
    path: str,
    chunks: Iterable[bytes],
    mode: int | None,
    modified: int | None = None,
) -> int:
    """Put a file there at once; its readers see the old one or the new one. How many bytes it has.

    Without a `mode` it has that of the old one. Other names of the old one keep its content.
    Raises: FileIsDirectory, FileNotRegular, OSError; then nothing is changed.
    """
    old = _replaceable(tree, path)
    with placed_by_rename(tree, path) as (directory, temporary):
        descriptor = os.open(temporary, _NEW, 0o666, dir_fd=directory)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            size = sum(_write_all(file.fileno(), chunk) for chunk in chunks)
            if old is not None:
                with suppress(PermissionError):  # only root gives files away
                    os.fchown(descriptor, old.st_uid, old.st_gid)
            if mode is None and old is not None:
                mode = stat.S_IMODE(old.st_mode)
            if mode is not None:
                os.fchmod(descriptor, mode & _PERMISSIONS)
            if modified is not None:
                os.utime(descriptor, ns=(modified, modified))
    return size


def replace_link(tree: HeldTree, path: str, target: str) -> None:
    """Put a link there at once, in place of a link or file. Raises: as `replace_file`."""
    _replaceable(tree, path)
    with placed_by_rename(tree, path) as (directory, temporary):
        os.symlink(target, temporary, dir_fd=directory)


def _replaceable(tree: HeldTree, path: str) -> os.stat_result | None:
    if not path:
        raise FileIsDirectory("this is the workspace itself, and no file")
    make_directories(tree, path.rpartition("/")[0])
    old = tree.lstat(path)
    if old is None or stat.S_ISLNK(old.st_mode):
        return None
    check_regular(path, old)
    # To replace it, the right to write in its directory would do; but it is to stay as it is.
    directory, name = tree.place(path)
    writable = os.access(name, os.W_OK, dir_fd=directory, effective_ids=True)
    if not (stat.S_IMODE(old.st_mode) & _WRITABLE and writable):
        raise FileAccessDenied(f"{path} may not be written: chmod it first")
    return old


@contextmanager
def placed_by_rename(tree: HeldTree, path: str) -> Iterator[tuple[int, str]]:
    """A directory and a name in it to make something at; it is renamed to its own name at last."""
    above, name = tree.place(path)
    directory, temporary = os.dup(above), f".{secrets.token_hex(8)}.shelltie-new"
    try:
        yield directory, temporary
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise
    finally:
        os.close(directory)


def make_directories(tree: HeldTree, path: str, mode: int = 0o777) -> None:
    """Make a directory, with those above it, where there is none. Raises: OSError."""
    parts = path.split("/") if path else []
    for end in range(1, len(parts) + 1):
        directory, name = tree.place("/".join(parts[:end]))
        with suppress(FileExistsError):
            os.mkdir(name, mode, dir_fd=directory)
    tree.directory(path)  # which it is, and no file


def remove_entry(tree: HeldTree, path: str) -> None:
    """Remove a file, a link or an empty directory. Raises: FileMissing, OSError."""
    found = found_at(tree, path)
    directory, name = tree.place(path)
    if stat.S_ISDIR(found.st_mode):
        os.rmdir(name, dir_fd=directory)
    else:
        os.unlink(name, dir_fd=directory)


def remove_all(tree: HeldTree, path: str) -> None:
    """Remove it with everything that is in it, however deep. Raises: FileMissing, OSError."""
    pending, seen = [path], dict[str, int]()
    while pending:
        check_cancelled()
        here = pending[-1]
        inner = list[str]()
        if stat.S_ISDIR(found_at(tree, here).st_mode):
            inner = [f"{here}/{name}" for name in tree.names(here)]
        directories = [one for one in inner if not _removed_file(tree, one)]
        seen[here] = seen.get(here, 0) + 1
        if directories and seen[here] <= _PASSES:  # else others go on making new ones in it
            pending += directories
            continue
        remove_entry(tree, here)
        pending.pop()


def _removed_file(tree: HeldTree, path: str) -> bool:
    found = tree.lstat(path)
    if found is not None and stat.S_ISDIR(found.st_mode):
        return False
    with suppress(FileMissing):
        remove_entry(tree, path)
    return True


def _write_all(descriptor: int, content: bytes) -> int:
    view = memoryview(content)
    while view:
        check_cancelled()
        view = view[os.write(descriptor, view[:_CHUNK]) :]
    return len(content)
