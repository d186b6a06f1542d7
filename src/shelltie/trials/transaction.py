"""File transaction with a journal: renames and modes in a workspace, all of them or none.

What is to come lies ready in the *source* (the upper directory of a trial, on the same mount) or in
the *work* directory; what goes is kept in the work directory. So every step is a rename or a change
of rights, takes no room, and can be reversed. The steps are on disk before the first one is done:
whoever finds a journal rolls it back. Inodes tell which steps were done, as a rename keeps them.
"""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Any

from shelltie.basics.frozen import frozen, replace
from shelltie.basics.visible_text import inline
from shelltie.errors import ChangesConflict, ChangesNotApplied, TrialError
from shelltie.providers.workspace.held_tree import HeldTree
from shelltie.trials.overlay_upper import file_clock
from shelltie.trials.renaming import exchange, move
from shelltie.trials.tree_copy import remove_tree

JOURNAL, RECORD = "journal.json", "record.json"
_RESTORED = "restored.json"
_LOCK = "lock"


class Action(StrEnum):
    """What a step does at its path."""

    PUT = "put"
    TAKE = "take"
    RIGHTS = "rights"


@frozen
class Rights:
    """Mode and owner; `mtime_ns` is for new directories, whose time changes as they are filled."""

    mode: int
    uid: int
    gid: int
    mtime_ns: int | None = None


@frozen
class Step:
    """One thing to do at a path of the workspace.

    `old` and `new` are inodes, `None` for nothing. `source` is where the new entry lies: in the
    work directory if it is `staged`. `kept` is the name of the old one in the work directory.
    """

    action: Action
    path: str
    old: int | None = None
    new: int | None = None
    source: str = ""
    staged: bool = False
    kept: str = ""
    before: Rights | None = None
    after: Rights | None = None


