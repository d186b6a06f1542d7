"""Read-only guards by inode: what was found in a workspace and must stay while a sandbox lives.

A mount guards the file that it was made for. Who replaces that file, outside, takes the guard away;
so each is known by its number, and a sandbox whose files were replaced is used no more.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import field
from pathlib import Path

from shelltie.basics.frozen import frozen, mutable
from shelltie.errors import CannotStart
from shelltie.providers.workspace.boundaries import checked, guardable, obeyed, within
from shelltie.providers.workspace.git import Git, git_of, linked
from shelltie.providers.workspace.watched_names import UnguardedName

FileIdentity = tuple[int, int] | None  # two numbers by which to know it again; or nothing is there


@frozen
class Guards:
    """How a workspace is opened: each of these is a mount of its own, in this order.

    Commands may write in `writable`. The directories in `pinned`, too, but those stay where they
    are; in `kept` nothing changes. `names` are obeyed by somebody, if they are there, and what is
    `listed` in some directories may become more. For `watched` there can be no mount.
    `repositories` are those that were found, each by its `.git`.
    """

    writable: tuple[Path, ...]
    pinned: tuple[Path, ...]
    kept: tuple[Path, ...]
    names: tuple[Path, ...]
    listed: tuple[Path, ...]
    watched: tuple[UnguardedName, ...]
    repositories: tuple[Path, ...] = ()

    def below(self, workspace: Path) -> Iterator[str]:
        """Whatever nobody may change in one of the directories, be it there or not."""
        inside = within((workspace,))
        for path in (*self.kept, *self.names, *(one.path for one in self.watched)):
            if inside(path) and path != workspace:
                yield str(path.relative_to(workspace))


def guards_of(
    roots: tuple[Path, ...], home: Path, hidden: tuple[Path, ...], own: tuple[Path, ...] = ()
) -> Guards:
    """What to guard in a workspace, the first of `roots`, and in what else can be written.

    `hidden` are shelltie's own directories, `own` is its code.
    Raises: CannotStart.
    """
    git = _git(roots, home, hidden)
    writable = (*roots, *git.writable)
    names = tuple(name for root in roots for name in obeyed(root))
    kept = {*filter(guardable, (*names, *git.kept, *filter(within(writable), own)))} - {*roots}
    around = (one.path.parent for one in git.watched)
    inner = (*kept, *(place / "x" for place in (*git.held, *filter(guardable, around))))
    return Guards(
        writable,
        tuple(_between(writable, inner)),
        tuple(sorted(kept, key=_depth)),
        names,
        tuple(git.listed),
        tuple(git.watched),
        tuple(git.marks),
    )


def _git(roots: tuple[Path, ...], home: Path, hidden: tuple[Path, ...]) -> Git:
    """The repositories, with the one elsewhere to which this work tree belongs."""
    workspace, inside = roots[0], within(roots)
    common = linked(workspace / ".git", inside)
    if common is not None:
        checked(str(common), home, hidden)
    if common is not None:
        inside = within((*roots, common))
    git = git_of(roots, home, inside, common)
    if git.problem:
        raise CannotStart(f"the workspace {workspace} cannot be guarded: {git.problem}")
    return git


def _between(roots: tuple[Path, ...], paths: Iterable[Path]) -> list[Path]:
    """Each directory from a root down to one of the paths, the upper ones first.

    Who renames one of them would have another one made in its place, without what is guarded.
    """
    parents = {parent for path in paths for parent in path.parents}
    below = [parent for parent in parents if not {*roots}.isdisjoint(parent.parents)]
    return sorted({*below} - {*roots}, key=_depth)


def _depth(path: Path) -> tuple[int, Path]:
    return len(path.parts), path


@mutable
class RememberedFiles:
    """Open files: what they are does not change with what becomes of their names."""

    descriptors: list[int] = field(default_factory=list)
    known: dict[str, FileIdentity] = field(default_factory=dict)
    timed: dict[str, FileIdentity] = field(default_factory=dict)

    def take(self, path: Path) -> int:
        """The file of exactly this name, through no link.

        Raises: CannotStart, as somebody is changing it right now.
        """
        try:
            descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise CannotStart(f"{path} cannot be opened: {error.strerror}") from error
        self.descriptors.append(descriptor)
        status = os.fstat(descriptor)
        # It says where the file is, not how it was reached. O_PATH opens a link itself, too.
        reached = Path(f"/proc/self/fd/{descriptor}").readlink()
        if reached != path or stat.S_ISLNK(status.st_mode):
            raise CannotStart(f"{path} is a link, or becomes one just now: it cannot be guarded")
        self.known[str(path)] = _identity(status)
        return descriptor

    def content(self, content: bytes) -> int:
        """A file with this in it, to be read once."""
        descriptor = os.memfd_create("content")
        self.descriptors.append(descriptor)
        os.write(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def note_all(self, guards: Guards) -> None:
        """Remember whatever is guarded."""
        self.note((*guards.writable, *guards.pinned, *guards.kept, *guards.names))
        for path in map(str, guards.listed):
            self.timed[path] = _timed(path)

    def note(self, paths: Iterable[Path]) -> None:
        """Remember these, too, as they are or are not."""
        self.known = {**identities(paths), **self.known}

    @property
    def unchanged(self) -> bool:
        """Whether each name still means what it meant."""
        return self.unchanged_among(self.known) and all(
            _timed(path) == was for path, was in self.timed.items()
        )

    def unchanged_among(self, names: Iterable[str]) -> bool:
        """The same for some of the names, whatever is in them."""
        return all(_now(name) == self.known[name] for name in names)

    def close(self) -> None:
        """Let the files go; what they were stays known."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = []


def identities(paths: Iterable[Path]) -> dict[str, FileIdentity]:
    """What each name means now."""
    return {path: _now(path) for path in map(str, paths)}


def identity_below(directory: int, name: str) -> FileIdentity:
    """What a name means in a directory that is open."""
    return _now(name, directory)


def _now(path: str, directory: int | None = None) -> FileIdentity:
    try:
        return _identity(os.stat(path, dir_fd=directory, follow_symlinks=False))
    except OSError:
        return None


def _identity(status: os.stat_result) -> FileIdentity:
    return status.st_dev, status.st_ino


def _timed(path: str) -> FileIdentity:
    """With the time of the last entry, which shows that there are others."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns
