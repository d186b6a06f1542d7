"""Watched names in directories held open: what comes to be there is put aside with renameat(2).

Commands may replace any directory of a workspace by a link, so nothing here goes by a path: a
directory is opened once, through no link, and everything is done from its descriptor.
"""

import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

from shelltie.basics.frozen import frozen
from shelltie.errors import CannotStart

_OPEN = os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_DIRECTORIES_MAX = 400  # each takes a descriptor, as long as its sandbox lives


@frozen
class UnguardedName:
    """A name that no mount can guard: there is nothing, or a link."""

    path: Path
    link: str | None = None


@frozen
class PutAside:
    """What came to be at a name and was renamed; if that failed, why."""

    path: Path
    problem: str = ""


def open_directory(path: Path) -> int | None:
    """A descriptor of exactly this directory, through no link; `None` if there is none."""
    try:
        descriptor = os.open(path, _OPEN)
    except OSError:
        return None
    # It says where the directory is, not how it was reached.
    if Path(f"/proc/self/fd/{descriptor}").readlink() == path:
        return descriptor
    os.close(descriptor)
    return None


class WatchedNames:
    """Names in a workspace at which nothing may come to be; a link is made again.

    Raises: CannotStart if one cannot be watched.
    """

    def __init__(self, names: Iterable[UnguardedName]) -> None:
        self._names: list[tuple[UnguardedName, int, tuple[str, ...]]] = []
        self._opened: dict[Path, int] = {}
        try:
            for name in dict.fromkeys(names):
                base = self._nearest(name.path)
                below = name.path.relative_to(base).parts
                self._names.append((name, self._opened[base], below))
        except BaseException:
            self.close()
            raise

    @property
    def directories(self) -> tuple[int, ...]:
        """Where something may come to be, as descriptors."""
        return tuple(self._opened.values())

    def _nearest(self, path: Path) -> Path:
        """The directory above it that is there, which is open from now on."""
        for parent in path.parents:
            if parent in self._opened:
                return parent
            descriptor = open_directory(parent)
            if descriptor is not None:
                self._opened[parent] = descriptor
                if len(self._opened) > _DIRECTORIES_MAX:
                    raise CannotStart(
                        "the workspace has too many repositories to guard them all: choose one"
                        " further down"
                    )
                return parent
            if os.path.lexists(parent):
                break
        raise CannotStart(f"{path} is reached by a link, or is changed just now: try again")

    def put_aside(self) -> Iterator[PutAside]:
        """Take away what came to be where nothing may be, and tell of it."""
        for name, base, below in self._names:
            with _reached(base, below) as place:
                if place is None or _as_it_was(name, *place):
                    continue
                problem = _replace(*place, name.link)
            yield PutAside(name.path, problem)

    def close(self) -> None:
        """Let the directories go."""
        for descriptor in self._opened.values():
            os.close(descriptor)
        self._opened, self._names = {}, []


@contextmanager
def _reached(base: int, below: tuple[str, ...]) -> Iterator[tuple[int, str] | None]:
    """The directory of a name, and the name in it; a link or file on the way stands for it."""
    opened: list[int] = []
    place: tuple[int, str] | None = (base, below[0])
    try:
        for part, following in pairwise(below):
            assert place is not None
            try:
                opened.append(os.open(part, _OPEN, dir_fd=place[0]))
            except NotADirectoryError:
                break
            except OSError:  # without its directory there is nothing
                place = None
                break
            place = (opened[-1], following)
        yield place
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _as_it_was(name: UnguardedName, directory: int, entry: str) -> bool:
    try:
        found: str | None = os.readlink(entry, dir_fd=directory)
    except FileNotFoundError:
        return name.link is None
    except OSError:  # something else than a link
        return False
    return found == name.link and entry == name.path.name


def _replace(directory: int, entry: str, link: str | None) -> str:
    """Rename what is there, and make the link again; why that failed, if it did."""
    try:
        aside = f"{entry}.blocked-{secrets.token_hex(4)}"
        with suppress(FileNotFoundError), writable(directory):
            os.rename(entry, aside, src_dir_fd=directory, dst_dir_fd=directory)
        if link is not None:
            with writable(directory):
                os.symlink(link, entry, dir_fd=directory)
    except OSError as error:
        return error.strerror or str(error)
    return ""


@contextmanager
def writable(directory: int) -> Iterator[None]:
    """A command may have taken the right to write from its owner, who is ours, too."""
    name = f"/proc/self/fd/{directory}"  # a descriptor of O_PATH cannot be changed by itself
    mode = stat.S_IMODE(os.fstat(directory).st_mode)
    closed = mode & stat.S_IRWXU != stat.S_IRWXU
    with suppress(OSError):
        if closed:
            os.chmod(name, mode | stat.S_IRWXU)  # noqa: PTH101  as above
    try:
        yield
    finally:
        with suppress(OSError):
            if closed:
                os.chmod(name, mode)  # noqa: PTH101  as above
