"""A client's configuration file: read, backed up, and replaced at once and whole (rename)."""

import os
import stat
from pathlib import Path

from shelltie.errors import ConfigWrong, MissingFile
from shelltie.settings import edit, paths
from shelltie.settings.files import read_small_file

BACKUP = ".before-shelltie"
_BACKUP_MODE = 0o600
_SIZE_MAX = 64 * 1024 * 1024  # Claude Code keeps its history of projects in the same file


def read(path: Path) -> str:
    """The text of the file; nothing if there is none.

    Raises: ConfigWrong.
    """
    try:
        return read_small_file(path, size_max=_SIZE_MAX).decode("utf-8")
    except MissingFile:
        if path.is_symlink():
            raise ConfigWrong(f"{path}: a link to a file that does not exist") from None
        return ""
    except UnicodeDecodeError as error:
        raise ConfigWrong(f"{path}: not UTF-8 text") from error


def check_writable(path: Path, *, make: bool) -> None:
    """Say what keeps the file from being replaced; a directory may be missing if we may `make` it.

    Raises: ConfigWrong.
    """
    target = path.resolve()
    # A rename would not care. Whoever made the file read-only meant it.
    if target.exists() and not (target.stat().st_mode & 0o222 and os.access(target, os.W_OK)):
        raise ConfigWrong(f"{target}: read-only, so it is left as it is")
    place = target.parent
    if not make and not (target if place == paths.home_dir() else place).exists():
        raise ConfigWrong(f"{target}: not there; is the client installed, and on your PATH?")
    while not place.exists():
        place = place.parent
    if not stat.S_ISDIR(place.stat().st_mode) or not os.access(place, os.W_OK | os.X_OK):
        raise ConfigWrong(f"{place}: nothing can be written there")


def replace(path: Path, old: str, new: str, kept: str) -> Path | None:
    """Write the new text, if the file still has the old one; where the `kept` one is.

    Raises: ConfigWrong.
    """
    backup = path.with_name(path.name + BACKUP) if kept else None

    def checked(now: str) -> str:
        if now != old:
            raise ConfigWrong(f"{path}: changed meanwhile, so it is left as it is; try again")
        return new

    try:
        if backup is not None:
            edit.write_whole(backup, kept, _BACKUP_MODE)
        edit.rewrite(path, checked, size_max=_SIZE_MAX)
    except OSError as error:
        raise ConfigWrong(f"{path}: cannot be written: {error.strerror}") from error
    return backup
