"""Apply the changes of a trial to the workspace, all or nothing.

What was changed in the workspace meanwhile is refused, or merged. What cannot simply be renamed is
laid ready: copies, merged texts, hard links, directories. Then a transaction renames everything
into place, and the old content stays in the undo directory.
"""

from collections.abc import Collection, Iterator
from pathlib import Path

from shelltie.basics.frozen import frozen
from shelltie.basics.times import human_size
from shelltie.basics.visible_text import inline
from shelltie.errors import (
    ChangesConflict,
    ChangesNotApplied,
    ChangesUnreadable,
    TrialError,
    UndoTooLarge,
)
from shelltie.providers.workspace.held_tree import HeldTree
from shelltie.trials.apply_plan import ApplyPlan
from shelltie.trials.change_set import Change, ChangeKind, ChangeSet, Entry, FileType, entry_at
from shelltie.trials.merge import merged_text
from shelltie.trials.transaction import JOURNAL, RECORD, locked, restored_in, run_transaction, told

UNDO_MAX = 4 * 1024**3
_NAMED = 10  # paths in a message


@frozen
class Applied:
    """What was applied: `merged` with others' changes, `notes` for people."""

    paths: tuple[str, ...]
    merged: tuple[str, ...]
    notes: tuple[str, ...]
    undoable: bool


def undo_size(change_set: ChangeSet, paths: Collection[str] | None = None) -> int:
    """How many bytes of old content must be kept to undo these changes."""
    chosen = change_set.select(paths).changes
    return sum(c.before.allocated for c in chosen if c.before and c.kind is not ChangeKind.MODE)


def apply_changes(
    change_set: ChangeSet,
    paths: Collection[str] | None = None,
    *,
    undo_dir: Path,
    undo_max: int | None = UNDO_MAX,
    besides: Collection[str] = (),
) -> Applied:
    """Make the workspace what the trial saw, for these paths and what is below them, or for all;
    not for what is `besides`.

    The old content stays in `undo_dir`, an empty directory of this one call, until it is removed.
    With `undo_max=None` it cannot be undone, nor is the disk waited for: as with any other write.
    What is in `undo_dir` then is of no use any more.
    Raises: ChangesConflict, ChangesNotApplied, ChangesUnreadable, UndoTooLarge; then nothing was
    applied.
    """
    chosen = change_set.select(paths).without(besides)
    _check(chosen, paths, undo_max)
    with locked(undo_dir):
        if (undo_dir / RECORD).exists() or (undo_dir / JOURNAL).exists():
            raise ChangesNotApplied("something was applied with this undo directory before")
        plan = ApplyPlan(change_set, chosen, undo_dir, undoable=undo_max is not None)
        try:
            with (
                HeldTree(chosen.workspace) as workspace,
                HeldTree(chosen.source, ours=True) as source,
            ):
                if workspace.identity != chosen.workspace_id:
                    raise ChangesUnreadable(f"{chosen.workspace} is another directory than before")
                merged = _merged(chosen, workspace, source, restored_in(undo_dir))
                journal = plan.prepare(workspace, source, merged)
            run_transaction(journal, undo_dir)
        except OSError as error:
            plan.discard()
            raise ChangesNotApplied(f"nothing was applied: {told(error)}") from error
        except TrialError as error:
            if getattr(error, "rolled_back", True):
                plan.discard()
            raise
        plan.finish()
    return Applied(
        tuple(change.path for change in chosen.changes),
        tuple(merged),
        tuple(_notes(chosen)),
        undo_max is not None,
    )


def _check(chosen: ChangeSet, paths: Collection[str] | None, undo_max: int | None) -> None:
    if chosen.cut:
        raise ChangesUnreadable("there are more changes than can be applied; run it outside")
    if paths and not chosen.changes:
        raise ChangesUnreadable(f"the trial changed nothing at {', '.join(map(inline, paths))}")
    devices = [c.path for c in chosen.changes if c.after and c.after.type is FileType.DEVICE]
    if devices:
        raise ChangesUnreadable(f"devices are never applied: {_listed(devices)}")
    needed = undo_size(chosen)
    if undo_max is not None and needed > undo_max:
        raise UndoTooLarge(
            f"it could not be undone: {human_size(needed)} of old content is more than the"
            f" {human_size(undo_max)} that are kept; apply only some paths, or run it outside"
        )


def _merged(
    chosen: ChangeSet, workspace: HeldTree, source: HeldTree, restored: dict[int, int]
) -> dict[str, bytes]:
    """Texts that others changed, too, put together. Raises: ChangesConflict."""
    merged, conflicts = dict[str, bytes](), list[str]()
    for change in chosen.changes:
        now = entry_at(workspace, change.path)
        if _as_before(change, now, restored):
            continue
        text = merged_text(change, now, workspace, source, chosen.bases)
        if text is None:
            conflicts.append(change.path)
        else:
            merged[change.path] = text
    if conflicts:
        raise ChangesConflict(
            f"changed in the workspace meanwhile, so nothing was applied: {_listed(conflicts)}."
            " Apply other paths, or run it again",
            tuple(conflicts),
        )
    return merged


def _as_before(change: Change, now: Entry | None, restored: dict[int, int]) -> bool:
    """Whether the workspace has at its path what the trial began with."""
    before = change.before
    if now is not None and before is not None and restored.get(now.inode) == now.ctime_ns:
        return before.inode == now.inode  # a rollback of ours gave it this time
    if change.meanwhile or before is None or now is None:
        return not change.meanwhile and before is now
    # In a directory that goes there must be nothing new.
    goes = before.type is FileType.DIRECTORY and change.kind is not ChangeKind.MODE
    return before.same_file(now) and (not goes or before.ctime_ns == now.ctime_ns)


def _listed(paths: list[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(map(inline, paths[:_NAMED])) + more


def _notes(chosen: ChangeSet) -> Iterator[str]:
    names = {(c.before.device, c.before.inode) for c in chosen.changes if c.before}
    for change in chosen.changes:
        before = change.before
        if change.kind is ChangeKind.CHANGED and before is not None and before.links > 1 and names:
            yield (
                f"{inline(change.path)} had {before.links} names (hard links): the others keep the"
                " old content"
            )
