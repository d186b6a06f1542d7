"""Change set of a trial: which files were added, changed or deleted, with a summary and a diff."""

import posixpath
import stat
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from pathlib import Path

from shelltie.basics.frozen import frozen, replace
from shelltie.basics.times import human_size
from shelltie.basics.visible_text import inline
from shelltie.errors import InvalidParameters
from shelltie.providers.workspace.held_tree import HeldTree
from shelltie.trials.unified_diff import DIFF_MAX, DiffEntry, unified_diff


class ChangeKind(StrEnum):
    """What became of a path. `type` is a file that became a link, a directory a file…"""

    ADDED = "added"
    CHANGED = "changed"
    DELETED = "deleted"
    MODE = "mode"
    TYPE = "type"


class FileType(StrEnum):
    """What a path is."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    FIFO = "fifo"
    SOCKET = "socket"
    DEVICE = "device"


_TYPES = {
    stat.S_IFREG: FileType.FILE,
    stat.S_IFDIR: FileType.DIRECTORY,
    stat.S_IFLNK: FileType.LINK,
    stat.S_IFIFO: FileType.FIFO,
    stat.S_IFSOCK: FileType.SOCKET,
}


@frozen
class Entry:
    """A path as it was found: enough to tell later whether it is still the same."""

    type: FileType
    mode: int
    size: int
    allocated: int  # bytes on disk: less than the size of a sparse file
    uid: int
    gid: int
    target: str  # of a link
    links: int
    device: int
    inode: int
    mtime_ns: int
    ctime_ns: int

    def same_file(self, other: "Entry | None") -> bool:
        """Whether nothing was done to it between the two looks."""
        if other is None or (self.device, self.inode) != (other.device, other.inode):
            return False
        if self.type is FileType.DIRECTORY:  # its times change with what is in it
            return self.same_rights(other)
        return (self.size, self.mtime_ns, self.ctime_ns) == (
            other.size,
            other.mtime_ns,
            other.ctime_ns,
        )

    def same_rights(self, other: "Entry") -> bool:
        """Whether mode and owner are equal."""
        return (self.mode, self.uid, self.gid) == (other.mode, other.uid, other.gid)


@frozen
class Change:
    """What happened to one path, which is relative to the workspace.

    `meanwhile` says that somebody else changed it in the workspace since the trial began.
    `linked_to` is a path of the workspace that the new one is another name of (a hard link).
    `capable` is a file that a program gains rights by: `security.capability` is set.
    """

    path: str
    kind: ChangeKind
    before: Entry | None
    after: Entry | None
    meanwhile: bool = False
    linked_to: str | None = None
    capable: bool = False

    @property
    def now(self) -> Entry:
        """What it is after the trial; of a deleted one, what it was."""
        entry = self.after or self.before
        assert entry is not None
        return entry

    @property
    def is_directory(self) -> bool:
        """Whether this is about a directory itself."""
        return self.now.type is FileType.DIRECTORY


@frozen
class ChangeSet:
    """Everything that a trial changed, parents before what is in them.

    `source` has the new content at the same relative paths: the upper directory of an overlay, or
    a full copy. `cut` says that there is more than can be listed, and so nothing can be applied.
    """

    workspace: Path
    source: Path
    changes: tuple[Change, ...]
    started_ns: int
    workspace_id: tuple[int, int]
    cut: bool = False
    bases: Path | None = None

    def __bool__(self) -> bool:
        return bool(self.changes) or self.cut

    def summary(self) -> str:
        """One line: "3 files changed, 1 added, 2 deleted, 14 kB"."""
        files = [change for change in self.changes if not change.is_directory]
        counts = Counter(_COUNTED_AS[change.kind] for change in files)
        counts["directories"] = len(self.changes) - len(files)
        parts = [
            f"{counts[word]} {word}" for word in ("changed", "added", "deleted") if counts[word]
        ]
        if parts:
            number, _, word = parts[0].partition(" ")
            parts[0] = f"{number} {'file' if number == '1' else 'files'} {word}"
        if counts["directories"] and not parts:
            many = counts["directories"] != 1
            parts.append(f"{counts['directories']} {'directories' if many else 'directory'}")
        if not parts:
            return "no changes"
        written = sum(c.after.size for c in files if c.after and c.after.type is FileType.FILE)
        parts += [human_size(written)] if written else []
        return ", ".join(parts) + (", and more that is not listed" if self.cut else "")

    def conflicts(self) -> tuple[str, ...]:
        """Paths that were changed in the workspace while the trial ran."""
        return tuple(change.path for change in self.changes if change.meanwhile)

    def select(self, paths: Collection[str] | None) -> "ChangeSet":
        """Only these paths and what is below them, with the new directories that they lie in.

        Raises: InvalidParameters.
        """
        if paths is None:
            return self
        if "" in paths:
            raise InvalidParameters("an empty path names nothing: leave it out to mean everything")
        wanted = {posixpath.normpath(p.removeprefix(f"{self.workspace}/")) for p in paths}
        if "." in wanted:
            return self
        chosen = {c.path for c in self.changes if not wanted.isdisjoint(with_parents(c.path))}
        needed = {parent for path in chosen for parent in with_parents(path)}
        kept = {c.path for c in self.changes if c.path in chosen or (c.path in needed and c.after)}
        # What takes the place of a directory takes all that was in it.
        replaced = {c.path for c in self.changes if c.path in kept and c.kind is ChangeKind.TYPE}
        kept |= {
            c.path
            for c in self.changes
            if c.kind is ChangeKind.DELETED and not replaced.isdisjoint(with_parents(c.path))
        }
        return replace(self, changes=tuple(c for c in self.changes if c.path in kept))

    def without(self, paths: Collection[str]) -> "ChangeSet":
        """All but these paths and what is below them."""
        left = {*paths}
        kept = (c for c in self.changes if left.isdisjoint(with_parents(c.path)))
        return replace(self, changes=tuple(kept)) if left else self

    def diff(self, paths: Collection[str] | None = None, limit: int = DIFF_MAX) -> str:
        """A unified diff that `git apply` reads; binary files are named. At most `limit` bytes.

        Undecodable bytes are surrogates: `.encode("utf-8", "surrogateescape")` gives them back.
        """
        with HeldTree(self.workspace) as lower, HeldTree(self.source, ours=True) as upper:
            return unified_diff(self._sides(self.select(paths).changes, lower, upper), limit)

    def _sides(
        self, changes: Iterable[Change], lower: HeldTree, upper: HeldTree
    ) -> Iterator[DiffEntry]:
        for change in changes:
            before, after = change.before, change.after
            if change.is_directory and (before is None or before.type is FileType.DIRECTORY):
                continue
            yield DiffEntry(
                change.path,
                _git_mode(before),
                _git_mode(after),
                lambda c=change: _content(lower, c.path, c.before),  # type: ignore[misc]  # bound now
                lambda c=change: _content(upper, c.path, c.after),  # type: ignore[misc]  # as above
            )

    def lines(self, limit: int = 200) -> list[str]:
        """One line for a path, for people; a new or deleted directory stands for what is in it."""
        tops, inside = list[Change](), Counter[str]()
        whole = {c.path for c in self.changes if c.kind in _WHOLE and c.is_directory}
        for change in self.changes:
            above = next(
                (p for p in reversed([*with_parents(change.path)][1:]) if p in whole), None
            )
            if above is None:
                tops.append(change)
            elif not change.is_directory:
                inside[above] += 1
        shown = [_line(change, inside[change.path]) for change in tops[:limit]]
        more = len(tops) - len(shown)
        return shown + ([f"… and {more} more"] if more else [])

    def to_json(self, limit: int = 1000) -> dict[str, object]:
        """The report for programs; names are as on disk where they are text."""
        return {
            "summary": self.summary(),
            "changes": [_json(change) for change in self.changes[:limit]],
            "total": len(self.changes),
            "conflicts": [inline(path) for path in self.conflicts()[:limit]],
            "complete": not self.cut and len(self.changes) <= limit,
        }


_COUNTED_AS = {
    ChangeKind.ADDED: "added",
    ChangeKind.CHANGED: "changed",
    ChangeKind.MODE: "changed",
    ChangeKind.TYPE: "changed",
    ChangeKind.DELETED: "deleted",
}
_WHOLE = (ChangeKind.ADDED, ChangeKind.DELETED)


def entry_at(tree: HeldTree, path: str) -> Entry | None:
    """What is there now; `None` for nothing."""
    found = tree.lstat(path)
    if found is None:
        return None
    return Entry(
        type=_TYPES.get(stat.S_IFMT(found.st_mode), FileType.DEVICE),
        mode=tree.mode(found),
        size=found.st_size,
        allocated=found.st_blocks * 512,
        uid=found.st_uid,
        gid=found.st_gid,
        target=tree.readlink(path) if stat.S_ISLNK(found.st_mode) else "",
        links=found.st_nlink,
        device=found.st_dev,
        inode=found.st_ino,
        mtime_ns=found.st_mtime_ns,
        ctime_ns=found.st_ctime_ns,
    )


def with_parents(path: str) -> Iterator[str]:
    """The path, and each directory above it in the workspace."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def _git_mode(entry: Entry | None) -> str | None:
    """As git writes it; `None` for what git has no content of."""
    if entry is None or entry.type is FileType.DIRECTORY:
        return None
    if entry.type is FileType.LINK:
        return "120000"
    return "100755" if entry.mode & 0o100 else "100644"


