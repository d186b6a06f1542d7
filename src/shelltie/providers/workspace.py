"""The directory in which an isolated command may write: which one can be that, and what of it not.

Whatever is in it and is run later by somebody else, outside, would be a way out. So what git,
editors and agents run or obey by themselves is read-only in it, as far as it is there.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from shelltie.errors import CannotStart
from shelltie.frozen import frozen

# Nobody works in these, and to write there is to change the machine.
_SYSTEM = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/nix", "/proc", "/run", "/sbin", "/sys", "/usr"),
)
_TOO_WIDE = ("/", "/home", "/mnt", "/media", "/opt", "/root", "/srv", "/tmp", "/var", "/var/tmp")  # noqa: S108  only compared
_OBEYED = (
    *(".shelltie.toml", ".shelltie", "config/terminal_timeout_policy.json"),
    *(".mcp.json", ".claude", ".codex", ".cursor", ".gemini", ".windsurf", ".continue", ".roo"),
    *(".clinerules", ".aider.conf.yml", "opencode.json", ".vscode", ".idea", ".zed"),
    *(".devcontainer", ".envrc", ".husky", ".pre-commit-config.yaml"),
)


@frozen
class Git:
    """A repository's own directories: what git needs to write, and what of it must stay."""

    writable: tuple[Path, ...] = ()
    kept: tuple[Path, ...] = ()


def checked(given: str, home: Path, ours: tuple[Path, ...]) -> Path:
    """The real directory, if one may let commands write there. `ours` are shelltie's own.

    Raises: CannotStart.
    """
    path = Path(os.path.realpath(given or "."))
    advice = "start shelltie in the project's directory, or set sandbox.workspace to it"
    if not path.is_dir():
        raise CannotStart(f"the workspace {path} is no directory: {advice}")
    if str(path) in _TOO_WIDE or path == home or path in home.parents:
        raise CannotStart(
            f"{path} is too wide for a workspace, all of it could be written: {advice}"
        )
    if any(path == Path(root) or Path(root) in path.parents for root in _SYSTEM):
        raise CannotStart(f"{path} belongs to the system and is no workspace: {advice}")
    for one in ours:
        if one == path or one in path.parents:
            raise CannotStart(f"{path} is shelltie's own and is no workspace: {advice}")
    return path


def obeyed(workspace: Path) -> Iterator[Path]:
    """What editors, agents and shelltie itself obey."""
    for name in _OBEYED:
        path = workspace / name
        if path.exists() and not path.is_symlink():
            yield path


def git_of(workspace: Path) -> Git:
    """What belongs to the repository whose work tree this is."""
    place = workspace / ".git"
    if place.is_symlink():
        return Git()
    if place.is_dir():
        return Git((place,), tuple(_runs_things(place)))
    common = _linked(place)
    if common is None:
        return Git()
    return Git((common,), (place, *_runs_things(common)))


def _linked(file: Path) -> Path | None:
    """The repository of a linked work tree; its own note of that must say so, too.

    The file in the work tree alone could name any directory: commands can write it.
    """
    with suppress(OSError, ValueError):
        said = file.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        own = Path(os.path.realpath(file.parent / said))
        back = (own / "gitdir").read_text(encoding="utf-8").strip()
        common = Path(os.path.realpath(own / (own / "commondir").read_text("utf-8").strip()))
        if os.path.realpath(back) == str(file) and (common / "HEAD").is_file():
            return common
    return None


def _runs_things(repository: Path) -> Iterator[Path]:
    """Hooks, and settings that name programs, also those of submodules."""
    for place in (repository, *_modules(repository / "modules")):
        for name in ("hooks", "config", "config.worktree"):
            if (place / name).exists() and not (place / name).is_symlink():
                yield place / name


def _modules(place: Path) -> list[Path]:
    with suppress(OSError):
        return [file.parent for file in sorted(place.rglob("HEAD"))[:100]]
    return []
