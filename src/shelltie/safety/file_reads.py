"""Path resolution (realpath) of the files that a command shows: links, `..`, globs, /proc/*/root.

A name says little: `notes.txt` may be a link to a key. So what would be safe is looked at on disk,
in every directory where the command may be.
"""

import glob
import os
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path

from shelltie.basics.lazy_regex import lazy
from shelltie.safety.arg import HOLE
from shelltie.safety.disk_checks import CommandPlace
from shelltie.safety.protected_names import paths_in, secrecy
from shelltie.verdict import Rating

_MATCHES_MAX = 1000
_LOOKS_MAX = 4000
_GLOB = lazy(r"[*?\[]")
_CLASS = lazy(r"\[[:.=]")
_ABSOLUTE = ("/", "~")


def secrets_among(place: CommandPlace, files: Collection[str]) -> Iterator[tuple[Rating, str]]:
    """Which of these files hold credentials there, and which cannot be told. Reads the disk."""
    named = [text for text in files if text and HOLE not in text]
    directories = (
        list(place.all()) if any(not it.startswith(_ABSOLUTE) for it in named) else [Path("/")]
    )
    if None in directories:
        yield Rating.UNKNOWN, "which files it shows is known only at run time"
    places = [directory for directory in directories if directory is not None]
    looks = 0
    for text in named:
        for directory in places:
            for path in _paths(directory, text):
                looks += 1
                if path is None or looks > _LOOKS_MAX:
                    yield Rating.UNKNOWN, f"{text} stands for more files than are looked at"
                    return
                try:
                    real = os.path.realpath(path)
                except OSError:  # such as /proc/1/root, which only root may follow
                    yield Rating.UNKNOWN, f"where {text} leads cannot be told"
                    continue
                rating = secrecy(_with_tilde(real))
                if rating is not Rating.SAFE:
                    yield rating, f"{text} leads to {path}, which may hold credentials"


def _paths(directory: Path, text: str) -> Iterator[str | None]:
    """What a word may name there; `None` where that is too much to look at."""
    for meant in paths_in(text):
        path = os.path.join(directory, os.path.expanduser(meant))  # noqa: PTH111, PTH118  of a text
        yield path
        if not _GLOB.search(path):
            continue
        if _CLASS.search(path):
            yield None
        matches = list(islice(glob.iglob(path.replace("[^", "[!")), _MATCHES_MAX + 1))  # noqa: PTH207
        yield from matches[:_MATCHES_MAX]
        if len(matches) > _MATCHES_MAX:
            yield None


def _with_tilde(path: str) -> str:
    """The home as the lists write it, wherever it is."""
    home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111
    return f"~{path[len(home) :]}" if home != "/" and f"{path}/".startswith(f"{home}/") else path
