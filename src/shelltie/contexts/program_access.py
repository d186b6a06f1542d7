"""Program lookup for task contexts: the PATH search of an allowed name, and who may replace it."""

import os
import shlex
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from shelltie.basics.validate import texts
from shelltie.contexts.allowlist import AllowedProgram, Allowlist, AllowlistFile
from shelltie.contexts.argument_filter import FilterLevel, Refusal, refusal
from shelltie.errors import (
    CannotStart,
    CommandNotAllowed,
    InvalidParameters,
    UnsafeArguments,
    parameter,
)

_LINKS_MAX = 40  # the kernel follows no more


class Lookup:
    """Finds programs in the absolute directories of a PATH. The first finding stays."""

    def __init__(self, path: str) -> None:
        parts = dict.fromkeys(part for part in path.split(":") if part.startswith("/"))
        self.directories = tuple(map(Path, parts))
        self._found: dict[tuple[str, str | None], Path] = {}

    def find(self, name: str, path: str | None = None) -> Path | None:
        """The program at `path`, or the first one of that name; what was found once stays.

        So a program that is put into an earlier directory later does not replace it.
        """
        known = self._found.get((name, path))
        if known is not None and runnable(known):
            return known
        candidates = [Path(path)] if path else [place / name for place in self.directories]
        found = next(filter(runnable, candidates), None)
        if found is not None:
            self._found[name, path] = found
        return found


def runnable(program: Path) -> bool:
    """Whether it is a file that we may execute."""
    try:
        return program.is_file() and os.access(program, os.X_OK)
    except (OSError, ValueError):
        return False


def same_file(one: Path, other: Path) -> bool:
    """Whether both paths lead to the same place."""
    try:
        return one.resolve(strict=True) == other.resolve(strict=True)
    except (OSError, ValueError, RuntimeError):  # RuntimeError: links in a circle
        return False


def replaceable(program: Path) -> bool:
    """Whether everybody on this machine could put another program in its place."""
    try:
        return any(map(_replaceable_here, _hops(program))) or _everybody_writes(program)
    except (OSError, RuntimeError):
        return True


def _hops(path: Path) -> Iterator[Path]:
    """The path, and every path that its links lead through."""
    for _ in range(_LINKS_MAX):
        yield from {path, path.parent.resolve(strict=True) / path.name}
        if not path.is_symlink():
            return
        path = path.parent / path.readlink()
    raise OSError("too many links")


def _replaceable_here(path: Path) -> bool:
    """Whether everybody may change the directory it is in, or replace one above that."""
    if _everybody_writes(path.parent):
        return True
    ways = zip(path.parent.parents, (path.parent, *path.parent.parents), strict=False)
    return any(_everybody_writes(above) and not _kept(above, below) for above, below in ways)


def _everybody_writes(path: Path) -> bool:
    return bool(path.stat().st_mode & stat.S_IWOTH)


def _kept(above: Path, below: Path) -> bool:
    """A sticky directory, like /tmp, leaves an entry to its owner."""
    sticky = above.stat().st_mode & stat.S_ISVTX
    return bool(sticky) and below.lstat().st_uid in (0, os.geteuid())


_COMMAND_MAX = 1000
_ARGUMENT_SHOWN = 200


