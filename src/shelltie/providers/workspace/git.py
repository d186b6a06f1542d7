"""Git hooks and config in a workspace, kept read-only so that git outside obeys no command.

Git runs hooks, and programs that settings name, by itself. So where these are they are read-only,
and what could lead git to others cannot come to be unnoticed. A command may have made or changed
everything that is read here: what is more than can be guarded is an error, and nothing is made or
changed through a link.
"""

import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import field
from itertools import islice
from pathlib import Path

from shelltie.basics.frozen import mutable
from shelltie.basics.lazy_regex import lazy
from shelltie.providers.workspace.watched_names import UnguardedName, open_directory
from shelltie.settings.files import open_at_once

SETTINGS = (".gitconfig", ".config/git/config")  # of a person, in the home
_RUNS = ("hooks", "config", "config.worktree")
_HIDES = ("info/exclude", "info/attributes")  # they say what `git status` leaves out
_TREE_NOTES = ("commondir", "gitdir", "config.worktree")
_MAY_COME = ("config.worktree", "gitdir", "exclude", "attributes")  # alone they lead nowhere
_DEPTH = 6  # a repository lies at most so deep
_DIRECTORIES = 40_000  # looked at for repositories; some 10 µs each
_FINELY = 16  # repositories that can be committed to; further ones are read-only altogether
_GUARDED_MAX = 200
_LINKS = 40  # on one way, as many as the kernel follows
_FILES = 50  # of settings that include one another
# Repositories do not lie in these, but for one that is such a directory itself.
INSTALLED_OR_BUILT = frozenset(
    {
        *("node_modules", "__pycache__", "site-packages", ".venv", "venv", ".tox", ".nox"),
        *("target", "dist", "build", ".cache", ".gradle", ".terraform", "bower_components"),
    }
)
_TEXT_MAX = 1024 * 1024
_SECTIONS = {"hookspath": ("core",), "worktree": ("core",), "path": ("include", "includeif")}
_SECTION = lazy(r"\s*\[\s*([\w.-]+)")
_PATH = lazy(r"\s*(?:\[[^\]]*\]\s*)?(hookspath|worktree|path)\s*=\s*(.*)", re.IGNORECASE)
_PER_TREE = lazy(r"worktreeconfig\s*(?:=\s*(?:true|yes|on|1)\s*)?$", re.IGNORECASE | re.M)
_TOO_MANY = "it has too many {} to guard them all, choose a directory further down"


@mutable
class Git:
    """What belongs to the repositories of a workspace.

    `writable` lies elsewhere and is needed to commit. In `kept` nothing can be changed; the
    directories in `held` cannot be renamed; those in `listed` show by their time that there are
    more repositories. `marks` is each `.git`. A `problem` is why not all of it can be guarded.
    """

    writable: list[Path] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)
    held: list[Path] = field(default_factory=list)
    listed: list[Path] = field(default_factory=list)
    watched: list[UnguardedName] = field(default_factory=list)
    marks: list[Path] = field(default_factory=list)
    problem: str = ""


Within = Callable[[Path], bool]


def git_of(roots: tuple[Path, ...], home: Path, within: Within, common: Path | None) -> Git:
    """What to guard where commands can write, as `within` knows; `common` they may write, too."""
    git, more = Git(), tuple(home / name for name in SETTINGS)
    for file in more:
        links, real = follow(file, within)
        if links or within(real):  # of somebody who keeps his settings in a repository
            _keep(git, file, within)
    if common is not None:
        git.writable.append(common)
        _guard(git, common, (*_named(git, roots[0], (common / "config", *more)),), within)
    marks = [*islice((mark for root in roots for mark in marks_in(git, root)), _GUARDED_MAX + 1)]
    if len(marks) > _GUARDED_MAX:
        git.problem = _TOO_MANY.format("repositories")
    git.marks = list(dict.fromkeys(marks))
    for number, mark in enumerate(git.marks):
        repository = repository_of(mark)
        if number >= _FINELY or not mark.is_dir():
            _keep(git, mark, within)
        else:
            git.watched += follow(mark, within)[0]
        if repository is not None and within(repository) and number < _FINELY:
            named = _named(git, mark.parent, (repository / "config", *more))
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


def follow(path: Path, within: Within) -> tuple[list[UnguardedName], Path]:
    """Each link on the way to a path that a command could replace, and where the way ends."""
    links: list[UnguardedName] = []
    rest, at = [*reversed(path.parts[1:])], Path("/")
    for _ in range(_LINKS * 50):
        if not rest:
            break
        step = at / rest.pop()
        try:
            target = os.readlink(step)  # noqa: PTH115  of a text
        except OSError:  # no link, or nothing
            at = Path(os.path.normpath(step))
            continue
        if within(step):
            links.append(UnguardedName(step, target))
        at = Path("/") if target.startswith("/") else at
        rest += reversed([part for part in target.split("/") if part not in ("", ".")])
        if len(links) > _LINKS:
            break
    return links, at


def marks_in(git: Git, root: Path) -> Iterator[Path]:
    """Each `.git` in a directory, the upper ones first."""
    level, looked = [str(root)], 0  # texts: a path costs more than to look at it
    for _ in range(_DEPTH + 1):
        below: list[str] = []
        for directory in level:
            looked += 1
            if looked > _DIRECTORIES:
                git.problem = _TOO_MANY.format("directories")
                return
            found, further = _look_into(directory)
            below += further
            yield from (Path(place, ".git") for place in found)
        level = below


