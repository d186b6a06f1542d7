"""Upper directory of an overlayfs, compared with the workspace below it: what a trial changed.

The kernel leaves in the upper directory whatever was written: new files, copies of files that were
opened for writing, a *whiteout* (character device 0/0, or an empty file with an attribute) for what
was deleted, and an *opaque* directory where one was deleted and made again. Only this is walked,
so the cost grows with the changes and not with the workspace.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from shelltie.basics.frozen import replace
from shelltie.errors import ChangesUnreadable
from shelltie.providers.workspace.held_tree import HeldTree
from shelltie.trials.change_set import Change, ChangeKind, ChangeSet, Entry, FileType, entry_at
from shelltie.trials.merge import keep_bases

ENTRIES_MAX = 250_000
_COMPARED_MAX = 4 * 1024**3  # bytes of equally long files; beyond, they count as changed
_CHUNK = 1024 * 1024
_DEPTH_MAX = 200  # directories in one another; a frame or three of ours for each
_SET_BY_USERS = ("user.", "system.posix_acl_", "security.capability")


def file_clock(directory: Path) -> int:
    """The time of the file system now, by which its ctime is told: it ticks in milliseconds.

    Take it right before a trial begins, in a directory of the workspace's own file system.
    Raises: OSError.
    """
    probe = directory / f".clock-{os.getpid()}"
    descriptor = os.open(probe, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        probe.unlink()
        return os.fstat(descriptor).st_ctime_ns
    finally:
        os.close(descriptor)


def read_change_set(
    workspace: Path,
    upper: Path,
    *,
    started_ns: int,
    bases: Path | None = None,
    userxattr: bool = True,
    restored: Mapping[int, int] = MappingProxyType({}),
) -> ChangeSet:
    """What a trial changed. The overlay must be unmounted, and nothing of the trial alive.

    `userxattr` is the option it was mounted with: it says whose marks count. With the other ones
    (`trusted.overlay.*`) a command could have set `user.overlay.*` by itself. The first call keeps
    old texts in `bases`, which then allow a merge with what others change later. `restored` is what
    a rollback moved, by inode, with the ctime that it has since: nobody has changed that.
    Raises: ChangesUnreadable.
    """
    with HeldTree(workspace) as lower, HeldTree(upper, ours=True) as held:
        namespace = "user" if userxattr else "trusted"
        comparison = _Comparison(lower, held, started_ns, namespace, restored)
        found = _change_set(comparison, lower, upper, started_ns)
    change_set = replace(found, bases=bases)
    if bases is not None and not bases.exists():
        with suppress(OSError):  # a full disk: then nothing is merged
            keep_bases(change_set, bases)
    return change_set


def _change_set(
    comparison: "_Comparison", lower: HeldTree, source: Path, started_ns: int
) -> ChangeSet:
    try:
        walk = comparison.directory("", merged=True, hidden=False)
        found = [*islice(walk, ENTRIES_MAX + 1)]
        changes = tuple(comparison.finish(found[:ENTRIES_MAX]))
    except OSError as error:
        raise ChangesUnreadable(f"what the trial changed cannot be read: {error}") from error
    return ChangeSet(
        workspace=lower.path,
        source=source,
        changes=changes,
        started_ns=started_ns,
        workspace_id=lower.identity,
        cut=len(found) > ENTRIES_MAX,
    )


class _Comparison:
    """A walk through the upper directory, beside the workspace."""

    def __init__(
        self,
        lower: HeldTree,
        upper: HeldTree,
        started_ns: int,
        namespace: str,
        restored: Mapping[int, int],
    ) -> None:
        self._lower = lower
        self._upper = upper
        self._started_ns = started_ns
        self._restored = restored
        self._prefix = f"{namespace}.overlay."
        self._device = lower.identity[0]
        self._room = _COMPARED_MAX
        self._unchanged: dict[
            tuple[int, int], str
        ] = {}  # files that stay, with more names now, by inode

    def directory(self, path: str, *, merged: bool, hidden: bool) -> Iterator[Change]:
        """The changes below a directory.

        `merged` is whether the workspace has one there, `hidden` whether the trial did not see
        what is in that one.
        """
        _check_depth(path)
        names = self._upper.names(path)
        below = [f"{path}/{name}" if path else name for name in names]
        for inner in below:
            yield from self._entry(inner, merged=merged, hidden=hidden)
        if merged and hidden:
            seen = {*names}
            for name in self._lower.names(path):
                inner = f"{path}/{name}" if path else name
                if name not in seen:
                    yield from self._deleted(inner)

    def _entry(self, path: str, *, merged: bool, hidden: bool) -> Iterator[Change]:
        after = entry_at(self._upper, path)
        assert after is not None
        before = entry_at(self._lower, path) if merged else None
        if self._is_whiteout(path, after):
            if before is not None:
                yield from self._deleted(path)
        elif after.type is FileType.DIRECTORY:
            yield from self._made_directory(path, before, after, hidden=hidden)
        elif before is None:
            yield self._change(path, ChangeKind.ADDED, None, after)
        elif before.type is not after.type:
            yield self._change(path, ChangeKind.TYPE, before, after)
            if before.type is FileType.DIRECTORY:
                yield from self._deleted_below(path)
        else:
            yield from self._same_type(path, before, after)

    def _made_directory(
        self, path: str, before: Entry | None, after: Entry, *, hidden: bool
    ) -> Iterator[Change]:
        marks = self._marks(path)
        if b"redirect" in marks:
            raise ChangesUnreadable("the overlay was mounted with redirect_dir: mount it without")
        was_directory = before is not None and before.type is FileType.DIRECTORY
        if before is None:
            yield self._change(path, ChangeKind.ADDED, None, after)
        elif not was_directory:
            yield self._change(path, ChangeKind.TYPE, before, after)
        elif not before.same_rights(after):
            yield self._change(path, ChangeKind.MODE, before, after)
        hidden = hidden or marks.get(b"opaque") == b"y"
        yield from self.directory(path, merged=was_directory, hidden=hidden)

    def _same_type(self, path: str, before: Entry, after: Entry) -> Iterator[Change]:
        if after.type is FileType.FILE and b"metacopy" in self._marks(path):
            raise ChangesUnreadable("the overlay was mounted with metacopy: mount it without")
        if self._differs(path, before, after):
            yield self._change(path, ChangeKind.CHANGED, before, after)
            return
        if not before.same_rights(after) and after.type is not FileType.LINK:
            yield self._change(path, ChangeKind.MODE, before, after)
        if after.links > 1 and self._joins_another(path, before, after):
            yield self._change(path, ChangeKind.CHANGED, before, after)

    def _joins_another(self, path: str, before: Entry, after: Entry) -> bool:
        """Whether two files of the workspace that are alike were made one, with two names."""
        first = self._unchanged.setdefault((after.device, after.inode), path)
        known = entry_at(self._lower, first)
        return known is not None and known.inode != before.inode

    def _differs(self, path: str, before: Entry, after: Entry) -> bool:
        if after.type is FileType.LINK:
            return before.target != after.target or (before.uid, before.gid) != (
                after.uid,
                after.gid,
            )
        if after.type is FileType.DEVICE:
            return True
        if after.type is not FileType.FILE:
            return False
        if before.size != after.size or _attributes(self._lower, path) != _attributes(
            self._upper, path
        ):
            return True
        self._room -= after.size
        return self._room < 0 or not _equal_content(self._lower, self._upper, path)

    def finish(self, changes: list[Change]) -> Iterator[Change]:
        """The same, with what only all of them together tell."""
        renamed = {c.before.mtime_ns for c in changes if c.kind is ChangeKind.DELETED and c.before}
        for change in changes:
            after = change.after
            if after is None or change.kind is ChangeKind.MODE:
                yield change
                continue
            # A new name of a file that is otherwise as before is a hard link.
            linked_to = self._unchanged.get((after.device, after.inode))
            new = change.kind is ChangeKind.ADDED
            meanwhile = self._was_there(change.path, after, renamed) if new else change.meanwhile
            yield replace(change, linked_to=linked_to, meanwhile=meanwhile)

    def _was_there(self, path: str, after: Entry, renamed: set[int]) -> bool:
        """Whether the trial did not make it but changed it, and somebody deleted it meanwhile.

        The kernel marks what it copied with its origin. A directory is never renamed in an overlay;
        a file that was keeps its mark, and its time.
        """
        if b"origin" not in self._marks(path):
            return False
        if after.type is FileType.DIRECTORY:
            return True
        above = self._lower.lstat_directory(path.rpartition("/")[0])
        changed = above is not None and above.st_ctime_ns > self._started_ns
        return changed and after.mtime_ns not in renamed

    def _deleted(self, path: str) -> Iterator[Change]:
        before = entry_at(self._lower, path)
        if before is None:
            return
        yield self._change(path, ChangeKind.DELETED, before, None)
        if before.type is FileType.DIRECTORY:
            yield from self._deleted_below(path)

    def _deleted_below(self, path: str) -> Iterator[Change]:
        _check_depth(path)
        for name in self._lower.names(path):
            yield from self._deleted(f"{path}/{name}")

    def _change(
        self, path: str, kind: ChangeKind, before: Entry | None, after: Entry | None
    ) -> Change:
        # What is mounted there the trial did not see.
        meanwhile = before is not None and (
            before.device != self._device
            or (
                before.ctime_ns > self._started_ns
                and self._restored.get(before.inode) != before.ctime_ns
            )
        )
        is_file = after is not None and after.type is FileType.FILE
        capable = is_file and "security.capability" in attributes_of(self._upper, path)
        return Change(path, kind, before, after, meanwhile, None, capable)

    def _is_whiteout(self, path: str, after: Entry) -> bool:
        if after.type is FileType.DEVICE:
            found = self._upper.lstat(path)
            return found is not None and stat.S_ISCHR(found.st_mode) and found.st_rdev == 0
        return after.type is FileType.FILE and after.size == 0 and b"whiteout" in self._marks(path)

    def _marks(self, path: str) -> dict[bytes, bytes]:
        """The attributes by which the kernel remembers what it did."""
        return {
            name.removeprefix(self._prefix).encode(): value
            for name, value in attributes_of(self._upper, path).items()
            if name.startswith(self._prefix)
        }


def _check_depth(path: str) -> None:
    if path.count("/") >= _DEPTH_MAX:
        deep = "more than {} directories in one another; run it outside"
        raise ChangesUnreadable(deep.format(_DEPTH_MAX))


def attributes_of(tree: HeldTree, path: str) -> dict[str, bytes]:
    """Extended attributes of a file or directory; none where there cannot be any."""
    try:
        descriptor = tree.open(path)
    except OSError:  # a link or a socket, or one that may not be read
        return {}
    try:
        with suppress(OSError):
            return {name: os.getxattr(descriptor, name) for name in os.listxattr(descriptor)}
        return {}
    finally:
        os.close(descriptor)


def _attributes(tree: HeldTree, path: str) -> dict[str, bytes]:
    """Those that people and programs set."""
    return {
        name: value
        for name, value in attributes_of(tree, path).items()
        if name.startswith(_SET_BY_USERS) and not name.startswith("user.overlay.")
    }


def _equal_content(lower: HeldTree, upper: HeldTree, path: str) -> bool:
    """Whether two files have the same bytes; one that cannot be read differs."""
    try:
        with os.fdopen(lower.open(path), "rb") as left, os.fdopen(upper.open(path), "rb") as right:
            while chunk := left.read(_CHUNK):
                if chunk != right.read(_CHUNK):
                    return False
            return not right.read(1)
    except OSError:
        return False
