"""Plan of an apply: the steps for a change set, and what must lie ready before the first one."""

import os
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

from shelltie.providers.workspace.held_tree import HeldTree
from shelltie.providers.workspace.watched_names import writable
from shelltie.trials.change_set import (
    Change,
    ChangeKind,
    ChangeSet,
    Entry,
    entry_at,
    with_parents,
)
from shelltie.trials.transaction import (
    JOURNAL,
    Action,
    Rights,
    Step,
    StepJournal,
    inode_at,
    set_rights,
    work_near,
)
from shelltie.trials.tree_copy import TreeCopy, remove_tree

KEPT = "kept"
_OVERLAY_MARKS = ("user.overlay.", "trusted.overlay.")


class ApplyPlan:
    """What applying these changes takes; `everything` is what they were chosen from."""

    def __init__(
        self, everything: ChangeSet, chosen: ChangeSet, undo_dir: Path, *, undoable: bool
    ) -> None:
        self._chosen = chosen
        self._undo_dir = undo_dir
        self._undoable = undoable
        self._kept = self._work = undo_dir / KEPT
        self._whole = _moved_whole(everything, chosen)

    def prepare(
        self, workspace: HeldTree, source: HeldTree, merged: dict[str, bytes]
    ) -> StepJournal:
        """Everything that is to be done, with what it needs in the work directory.

        Raises: OSError, TrialError; then the plan is to be discarded.
        """
        self._work = work_near(workspace, self._kept)
        if self._work != self._kept:
            self._journal(()).write(self._undo_dir, JOURNAL)
            self._work.mkdir(mode=0o700)
        with HeldTree(self._work) as work:
            staging = _Staging(self._chosen, self._whole, workspace, source, work)
            steps = tuple(staging.steps(merged))
        if self._work != self._kept:
            self._keep_copies(steps, workspace)
        return self._journal(steps)

    def _journal(self, steps: tuple[Step, ...]) -> StepJournal:
        chosen = self._chosen
        return StepJournal(
            workspace=str(chosen.workspace),
            workspace_id=chosen.workspace_id,
            source=str(chosen.source),
            work=str(self._work),
            steps=steps,
            undoable=self._undoable,
        )

    def discard(self) -> None:
        """Nothing of it is needed."""
        remove_tree(self._kept)
        if self._work != self._kept:
            remove_tree(self._work)
        (self._undo_dir / JOURNAL).unlink(missing_ok=True)

    def finish(self) -> None:
        """Remove what is not needed any more beside the workspace."""
        if self._work != self._kept:
            remove_tree(self._work)

    def _keep_copies(self, steps: tuple[Step, ...], workspace: HeldTree) -> None:
        """The old content where it stays: it cannot be renamed to another file system."""
        with HeldTree(self._kept) as kept:
            copy = TreeCopy(workspace, kept)
            for step in steps:
                if step.kept:
                    copy.copy(step.path, step.kept)