def _look_into(directory: str) -> tuple[list[str], list[str]]:
    """In which of it and what is skipped `.git` is, and which directories to go on with."""
    found, further = [], []
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name == ".git":
                found.append(directory)
            elif not entry.is_dir(follow_symlinks=False):
                continue
            elif entry.name not in INSTALLED_OR_BUILT:
                further.append(entry.path)
            elif os.path.lexists(f"{entry.path}/.git"):
                found.append(entry.path)
    return found, further


def repository_of(mark: Path) -> Path | None:
    """The repository that a `.git` is, or leads to."""
    found = Path(os.path.realpath(mark)) if mark.is_dir() else _named_by(mark)
    return found if found is not None and (found / "HEAD").is_file() else None


def _named_by(file: Path) -> Path | None:
    text = text_of(file).strip()
    if not text.startswith("gitdir:"):
        return None
    return Path(os.path.realpath(file.parent / text.removeprefix("gitdir:").strip()))


def text_of(file: Path) -> str:
    """What is in a file; nothing in what is none: a command may have put a pipe there."""
    with suppress(OSError, ValueError), open(file, "rb", opener=open_at_once) as opened:
        if stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            return opened.read(_TEXT_MAX).decode("utf-8", "replace").replace("\0", "")
    return ""


def _guard(git: Git, repository: Path, named: tuple[Path, ...], within: Within) -> None:
    """A repository with those of its submodules and the notes about its linked work trees."""
    if repository in git.held:
        return
    git.listed += [repository / "worktrees", repository / "modules"]
    trees = [Path(name) for name in _directories(git, repository / "worktrees")]
    if len(trees) > _GUARDED_MAX:
        git.problem = _TOO_MANY.format("work trees")
    modules = _modules(git, repository / "modules")
    repositories = (repository, *modules)
    for place in repositories:
        _complete(place)
    git.held += [*repositories, *trees]
    paths = [*named, *_work_trees(modules)]
    paths += [place / name for place in repositories for name in (*_RUNS, *_HIDES, "commondir")]
    paths += [tree / name for tree in trees for name in _TREE_NOTES]
    for path in paths:
        if path.name not in _MAY_COME or os.path.lexists(path):
            _keep(git, path, within)
    hooks = (*named, *(place / "hooks" for place in repositories))
    for path in (hook for place in hooks for hook in links_in(place)):
        _keep(git, path, within)


def _keep(git: Git, path: Path, within: Within) -> None:
    """Whatever a path means, and each link on the way to it, as far as commands can write there."""
    links, real = follow(path, within)
    git.watched += links
    if not within(real):
        return
    if os.path.lexists(real):
        git.kept.append(real)
    else:
        git.watched.append(UnguardedName(real))


def links_in(hooks: Path) -> Iterator[Path]:
    """Hooks that are kept elsewhere: the directory alone would guard the link, not the program."""
    with suppress(OSError), os.scandir(hooks) as entries:
        yield from (
            Path(entry.path) for entry in islice(entries, _GUARDED_MAX) if entry.is_symlink()
        )


def _work_trees(modules: Iterable[Path]) -> Iterator[Path]:
    """The `.git` of each submodule, wherever its own settings have its files."""
    for module in modules:
        for key, value in _paths(text_of(module / "config")):
            if key == "worktree":
                yield Path(os.path.normpath(module / value)) / ".git"


def _complete(repository: Path) -> None:
    """Make what git does not miss, so that a command cannot make it: a mount needs its place."""
    directory = open_directory(repository)
    if directory is None:
        return
    wanted = ["config"]
    if _PER_TREE.search(text_of(repository / "config")):
        wanted.append("config.worktree")
    try:
        with suppress(OSError):  # it is there, or cannot be made: then it is watched
            os.mkdir("hooks", dir_fd=directory)
        for name in wanted:
            with suppress(OSError):
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
                os.close(os.open(name, flags, 0o644, dir_fd=directory))
    finally:
        os.close(directory)


def _named(git: Git, tree: Path, settings: tuple[Path, ...]) -> Iterator[Path]:
    """Hooks and further settings, wherever the settings have them, and those that they include."""
    queue, read = deque(settings), set[Path]()
    while queue:
        file = queue.popleft()
        if file in read:
            continue
        if len(read) >= _FILES:
            git.problem = _TOO_MANY.format("settings of git that include others")
            return
        read.add(file)
        for key, value in _paths(text_of(file)):
            base = tree if key == "hookspath" else file.parent
            with suppress(RuntimeError):  # of a user whom nobody knows
                path = Path(os.path.abspath(base / Path(value).expanduser()))  # noqa: PTH100  of a text
                if key == "path":
                    queue.append(path)
                if key != "worktree":
                    yield path
                if key == "hookspath" and path.name == "_":  # husky's, which runs those beside it
                    yield path.parent


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


def _modules(git: Git, place: Path) -> list[Path]:
    """The repositories of submodules, also of those within one another."""
    found: list[Path] = []
    queue = deque(_directories(git, place))
    looked = 0
    while queue:
        directory = queue.popleft()
        looked += 1
        if looked > _DIRECTORIES or len(found) > _GUARDED_MAX:
            git.problem = _TOO_MANY.format("submodules")
            return found
        if os.path.lexists(f"{directory}/HEAD"):
            found.append(Path(directory))
            queue += _directories(git, Path(directory, "modules"))
        else:
            queue += _look_into(directory)[1]
    return found


def _directories(git: Git, place: Path) -> list[str]:
    """What is in a directory of git's own, which must be one: behind a link could be anything."""
    if place.is_symlink():
        git.problem = f"{place} is a link, and git would follow it. Replace it by a directory"
        return []
    found = []
    with suppress(OSError), os.scandir(place) as entries:
        found = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    return sorted(found)
