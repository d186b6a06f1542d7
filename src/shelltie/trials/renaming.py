"""renameat2(2) between trees held open, also out of directories without the right to write."""

import ctypes
import errno
import os
import platform
import stat
from contextlib import ExitStack
from functools import cache

from shelltie.providers.workspace.held_tree import HeldTree
from shelltie.providers.workspace.watched_names import writable

_NOREPLACE, _EXCHANGE = 1, 2
_NUMBERS = {"x86_64": 316, "aarch64": 276, "riscv64": 276}  # of the system call
_NOT_KNOWN = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def move(source: HeldTree, old: str, target: HeldTree, new: str) -> None:
    """Rename to where nothing is. Raises: FileExistsError, OSError."""
    try:
        _renamed(source, old, target, new, _NOREPLACE)
    except OSError as error:
        if error.errno not in _NOT_KNOWN:
            raise
        # NFS and some FUSE file systems do not know the flag.
        if target.lstat(new) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new) from None
        _renamed(source, old, target, new, 0)
    source.forget()
    target.forget()


def exchange(source: HeldTree, old: str, target: HeldTree, new: str) -> bool:
    """Swap two entries at once; false if the file system cannot. Raises: OSError."""
    try:
        _renamed(source, old, target, new, _EXCHANGE)
    except OSError as error:
        if error.errno not in _NOT_KNOWN:
            raise
        return False
    source.forget()
    target.forget()
    return True


def _renamed(source: HeldTree, old: str, target: HeldTree, new: str, flags: int) -> None:
    from_place, to_place = source.place(old), target.place(new)
    try:
        _renameat2(*from_place, *to_place, flags)
    except PermissionError:
        if os.geteuid() == 0:
            raise
        # Who owns a directory may write there, if it has to be by changing its mode first; and a
        # directory that gets another parent must be writable itself.
        with ExitStack() as stack:
            for directory in (from_place[0], to_place[0]):
                stack.enter_context(writable(directory))
            for place in (from_place, to_place):
                _make_movable(stack, *place)
            _renameat2(*from_place, *to_place, flags)


def _make_movable(stack: ExitStack, directory: int, name: str) -> None:
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return
    if stat.S_ISDIR(found.st_mode):
        descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        stack.callback(os.close, descriptor)
        stack.enter_context(writable(descriptor))


def _renameat2(old_dir: int, old: str, new_dir: int, new: str, flags: int) -> None:
    if not flags:
        os.rename(old, new, src_dir_fd=old_dir, dst_dir_fd=new_dir)
        return
    kernel, number = _kernel()
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    names = os.fsencode(old), os.fsencode(new)
    if kernel.syscall(number, old_dir, names[0], new_dir, names[1], flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), old, None, new)


@cache
def _kernel() -> tuple[ctypes.CDLL, int | None]:
    return ctypes.CDLL(None, use_errno=True), _NUMBERS.get(platform.machine())
