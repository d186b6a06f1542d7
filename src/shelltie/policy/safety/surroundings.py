"""What must hold where a command runs for it to be safe: its directory, its programs."""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from shelltie.frozen import frozen
from shelltie.model import Code
from shelltie.policy.safety.git_config import hazard
from shelltie.regex import regex

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
    place: Place, conditions: Iterable[str], programs: Iterable[str]
) -> Iterator[tuple[Code, str]]:
    """Why the command is not safe there. It looks at the file system: never call it in the loop."""
    for condition in sorted(conditions):
        yield from _unmet(condition, place)
    for program in programs:
        if (why := _doubt_about(program, place)) is not None:
            yield Code.UNTRUSTED_PROGRAM, why


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
    for entry in place.path.split(":") if "/" not in program else [""]:
        if "/" not in program and not Path(entry).is_absolute():
            return f"PATH has the relative entry {entry!r}, where {program} could be anything"
        file = Path(entry) / program
        if os.access(file, os.X_OK) and not file.is_dir():
            return _doubt_about_file(file, place)
    return None


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
