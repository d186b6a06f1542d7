"""Files of a workspace on this machine, by directory descriptors.

Sandboxes and containers have their workspace at the same path, and so the same files.
"""

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from anyio.from_thread import check_cancelled
from anyio.to_thread import run_sync

from shelltie.errors import (
    ChangesUnreadable,
    FileAccessDenied,
    FileError,
    FileIsDirectory,
    FileIsNoDirectory,
    FileMissing,
    FileNoSpace,
    FileNotRegular,
    FileProtected,
    FileTooLarge,
    OutsideWorkspace,
)
from shelltie.providers.files.beneath import resolve
from shelltie.providers.files.file_content import (
    found_at,
    make_directories,
    read_chunks,
    remove_all,
    remove_entry,
    replace_file,
)
from shelltie.providers.files.file_rules import FileRules
from shelltie.providers.files.place_files import FileEntry, FileKind, TreeBounds, TreeCopied
from shelltie.providers.files.tree_transfer import copy_tree
from shelltie.providers.workspace.held_tree import HeldTree

_TRIES = 3  # while links are swapped
_SWAPPED = (errno.ELOOP, errno.ENOTDIR)
_KINDS = {
    stat.S_IFREG: FileKind.FILE,
    stat.S_IFDIR: FileKind.DIRECTORY,
    stat.S_IFLNK: FileKind.LINK,
}
_OURS: dict[int, type[FileError]] = {
    errno.ENOENT: FileMissing,
    errno.EISDIR: FileIsDirectory,
    errno.ENOTDIR: FileIsNoDirectory,
    errno.EACCES: FileAccessDenied,
    errno.EPERM: FileAccessDenied,
    errno.EROFS: FileAccessDenied,
    errno.ENOSPC: FileNoSpace,
    errno.EDQUOT: FileNoSpace,
    errno.EFBIG: FileTooLarge,
    errno.ENXIO: FileNotRegular,
}
_Value = TypeVar("_Value")


