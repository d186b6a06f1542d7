"""Checks on disk for a safe verdict: git config and hooks, shadowed programs on PATH."""

import os
import re
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy
from shelltie.verdict import Code

_SIZE_MAX = 1024 * 1024
_INDEX_MAX = 64 * 1024 * 1024
_ABOVE_MAX = 64
_MODULES_MAX = 200
_DEPTH_MAX = 4

_SECTION = lazy(r'\s*\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\](.*)', re.DOTALL)
_KEY = lazy(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*?))?\s*", re.DOTALL)
_BLANK = lazy(r"\s*(?:[#;].*)?", re.DOTALL)
_COMMENT = lazy(r"\s[#;].*$")

_RUNS = lazy(
    r"core\.(?:fsmonitor|pager|editor|sshcommand|askpass|hookspath|gitproxy|alternaterefscommand)"
    r"|sequence\.editor|diff\.external|diff\..*\.(?:command|textconv)|merge\..*\.driver"
    r"|filter\..*\.(?:clean|smudge|process)|pager\..*|credential\.(?:.*\.)?helper"
    r"|gpg\.(?:.*\.)?(?:program|defaultkeycommand)|(?:difftool|mergetool|browser|man|guitool)\..*\.(?:cmd|path)"
    r"|remote\..*\.(?:uploadpack|receivepack|vcs|proxy)|submodule\..*\.update|trailer\..*\.(?:command|cmd)"
    r"|uploadpack\.packobjectshook|protocol\.(?:.*\.)?allow|interactive\.difffilter|include\.path|includeif\..*"
    r"|init\.templatedir|tar\..*\.command|alias\..*|hook\..*"
)
# The usual values that name no program, or one that everybody has.
_HARMLESS = lazy(
    r"core\.fsmonitor=(?:true|false|0|1|yes|no|on|off|)"
    r"|(?:core\.pager|pager\..*)=(?:cat|less(?: -[A-Za-z]+)?|true|false|0|1|yes|no|on|off|)"
    r"|filter\.lfs\.(?:clean=git-lfs clean -- %f|smudge=git-lfs smudge (?:--skip )?-- %f"
    r"|process=git-lfs filter-process(?: --skip)?)"
    r"|alias\..*=(?!\s*!).*|submodule\..*\.update=(?:checkout|rebase|merge|none)|protocol\..*allow=(?:never|user)"
)


class _Hostile(Exception):
    """There is something that git would run; the message says what."""


def hazard(directory: Path) -> str | None:
    """What git, started there, would run or what keeps us from knowing; `None` if nothing."""
    try:
        found = _git_directory(directory)
        if found is not None:
            _check_repository(*found, depth=0)
    except _Hostile as error:
        return str(error)
    except (OSError, ValueError) as error:
        return f"the repository cannot be read: {error}"
    return None


def _git_directory(start: Path) -> tuple[Path, Path | None] | None:
    """The git directory that git would find from `start`, and its working tree."""
    start = start.resolve()
    for place in [start, *start.parents][:_ABOVE_MAX]:
        inside = place / ".git"
        if inside.is_dir():
            return inside, place
        if inside.is_file():
            return _pointed_to(inside), place
        if (
            (place / "HEAD").is_file()
            and (place / "objects").is_dir()
            and (place / "refs").is_dir()
        ):
            return place, None
    return None


def _pointed_to(file: Path) -> Path:
    """Where a `.git` file of a worktree or a submodule leads."""
    text = _read(file)
    if not text.startswith("gitdir:"):
        raise _Hostile(f"{file} is not written as git writes it")
    return file.parent / text.removeprefix("gitdir:").strip()


def _check_repository(git: Path, tree: Path | None, depth: int) -> None:
    common = git / _read(git / "commondir").strip() if (git / "commondir").is_file() else git
    for file in {common / "config", git / "config", git / "config.worktree"}:
        if file.exists():
            _check(file)
    for hooks in {common / "hooks", git / "hooks"}:
        if (hooks / "post-index-change").exists():
            raise _Hostile(f"{hooks / 'post-index-change'} runs whenever git notes a change")
    if depth >= _DEPTH_MAX:
        raise _Hostile("repositories are nested too deep")
    _check_modules(common / "modules")
    for module in _gitlinks(git / "index", tree):
        inner = _git_directory(module) if (module / ".git").exists() else None
        if inner is not None:
            _check_repository(*inner, depth=depth + 1)


def _check_modules(modules: Path) -> None:
    """git looks into submodules as well, each with a configuration of its own."""
    if not modules.is_dir():
        return
    configs = [
        *modules.glob("*/config"),
        *modules.glob("*/*/config"),
        *modules.glob("*/*/*/config"),
    ]
    if len(configs) > _MODULES_MAX:
        raise _Hostile("there are too many submodules to look at")
    for config in configs:
        _check(config)


def _gitlinks(index: Path, tree: Path | None) -> Iterator[Path]:
    """Directories of the working tree that the index calls repositories of their own."""
    if tree is None or not index.is_file():
        return
    if index.stat().st_size > _INDEX_MAX:
        raise _Hostile("the index is too large to look at")
    data = index.read_bytes()
    mode = b"\0\0\xe0\0"  # 0o160000, 24 bytes into an entry whose path begins after 62
    at = data.find(mode, 12)
    for _ in range(_MODULES_MAX):
        if at < 0:
            return
        if data[4:8] == b"\0\0\0\4":
            raise _Hostile("the index is compressed and may hold submodules")
        path = data[at + 38 : data.find(b"\0", at + 38)]
        yield tree / path.decode("utf-8", "surrogateescape").lstrip("\0")
        at = data.find(mode, at + 4)
    raise _Hostile("there are too many submodules to look at")


