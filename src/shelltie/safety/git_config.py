"""git configuration: whether a repository makes git run a program. Reads the disk.

What is not plainly written is read by git itself, with an environment that holds nothing.
"""

import shutil
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from shelltie.basics.lazy_regex import lazy
from shelltie.keeper.helper_program import output_of

_SIZE_MAX = 1024 * 1024
_INDEX_MAX = 64 * 1024 * 1024
ABOVE_MAX = 64
_MODULES_MAX = 200
_DEPTH_MAX = 4

# As git itself writes it: no quotes, escapes or comments that it may understand otherwise.
_PLAIN_LINE = lazy(
    r'\[(?P<section>[A-Za-z][A-Za-z0-9-]*)(?: "(?P<sub>[^"\\\n]*)")?\]'
    r"|[ \t]*(?P<key>[A-Za-z][A-Za-z0-9-]*)[ \t]*=[ \t]*(?P<value>[^\"\\#;\n\r]*?)[ \t]*|[ \t]*"
)
_GIT_PLACES = "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin:/opt/local/bin"
_ANSWER_TIMEOUT = 5.0

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
    for place in [start, *start.parents][:ABOVE_MAX]:
        inside = place / ".git"
        if inside.is_dir():
            return inside, place
        if inside.is_file():
            return _pointed_to(inside), place
        # With a `commondir`, objects and refs are where that says.
        parts = (place / name for name in ("objects", "refs", "commondir"))
        if (place / "HEAD").exists() and any(part.exists() for part in parts):
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
    files = {common / "config", git / "config", git / "config.worktree"}
    wide = True in {_check(file) for file in files if file.exists()}
    for hooks in {common / "hooks", git / "hooks"}:
        if (hooks / "post-index-change").exists():
            raise _Hostile(f"{hooks / 'post-index-change'} runs whenever git notes a change")
    if depth >= _DEPTH_MAX:
        raise _Hostile("repositories are nested too deep")
    _check_modules(common / "modules")
    if any(True for _ in git.glob("sharedindex.*")):
        raise _Hostile("the index is split and may hold submodules")
    for module in _gitlinks(git / "index", tree, 50 if wide else 38):
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


def _gitlinks(index: Path, tree: Path | None, to_path: int) -> Iterator[Path]:
    """Directories of the working tree that the index calls repositories of their own.

    A path stands `to_path` bytes behind the mode of its entry: that depends on the hash.
    """
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
        path = data[at + to_path : data.find(b"\0", at + to_path)]
        yield tree / path.decode("utf-8", "surrogateescape").lstrip("\0")
        at = data.find(mode, at + 4)
    raise _Hostile("there are too many submodules to look at")


def _check(file: Path) -> bool:
    """Whether the repository has the longer hashes."""
    wide = False
    for name, value in _settings(_read(file), file):
        if _RUNS.fullmatch(name) and not _HARMLESS.fullmatch(f"{name}={value}"):
            raise _Hostile(f"{name} is set in {file}")
        wide = wide or (name == "extensions.objectformat" and value.lower() != "sha1")
    return wide


def _settings(text: str, file: Path) -> tuple[tuple[str, str], ...]:
    """Full names in lower case and their values, as git understands them."""
    plain = _plain_settings(text)
    if plain is not None:
        return plain
    found = _by_git(text)
    if found is None:
        raise _Hostile(f"git cannot read {file}")
    return found


def _plain_settings(text: str) -> tuple[tuple[str, str], ...] | None:
    """The same, if every line is written as git writes it."""
    section, found = "", list[tuple[str, str]]()
    for line in text.split("\n"):
        plain = _PLAIN_LINE.fullmatch(line)
        if plain is None or (plain["key"] and not section):
            return None
        if plain["section"]:
            section = plain["section"].lower() + (
                f".{plain['sub'].lower()}" if plain["sub"] else ""
            )
        elif plain["key"]:
            found.append((f"{section}.{plain['key'].lower()}", plain["value"]))
    return tuple(found)


@lru_cache(maxsize=64)
def _by_git(text: str) -> tuple[tuple[str, str], ...] | None:
    """The same by git's own parser; `None` where there is no git, or it refuses. Blocks."""
    git = shutil.which("git", path=_GIT_PLACES)
    if git is None:
        return None
    argv = [git, "config", "--file", "-", "--no-includes", "--list", "-z"]
    env = {"PATH": _GIT_PLACES, "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent", "LC_ALL": "C"}
    given = text.encode("utf-8", "surrogateescape")
    output = output_of(argv, given, timeout=_ANSWER_TIMEOUT, env=env, cwd="/")
    if output is None:
        return None
    entries = output.decode("utf-8", "surrogateescape").split("\0")
    pairs = (entry.partition("\n") for entry in entries if entry)
    return tuple((name.lower(), value if equals else "true") for name, equals, value in pairs)


def _read(file: Path) -> str:
    if file.stat().st_size > _SIZE_MAX:
        raise _Hostile(f"{file} is too large")
    return file.read_text(encoding="utf-8", errors="surrogateescape")