class Access:
    """Says which argument vector may be run for a command, or why none may."""

    def __init__(
        self,
        allowlist: AllowlistFile,
        path: str,
        *,
        level: FilterLevel = FilterLevel.DEFAULT,
        relative_paths: bool = False,
    ) -> None:
        """`path` is the server's own PATH: a caller's has no say in which program is run."""
        self._file = allowlist
        self._lookup = Lookup(path)
        self._level = level
        self._relative_paths = relative_paths
        self._looked_up: Allowlist | None = None
        self._current()

    def check(
        self, command: str, args: Sequence[str] = (), *, cwd: str | None = None
    ) -> tuple[str, ...]:
        """The argument vector to run: the program's absolute path, and the arguments as given.

        A command without `args` that holds blanks is split into words first. `cwd` is where a
        relative path would start, if those are allowed.

        Raises: CommandNotAllowed, UnsafeArguments, InvalidParameters; CannotStart for a program
        that is allowed and missing. Nothing was started then.
        """
        allowlist = self._current()
        name, words = _words(command, args, allowlist)
        entry = _listed(name, allowlist)
        program = self._lookup.find(entry.name, entry.path)
        if "/" in name:
            program = self._by_path(name, entry, program, cwd, allowlist)
        if (wrong := refusal(words, entry.arguments, self._level)) is not None:
            raise _unsafe(entry.name, words, wrong)
        if program is None:
            raise CannotStart(f"{entry.name} is allowed, but not installed on the server", 127)
        if replaceable(program):
            why = "everybody could replace it: take the write permission for others from its place"
            raise _not_allowed(name, allowlist, "replaceable_program", why)
        return str(program), *words

    def _current(self) -> Allowlist:
        """The allowlist; programs that are new in it are found now, before anybody asks."""
        allowlist = self._file.current()
        if allowlist is not self._looked_up:
            self._looked_up = allowlist
            for entry in allowlist.entries.values():
                self._lookup.find(entry.name, entry.path)
        return allowlist

    def _by_path(
        self,
        name: str,
        entry: AllowedProgram,
        program: Path | None,
        cwd: str | None,
        allowlist: Allowlist,
    ) -> Path:
        if name.startswith("/"):
            if program is None or not same_file(Path(name), program):
                why = f"this is not the {entry.name} in the server's PATH: write {entry.name}"
                raise _not_allowed(name, allowlist, "other_program", why)
            return program
        if cwd is None or not (self._relative_paths or entry.relative_path):
            why = f"relative paths are not allowed: write {entry.name}"
            raise _not_allowed(name, allowlist, "relative_path", why)
        started_from = Path(cwd).absolute() / name
        if not runnable(started_from):
            raise CannotStart(f"{name}: no such program", 127)
        return started_from


def _words(command: object, args: object, allowlist: Allowlist) -> tuple[str, tuple[str, ...]]:
    if not isinstance(command, str) or not command.strip():
        raise InvalidParameters("command is empty: give the name of a program")
    words = tuple(parameter("args", args, texts))
    if len(command) > _COMMAND_MAX:
        why = f"it has {len(command)} characters, and {_COMMAND_MAX} are allowed: use args"
        raise _not_allowed(command, allowlist, "too_long", why)
    return (command, words) if words or _is_name(command) else _split(command)


def _is_name(command: str) -> bool:
    """A path with blanks is one; several lines are none, but neither one command to be split."""
    if command.startswith("/") and runnable(Path(command)):
        return True
    return len(command.split()) == 1 or "\n" in command or "\r" in command


def _split(command: str) -> tuple[str, tuple[str, ...]]:
    try:
        name, *words = shlex.split(command)
    except ValueError as error:
        raise InvalidParameters(f"command cannot be split into words: {error}") from error
    return name, tuple(words)


def _listed(name: str, allowlist: Allowlist) -> AllowedProgram:
    if allowlist.problem is not None:
        raise _not_allowed(
            name, allowlist, "no_allowlist", f"no usable allowlist: {allowlist.problem}"
        )
    entry = allowlist.entries.get(name.rpartition("/")[2])
    if entry is None:
        raise _not_allowed(name, allowlist, "not_listed")
    return entry


def _not_allowed(name: str, allowlist: Allowlist, reason: str, why: str = "") -> CommandNotAllowed:
    details = {
        "command": _sendable(name[:_COMMAND_MAX]),
        "allowedCommands": list(allowlist.entries),
        "reason": reason,
    }
    message = f"Command {_shown(name)} is not allowed"
    return CommandNotAllowed(f"{message}: {why}" if why else message, details=details)


def _unsafe(name: str, words: Sequence[str], wrong: Refusal) -> UnsafeArguments:
    details: dict[str, object] = {
        "command": name,
        "found": [_sendable(found) for found in wrong.found],
        "issues": list(wrong.issues),
    }
    if wrong.index is None:
        return UnsafeArguments(f"Arguments of {_shown(name)} {wrong.why}", details=details)
    argument = _sendable(words[wrong.index][:_ARGUMENT_SHOWN])
    details |= {"index": wrong.index, "argument": argument}
    message = f"Argument {wrong.index + 1} of {_shown(name)} {wrong.why}"
    return UnsafeArguments(message, details=details)


def _sendable(text: str) -> str:
    """Half a character cannot be sent on as UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _shown(name: str) -> str:
    """With quotes, and nothing in it that a terminal or a reader would not show."""
    return repr(name if len(name) <= 100 else name[:100] + "…")
