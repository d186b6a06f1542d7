"""Guarded changes of a sandboxed command: never written, as other programs obey them.

The same list as for a live sandbox, where guarded things are mounted read-only: hooks, settings of
git, agents and editors. On an overlay more can be guarded: settings that are yet to come, those
that are there further down, an index that would hide files from `git status`, and in a repository
that the command has made whatever git would run.
"""

import os
import posixpath
from collections.abc import Collection, Iterator

from shelltie.providers.workspace.boundaries import OBEYED_HERE
from shelltie.providers.workspace.git import INSTALLED_OR_BUILT, text_of
from shelltie.providers.workspace.new_repositories import setting_that_runs
from shelltie.trials.change_set import Change, ChangeKind, ChangeSet, FileType, with_parents
from shelltie.trials.git_knowledge import hiding_indexes

_SETTINGS = ("config", "config.worktree")
_OBEYED = {
    "hooks": FileType.DIRECTORY,
    **dict.fromkeys((*_SETTINGS, "commondir"), FileType.FILE),
}
_OBEYED_NAMES = frozenset(OBEYED_HERE)
_REPLACES = (ChangeKind.DELETED, ChangeKind.TYPE)


def guarded_paths(changes: ChangeSet, guarded: Collection[str]) -> list[str]:
    """The changes that must not be written, each by its uppermost path. `guarded` are paths of the
    workspace, be they there or not. Blocks: settings of new repositories and indexes are read.
    """
    looked = _Guards(changes, guarded)
    withheld = [change.path for change in changes.changes if looked.holds(change)]
    withheld += [path for path in hiding_indexes(changes) if path not in withheld]
    tops = {*withheld}
    return [path for path in withheld if tops.isdisjoint([*with_parents(path)][1:])]


class _Guards:
    def __init__(self, changes: ChangeSet, guarded: Collection[str]) -> None:
        self._workspace, self._upper = changes.workspace, changes.source
        self._guarded = frozenset(guarded)
        # Who replaces a directory above takes what is guarded with it.
        self._above = frozenset(
            above for path in guarded for above in [*with_parents(path)][1:]
        ) - frozenset(guarded)
        self._deleted = frozenset(
            change.path for change in changes.changes if change.kind is ChangeKind.DELETED
        )

    def holds(self, change: Change) -> bool:
        """Whether a change must not be written."""
        if not self._guarded.isdisjoint(with_parents(change.path)):
            return True
        if change.path in self._above:
            return change.kind in _REPLACES
        if self._is_obeyed_further_down(change.path):
            return True
        return change.after is not None and self._git_would_run(change)

    def _is_obeyed_further_down(self, path: str) -> bool:
        """Whether it is, or is in, settings that were there before: `packages/web/.vscode`.

        Those that go with their directory, and what a package manager installs, are left alone.
        """
        parts = path.split("/")
        if not INSTALLED_OR_BUILT.isdisjoint(parts):
            return False
        for at in range(len(parts)):
            if parts[at] in _OBEYED_NAMES or "/".join(parts[at : at + 2]) in _OBEYED_NAMES:
                above = "/".join(parts[:at])
                inner = parts[: at + 1 if parts[at] in _OBEYED_NAMES else at + 2]
                there = os.path.lexists(self._workspace / "/".join(inner))
                return there and above not in self._deleted
        return False

    def _git_would_run(self, change: Change) -> bool:
        """Whether it is what git obeys, in a repository that nobody guarded before."""
        above, _, name = change.path.rpartition("/")
        if posixpath.basename(above) == "hooks" and self._is_repository(posixpath.dirname(above)):
            return not name.endswith(".sample")
        if not self._is_repository(above):
            return False
        if name in _OBEYED and change.now.type is not _OBEYED[name]:
            return True
        if name in _SETTINGS:
            return bool(setting_that_runs(self._upper / change.path))
        if name == "commondir":
            # A work tree that is linked to a repository around it has just this note.
            linked = posixpath.basename(posixpath.dirname(above)) == "worktrees"
            return not linked or text_of(self._upper / change.path).strip() != "../.."
        return name == "HEAD" and change.kind is ChangeKind.ADDED and self._runs_already(above)

    def _is_repository(self, path: str) -> bool:
        roots = (self._upper, self._workspace)
        return any(os.path.lexists(root / path / "HEAD") for root in roots)

    def _runs_already(self, path: str) -> bool:
        """A directory that becomes a repository by its HEAD may have the rest of one already."""
        place = self._workspace / path
        found = any(setting_that_runs(place / name) for name in _SETTINGS)
        return found or (place / "commondir").exists() or any(self._hooks(path))

    def _hooks(self, path: str) -> Iterator[str]:
        hooks = self._workspace / path / "hooks"
        if hooks.is_dir():
            yield from (one.name for one in hooks.iterdir() if not one.name.endswith(".sample"))
