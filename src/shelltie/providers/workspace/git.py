"""Git hooks and config in a workspace, kept read-only so that git outside obeys no command.

Git runs hooks, and programs that settings name, by itself. So where these are they are read-only,
and what could lead git to others cannot come to be unnoticed.
"""

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy

SETTINGS = (".gitconfig", ".config/git/config")  # of a person, in the home
_RUNS = ("hooks", "config", "config.worktree")
_TREE_NOTES = ("commondir", "gitdir", "config.worktree")
_MAY_COME = ("config.worktree", "gitdir")  # git obeys these only where others lead it there
_DEPTH = 4  # a repository lies at most so deep
_DIRECTORIES = 4000  # looked at for repositories; some 10 µs each
_FINELY = 16  # repositories that can be committed to; further ones are read-only altogether
_MOST = 200
_SKIPPED = frozenset(
    {
        *("node_modules", "__pycache__", "site-packages", ".venv", "venv", ".tox", ".nox"),
        *("target", "dist", "build", ".cache", ".gradle", ".terraform", "bower_components"),
    }
)
_TEXT_MAX = 1024 * 1024
_SECTIONS = {"hookspath": ("core",), "path": ("include", "includeif")}
_SECTION = lazy(r"\s*\[\s*([\w.-]+)")
_PATH = lazy(r"\s*(?:\[[^\]]*\]\s*)?(hookspath|path)\s*=\s*(.*)", re.IGNORECASE)
_PER_TREE = lazy(r"worktreeconfig\s*(?:=\s*(?:true|yes|on|1)\s*)?$", re.IGNORECASE | re.M)


@frozen
class UnguardedName:
    """A name that no mount can guard: there is nothing, or a link."""

    path: Path
    link: str | None = None


@dataclass(slots=True)
class Git:
    """What belongs to the repositories of a workspace.

    `writable` lies elsewhere and is needed to commit. In `kept` nothing can be changed; the
    directories in `held` cannot be renamed; those in `listed` show by their time that there are
    more repositories. `many` are more than can be guarded.
    """

    writable: list[Path] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)
    held: list[Path] = field(default_factory=list)
    listed: list[Path] = field(default_factory=list)
    watched: list[UnguardedName] = field(default_factory=list)
    many: bool = False


Within = Callable[[Path], bool]


def git_of(workspace: Path, home: Path, within: Within, common: Path | None) -> Git:
    """What to guard where commands can write, as `within` knows; `common` they may write, too."""
    git, more = Git(), tuple(home / name for name in SETTINGS)
    marks = list(islice(_marks(workspace), _MOST + 1))
    git.many = len(marks) > _MOST
    if common is not None:
        git.writable.append(common)
        _guard(git, common, (*_named(workspace, (common / "config", *more)),), within)
    for number, mark in enumerate(marks):
        repository = _repository(mark)
        if mark.is_symlink():
            git.watched.append(UnguardedName(mark, str(mark.readlink())))
        elif not mark.is_dir() or number >= _FINELY:
            git.kept.append(mark)
        if repository is not None and within(repository) and number < _FINELY:
            named = _named(mark.parent, (repository / "config", *more))
            _guard(git, repository, (*named,), within)
    return git


def linked(mark: Path, within: Within) -> Path | None:
    """The repository of a linked work tree, if that lies where no command can write.

    The file in the work tree alone could name any directory. So git's own note about the tree must
    be where git puts it, and must name this tree.
    """
    own = None if mark.is_symlink() else _named_by(mark)
    if own is None or within(own) or own.parent.name != "worktrees":
        return None
    common = own.parent.parent
    said = os.path.realpath(own / text_of(own / "commondir").strip())
    back = os.path.realpath(own / text_of(own / "gitdir").strip())
    sound = said == str(common) and back == str(mark) and (common / "HEAD").is_file()
    return common if sound else None


