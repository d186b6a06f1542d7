"""Undo what was applied, and recover what a crash interrupted: rollback by the journal."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from shelltie.basics.frozen import frozen, replace
from shelltie.basics.visible_text import inline
from shelltie.errors import ChangesConflict, ChangesNotApplied, ChangesUnreadable
from shelltie.providers.workspace.held_tree import HeldTree
from shelltie.trials.apply_plan import KEPT
from shelltie.trials.change_set import Entry, FileType, entry_at, with_parents
from shelltie.trials.transaction import (
    JOURNAL,
    RECORD,
    Action,
    Step,
    StepJournal,
    inode_at,
    locked,
    restored_in,
    roll_back,
    run_transaction,
    work_near,
)
from shelltie.trials.tree_copy import TreeCopy, remove_tree

_UNDO = "undo"
_WORK = "work"
_NAMED = 10


@frozen
class Undone:
    """What is as it was before."""

    paths: tuple[str, ...]


def undo(undo_dir: Path) -> Undone:
    """Put back the old content, modes and deleted trees that one `apply_changes` replaced.

    Raises: ChangesConflict if something was changed since, ChangesNotApplied, ChangesUnreadable;
    then nothing was undone.
    """
    record = StepJournal.read(undo_dir, RECORD)
    if record is None:
        raise ChangesNotApplied("there is nothing to undo: its old content is not kept")
    with locked(undo_dir), HeldTree(Path(record.workspace)) as workspace:
        if workspace.identity != record.workspace_id:
            raise ChangesUnreadable(f"{record.workspace} is another directory than before")
        restored = restored_in(undo_dir / _UNDO)
        changed = [*dict.fromkeys(_changed_since(record, workspace, restored))]
        if changed:
            named = ", ".join(map(inline, changed[:_NAMED]))
            raise ChangesConflict(
                f"changed since it was applied, so nothing was undone: {named}", tuple(changed)
            )
        folder = undo_dir / _UNDO
        folder.mkdir(mode=0o700, exist_ok=True)
        remove_tree(folder / _WORK)
        run_transaction(_reversed(record, workspace, undo_dir / KEPT, folder), folder)
        _finish(undo_dir, folder)
    return Undone(tuple(dict.fromkeys(step.path for step in record.steps)))


def recover(undo_dir: Path) -> bool:
    """Roll back what was interrupted here, or finish what only had to be cleaned up.

    Whether there was something. Raises: ChangesNotApplied if it cannot all be put back.
    """
    folder, found = undo_dir / _UNDO, False
    with locked(undo_dir):
        for place in (folder, undo_dir):
            journal, record = StepJournal.read(place, JOURNAL), StepJournal.read(place, RECORD)
            if journal is not None and record is not None:
                (place / JOURNAL).unlink()
            elif journal is not None:
                problems = roll_back(journal, place)
                if problems:
                    raise ChangesNotApplied(
                        f"not all could be put back: {'; '.join(problems)}", rolled_back=False
                    )
            found = found or journal is not None
            if place == undo_dir and record is None:
                remove_tree(undo_dir / KEPT)
            elif record is not None and Path(record.work).parent != place:
                remove_tree(Path(record.work))
        if (folder / RECORD).exists():
            _finish(undo_dir, folder)
    return found


def _finish(undo_dir: Path, folder: Path) -> None:
    """Nothing of it is needed any more; the record goes first, so that it is undone once."""
    done = StepJournal.read(folder, RECORD)
    work = folder if done is None else Path(done.work)
    (undo_dir / RECORD).unlink(missing_ok=True)
    remove_tree(work)
    remove_tree(undo_dir / KEPT)
    remove_tree(folder)


def _changed_since(
    record: StepJournal, workspace: HeldTree, restored: dict[int, int]
) -> Iterator[str]:
    for step in record.steps:
        try:
            now = entry_at(workspace, step.path)
        except PermissionError:
            yield from _closed_since(workspace, step.path, record.committed_ns)
            continue
        if (None if now is None else now.inode) != step.new:
            yield step.path
        elif now is not None:
            yield from _touched(step, now, workspace, record.committed_ns, restored)


def _touched(
    step: Step, now: Entry, workspace: HeldTree, committed_ns: int, restored: dict[int, int]
) -> Iterator[str]:
    """What is at the step's path or below it and is not as it was put there."""
    if step.action is Action.RIGHTS:
        if step.after is not None and now.mode != step.after.mode:
            yield step.path
    elif restored.get(now.inode) != now.ctime_ns:
        yield from _newer(workspace, step.path, committed_ns)
    elif now.type is FileType.DIRECTORY:
        yield from _newer_below(workspace, step.path, committed_ns)


def _closed_since(workspace: HeldTree, path: str, committed_ns: int) -> Iterator[str]:
    """The directory above that its owner may not enter, if it was closed after all was applied."""
    for above in [*with_parents(path)][1:]:
        with suppress(PermissionError):
            now = entry_at(workspace, above)
            if now is None or now.ctime_ns > committed_ns:
                yield above
            return


def _newer(workspace: HeldTree, path: str, committed_ns: int) -> Iterator[str]:
    """What is there and was made or changed later, as its ctime tells."""
    now = entry_at(workspace, path)
    if now is None or now.ctime_ns > committed_ns:
        yield path
    elif now.type is FileType.DIRECTORY:
        yield from _newer_below(workspace, path, committed_ns)


def _newer_below(workspace: HeldTree, path: str, committed_ns: int) -> Iterator[str]:
    # What its owner may not enter was not changed without a change of its mode.
    with suppress(PermissionError):
        for name in workspace.names(path):
            yield from _newer(workspace, f"{path}/{name}", committed_ns)


def _reversed(record: StepJournal, workspace: HeldTree, kept: Path, folder: Path) -> StepJournal:
    """The transaction that undoes another one, with what it needs in its work directory."""
    work = work_near(workspace, folder / _WORK)
    journal = StepJournal(record.workspace, record.workspace_id, str(kept), str(work), ())
    journal.write(folder, JOURNAL)
    staged = work.parent != folder
    if staged:
        work.mkdir(mode=0o700)
    with HeldTree(kept) as old, HeldTree(work) as target:
        copies = TreeCopy(old, target)
        for step in record.steps:
            if staged and step.kept:
                copies.copy(step.kept, step.kept)
        found = target if staged else old
        steps = [
            _reversed_step(step, found, f"t{number}", staged=staged)
            for number, step in enumerate(reversed(record.steps))
        ]
    return replace(journal, steps=tuple(steps))


def _reversed_step(step: Step, old: HeldTree, taken: str, *, staged: bool) -> Step:
    if step.action is Action.RIGHTS:
        before = None if step.after is None else replace(step.after, mtime_ns=None)
        return replace(step, before=before, after=step.before)
    if not step.kept:
        return Step(Action.TAKE, step.path, old=step.new, kept=taken)
    return Step(
        Action.PUT,
        step.path,
        old=step.new,
        new=inode_at(old, step.kept),
        source=step.kept,
        staged=staged,
        kept=taken if step.new is not None else "",
    )
