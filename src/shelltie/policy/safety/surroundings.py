"""What must hold where a command runs for it to be safe: its directory, its programs."""

import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

from shelltie.frozen import frozen
from shelltie.policy.safety.git_config import hazard
from shelltie.regex import regex
from shelltie.verdict import Code

_SYSTEM = regex(r"/(?:usr/|usr/local/|opt/homebrew/|opt/local/|snap/)?s?bin/[^/]+")
_ABOVE_MAX = 64


@frozen
class Place:
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
    place: Place, conditions: Collection[str], programs: Collection[str]
) -> list[tuple[Code, str]]:
    """Why the command is not safe there.

    It looks at the file system: call it in the loop only where its answers are near.
    """
    found = [unmet for condition in sorted(conditions) for unmet in _unmet(condition, place)]
    whys = [_doubt_about(program, place) for program in programs]
    return [*found, *((Code.UNTRUSTED_PROGRAM, why) for why in whys if why is not None)]


def are_near(place: Place, conditions: Collection[str], programs: Collection[str]) -> bool:
    """Whether all there is to look at are the system's directories of programs.

    The start of a program waits for these as well. Any other directory may be far away, and slow.
    """
    files = (file for program in programs for file in _candidates(program, place))
    return not conditions and all(map(_SYSTEM.fullmatch, files))


def _unmet(condition: str, place: Place) -> Iterator[tuple[Code, str]]:
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


def _doubt_about(program: str, place: Place) -> str | None:
    """Why a program is not the one its name promises; one that is not there is no danger."""
    for name in _candidates(program, place):
        if not name.startswith("/"):
            entry = name.removesuffix(program).removesuffix("/")
            return f"PATH has the relative entry {entry!r}, where {program} could be anything"
        if os.access(name, os.X_OK) and not (file := Path(name)).is_dir():
            return _doubt_about_file(file, place)
    return None


def _candidates(program: str, place: Place) -> list[str]:
    """The files that it may be, the first before the others."""
    if "/" in program:
        return [program]
    entries = place.path.split(":")
    return [f"{entry.rstrip('/')}/{program}" if entry else program for entry in entries]


def _doubt_about_file(file: Path, place: Place) -> str | None:
    real = file.resolve()
    if not _SYSTEM.fullmatch(str(file)) and _is_below(real, file, place.cwd.resolve()):
        return f"{file} is a file of the project"
    for one in (real, real.parent, file.parent):
        if one.stat().st_mode & stat.S_IWOTH:
            return f"anybody may change {one}"
    return None


def _is_below(real: Path, file: Path, cwd: Path) -> bool:
    return real.is_relative_to(cwd) or file.is_relative_to(cwd)