class _Staging:
    """Makes the steps, and lays ready what they put into place."""

    def __init__(
        self,
        chosen: ChangeSet,
        whole: set[str],
        workspace: HeldTree,
        source: HeldTree,
        work: HeldTree,
    ) -> None:
        self._chosen = chosen
        self._whole = whole
        self._workspace = workspace
        self._source = source
        self._work = work
        self._copies = TreeCopy(source, work)
        self._movable = source.mount == workspace.mount
        self._count = 0
        self._linked: dict[int, int] = {}  # ctime by inode

    def steps(self, merged: dict[str, bytes]) -> Iterator[Step]:
        """In their order; rights come last, as a directory may be closed by them."""
        gone = {
            c.path for c in self._chosen.changes if c.kind in (ChangeKind.DELETED, ChangeKind.TYPE)
        }
        rights = list[Step]()
        for change in self._chosen.changes:
            above = [*with_parents(change.path)][1:]
            if change.kind is ChangeKind.MODE:
                rights.append(_rights_step(change))
            elif change.kind is ChangeKind.DELETED:
                if gone.isdisjoint(above):
                    yield Step(
                        Action.TAKE,
                        change.path,
                        old=inode_at(self._workspace, change.path),
                        kept=self._next("k"),
                    )
            elif self._whole.isdisjoint(above):
                put = self._put(change, merged.get(change.path))
                yield put
                if change.is_directory and change.path not in self._whole:
                    rights.append(_rights_of_made(change, put))
            else:
                self._strip(change.path)
        yield from reversed(rights)

    def _put(self, change: Change, merged: bytes | None) -> Step:
        """The step that puts an entry into place, once it lies ready."""
        source, staged = self._next("n"), True
        after = change.after
        assert after is not None
        if merged is not None:
            _write(self._work, source, merged, after)
        elif change.is_directory and change.path not in self._whole:
            os.mkdir(source, 0o700, dir_fd=self._work.root)
        elif self._relinked(change, source):
            pass
        elif self._movable:
            source, staged = change.path, False
            self._strip(source)
        else:
            self._copies.copy(change.path, source)
        old = inode_at(self._workspace, change.path)
        return Step(
            Action.PUT,
            change.path,
            old=old,
            new=inode_at(self._work if staged else self._source, source),
            source=source,
            staged=staged,
            kept=self._next("k") if old is not None else "",
        )

    def _relinked(self, change: Change, name: str) -> bool:
        """Whether it is another name of a file in the workspace, and lies ready as such."""
        if change.linked_to is None:
            return False
        now = entry_at(self._workspace, change.linked_to)
        if now is None:
            return False
        ours = self._linked.get(now.inode) == now.ctime_ns  # by another link that lies ready
        if now.ctime_ns > self._chosen.started_ns and not ours:
            return False
        directory, base = self._workspace.place(change.linked_to)
        os.link(base, name, src_dir_fd=directory, dst_dir_fd=self._work.root, follow_symlinks=False)
        linked = self._workspace.lstat(change.linked_to)
        if linked is not None:
            self._linked[linked.st_ino] = linked.st_ctime_ns
        return True

    def _strip(self, path: str) -> None:
        """Take the kernel's marks from what is moved out of an upper directory."""
        if not self._movable:
            return
        descriptor = self._source.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            name = f"/proc/self/fd/{descriptor}"
            with suppress(OSError):  # a link or a pipe has none
                marks = [m for m in os.listxattr(name) if m.startswith(_OVERLAY_MARKS)]
                with writable(descriptor) if marks else nullcontext():
                    for mark in marks:
                        os.removexattr(name, mark)
        finally:
            os.close(descriptor)

    def _next(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"


def _moved_whole(everything: ChangeSet, chosen: ChangeSet) -> set[str]:
    """New directories of which everything is chosen: they move with all that is in them."""
    paths = {change.path for change in chosen.changes}
    apart = [c.path for c in everything.changes if c.path not in paths or c.linked_to]
    parted = {parent for path in apart for parent in with_parents(path)}
    return {
        change.path
        for change in chosen.changes
        if change.kind in (ChangeKind.ADDED, ChangeKind.TYPE)
        and change.is_directory
        and change.path not in parted
    }


def _rights_step(change: Change) -> Step:
    before, after = change.before, change.after
    assert before is not None
    assert after is not None
    return Step(
        Action.RIGHTS,
        change.path,
        new=before.inode,
        before=Rights(before.mode, before.uid, before.gid),
        after=Rights(after.mode, after.uid, after.gid),
    )


def _rights_of_made(change: Change, put: Step) -> Step:
    """A directory is made for its owner alone; once it is full it gets its rights and its time."""
    after = change.after
    assert after is not None
    return Step(
        Action.RIGHTS,
        change.path,
        new=put.new,
        before=Rights(0o700, os.geteuid(), after.gid),
        after=Rights(after.mode, after.uid, after.gid, after.mtime_ns),
    )


def _write(work: HeldTree, name: str, content: bytes, after: Entry) -> None:
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=work.root), "wb") as file:
        file.write(content)
        set_rights(file.fileno(), os.fstat(file.fileno()), Rights(after.mode, after.uid, after.gid))