@frozen
class StepJournal:
    """A transaction as it is written down. One that is not `undoable` leaves no record, and does
    not wait for the disk: it is rolled back when its process is killed, not when the power fails.
    """

    workspace: str
    workspace_id: tuple[int, int]
    source: str
    work: str
    steps: tuple[Step, ...]
    committed_ns: int = 0
    undoable: bool = True

    def write(self, folder: Path, name: str) -> None:
        """Under this name at once; on disk for good if it is `undoable`. Raises: OSError."""
        text = json.dumps(asdict(self))
        part = folder / f"{name}.part"
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if self.undoable:
                os.fsync(file.fileno())
        part.rename(folder / name)
        if self.undoable:
            _sync(folder)

    @classmethod
    def read(cls, folder: Path, name: str) -> "StepJournal | None":
        """What was written; `None` if there is none. Raises: ChangesNotApplied."""
        try:
            said = json.loads((folder / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise ChangesNotApplied(
                f"{folder / name} cannot be read: {error}", rolled_back=False
            ) from error
        said["workspace_id"] = tuple(said["workspace_id"])
        said["steps"] = tuple(map(_step, said["steps"]))
        return cls(**said)


def _step(said: dict[str, Any]) -> Step:
    for side in ("before", "after"):
        said[side] = said[side] and Rights(**said[side])
    return Step(**{**said, "action": Action(said["action"])})


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Only one process at a time works in a folder. Raises: ChangesNotApplied."""
    descriptor = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ChangesNotApplied("these changes are being applied or undone just now") from None
        yield
    finally:
        os.close(descriptor)


def run_transaction(journal: StepJournal, folder: Path) -> None:
    """Do all steps; if it is undoable, the record of it is in the folder. On any failure everything
    is undone again.

    Raises: ChangesConflict, ChangesNotApplied.
    """
    try:
        journal.write(folder, JOURNAL)
        with _trees(journal) as trees:
            for step in journal.steps:
                trees.do(step)
        if journal.undoable:
            done = replace(journal, committed_ns=file_clock(Path(journal.work)))
            done.write(folder, RECORD)
    except (OSError, TrialError) as error:
        problems = roll_back(journal, folder)
        if problems:
            raise ChangesNotApplied(
                f"failed ({error}), and not all could be put back: {'; '.join(problems)}",
                rolled_back=False,
            ) from error
        if isinstance(error, OSError):
            raise ChangesNotApplied(f"nothing was changed: {told(error)}") from error
        raise
    (folder / JOURNAL).unlink()


def told(error: OSError) -> str:
    """What went wrong, and where."""
    name = f"{inline(error.filename)}: " if isinstance(error.filename, str) else ""
    return f"{name}{error.strerror or error}"


def roll_back(journal: StepJournal, folder: Path) -> list[str]:
    """Reverse what was done of a transaction; what could not be is told, and the journal stays."""
    (folder / RECORD).unlink(missing_ok=True)  # else it would count as done
    problems = list[str]()
    try:
        if journal.steps:
            with _trees(journal) as trees:
                problems += trees.reverse_all(journal.steps)
            _note_restored(folder, trees.restored)
        if not problems:
            remove_tree(Path(journal.work))
            (folder / JOURNAL).unlink(missing_ok=True)
    except (OSError, TrialError) as error:
        problems.append(str(error))
    return problems


def _note_restored(folder: Path, restored: dict[int, int]) -> None:
    """Keep what a rollback moved: that alone gives it another ctime, as a change would."""
    if restored:
        text = json.dumps(sorted({**restored_in(folder), **restored}.items()))
        (folder / _RESTORED).write_text(text, encoding="utf-8")


def restored_in(folder: Path) -> dict[int, int]:
    """The inodes that rollbacks moved, with the ctime that they have by that."""
    try:
        return dict(json.loads((folder / _RESTORED).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def work_near(workspace: HeldTree, folder: Path) -> Path:
    """The folder, made now, if it is on the workspace's mount; else the name of one in there."""
    folder.mkdir(mode=0o700)
    with HeldTree(folder) as held:
        if held.mount == workspace.mount:
            return folder
    return workspace.path / f".shelltie-apply-{secrets.token_hex(6)}"


@contextmanager
def _trees(journal: StepJournal) -> Iterator["_Trees"]:
    with (
        HeldTree(Path(journal.workspace)) as workspace,
        HeldTree(Path(journal.source), ours=True) as source,
        HeldTree(Path(journal.work)) as work,
    ):
        if workspace.identity != journal.workspace_id:
            raise ChangesNotApplied(f"{journal.workspace} is another directory than before")
        yield _Trees(workspace, source, work)


class _Trees:
    """The three trees of a transaction, and what a step does in them."""

    def __init__(self, workspace: HeldTree, source: HeldTree, work: HeldTree) -> None:
        self._workspace = workspace
        self._source = source
        self._work = work
        self.restored: dict[int, int] = {}  # ctime by inode

    def do(self, step: Step) -> None:
        """Do one step. Raises: OSError, ChangesConflict."""
        if step.action is Action.RIGHTS:
            self._set_rights(step, step.after)
            return
        self._expect(step.path, step.old)
        if step.action is Action.TAKE:
            move(self._workspace, step.path, self._work, step.kept)
            self._expect_kept(step)
            return
        source = self._origin(step)
        if step.old is None:
            move(source, step.source, self._workspace, step.path)
        elif exchange(source, step.source, self._workspace, step.path):
            # There was never a moment without it. Somebody may have been quicker than the look.
            move(source, step.source, self._work, step.kept)
            self._expect_kept(step)
        else:
            move(self._workspace, step.path, self._work, step.kept)
            self._expect_kept(step)
            move(source, step.source, self._workspace, step.path)

    def reverse_all(self, steps: tuple[Step, ...]) -> list[str]:
        """Reverse what was done, the last step first; what could not be reversed."""
        problems = list[str]()
        for step in reversed(steps):
            try:
                if self._reverse(step):
                    self._note(step.path)
            except (OSError, ChangesConflict) as error:
                problems.append(f"{inline(step.path)}: {error}")
        return problems

    def _reverse(self, step: Step) -> bool:
        """Reverse one step, or the half of it that was done; whether there was something to do.

        Raises: OSError, ChangesConflict.
        """
        if step.action is Action.RIGHTS:
            return self._reverse_rights(step)
        here, done = inode_at(self._workspace, step.path), False
        source = self._origin(step)
        if step.action is Action.PUT and here == step.new:
            if inode_at(source, step.source) is not None:  # the old one, right after an exchange
                exchange(source, step.source, self._workspace, step.path)
                return True
            move(self._workspace, step.path, source, step.source)
            here, done = None, True
        if step.kept and here is None and inode_at(self._work, step.kept) is not None:
            move(self._work, step.kept, self._workspace, step.path)
            here, done = step.old, True
        if here not in (step.old, None) or (here is None and step.old is not None):
            raise OSError("something else is there now")
        return done

    def _reverse_rights(self, step: Step) -> bool:
        found, before = self._workspace.lstat(step.path), step.before
        if found is None or found.st_ino != step.new or before is None:
            return False
        now = Rights(self._workspace.mode(found), found.st_uid, found.st_gid)
        if now == replace(before, mtime_ns=None):
            return False
        self._set_rights(step, before)
        return True

    def _note(self, path: str) -> None:
        """What was moved gets another ctime by that, and so does the directory that it is in."""
        above = self._workspace.lstat_directory(path.rpartition("/")[0])
        for found in (self._workspace.lstat(path), above):
            if found is not None:
                self.restored[found.st_ino] = found.st_ctime_ns

    def _origin(self, step: Step) -> HeldTree:
        return self._work if step.staged else self._source

    def _expect(self, path: str, inode: int | None) -> None:
        if inode_at(self._workspace, path) != inode:
            raise ChangesConflict(f"{path} was changed in the workspace just now", (path,))

    def _expect_kept(self, step: Step) -> None:
        if inode_at(self._work, step.kept) != step.old:
            raise ChangesConflict(
                f"{step.path} was changed in the workspace just now", (step.path,)
            )

    def _set_rights(self, step: Step, rights: Rights | None) -> None:
        assert rights is not None
        found = self._workspace.lstat(step.path)
        if found is None or found.st_ino != step.new:
            raise ChangesConflict(
                f"{step.path} was changed in the workspace just now", (step.path,)
            )
        descriptor = self._workspace.open(step.path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            set_rights(descriptor, found, rights)
        finally:
            os.close(descriptor)


def set_rights(descriptor: int, found: os.stat_result, rights: Rights) -> None:
    """Of a file or directory that is open, be it with O_PATH. Raises: OSError."""
    name = f"/proc/self/fd/{descriptor}"  # a descriptor of O_PATH cannot be changed by itself
    if (found.st_uid, found.st_gid) != (rights.uid, rights.gid):
        os.chown(name, rights.uid, rights.gid)
    os.chmod(name, rights.mode)  # noqa: PTH101  as above; after chown, which takes set-uid away
    if rights.mtime_ns is not None:
        os.utime(name, ns=(rights.mtime_ns, rights.mtime_ns))


def inode_at(tree: HeldTree, path: str) -> int | None:
    """The inode of what is at a path; `None` for nothing."""
    found = tree.lstat(path)
    return None if found is None else found.st_ino


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # some file systems cannot do that for a directory
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
