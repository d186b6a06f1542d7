"""Symbolic links resolved beneath a directory, as openat2(2) does it with RESOLVE_BENEATH.

Each name is looked at by the descriptor of the directory that it is in, and what was found is then
opened once more through no link: a link that is swapped meanwhile makes that fail, and leads
nowhere. This way it is the same on every kernel, and a link may also name the directory itself.
"""

import errno
import os
import stat

from shelltie.errors import OutsideWorkspace
from shelltie.providers.workspace.held_tree import HeldTree

_LINKS = 40  # on one way, as many as the kernel follows


def resolve(tree: HeldTree, path: str, *, follow_last: bool = True) -> str:
    """The path without links, `.` and `..`; what is not there yet has none.

    Raises: OutsideWorkspace, OSError.
    """
    to_do, done, links = _parts(path), list[str](), 0
    while to_do:
        part = to_do.pop()
        if part == "..":
            if not done:
                raise OutsideWorkspace(f"{path} leads out of {tree.path}: only what is in it")
            done.pop()
            continue
        done.append(part)
        here = "/".join(done)
        found = tree.lstat(here)
        if found is None and ".." in to_do:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), here)
        if found is None or not stat.S_ISLNK(found.st_mode) or not (to_do or follow_last):
            continue
        links += 1
        if links > _LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        target = tree.readlink(here)
        done.pop()
        if target.startswith("/"):
            target, done = _beneath(tree, target, path), []
        to_do += _parts(target)
    return "/".join(done)


def _parts(path: str) -> list[str]:
    """The names in it, the first one last."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def _beneath(tree: HeldTree, target: str, path: str) -> str:
    root = str(tree.path).rstrip("/")
    if target == root or target.startswith(f"{root}/"):
        return target[len(root) + 1 :]
    raise OutsideWorkspace(f"{path} is a link that leads out of {tree.path}: only what is in it")
