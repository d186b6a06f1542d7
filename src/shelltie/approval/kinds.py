"""Approval by kind: a closed list of kinds of command that a person may allow for a workspace.

A kind covers a command only if each of its words stands there as it is, in plain characters that
no shell changes, and everything else was found on the disk: what git ignores, where a remote
leads, which lock file is committed, whose process a pid is. Whatever cannot be shown has no kind.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from shelltie.approval.ancestry import is_started_by
from shelltie.approval.deletions import deleted_paths
from shelltie.approval.git_facts import git
from shelltie.approval.question import Kind, ProvedKind
from shelltie.basics.lazy_regex import lazy
from shelltie.model import Command
from shelltie.verdict import Verdict

_PLAIN = lazy(r"[A-Za-z0-9_./@=+,-]+(?: [A-Za-z0-9_./@=+,-]+)*")  # one blank between two words
_NAME = lazy(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_BRANCH = lazy(r"[A-Za-z0-9][A-Za-z0-9_./-]*")
_ADDRESS = lazy(r"https://\S+|ssh://\S+|[\w.-]+@[\w.-]+:\S+")
_PID = lazy(r"[1-9][0-9]{0,9}")
_ENTRIES_MAX = 20_000
_GIT_DIRECTORY = frozenset(("HEAD", "objects", "refs"))
_PUSH_OPTIONS = frozenset(("-u", "--set-upstream", "-q", "--quiet", "-v", "--verbose"))
_SIGNALS = frozenset(("-9", "-15", "-2", "-1", "-KILL", "-TERM", "-INT", "-HUP"))
# Settings of a repository by which a push goes elsewhere, does more, or runs something.
_STEERING = (
    r"^(remote\..*\.(receivepack|mirror|vcs|push|proxy)|push\.|url\.|include\.|includeif\."
    r"|core\.(sshcommand|hookspath|gitproxy|askpass|worktree)|credential\.|http\.|submodule\.)"
)
# What installs exactly what a lock file names.
_INSTALLS = {
    "npm ci": "package-lock.json",
    "pnpm install --frozen-lockfile": "pnpm-lock.yaml",
    "yarn install --frozen-lockfile": "yarn.lock",
    "yarn install --immutable": "yarn.lock",
    "bun install --frozen-lockfile": "bun.lock",
    "uv sync --frozen": "uv.lock",
    "uv sync --locked": "uv.lock",
    "cargo fetch --locked": "Cargo.lock",
}


def prove(command: Command, verdict: Verdict, workspace: str) -> ProvedKind | None:
    """The kind of a command, if it has one. It looks at the disk, and may take a while."""
    root, cwd = os.path.realpath(workspace), os.path.realpath(command.cwd)
    words = _plain_words(command, verdict)
    if words is None or (cwd != root and not cwd.startswith(f"{root}/")):
        return None
    if words[0] != "kill" and not _is_elsewhere(words[0], root):
        return None
    for kind, prover in _PROVERS.items():
        detail = prover(words, verdict, Path(cwd), Path(root))
        if detail is not None:
            return ProvedKind(kind, root, detail)
    return None


def _plain_words(command: Command, verdict: Verdict) -> list[str] | None:
    """The words of one simple command, where a shell, its parser and we cannot differ."""
    if command.env or command.stdin is not None:
        return None
    text = command.text if command.argv is None else " ".join(command.argv)
    if not _PLAIN.fullmatch(text) or (command.argv is not None and "" in command.argv):
        return None
    words = text.split(" ")
    if command.argv is not None and list(command.argv) != words:
        return None
    single = [one for one in verdict.commands if not one.wrappers]
    seen = len(verdict.commands) == 1 and [one.argv for one in single] == [tuple(words)]
    return words if seen and "=" not in words[0] and "/" not in words[0] else None


def _is_elsewhere(program: str, root: str) -> bool:
    """Whether the program that has this name is no file of the workspace."""
    found = shutil.which(program)
    if found is None or not Path(found).is_absolute():
        return False
    return not any(path.startswith(f"{root}/") for path in (found, os.path.realpath(found)))


def _deletes_ignored(words: Sequence[str], verdict: Verdict, cwd: Path, root: Path) -> str | None:
    """Every path is in the workspace, ignored by its git, and holds nothing that git keeps."""
    if words[0] != "rm":
        return None
    paths = deleted_paths(verdict.commands[0], str(cwd), str(root))
    if not paths or git(root, "rev-parse", "--show-toplevel") != f"{root}\n".encode():
        return None
    named = "".join(f"{path}\0" for path in paths).encode()
    asked = "check-ignore", "-z", "--stdin", "--no-index"
    ignored = git(root, "-c", "core.excludesFile=/dev/null", *asked, stdin=named)
    below = [_below(path, root) for path in paths]
    kept = git(root, "ls-files", "-z", "--", *(f":(top,literal){name}" for name in below))
    committed = git(root, "ls-tree", "-z", "--full-tree", "HEAD", "--", *below)
    if ignored != named or kept != b"" or committed != b"":
        return None
    return "" if all(_is_plain_tree(path, root) for path in paths) else None


def _below(path: str, root: Path) -> str:
    return path.removeprefix(f"{root}/")


def _is_plain_tree(path: str, root: Path) -> bool:
    """No link itself, no other repository in it nor around it; one that is too large to be sure of
    is not.
    """
    if os.path.islink(path):  # noqa: PTH114  of a text
        return False
    around = (root / place for place in Path(_below(path, root)).parents if place != Path())
    named = (_names(place) for place in around)
    return not any(map(_is_repository, (*named, *_directories(path))))


def _is_repository(names: Collection[str]) -> bool:
    """Whether a directory with these names is a work tree, or what git keeps, by whatever name."""
    return ".git" in names or _GIT_DIRECTORY.issubset(names)


def _names(directory: Path) -> Collection[str]:
    try:
        return os.listdir(directory)  # noqa: PTH208  names
    except OSError as error:
        _refuse(error)
        return ()


def _directories(path: str) -> Iterator[Collection[str]]:
    """The names in each directory of a tree; `.git` for what was not looked at."""
    count = 0
    for _, directories, files in os.walk(path, onerror=_refuse):
        count += len(directories) + len(files)
        if count > _ENTRIES_MAX:
            yield (".git",)
            return
        yield (*directories, *files)


def _refuse(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def _pushes(words: Sequence[str], _: Verdict, cwd: Path, root: Path) -> str | None:
    """A named remote, named branches, no force, and nothing in the repository that steers it."""
    if [*words[:2]] != ["git", "push"]:
        return None
    rest = [word for word in words[2:] if word not in _PUSH_OPTIONS]
    if len(rest) < 2 or not _NAME.fullmatch(rest[0]) or not all(map(_BRANCH.fullmatch, rest[1:])):
        return None
    if (root / ".gitmodules").exists() or git(cwd, "rev-parse", "--show-toplevel") != (
        f"{root}\n".encode()
    ):
        return None
    if git(root, "config", "--local", "--get-regexp", _STEERING, codes=(1,)) != b"":
        return None
    address = (git(root, "remote", "get-url", "--push", "--all", rest[0]) or b"").decode().strip()
    return f"{rest[0]} ({address})" if _ADDRESS.fullmatch(address) else None


def _installs(words: Sequence[str], _: Verdict, cwd: Path, root: Path) -> str | None:
    """The lock file is in the directory, committed, and has not been changed since."""
    lock = _INSTALLS.get(" ".join(words))
    if lock is None:
        return None
    file = cwd / lock
    committed = git(cwd, "rev-parse", "--verify", "--quiet", f"HEAD:./{lock}")
    try:
        content = None if file.is_symlink() else file.read_bytes()
    except OSError:
        return None
    if content is None or committed != f"{_blob(content)}\n".encode():
        return None
    return str(file.relative_to(root))


def _blob(content: bytes) -> str:
    """The name of a file in git, as git computes it."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()  # noqa: S324  git's own


def _stops_own(words: Sequence[str], _: Verdict, __: Path, ___: Path) -> str | None:
    """Signals to processes, each of which descends from this server."""
    if words[0] != "kill":
        return None
    pids = [word for word in words[1:] if word not in _SIGNALS]
    if not pids or len(words) - len(pids) > 2 or not all(map(_PID.fullmatch, pids)):
        return None
    return "" if all(is_started_by(int(pid), os.getpid()) for pid in pids) else None


_PROVERS: Mapping[Kind, Callable[[Sequence[str], Verdict, Path, Path], str | None]] = {
    Kind.DELETE_IGNORED: _deletes_ignored,
    Kind.PUSH: _pushes,
    Kind.INSTALL_LOCKED: _installs,
    Kind.STOP_OWN: _stops_own,
}
