"""Copy of a file or directory tree between a workspace and a directory of this machine.

What is copied cannot lead out of the tree: of its links only those are made that stay inside, by
`..` at their beginning and names after that. Pipes, sockets and devices are left out, and so are
set-uid bits. Files are replaced one by one; other names of a file become files of their own.
"""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from anyio.from_thread import check_cancelled

from shelltie.basics.frozen import frozen
from shelltie.errors import FileMissing, FileTooLarge
from shelltie.providers.files.file_content import (
    found_at,
    make_directories,
    read_chunks,
    replace_file,
    replace_link,
)
from shelltie.providers.files.place_files import TreeBounds, TreeCopied
from shelltie.providers.workspace.held_tree import HeldTree

_TOLD = 100


@frozen
class _Entry:
    path: str  # in the source
    below: str  # the part of it below what is copied
    found: os.stat_result
    link: str = ""  # where it points to, if it is one


def _anything(_: Path) -> None: ...


def _nothing_masked(_: Path) -> str:
    return ""


def copy_tree(
    source: HeldTree,
    path: str,
    target: HeldTree,
    to: str,
    bounds: TreeBounds,
    *,
    check: Callable[[Path], None] = _anything,
    masked: Callable[[Path], str] = _nothing_masked,
) -> TreeCopied:
    """Copy what is at `path` to `to`. Before anything is copied all of it is looked at: whether it
    is too much, and each target by `check`. What is `masked` is left out.

    Raises: FileError, OSError; what was copied until then is there.
    """
    skipped: list[str] = []
    entries: list[_Entry] = []
    size = 0
    for entry in _walk(source, path):
        check_cancelled()
        mode = entry.found.st_mode
        why = masked(source.path / entry.path) or _unfit(entry)
        if why:
            skipped.append(f"{entry.below or entry.path}: {why}")
        else:
            entries.append(entry)
            size += entry.found.st_size if stat.S_ISREG(mode) else 0
        if size > bounds.size or len(entries) + len(skipped) > bounds.entries:
            raise FileTooLarge(
                f"{path or '.'} is more than {bounds.size} bytes or {bounds.entries} entries:"
                " raise the limit, or copy parts of it. Nothing was copied"
            )
        if not why:
            check(target.path / _joined(to, entry.below))
    return _copy(source, target, to, entries, bounds, skipped)


def _copy(
    source: HeldTree,
    target: HeldTree,
    to: str,
    entries: list[_Entry],
    bounds: TreeBounds,
    skipped: list[str],
) -> TreeCopied:
    counts = {stat.S_IFREG: 0, stat.S_IFDIR: 0, stat.S_IFLNK: 0}
    size = 0
    for entry in entries:
        kind, place = stat.S_IFMT(entry.found.st_mode), _joined(to, entry.below)
        try:
            if kind == stat.S_IFDIR:
                # Its owner can enter it: else what is in it could not be put there.
                make_directories(target, place, stat.S_IMODE(entry.found.st_mode) & 0o777 | 0o700)
            elif kind == stat.S_IFLNK:
                replace_link(target, place, entry.link)  # as it was looked at
            else:
                chunks = read_chunks(source, entry.path, bounds.size - size)
                mode, modified = stat.S_IMODE(entry.found.st_mode), entry.found.st_mtime_ns
                size += replace_file(target, place, chunks, mode, modified)
        except FileMissing:
            skipped.append(f"{entry.below or entry.path}: it is gone")
            continue
        counts[kind] += 1
    files, directories, links = counts.values()
    return TreeCopied(files, directories, links, size, tuple(skipped[:_TOLD]), len(skipped))


def _walk(tree: HeldTree, path: str) -> Iterator[_Entry]:
    """It and what is in it, directories before what they hold. Raises: FileMissing, OSError."""
    found_at(tree, path)
    pending = [(path, "")]
    while pending:
        here, below = pending.pop()
        found = tree.lstat(here) if here else os.fstat(tree.root)
        if found is None:
            continue  # removed since
        link = _target(tree, here) if stat.S_ISLNK(found.st_mode) else ""
        yield _Entry(here, below, found, link)
        if stat.S_ISDIR(found.st_mode):
            with suppress(FileNotFoundError):  # as above
                names = tree.names(here)
                pending += [(_joined(here, name), _joined(below, name)) for name in names]


def _target(tree: HeldTree, path: str) -> str:
    """Read once: whoever reads it again, to copy it, may read another one."""
    try:
        return tree.readlink(path)
    except OSError:
        return "/"  # it is no link any more; such a one is not copied


def _unfit(entry: _Entry) -> str:
    """Why it is not copied, or nothing."""
    mode = entry.found.st_mode
    if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
        return ""
    if not stat.S_ISLNK(mode):
        return "a pipe, a socket or a device"
    parts = [part for part in entry.link.split("/") if part not in ("", ".")]
    up = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    # The directory of the link is no link itself, so `..` means what it says; further on it might
    # be that of another link.
    inside = up <= entry.below.count("/") and entry.below and ".." not in parts[up:]
    return "" if inside and not entry.link.startswith("/") else "a link that leads out of the tree"


def _joined(above: str, name: str) -> str:
    return f"{above}/{name}" if above and name else above or name