def _check(file: Path) -> None:
    for name, value in _settings(_read(file), file):
        if _RUNS.fullmatch(name) and not _HARMLESS.fullmatch(f"{name}={value}"):
            raise _Hostile(f"{name} is set in {file}")


def _settings(text: str, file: Path) -> Iterator[tuple[str, str]]:
    """Full names in lower case (but for the middle part) and their values."""
    section = ""
    for line in re.sub(r"\\\r?\n", "", text).splitlines():
        if header := _SECTION.fullmatch(line):
            section = header[1].lower() + ("." + header[2].lower() if header[2] else "")
            line = header[3]  # noqa: PLW2901  a setting may stand behind its header
        if _BLANK.fullmatch(line):
            continue
        setting = _KEY.fullmatch(_COMMENT.sub("", line))
        if setting is None or not section:
            raise _Hostile(f"a line of {file} is not written as git writes it")
        value = (setting[2] or "").strip().strip('"')
        yield f"{section}.{setting[1].lower()}", value if setting[2] is not None else "true"


def _read(file: Path) -> str:
    if file.stat().st_size > _SIZE_MAX:
        raise _Hostile(f"{file} is too large")
    return file.read_text(encoding="utf-8", errors="surrogateescape")


_SYSTEM = lazy(r"/(?:usr/|usr/local/|opt/homebrew/|opt/local/|snap/)?s?bin/[^/]+")


@frozen
class CommandPlace:
    """Where a command is to run. `directories` are those the text itself goes to; one that only
    the run will tell is `None`."""

    cwd: Path
    path: str
    terminal: bool = False
    directories: tuple[str | None, ...] = ()

    def all(self) -> Iterator[Path | None]:
        """Every directory in which something of the command may run."""
        yield self.cwd
        for directory in self.directories:
            yield None if directory is None else self.cwd / Path(directory).expanduser()


def doubts(
    place: CommandPlace, conditions: Collection[str], programs: Collection[str]
) -> list[tuple[Code, str]]:
    """Why the command is not safe there.

    It looks at the file system: call it in the loop only where its answers are near.
    """
    found = [unmet for condition in sorted(conditions) for unmet in _unmet(condition, place)]
    whys = [_doubt_about(program, place) for program in programs]
    return [*found, *((Code.UNTRUSTED_PROGRAM, why) for why in whys if why is not None)]


def are_near(place: CommandPlace, conditions: Collection[str], programs: Collection[str]) -> bool:
    """Whether all there is to look at are the system's directories of programs.

    The start of a program waits for these as well. Any other directory may be far away, and slow.
    """
    files = (file for program in programs for file in _candidates(program, place))
    return not conditions and all(map(_SYSTEM.fullmatch, files))


def _unmet(condition: str, place: CommandPlace) -> Iterator[tuple[Code, str]]:
    if condition == "no-terminal":
        if place.terminal:
            yield Code.INTERACTIVE, "it takes commands from the terminal"
        return
    for directory in place.all():
        if directory is None:
            yield Code.DYNAMIC_ARGUMENT, "where it runs is known only at run time"
        elif condition == "git-config":
            if (why := hazard(directory)) is not None:
                yield Code.EXEC_FLAG, f"git may run another program: {why}"
        elif (name := _present(directory, condition.split()[1:])) is not None:
            yield Code.RUNS_CODE, f"{name} of the project is run with it"


def _present(directory: Path, names: list[str]) -> Path | None:
    """The first of these files here or above; it is the nearest that tools use."""
    above = [directory, *directory.resolve().parents][:_ABOVE_MAX]
    candidates = (place / name for place in above for name in names)
    return next((file for file in candidates if file.exists()), None)


def _doubt_about(program: str, place: CommandPlace) -> str | None:
    """Why a program is not the one its name promises; one that is not there is no danger."""
    for name in _candidates(program, place):
        if not name.startswith("/"):
            entry = name.removesuffix(program).removesuffix("/")
            return f"PATH has the relative entry {entry!r}, where {program} could be anything"
        if os.access(name, os.X_OK) and not (file := Path(name)).is_dir():
            return _doubt_about_file(file, place)
    return None


def _candidates(program: str, place: CommandPlace) -> list[str]:
    """The files that it may be, the first before the others."""
    if "/" in program:
        return [program]
    entries = place.path.split(":")
    return [f"{entry.rstrip('/')}/{program}" if entry else program for entry in entries]


def _doubt_about_file(file: Path, place: CommandPlace) -> str | None:
    real = file.resolve()
    if not _SYSTEM.fullmatch(str(file)) and _is_below(real, file, place.cwd.resolve()):
        return f"{file} is a file of the project"
    for one in (real, real.parent, file.parent):
        if one.stat().st_mode & stat.S_IWOTH:
            return f"anybody may change {one}"
    return None


def _is_below(real: Path, file: Path, cwd: Path) -> bool:
    return real.is_relative_to(cwd) or file.is_relative_to(cwd)
