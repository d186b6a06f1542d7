"""cgroups v1 and v2: memory, CPU and pids limits for a whole process tree.

The leash joins it before it starts the command, through descriptors that we open; so it works in a
sandbox that does not see it. Both versions of cgroups are known.
"""

import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from shelltie.basics.frozen import frozen
from shelltie.model import Resources

_PERIOD = 100_000  # microseconds, in which a CPU may be used for so long
_NAME = "shelltie"
_NUMBERS = itertools.count(1)
_CONTROLLERS = {"memory": "memory", "tasks": "pids", "cpus": "cpu"}


@frozen
class Parent:
    """A cgroup below which we may make others, and what they can limit."""

    path: Path
    version: int
    controllers: frozenset[str]


@frozen
class CommandCgroup:
    """The cgroup of one command; in version 1 there is one for each controller."""

    paths: tuple[Path, ...]
    joins: tuple[int, ...]  # to be written to by whoever joins

    def sealed(self) -> None:
        """Nobody else joins."""
        for join in self.joins:
            os.close(join)

    def exhausted(self) -> dict[str, int]:
        """How often the kernel ended or refused somebody, by what there was not enough of."""
        memory = ("memory.events", "memory.oom_control")
        return {
            "memory": sum(
                _count(path / name, "oom_kill") for path in self.paths for name in memory
            ),
            "tasks": sum(_count(path / "pids.events", "max") for path in self.paths),
        }

    def frozen(self) -> bool:
        """Whether everybody in it is held still, so that nobody there can answer."""
        return any(_is_frozen(path) for path in self.paths)

    def removed(self) -> bool:
        """Whether it is gone; who has just ended may still be in it."""
        for path in self.paths:
            with suppress(FileNotFoundError):
                try:
                    path.rmdir()
                except OSError:
                    return False
        return True


def wanted(resources: Resources) -> dict[str, float]:
    """The limits for the whole tree, by their controllers."""
    values = {name: getattr(resources, name) for name in _CONTROLLERS}
    return {_CONTROLLERS[name]: value for name, value in values.items() if value is not None}


def make(
    limits: Mapping[str, float], parents: tuple[Parent, ...]
) -> tuple[CommandCgroup, set[str]]:
    """A cgroup with these limits, and which of them cannot be set.

    Raises: OSError.
    """
    name = f"{_NAME}-{os.getpid()}-{next(_NUMBERS)}"
    left, paths, joins = set(limits), [], []
    try:
        for parent in parents:
            holds = left & parent.controllers
            if holds:
                path = parent.path / name
                path.mkdir()
                paths.append(path)
                for controller in holds:
                    _limit(path, parent.version, controller, limits[controller])
                joins.append(os.open(path / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC))
                left -= holds
    except OSError:
        group = CommandCgroup(tuple(paths), tuple(joins))
        group.sealed()
        group.removed()
        raise
    return CommandCgroup(tuple(paths), tuple(joins)), left


def _limit(path: Path, version: int, controller: str, value: float) -> None:
    number = int(value)
    quota = max(1000, int(value * _PERIOD))
    match controller, version:
        case "memory", 2:
            _write(path / "memory.max", number)
            _try(path / "memory.swap.max", 0)
            _try(path / "memory.oom.group", 1)
        case "memory", _:
            _write(path / "memory.limit_in_bytes", number)
            _try(path / "memory.memsw.limit_in_bytes", number)
        case "cpu", 2:
            _write(path / "cpu.max", f"{quota} {_PERIOD}")
        case "cpu", _:
            _write(path / "cpu.cfs_period_us", _PERIOD)
            _write(path / "cpu.cfs_quota_us", quota)
        case _:
            _write(path / "pids.max", number + 1)  # the leash is in it, too


def _write(path: Path, value: object) -> None:
    with path.open("w", encoding="ascii") as file:
        file.write(str(value))


def _try(path: Path, value: object) -> None:
    with suppress(OSError):
        _write(path, value)


def _tells(path: Path) -> bool:
    files = ("memory.events", "memory.oom_control", "pids.events", "cgroup.events", "freezer.state")
    return any((path / name).exists() for name in files)


def _is_frozen(path: Path) -> bool:
    with suppress(OSError):
        return (path / "freezer.state").read_text("ascii").strip() != "THAWED"
    return _count(path / "cgroup.events", "frozen") > 0


def _count(path: Path, name: str) -> int:
    with suppress(OSError, ValueError):
        for line in path.read_text(encoding="ascii").splitlines():
            if line.startswith(f"{name} "):
                return int(line.split()[1])
    return 0


@cache
def our_parents() -> tuple[Parent, ...]:
    """Where we may make cgroups; what earlier servers left there is removed."""
    with suppress(OSError):
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
        own = Path("/proc/self/cgroup").read_text(encoding="utf-8")
        found = tuple(parents(mounts, own))
        for parent in found:
            _sweep(parent.path)
        return found
    return ()


def group_of(pid: int) -> CommandCgroup:
    """The cgroups that a process of somebody else's is in, only to be looked at."""
    with suppress(OSError):
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
        own = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
        found = (path for path, _, _ in _memberships(mounts, own))
        return CommandCgroup(tuple(path for path in found if _tells(path)), ())
    return CommandCgroup((), ())


def parents(mounts: str, own: str) -> Iterator[Parent]:
    """The cgroups that we may use, by what /proc says of mounts and of us."""
    for path, top, names in _memberships(mounts, own):
        usable = frozenset(names) & {*_CONTROLLERS.values()}
        if not names:
            yield from itertools.islice(_delegated(path, top), 1)
        elif usable and os.access(path, os.W_OK):
            yield Parent(path, 1, usable)


def _memberships(mounts: str, own: str) -> Iterator[tuple[Path, Path, tuple[str, ...]]]:
    """Each cgroup, where its tree begins, and its controllers; that of version 2 has no names."""
    memberships = [line.split(":", 2) for line in own.splitlines()]
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        root, point = left.split()[3:5]
        kind, _, options = right.split(" ", 2)
        for _, names, path in memberships:
            below = Path(point) / os.path.relpath(path, root)
            if kind == "cgroup2" and not names:
                yield below, Path(point), ()
            elif kind == "cgroup" and names and set(names.split(",")) <= set(options.split(",")):
                yield below, Path(point), tuple(names.split(","))


def _delegated(own: Path, top: Path) -> Iterator[Parent]:
    """The nearest above us that hands controllers on: only such a one has no processes itself."""
    for path in (own, *own.parents):
        with suppress(OSError):
            handed = frozenset((path / "cgroup.subtree_control").read_text("ascii").split())
            usable = handed & {*_CONTROLLERS.values()}
            if usable and all(os.access(one, os.W_OK) for one in (path, path / "cgroup.procs")):
                yield Parent(path, 2, usable)
        if path == top:
            return


def _sweep(parent: Path) -> None:
    """Of servers that ended without a word. Nobody is in them: leashes end with their server."""
    for path in parent.glob(f"{_NAME}-*-*"):
        pid = path.name.split("-")[1]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            with suppress(OSError):
                path.rmdir()
