"""Checks on disk for a safe verdict: git config, modules in the way, shadowed programs on PATH."""

import os
import stat
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy
from shelltie.safety.git_config import ABOVE_MAX, hazard
from shelltie.verdict import Code

_PLACES_MAX = 64
_WAYS = (os.path.normpath, os.path.realpath)
_MODULE_SUFFIXES = frozenset(("py", "pyc", "so", "pyd", "dylib"))
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
        """Every directory in which something of the command may run.

        `cd a; cd b`, `git -C a -C b`, a `cd` in a loop: each may be taken after any other.
        """
        found = dict.fromkeys((self.cwd,))
        waiting = [self.cwd]
        steps = [Path(it).expanduser() for it in dict.fromkeys(self.directories) if it is not None]
        is_known = None not in self.directories
        while waiting and len(found) <= _PLACES_MAX:
            here = waiting.pop(0)
            try:  # bash forgets `link/..`, git follows the link.
                taken = [Path(way(here / step)) for step in steps for way in _WAYS]
            except OSError:  # such as /proc/1/root, which only root may follow
                is_known = False
                break
            new = [place for place in taken if place not in found and _is_directory(place)]
            found |= dict.fromkeys(new)
            waiting += new
        yield from found
        if not is_known or len(found) > _PLACES_MAX:
            yield None


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


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def _unmet(condition: str, place: CommandPlace) -> Iterator[tuple[Code, str]]:
    if condition == "no-terminal":
        if place.terminal:
            yield Code.INTERACTIVE, "it takes commands from the terminal"
        return
    for directory in place.all():
        if directory is None:
            yield Code.DYNAMIC_ARGUMENT, "where it runs is known only at run time"
        elif (unmet := _unmet_in(directory, *condition.split())) is not None:
            yield unmet


def _unmet_in(directory: Path, kind: str, *names: str) -> tuple[Code, str] | None:
    if kind == "git-config":
        why = hazard(directory)
        return (Code.EXEC_FLAG, f"git may run another program: {why}") if why else None
    if kind == "python-path":
        module = _module_in(directory, names)
        why = f"{module} is loaded instead of Python's own"
        return (Code.RUNS_CODE, why) if module else None
    # The first of these files here or above; it is the nearest that tools use.
    above = [directory, *directory.resolve().parents][:ABOVE_MAX]
    candidates = (place / name for place in above for name in names)
    name = next((file for file in candidates if file.exists()), None)
    return (Code.RUNS_CODE, f"{name} of the project is run with it") if name else None


def _module_in(directory: Path, names: Collection[str]) -> Path | None:
    """A module there of Python's library, or one of these: `python -m` finds it first."""
    wanted = (sys.stdlib_module_names | {*names}) - {"test"}
    try:
        entries = sorted(directory.iterdir())
    except OSError:
        return None
    for entry in entries:
        name, _, suffix = entry.name.partition(".")
        if name in wanted and (
            suffix.rpartition(".")[2] in _MODULE_SUFFIXES
            or (not suffix and any(entry.glob("__init__.*")))
        ):
            return entry
    return None


def _doubt_about(program: str, place: CommandPlace) -> str | None:
    """Why a program is not the one its name promises; one that is not there is no danger."""
    for name in _candidates(program, place):
        if not name.startswith("/"):
            entry = name.removesuffix(program).removesuffix("/")
            return f"PATH has the relative entry {entry!r}, where {program} could be anything"
        if os.access(name, os.X_OK) and not os.path.isdir(name):  # noqa: PTH112  for each command
            return _doubt_about_file(name, place)
    return None


def _candidates(program: str, place: CommandPlace) -> list[str]:
    """The files that it may be, the first before the others."""
    if "/" in program:
        return [program]
    entries = place.path.split(":")
    return [f"{entry.rstrip('/')}/{program}" if entry else program for entry in entries]


def _doubt_about_file(file: str, place: CommandPlace) -> str | None:
    parent = os.path.dirname(file)  # noqa: PTH120  for each command
    looked_at = [file, parent]
    is_system = _SYSTEM.fullmatch(file) is not None
    # What is no link itself is in the directory that its name says, whatever leads there.
    if not is_system or os.path.islink(file):  # noqa: PTH114  as above
        real, project = Path(file).resolve(), place.cwd.resolve()
        inside = real.is_relative_to(project) or Path(file).is_relative_to(project)
        if inside and not is_system:
            return f"{file} is a file of the project"
        looked_at = [str(real), str(real.parent), parent]
    for one in looked_at:
        if os.stat(one).st_mode & stat.S_IWOTH:  # noqa: PTH116  as above
            return f"anybody may change {one}"
    return None
