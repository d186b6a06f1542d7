"""Trusted projects: digests of the project files that a person has approved."""

import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from shelltie.basics.frozen import frozen
from shelltie.basics.times import iso_utc
from shelltie.errors import ConfigWrong, MissingFile
from shelltie.settings import toml_list
from shelltie.settings.files import read_small_file

SETTINGS = ".shelltie.toml"
RULES = ".shelltie"  # a directory: every file below it counts

_FILES_MAX = 200
_TABLE = "project"
_HEADING = """\
Projects whose own shelltie files you trust, each as the files were when you said so.
Written by `shelltie trust`; delete an entry, or `shelltie trust --revoke DIR`, to end it."""


@frozen
class Snapshot:
    """What a project says at one moment: read once, so that what is trusted is what is used."""

    project: Path
    files: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """Another one if a file changes, comes or goes."""
        whole = hashlib.sha256()
        for name, content in sorted(self.files.items()):
            for part in (os.fsencode(name), content):
                whole.update(len(part).to_bytes(8, "big") + part)
        return whole.hexdigest()


@frozen
class Trusted:
    """One decision."""

    project: Path
    digest: str
    since: str
    ours: bool = True  # written by `shelltie trust`; any other counts for nothing


def look(project: Path) -> Snapshot:
    """The files of a project that say something to shelltie.

    Raises: ConfigWrong for what is no plain file, is too large or cannot be read.
    """
    root = project.resolve()
    files: dict[str, bytes] = {}
    for path in _paths(root):
        with suppress(MissingFile):
            files[path.relative_to(root).as_posix()] = read_small_file(path)
        if len(files) > _FILES_MAX:
            raise ConfigWrong(f"{root / RULES}: more than {_FILES_MAX} files")
    return Snapshot(root, files)


def _paths(root: Path) -> Iterator[Path]:
    yield root / SETTINGS
    for folder, _, names in os.walk(root / RULES):
        yield from (Path(folder, name) for name in names)


def is_trusted(snapshot: Snapshot, store: Path) -> bool:
    """Whether exactly these files are trusted. A store that cannot be read trusts nothing."""
    try:
        known = listed(store)
    except ConfigWrong:
        return False
    here = [one for one in known if one.ours and one.project == snapshot.project]
    return any(one.digest == snapshot.digest for one in here)


def listed(store: Path) -> list[Trusted]:
    """Every decision.

    Raises: ConfigWrong.
    """
    ours, others = toml_list.split(store, _TABLE)
    foreign = (replace(_understood(entry, store), ours=False) for entry in others)
    return [*(_understood(entry, store) for entry in ours), *foreign]


def _understood(entry: Mapping[str, object], store: Path) -> Trusted:
    match entry:
        case {"path": str(path), "digest": str(digest), **rest}:
            return Trusted(Path(path), digest, str(rest.get("since", "")))
        case _:
            raise ConfigWrong(f"{store}: each [[{_TABLE}]] needs a path and a digest")


def trust(snapshot: Snapshot, store: Path) -> None:
    """Trust these files, instead of whatever was trusted in this project before.

    Raises: ConfigWrong, OSError.
    """
    since = iso_utc(time.time(), "seconds")
    entry = {"path": str(snapshot.project), "digest": snapshot.digest, "since": since}
    _replace(snapshot.project, store, [entry])


def revoke(project: Path, store: Path) -> bool:
    """Trust a project no more; whether it was trusted at all.

    Raises: ConfigWrong, OSError.
    """
    root = project.resolve()
    known = any(one.project == root for one in listed(store))
    if known:
        _replace(root, store, [])
    return known


def _replace(project: Path, store: Path, entries: list[toml_list.TomlTable]) -> None:
    def edit(known: list[dict[str, object]]) -> Iterator[toml_list.TomlTable]:
        yield from (one for one in known if _understood(one, store).project != project)
        yield from entries

    toml_list.change(store, _TABLE, edit, _HEADING)
