"""Three-way merge of a text that both the trial and others changed, by `git merge-file`."""

import hashlib
import os
import tempfile
from pathlib import Path

from shelltie.approval.git_facts import git
from shelltie.providers.workspace.held_tree import HeldTree
from shelltie.trials.change_set import Change, ChangeKind, ChangeSet, Entry, FileType

_TEXT_MAX = 1024 * 1024
_BASES_MAX = 64 * 1024 * 1024


def keep_bases(change_set: ChangeSet, folder: Path) -> None:
    """Copy the text of each changed file as the trial began with it, for a merge later on.

    Do it right after the trial: what was changed since then cannot be a base.
    Raises: OSError; then no half of a text is left.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    room = _BASES_MAX
    with HeldTree(change_set.workspace) as workspace:
        for change in change_set.changes:
            base = change.before
            if change.kind is not ChangeKind.CHANGED or change.meanwhile or base is None:
                continue
            if base.type is not FileType.FILE or base.size > min(_TEXT_MAX, room):
                continue
            content = workspace.read(change.path, _TEXT_MAX)
            if content is not None and b"\0" not in content:
                room -= len(content)
                _write_whole(folder / _name(change.path), content)


def _write_whole(file: Path, content: bytes) -> None:
    try:
        file.write_bytes(content)
    except OSError:
        file.unlink(missing_ok=True)
        raise


def merged_text(
    change: Change, now: Entry | None, workspace: HeldTree, source: HeldTree, bases: Path | None
) -> bytes | None:
    """Both changes in one text; `None` if they do not go together, or the base is not known."""
    after = change.after
    if now is None or after is None or not now.type is after.type is FileType.FILE:
        return None
    ours, theirs = workspace.read(change.path, _TEXT_MAX), source.read(change.path, _TEXT_MAX)
    if ours is None or theirs is None:
        return None
    if ours == theirs:
        return theirs
    try:
        base = (bases / _name(change.path)).read_bytes() if bases is not None else None
    except OSError:
        base = None
    if base is None or b"\0" in ours or b"\0" in theirs:
        return None
    with tempfile.TemporaryDirectory(prefix="shelltie-merge-") as folder:
        for name, content in (("ours", ours), ("base", base), ("theirs", theirs)):
            (Path(folder) / name).write_bytes(content)
        return git(Path(folder), "merge-file", "-p", "-q", "ours", "base", "theirs")


def _name(path: str) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()
