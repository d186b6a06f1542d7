"""What git tracks, ignores and obeys among changed paths: two or three bounded calls a repository.

Asked in the workspace and not in the trial: its rules of what to ignore are those from before.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from shelltie.approval.git_facts import git
from shelltie.basics.frozen import frozen
from shelltie.providers.workspace.boundaries import obeyed, within
from shelltie.providers.workspace.git import follow, links_in, repository_of
from shelltie.providers.workspace.held_tree import HeldTree
from shelltie.trials.change_set import ChangeSet, FileType, with_parents

_REPOSITORIES_MAX = 16
_INDEX = ".git/index"
_OBEYED_IN_REPOSITORY = ("hooks", "config", "config.worktree", "info", "commondir", "modules")
_NAMED_MAX = 64 * 1024  # bytes of paths on a command line; beyond, git lists all that it tracks


@frozen
class GitKnowledge:
    """`known` is tracked or ignored, `obeyed` are settings and hooks that git follows, and files
    to which what other programs obey is a link.

    `overlooked` are files that `git status` would not look at any more with the index of the trial,
    `unanswered` those of a repository that git cannot read. Without a `repository` git knows
    nothing.
    """

    repository: bool
    known: frozenset[str]
    obeyed: frozenset[str]
    overlooked: frozenset[str] = frozenset()
    unanswered: frozenset[str] = frozenset()


def look_up(change_set: ChangeSet) -> GitKnowledge:
    """What git knows of the changed files. Blocks. Raises: ChangesUnreadable."""
    workspace = change_set.workspace
    with HeldTree(workspace) as tree:
        grouped = _by_repository(change_set, tree)
    known, followed = set[str](), {*_behind_links(workspace)}
    overlooked, unanswered = set[str](), set[str]()
    any_repository = False
    for root, paths in [*grouped.items()][:_REPOSITORIES_MAX]:
        place, above = workspace / root, f"{root}/" if root else ""
        tracked = _tracked(place, paths)
        if tracked is None:
            if any((parent / ".git").exists() for parent in (place, *place.parents)):
                unanswered.update(f"{above}{path}" for path in paths)
            continue
        any_repository = True
        found = tracked | _ignored(place, [path for path in paths if path not in tracked])
        known.update(f"{above}{path}" for path in found)
        followed.update(_obeyed_by_git(place, workspace))
        if _INDEX in paths:
            index = change_set.source / root / _INDEX
            overlooked.update(f"{above}{path}" for path in _overlooked(place, index))
    return GitKnowledge(
        any_repository or bool(unanswered),
        frozenset(known),
        frozenset(followed),
        frozenset(overlooked),
        frozenset(unanswered),
    )


def _behind_links(workspace: Path) -> Iterator[str]:
    """Files by other names of what programs obey: `CLAUDE.md` is often a link."""
    inside = within((workspace,))
    for path in obeyed(workspace):
        links, real = follow(path, inside)
        if links and inside(real):
            yield str(real.relative_to(workspace))


def hiding_indexes(change_set: ChangeSet) -> Iterator[str]:
    """Each changed index of a repository that was there before, with which `git status` would not
    look at a file any more (`git update-index --skip-worktree`), or that git cannot read. Blocks.
    """
    for change in change_set.changes:
        root = change.path.removesuffix(_INDEX)
        place = change_set.workspace / root
        ours = change.path.endswith(_INDEX) and (not root or root.endswith("/"))
        if change.after is None or not ours or not os.path.lexists(place / ".git" / "HEAD"):
            continue
        regular = change.after.type is FileType.FILE
        after = _marked(place, change_set.source / change.path) if regular else None
        if after is None or (after and after - (_marked(place, None) or set())):
            yield change.path


def _by_repository(change_set: ChangeSet, tree: HeldTree) -> dict[str, list[str]]:
    """Changed paths by the directory of their repository, "" for that of the workspace itself."""
    grouped, marked = dict[str, list[str]](), dict[str, bool]()
    for change in change_set.changes:
        if change.is_directory or change.now.type is FileType.DEVICE:
            continue
        root = ""
        for above in [*with_parents(change.path)][1:]:
            if above not in marked:
                marked[above] = tree.lstat(f"{above}/.git") is not None
            if marked[above]:
                root = above
                break
        grouped.setdefault(root, []).append(change.path.removeprefix(f"{root}/" if root else ""))
    return grouped


def _tracked(place: Path, paths: list[str]) -> set[str] | None:
    """Those in the index and the last commit; `None` if there is no repository, or no answer.

    The index alone says little: a trial that only adds to it is applied unasked.
    """
    named = paths if sum(map(len, paths)) < _NAMED_MAX else []
    output = git(place, "--literal-pathspecs", "ls-files", "-z", "--cached", "--", *named)
    if output is None:
        return None
    committed = git(place, "ls-tree", "-r", "-z", "--name-only", "HEAD", "--", *named)
    return {*_names(output)} & {*_names(committed or b"")} & {*paths}


def _ignored(place: Path, paths: list[str]) -> set[str]:
    given = b"".join(os.fsencode(path) + b"\0" for path in paths)
    output = git(place, "check-ignore", "-z", "--stdin", stdin=given, codes=(1,)) if paths else b""
    return {*_names(output or b"")}


def _overlooked(place: Path, index: Path) -> set[str]:
    """What is newly marked (`--assume-unchanged`, `--skip-worktree`) in an index; itself, if git
    cannot read it.
    """
    before, after = _marked(place, None), _marked(place, index)
    return {_INDEX} if before is None or after is None else after - before


def _marked(place: Path, index: Path | None) -> set[str] | None:
    listed = git(place, "ls-files", "-z", "-v", "--cached", index=index)
    if listed is None:
        return None
    # A letter and a space before each: S and small letters are the marks.
    return {name[2:] for name in _names(listed) if name[0] == "S" or name[0].islower()}


def _obeyed_by_git(place: Path, workspace: Path) -> Iterator[str]:
    """What git reads settings from and runs as a hook, as far as it is in the workspace."""
    inside = within((workspace,))
    for path in (*_settings_and_hooks(place), *_own_files(place)):
        links, real = follow(path, inside)
        ways = [path, real, *(link.path for link in links)]
        for hook in links_in(path):
            links, real = follow(hook, inside)
            ways += [real, *(link.path for link in links)]
        yield from (str(way.relative_to(workspace)) for way in filter(inside, ways))


def _settings_and_hooks(place: Path) -> Iterator[Path]:
    """Files that hold settings, and directories of hooks that settings name."""
    listed = git(place, "config", "--list", "--show-origin", "--includes", "-z") or b""
    words = [os.fsdecode(word) for word in listed.split(b"\0")]
    for origin, setting in zip(words[::2], words[1::2], strict=False):
        kind, _, file = origin.partition(":")
        name, _, value = setting.partition("\n")
        if kind != "file":  # our own, which has git run no hooks
            continue
        yield Path(os.path.normpath(place / file))
        # Programs that git runs: file monitors, filters, drivers, aliases.
        words_in = (Path(os.path.normpath(place / word.strip("!'\""))) for word in value.split())
        yield from (word for word in words_in if word.is_file())
        if name == "core.hookspath":
            hooks = Path(os.path.normpath(place / value))
            yield hooks
            if hooks.name == "_":  # husky's, which runs those beside it
                yield hooks.parent


def _own_files(place: Path) -> Iterator[Path]:
    """What a repository obeys of its own; it need not lie in a directory `.git`."""
    repository = repository_of(place / ".git")
    if repository is not None:
        yield from (repository / name for name in _OBEYED_IN_REPOSITORY)


def _names(output: bytes) -> Iterable[str]:
    return (os.fsdecode(name) for name in output.split(b"\0") if name)
