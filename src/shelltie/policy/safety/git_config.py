"""Whether a repository's own configuration makes git run programs.

Even `git status` runs what `core.fsmonitor` names, `git diff` what a textconv or a filter names.
Whoever could write into the repository could have put it there. It is read without git; what
cannot be read, or is written in a way we do not follow, counts as hostile. The user's own
configuration is the user's.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from shelltie.regex import regex

_SIZE_MAX = 1024 * 1024
_INDEX_MAX = 64 * 1024 * 1024
_ABOVE_MAX = 64
_MODULES_MAX = 200
_DEPTH_MAX = 4

_SECTION = regex(r'\s*\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\](.*)', re.DOTALL)
_KEY = regex(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*?))?\s*", re.DOTALL)
_BLANK = regex(r"\s*(?:[#;].*)?", re.DOTALL)
_COMMENT = regex(r"\s[#;].*$")

_RUNS = regex(
    r"core\.(?:fsmonitor|pager|editor|sshcommand|askpass|hookspath|gitproxy|alternaterefscommand)"
    r"|sequence\.editor|diff\.external|diff\..*\.(?:command|textconv)|merge\..*\.driver"
    r"|filter\..*\.(?:clean|smudge|process)|pager\..*|credential\.(?:.*\.)?helper"
    r"|gpg\.(?:.*\.)?(?:program|defaultkeycommand)|(?:difftool|mergetool|browser|man|guitool)\..*\.(?:cmd|path)"
    r"|remote\..*\.(?:uploadpack|receivepack|vcs|proxy)|submodule\..*\.update|trailer\..*\.(?:command|cmd)"
    r"|uploadpack\.packobjectshook|protocol\.(?:.*\.)?allow|interactive\.difffilter|include\.path|includeif\..*"
    r"|init\.templatedir|tar\..*\.command|alias\..*|hook\..*"
)
# The usual values that name no program, or one that everybody has.
_HARMLESS = regex(
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