class WorkspaceFiles:
    """See `PlaceFiles`. The workspace is found anew for each call: it may be made later.

    `root` is the real directory, where a caller has looked at it already.
    """

    def __init__(
        self,
        workspace: str,
        rules: FileRules = FileRules(),  # noqa: B008  frozen
        root: Path | None = None,
    ) -> None:
        self._given = os.path.abspath(workspace)  # noqa: PTH100  with its links, as a text
        # A link may lead elsewhere by now: what was checked is what is used.
        self._root = root or Path(os.path.realpath(workspace))
        self._rules = rules

    async def read(self, path: str, limit: int) -> bytes:
        """See `PlaceFiles`."""

        def act(tree: HeldTree, real: str) -> bytes:
            self._rules.check_read(self._root / real)
            return b"".join(read_chunks(tree, real, limit))

        return await self._act(path, act)

    async def write(self, path: str, content: bytes, mode: int | None) -> None:
        """See `PlaceFiles`."""

        def act(tree: HeldTree, real: str) -> None:
            self._rules.check_write(self._root / real, self._rules.guarded())
            replace_file(tree, real, (content,), mode)

        await self._act(path, act)

    async def list(self, path: str, limit: int) -> tuple[FileEntry, ...]:
        """See `PlaceFiles`."""

        def act(tree: HeldTree, real: str) -> tuple[FileEntry, ...]:
            self._rules.check_read(self._root / real)
            return tuple(sorted(_entries(tree, real, limit), key=lambda entry: entry.name))

        return await self._act(path, act)

    async def stat(self, path: str) -> FileEntry:
        """See `PlaceFiles`."""

        def act(tree: HeldTree, real: str) -> FileEntry:
            return _entry(real.rpartition("/")[2] or self._root.name, found_at(tree, real))

        return await self._act(path, act)

    async def make_directory(self, path: str) -> None:
        """See `PlaceFiles`."""

        def act(tree: HeldTree, real: str) -> None:
            self._rules.check_write(self._root / real, self._rules.guarded())
            make_directories(tree, real)

        await self._act(path, act)

    async def remove(self, path: str, *, tree: bool) -> None:
        """See `PlaceFiles`."""

        def act(held: HeldTree, real: str) -> None:
            if not real:
                raise FileProtected(f"{self._root} is the workspace itself: name what is in it")
            self._rules.check_write(self._root / real, self._rules.guarded(), tree=True)
            (remove_all if tree else remove_entry)(held, real)

        await self._act(path, act, follow_last=False)

    async def upload(self, source: Path, path: str, bounds: TreeBounds) -> TreeCopied:
        """See `PlaceFiles`."""

        def act(tree: HeldTree, real: str) -> TreeCopied:
            guarded: Collection[Path] = self._rules.guarded()
            check = partial(self._rules.check_write, guarded=guarded)
            with _held_parent(source) as (local, name):
                return copy_tree(local, name, tree, real, bounds, check=check)

        return await self._act(path, act)

    async def download(self, path: str, target: Path, bounds: TreeBounds) -> TreeCopied:
        """See `PlaceFiles`."""

        def act(tree: HeldTree, real: str) -> TreeCopied:
            self._rules.check_read(self._root / real)
            found_at(tree, real)  # before any directory is made for it
            with _held_parent(target, make=True) as (local, name):
                return copy_tree(tree, real, local, name, bounds, masked=self._rules.masked)

        return await self._act(path, act)

    async def _act(
        self, path: str, act: Callable[[HeldTree, str], _Value], *, follow_last: bool = True
    ) -> _Value:
        return await run_sync(partial(self._in_thread, path, act, follow_last=follow_last))

    def _in_thread(
        self, path: str, act: Callable[[HeldTree, str], _Value], *, follow_last: bool
    ) -> _Value:
        relative, tries = self._relative(path), _TRIES
        while True:
            tries -= 1
            try:
                with HeldTree(self._root) as tree:
                    return act(tree, resolve(tree, relative, follow_last=follow_last))
            except ChangesUnreadable as error:
                raise FileMissing(f"the workspace {error}: make it first") from error
            except OSError as error:
                if error.errno not in _SWAPPED or not tries:
                    raise _as_ours(error, path) from error

    def _relative(self, path: str) -> str:
        if not path.startswith("/"):
            return path
        for root in (self._given.rstrip("/"), str(self._root).rstrip("/")):
            if path == root or path.startswith(f"{root}/"):
                return path[len(root) + 1 :]
        raise OutsideWorkspace(f"{path} is not in the workspace {self._root}: only what is in it")


@contextmanager
def _held_parent(path: Path, *, make: bool = False) -> Iterator[tuple[HeldTree, str]]:
    """The directory of a path on this machine, whose own links are followed, and the name there.

    Raises: FileMissing, OSError.
    """
    real = Path(os.path.realpath(path))
    if make:
        real.parent.mkdir(parents=True, exist_ok=True)
    try:
        with HeldTree(real.parent) as tree:
            yield tree, real.name
    except ChangesUnreadable as error:
        raise FileMissing(str(error)) from error


def _as_ours(error: OSError, path: str) -> FileError:
    kind = _OURS.get(error.errno or 0, FileError)
    return kind(f"{path}: {error.strerror or error}")


def _entries(tree: HeldTree, path: str, limit: int) -> Iterator[FileEntry]:
    directory = tree.directory(path)
    descriptor = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
    try:
        with os.scandir(descriptor) as entries:
            for number, entry in enumerate(entries):
                check_cancelled()
                if number >= limit:
                    raise FileTooLarge(
                        f"{path or '.'} has more than {limit} entries: raise the limit, or look"
                        " further down"
                    )
                try:
                    yield _entry(entry.name, entry.stat(follow_symlinks=False))
                except FileNotFoundError:
                    continue  # removed since
    finally:
        os.close(descriptor)


def _entry(name: str, found: os.stat_result) -> FileEntry:
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), FileKind.OTHER)
    return FileEntry(name, kind, found.st_size, stat.S_IMODE(found.st_mode), found.st_mtime)
