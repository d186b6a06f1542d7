"""New git repositories in a workspace, and what git would run of their settings and hooks.

Whoever made a repository has its hooks and settings, and no mount can guard what was not there.
Editors and prompts run git by themselves in whatever repository they find; so one that would run
something is told of.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from shelltie.basics.lazy_regex import lazy
from shelltie.providers.workspace.git import Git, marks_in, repository_of, text_of

# Wherever git may take it for a setting: sections need no lines of their own, and a subsection may
# have a bracket in its name.
_RUNS = lazy(
    r"(?:^|[\s\]\ufeff])(fsmonitor|hookspath|sshcommand|pager|editor|askpass|gitproxy|external"
    r"|textconv|command|clean|smudge|process|helper|program|driver|path|worktree|alternaterefscommand"
    r"|uploadpack|receivepack|proxycommand|cmd|vcs|difffilter|defaultkeycommand|packobjectshook"
    r"|templatedir)\s*=|\[\s*(pager|protocol|hook)\b|(!|ext::)",
    re.IGNORECASE | re.MULTILINE,
)
_SETTINGS_MAX = 256 * 1024  # bytes
_TOLD_MAX = 8


class NewRepositories:
    """Those of a workspace that were not there before; `known` ones are guarded."""

    def __init__(self, workspace: Path, known: Iterable[Path]) -> None:
        self._workspace = workspace
        self._seen = {*known}
        self._index = self._stamp()

    def look(self) -> Iterator[str]:
        """What is to be told of those that have come since."""
        index, self._index = self._index, self._stamp()
        # The index may name them as submodules, wherever they are.
        found = self._near() if index == self._index else marks_in(Git(), self._workspace)
        new = [mark for mark in found if mark not in self._seen]
        self._seen.update(new)
        for mark in new[:_TOLD_MAX]:
            runs = _what_git_runs(mark)
            if runs:
                yield (
                    f"a repository was made in {mark.parent}, and git there would run something of"
                    f" it ({runs}): look at it before you, your editor or your prompt enter it"
                )

    def _near(self) -> Iterator[Path]:
        """Right below the workspace, as far as an editor looks; this is done after each command."""
        with suppress(OSError), os.scandir(self._workspace) as entries:
            for entry in entries:
                mark = f"{entry.path}/.git"
                if entry.is_dir(follow_symlinks=False) and os.path.lexists(mark):
                    yield Path(mark)

    def _stamp(self) -> tuple[int, int] | None:
        with suppress(OSError):
            found = os.stat(self._workspace / ".git/index", follow_symlinks=False)  # noqa: PTH116  as a link
            return found.st_mtime_ns, found.st_size
        return None


def setting_that_runs(file: Path) -> str:
    """The first setting in a file by which git may run a program, or reads others; "" for none."""
    with suppress(OSError):
        if os.lstat(file).st_size > _SETTINGS_MAX:
            return "more settings than are read"
    found = _RUNS.search(text_of(file))
    return next(filter(None, found.groups())).lower() if found else ""


def _what_git_runs(mark: Path) -> str:
    """A setting or hook of a repository that git obeys; "" if there is none."""
    repository = repository_of(mark)
    if repository is None:
        return ""
    if os.path.lexists(repository / "commondir"):
        return "commondir"
    for name in ("config", "config.worktree"):
        if setting := setting_that_runs(repository / name):
            return setting
    with suppress(OSError), os.scandir(repository / "hooks") as entries:
        for entry in islice(entries, 200):
            if not entry.name.endswith(".sample") and os.access(entry.path, os.X_OK):
                return f"the hook {entry.name}"
    return ""