def _marks(workspace: Path) -> Iterator[Path]:
    """Each `.git` in it, the upper ones first."""
    level, looked = [str(workspace)], 0  # texts: a path costs more than to look at it
    for _ in range(_DEPTH + 1):
        below: list[str] = []
        for directory in level:
            looked += 1
            if looked > _DIRECTORIES:
                return
            found, further = _look_into(directory)
            below += further
            if found:
                yield Path(directory, ".git")
        level = below


def _look_into(directory: str) -> tuple[bool, list[str]]:
    """Whether `.git` is there, and which directories."""
    found, further = False, []
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name == ".git":
                found = True
            elif entry.name not in _SKIPPED and entry.is_dir(follow_symlinks=False):
                further.append(entry.path)
    return found, further


def _repository(mark: Path) -> Path | None:
    found = Path(os.path.realpath(mark)) if mark.is_dir() else _named_by(mark)
    return found if found is not None and (found / "HEAD").is_file() else None


def _named_by(file: Path) -> Path | None:
    text = text_of(file).strip()
    if not text.startswith("gitdir:"):
        return None
    return Path(os.path.realpath(file.parent / text.removeprefix("gitdir:").strip()))


def text_of(file: Path) -> str:
    """What is in a file; nothing in what is none: a command may have put a pipe there."""
    with suppress(OSError, ValueError), open(file, "rb", opener=_at_once) as opened:
        if stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            return opened.read(_TEXT_MAX).decode("utf-8", "replace").replace("\0", "")
    return ""


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _guard(git: Git, repository: Path, named: tuple[Path, ...], within: Within) -> None:
    """A repository with those of its submodules and the notes about its linked work trees."""
    if repository in git.held:
        return
    git.listed += [repository / "worktrees", repository / "modules"]
    _, directories = _look_into(str(repository / "worktrees"))
    trees = [Path(name) for name in sorted(directories)[:_MOST]]
    repositories = (repository, *_modules(repository / "modules"))
    for place in repositories:
        _complete(place)
    git.held += [*repositories, *trees]
    paths = [path for path in named if within(Path(os.path.realpath(path)))]
    paths += [place / name for place in repositories for name in (*_RUNS, "commondir")]
    paths += [tree / name for tree in trees for name in _TREE_NOTES]
    for path in paths:
        if path.name not in _MAY_COME or os.path.lexists(path):
            _keep(git, path, within)


def _keep(git: Git, path: Path, within: Within) -> None:
    if path.is_symlink():
        git.watched.append(UnguardedName(path, str(path.readlink())))
        real = Path(os.path.realpath(path))
        if within(real) and real.exists():
            git.kept.append(real)
    elif path.exists():
        git.kept.append(path)
    else:
        git.watched.append(UnguardedName(path))


def _complete(repository: Path) -> None:
    """Make what git does not miss, so that a command cannot make it: a mount needs its place."""
    with suppress(OSError):
        if not os.path.lexists(repository / "hooks"):
            (repository / "hooks").mkdir()
        wanted = ["config"]
        if _PER_TREE.search(text_of(repository / "config")):
            wanted.append("config.worktree")
        for name in wanted:
            if not os.path.lexists(repository / name):
                (repository / name).touch()


def _named(tree: Path, settings: tuple[Path, ...]) -> Iterator[Path]:
    """Hooks and further settings, wherever the settings have them."""
    for file in settings:
        for key, value in _paths(text_of(file)):
            base = tree if key == "hookspath" else file.parent
            with suppress(RuntimeError):  # of a user whom nobody knows
                yield Path(os.path.abspath(base / Path(value).expanduser()))  # noqa: PTH100  of a text


def _paths(settings: str) -> Iterator[tuple[str, str]]:
    section = ""
    for line in settings.splitlines():
        head = _SECTION.match(line)
        section = head[1].lower() if head else section
        found = _PATH.match(line)
        if found is None:
            continue
        key, value = found[1].lower(), found[2].strip().strip('"')
        if value and section in _SECTIONS[key]:
            yield key, value


def _modules(place: Path) -> list[Path]:
    with suppress(OSError):
        return [file.parent for file in sorted(place.rglob("HEAD"))[:100] if file.is_file()]
    return []
