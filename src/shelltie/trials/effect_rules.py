"""Rules by effect: whether the changes of a trial may be applied unasked, and else why not.

What git has or ignores can be looked at and made again; so only that is changed unasked, inside the
workspace and with few deletions. What other programs run or obey, rights, devices and links that
lead out are always asked about.
"""

import posixpath
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import dropwhile

from shelltie.basics.frozen import frozen
from shelltie.basics.visible_text import inline
from shelltie.providers.workspace.boundaries import OBEYED
from shelltie.trials.change_set import Change, ChangeKind, ChangeSet, FileType, with_parents
from shelltie.trials.git_knowledge import GitKnowledge, look_up

_NAMED = 5
_OBEYED_NAMES = frozenset(OBEYED)
_OBEYED_INNER = tuple(name for name in OBEYED if "/" in name)
_ABOVE_OBEYED = frozenset(name.partition("/")[0] for name in _OBEYED_INNER)  # as a link, it is them
# What git itself writes, and what takes nothing away and is not obeyed: new objects, its index.
_GIT_ADDS = ("objects", "lfs")
_GIT_STATE = ("index", "COMMIT_EDITMSG", "gc.log", "gc.pid", "*.lock")
# They say what git knows, and so what is applied unasked; a HEAD makes a repository of a directory.
_STEERS_GIT = (".gitignore", ".gitattributes", ".gitmodules", "HEAD")
# Git removes these when it is done with them; other deletions in a repository lose something.
_GIT_REMOVES = ("rebase-merge", "rebase-apply", "sequencer")
_GIT_CLEARS = ("MERGE_*", "AUTO_MERGE", "SQUASH_MSG", "*_HEAD", "gc.log", "gc.pid", "*.lock")


@frozen
class Apply:
    """They may be applied unasked."""


@frozen
class Ask:
    """A person should look first, for these reasons."""

    reasons: tuple[str, ...]


def decide(change_set: ChangeSet, deletions: int) -> Apply | Ask:
    """Whether these changes may be applied unasked.

    `deletions` is the number of deleted files from which on it is asked about; without git, of
    changed files of any kind. Raises: ChangesUnreadable.
    """
    known = look_up(change_set)
    changes = change_set.changes
    findings = (
        ("more was changed than can be listed", ["…"] if change_set.cut else []),
        ("changed in the workspace meanwhile", change_set.conflicts()),
        ("guarded: programs obey it", _paths(c for c in changes if _is_guarded(c, known.obeyed))),
        ("`git status` would not look at it any more", sorted(known.overlooked)),
        ("deleted from a repository", _paths(filter(_loses_history, changes))),
        ("gains rights when it is run", _paths(filter(_gains_rights, changes))),
        ("gets another owner", _paths(filter(_changes_owner, changes))),
        ("a device", _paths(c for c in changes if c.now.type is FileType.DEVICE)),
        ("a link that leads out of the workspace", _paths(_leading_out(change_set))),
        (
            "became something of another type",
            _paths(c for c in changes if c.kind is ChangeKind.TYPE),
        ),
        *_by_number(change_set, deletions, known),
    )
    reasons = tuple(f"{why}: {_listed(paths)}" for why, paths in findings if paths)
    return Ask(reasons) if reasons else Apply()


def _by_number(
    change_set: ChangeSet, most: int, known: GitKnowledge
) -> Iterator[tuple[str, list[str]]]:
    files = [c for c in change_set.changes if not c.is_directory and _git_part(c.path) is None]
    deleted = _paths(c for c in files if c.kind is ChangeKind.DELETED)
    if not known.repository:
        many = len(files) >= most
        yield (
            f"{len(files)} files changed, without git to tell what they were",
            (_paths(files) if many else []),
        )
        return
    yield f"{len(deleted)} files deleted", deleted if len(deleted) >= most else []
    yield "git cannot read its repository", sorted(known.unanswered)
    strange = [c for c in files if c.path not in known.known | known.unanswered]
    new = [c for c in strange if c.kind is ChangeKind.ADDED]
    yield "new, and git neither tracks nor ignores it", _paths(new)
    yield "git does not know it", _paths(c for c in strange if c.kind is not ChangeKind.ADDED)


def _is_guarded(change: Change, by_git: frozenset[str]) -> bool:
    """Whether it is, or is in, what programs obey, be it further down; or what git obeys."""
    parts = change.path.split("/")
    if not (by_git.isdisjoint(with_parents(change.path)) and _OBEYED_NAMES.isdisjoint(parts)):
        return True
    if any(f"/{inner}/" in f"/{change.path}/" for inner in _OBEYED_INNER):
        return True
    if change.now.type is FileType.LINK and parts[-1] in _ABOVE_OBEYED:
        return True
    inside = _git_part(change.path)
    if inside is None:
        return change.path.rpartition("/")[2] in _STEERS_GIT
    if change.now.type not in (FileType.FILE, FileType.DIRECTORY):
        return True
    first, _, rest = inside.partition("/")
    if first in _GIT_ADDS:
        changed = change.kind is not ChangeKind.ADDED and not change.is_directory
        return changed or rest.startswith("info")
    return bool(rest) or not _matches(first, _GIT_STATE)


def _loses_history(change: Change) -> bool:
    inside = _git_part(change.path)
    if inside is None or change.kind is not ChangeKind.DELETED or change.is_directory:
        return False
    first, _, rest = inside.partition("/")
    name = rest.rpartition("/")[2]
    return first not in _GIT_REMOVES and not _matches(name or first, _GIT_CLEARS)


def _git_part(path: str) -> str | None:
    """The path inside a repository's own directory; `None` if it is in none, "" for that itself."""
    parts = path.split("/")
    return "/".join(parts[parts.index(".git") + 1 :]) if ".git" in parts else None


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _gains_rights(change: Change) -> bool:
    after, before = change.after, change.before
    if after is None or after.type is not FileType.FILE:
        return False
    had = before is not None and before.mode & 0o6000 and change.kind is ChangeKind.MODE
    return change.capable or (bool(after.mode & 0o6000) and not had)


def _changes_owner(change: Change) -> bool:
    before, after = change.before, change.after
    if before is None or after is None:
        return False
    return (before.uid, before.gid) != (after.uid, after.gid)


def _leading_out(change_set: ChangeSet) -> Iterator[Change]:
    """By their letters: what a link on the way leads to was asked about when it came."""
    root = str(change_set.workspace)
    for change in change_set.changes:
        if change.after is None or change.after.type is not FileType.LINK:
            continue
        above = posixpath.dirname(posixpath.join(root, change.path))
        target = posixpath.normpath(posixpath.join(above, change.after.target))
        if _goes_back(change.after.target) or not f"{target}/".startswith(f"{root}/"):
            yield change


def _goes_back(target: str) -> bool:
    """Whether a `..` follows a name: if that is a link, letters do not tell where it leads."""
    parts = [part for part in target.split("/") if part not in ("", ".")]
    return ".." in dropwhile(lambda part: part == "..", parts)


def _paths(changes: Iterable[Change]) -> list[str]:
    return [change.path for change in changes]


def _listed(paths: Iterable[str]) -> str:
    shown = [*paths]
    more = f" and {len(shown) - _NAMED} more" if len(shown) > _NAMED else ""
    return ", ".join(map(inline, shown[:_NAMED])) + more
