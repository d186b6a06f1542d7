"""Secret paths, protected paths and code-loading variables, from data/*.toml."""

import json
import posixpath
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from shelltie.basics.lazy_regex import lazy
from shelltie.environment.variable_kinds import is_hook_name, is_inert_name
from shelltie.verdict import Code, Rating

_FOLDER = Path(__file__).parent / "data"
TABLES = _FOLDER / "tables.json"


@cache
def _tables() -> Mapping[str, Mapping[str, Any]]:
    # All of the TOML in JSON, which C reads: to parse TOML takes 4 ms of each start.
    tables: dict[str, dict[str, Any]] = json.loads(TABLES.read_bytes())
    return tables


def table(name: str) -> Mapping[str, Any]:
    """One file of lists."""
    return _tables()[name]


def make_tables() -> dict[str, dict[str, Any]]:
    """The tables anew, from the files themselves."""
    return {
        path.stem: tomllib.loads(path.read_text(encoding="utf-8"))
        for path in sorted(_FOLDER.glob("*.toml"))
    }


def any_of(patterns: Iterable[str], flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """One pattern for all of them."""
    return lazy("|".join(f"(?:{pattern})" for pattern in patterns), flags)


_Parts = tuple[str, ...]

_HOME = lazy(r"(?:~[\w.-]*|/root|/home/[^/]+|/Users/[^/]+|/var/root)(?=/|$)")
_REMOTE = lazy(r"^[\w.@-]{2,}:(?!//)(.+)", re.DOTALL)
_NAMED = lazy(r"^-{0,2}[\w.-]+=(.+)", re.DOTALL)
_GLOB = lazy(r"[*?\[]")
_ADDRESS = lazy(r"(?!file:)[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_FILE_ADDRESS = lazy(r"^file:(?://(?:localhost)?)?")
_REVISION = lazy(r"@(?:[~^]\d*)+")  # git's: `@~2` is no file
_UNWRAPPED_MAX = 4
_LENGTH_MAX = 4096  # no system opens a longer path


def _places(text: str) -> tuple[_Parts, ...]:
    return tuple(tuple(place.lower().split("/")) for place in text.split())


_SECRET = table("paths")["secret"]
_SECRET_PLACES = _places(_SECRET["places"])
_SECRET_HOME_FILES = frozenset(_SECRET["home_files"].split())
_SECRET_ABSOLUTE = any_of(_SECRET["absolute"])
_SECRET_FILES = any_of(_SECRET["files"])
_DOUBTFUL_FILES = any_of(_SECRET["doubtful"])
_WIDE = frozenset(_SECRET["wide"].split())
_PUBLIC_FILES = any_of(_SECRET["public"])
_SAMPLES = _places(_SECRET["samples"])

_PROTECTED = table("paths")["protected"]
_HARMLESS = frozenset(_PROTECTED["harmless"].split())
_DEVICES = any_of(_PROTECTED["devices"])
_SOCKETS = any_of(_PROTECTED["sockets"])
_PRIVILEGE = any_of(_PROTECTED["privilege"])
_STARTUP = any_of(_PROTECTED["startup"])
_HOOKS = _places(_PROTECTED["hooks"])
_PROTECTED_SAMPLES = _places(_PROTECTED["samples"])
_SYSTEM = any_of(_PROTECTED["system"])


def secrecy(text: str, directories: Iterable[str] = ()) -> Rating:
    """How secret the content of the file is that a word names.

    `directories` are where the script may have gone before.
    """
    if len(text) > _LENGTH_MAX:
        return Rating.UNKNOWN
    if _ADDRESS.match(text):
        return Rating.SAFE
    ratings = [_secrecy(path) for path in _meanings(text, directories)]
    return max(ratings, key=lambda rating: rating.rank, default=Rating.SAFE)


def is_secret_path(text: str, directories: Iterable[str] = ()) -> bool:
    """Whether the file certainly holds credentials."""
    return secrecy(text, directories) is Rating.DANGEROUS


@lru_cache(maxsize=1024)
def _secrecy(path: str) -> Rating:
    path = _normal(path)
    parts = tuple(path.lower().split("/"))
    name = parts[-1]
    if _PUBLIC_FILES.fullmatch(name) and not _GLOB.search(path):
        return Rating.SAFE
    if _is_secret(path, parts):
        return Rating.DANGEROUS
    doubtful = path in _WIDE or _DOUBTFUL_FILES.fullmatch(name)
    return Rating.UNKNOWN if doubtful else Rating.SAFE


def _is_secret(path: str, parts: _Parts) -> bool:
    return (
        _SECRET_FILES.fullmatch(parts[-1]) is not None
        or _SECRET_ABSOLUTE.fullmatch(path) is not None
        or any(_contains(parts, place) for place in _SECRET_PLACES)
        or (parts[-1] in _SECRET_HOME_FILES and parts[:-1] == ("~",))
        or (_GLOB.search(path) is not None and any(_could_be(parts, it) for it in _SAMPLES))
    )


def _contains(parts: _Parts, place: _Parts) -> bool:
    count = len(place)
    return place[0] in parts and any(
        parts[at : at + count] == place for at in range(len(parts) - count + 1)
    )


def _could_be(pattern: _Parts, path: _Parts) -> bool:
    """Whether a shell pattern could mean the path; `*` does not mean hidden files."""
    return len(pattern) == len(path) and all(
        fnmatchcase(part, glob) and (not part.startswith(".") or glob.startswith((".", "[")))
        for glob, part in zip(pattern, path, strict=True)
    )


def is_harmless_target(path: str) -> bool:
    """Writing there changes nothing."""
    return path in _HARMLESS


def protection(text: str, directories: Iterable[str] = ()) -> Code | None:
    """Why the file a word names must not be written or removed, if there is a reason."""
    if len(text) > _LENGTH_MAX:
        return None
    codes = (_protection(path) for path in _meanings(text, directories))
    return next((code for code in codes if code is not None), None)


@lru_cache(maxsize=1024)
def _protection(path: str) -> Code | None:
    path = _normal(path)
    if _SOCKETS.fullmatch(path):
        return Code.NETWORK_EXFIL
    if is_harmless_target(path) or _DEVICES.fullmatch(path):
        return None
    if _PRIVILEGE.fullmatch(path):
        return Code.PRIVILEGE
    parts = tuple(path.lower().split("/"))
    if _STARTUP.fullmatch(path) or any(_contains(parts, place) for place in _HOOKS):
        return Code.PERSISTENCE
    if _GLOB.search(path) and any(_could_be(parts, place) for place in _PROTECTED_SAMPLES):
        return Code.PERSISTENCE
    return Code.PROTECTED_PATH if _SYSTEM.fullmatch(path) else None


def paths_in(text: str) -> Iterator[str]:
    """The paths that a word may hold; none if it is an address."""
    if len(text) <= _LENGTH_MAX and not _ADDRESS.match(text):
        yield from _meanings(text, ())


def _meanings(text: str, directories: Iterable[str]) -> Iterator[str]:
    """The paths a word may hold: itself, and what stands in `--name=path`, `@path`, `host:path`."""
    waiting = [text]
    for _ in range(_UNWRAPPED_MAX):
        if not waiting:
            break
        path = waiting.pop(0)
        waiting += _inside(path)
        yield path
        if not path.startswith(("/", "~")):
            yield from (f"{directory}/{path}" for directory in directories)


def _inside(text: str) -> Iterator[str]:
    if named := _NAMED.match(text):
        yield named[1]
    if "@" in text[:2] and not _REVISION.fullmatch(text):
        yield text.partition("@")[2]
    if remote := _REMOTE.match(text):
        yield remote[1]
    if text.startswith("file:"):
        yield _FILE_ADDRESS.sub("", text)


def _normal(path: str) -> str:
    """Without `.`, `..` and doubled slashes; any home is `~`."""
    if not path:
        return path
    path = re.sub(r"^/+", "/", posixpath.normpath(path.strip()))
    return _HOME.sub("~", path, count=1) if _HOME.match(path) else path


_HELPFUL = frozenset(table("help")["names"].split())


def is_help_harmless(program: str) -> bool:
    """Whether it prints its help or version without loading anything of the project first."""
    return program in _HELPFUL


_LISTS = table("variables")
_HARMLESS_VARIABLES = any_of(_LISTS["harmless"])
_LOADS = any_of(_LISTS["loads"])
_RUNS = any_of(_LISTS["runs"])
_STEERS = any_of(_LISTS["steers"], re.IGNORECASE)
_LOADING_OPTIONS = {name: lazy(pattern) for name, pattern in _LISTS["loading_options"].items()}
# Where everybody may put a program, and whatever is relative.
_DOUBTFUL_DIRECTORY = lazy(r"(?:/tmp|/var/tmp|/dev/shm)(?:/.*)?|(?![/~$\0]).*", re.DOTALL)


class Effect(StrEnum):
    """What setting a variable can do to the programs that see it."""

    NONE = "none"
    LOADS = "loads"  # code is loaded from where it says
    RUNS = "runs"  # its value is a command
    STEERS = "steers"  # it may change what runs, or where


def effect(name: str, value: str) -> Effect:
    """What `name=value` can do."""
    if is_harmless(name):
        return Effect.NONE
    if _LOADS.fullmatch(name) or _loads(name, value):
        return Effect.LOADS
    if _RUNS.fullmatch(name):
        return Effect.RUNS
    return Effect.STEERS if _STEERS.fullmatch(name) or is_hook_name(name) else Effect.NONE


def _loads(name: str, value: str) -> bool:
    if name == "PATH":
        return any(map(_DOUBTFUL_DIRECTORY.fullmatch, value.split(":")))
    options = _LOADING_OPTIONS.get(name)
    return options is not None and options.search(value) is not None


def is_harmless(name: str) -> bool:
    """Whether any value of it may stand before a command that is safe."""
    return is_inert_name(name) or _HARMLESS_VARIABLES.fullmatch(name) is not None
