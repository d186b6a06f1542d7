"""Operands of `rm`: what a judged command deletes, where the parser proved every word of it."""

import os
from collections.abc import Iterator
from pathlib import PurePosixPath

from shelltie.verdict import Judged

_PROGRAMS = ("rm", "/bin/rm", "/usr/bin/rm")
_LETTERS = frozenset("rRfvd")
_OPTIONS = frozenset(("--recursive", "--force", "--verbose", "--dir"))


def deleted_paths(judged: Judged, cwd: str, workspace: str) -> list[str] | None:
    """The absolute paths that it deletes, all of them below the workspace; `None` if that is not
    proved: a word known only at run time, a wrapper, `..`, a link on the way, an unknown option.
    """
    program, *words = judged.argv or (None,)
    if program not in _PROGRAMS or judged.wrappers or None in words:
        return None
    named = list(_operands([word for word in words if word is not None]))
    found = [_below(name, cwd, workspace) for name in named if name is not None]
    paths = [path for path in found if path is not None]
    return paths if paths and len(paths) == len(named) else None


def _operands(words: list[str]) -> Iterator[str | None]:
    """Each operand; `None` for an option that is not known to change nothing about them."""
    for place, word in enumerate(words):
        if word == "--":
            yield from words[place + 1 :]
            return
        if not word.startswith("-"):
            yield word
        elif word not in _OPTIONS and not (word[1:] and _LETTERS.issuperset(word[1:])):
            yield None


def _below(name: str, cwd: str, workspace: str) -> str | None:
    """Where a name leads, if it is below the workspace by its letters and by its directories.

    What a link itself points to is not deleted; what is behind a link in between is elsewhere.
    """
    parts = PurePosixPath(name).parts
    if not name or ".." in parts or ".git" in parts or name.startswith("~"):
        return None
    path = os.path.normpath(os.path.join(cwd, name))  # noqa: PTH118  of texts; no link is followed
    root = os.path.realpath(workspace)
    if os.path.realpath(os.path.dirname(path)) != os.path.dirname(path):  # noqa: PTH120  as above
        return None
    if name.endswith("/") and os.path.islink(path):  # noqa: PTH114  `link/` is what it points to
        return None
    return path if path.startswith(f"{root}/") else None