def _content(tree: HeldTree, path: str, entry: Entry | None) -> bytes | None:
    """`None` for what is no text for anybody: a pipe, or what cannot be read or is too large."""
    if entry is None:
        return b""
    if entry.type is FileType.LINK:
        return entry.target.encode("utf-8", "surrogateescape")
    if entry.type is not FileType.FILE:
        return None
    return tree.read(path, DIFF_MAX)


def _line(change: Change, inside: int) -> str:
    entry = change.now
    name = inline(change.path) + ("/" if change.is_directory else "")
    before = change.before
    if change.kind is ChangeKind.MODE and before is not None and change.after is not None:
        owner = "" if (before.uid, before.gid) == (entry.uid, entry.gid) else ", another owner"
        return f"mode     {name} ({before.mode:04o} → {entry.mode:04o}{owner})"
    details = [f"{inside} file" + "s" * (inside > 1)] if inside else []
    if change.kind is ChangeKind.TYPE and before is not None:
        details.append(f"{before.type} → {entry.type}")
    elif entry.type not in (FileType.FILE, FileType.DIRECTORY):
        details.append(str(entry.type))
    if entry.type is FileType.LINK:
        details.append(f"→ {inline(entry.target)}")
    elif entry.type is FileType.FILE:
        details.append(human_size(entry.size))
    return f"{change.kind:8} {name}" + (f" ({', '.join(details)})" if details else "")


def _json(change: Change) -> dict[str, object]:
    entry, raw = change.now, change.path.encode("utf-8", "surrogateescape")
    text = raw.decode("utf-8", "backslashreplace")
    report: dict[str, object] = {"path": text, "kind": str(change.kind), "type": str(entry.type)}
    if text != change.path:
        report["pathHex"] = raw.hex()
    for name, side in (("before", change.before), ("after", change.after)):
        if side is not None:
            report[name] = {"type": str(side.type), "mode": f"{side.mode:04o}", "size": side.size}
            if side.type is FileType.LINK:
                report[name] |= {"target": inline(side.target)}  # type: ignore[operator]  # a dict
    if change.meanwhile:
        report["changedMeanwhile"] = True
    return report
