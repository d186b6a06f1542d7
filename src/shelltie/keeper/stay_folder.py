"""The folder of keepers that stay (runtime registry): each has a directory with socket and token.

A directory is named after what its keeper was started for, has mode 0700, and holds `token`,
`socket`, `about` (what whoever comes later needs to know), and the spools of output. The keeper
removes it at its end; one whose keeper was killed is swept by whoever looks next.
"""

import os
import secrets
import shutil
import socket
import stat
import subprocess
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from shelltie.errors import CannotStart
from shelltie.keeper.hardening import bare_environment
from shelltie.settings.config import Config

TOKEN, SOCKET, ABOUT = "token", "socket", "about"
_BACKLOG = 64
_ABOUT_MAX = 16 * 1024 * 1024


class StayFolder:
    """Where keepers that stay are found again."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def launch(
        self, argv: Sequence[str], name: str, about: bytes, lease: float, *, stderr: int
    ) -> "tuple[subprocess.Popen[bytes], socket.socket, str]":
        """Start a keeper that stays; the process ends at once, when the keeper is on its own.

        Returns it, a connection on which nothing was said yet, and the token.
        Raises: CannotStart, and then nothing is left of it.
        """
        place, token = self.place / name, secrets.token_hex(24)
        try:
            self.place.mkdir(mode=0o700, parents=True, exist_ok=True)
            place.mkdir(mode=0o700)
        except OSError as error:
            raise CannotStart(f"no directory for a session that stays: {error}") from error
        try:
            _write(place / TOKEN, token.encode())
            _write(place / ABOUT, about)
            with _listening(place) as listener:
                process = subprocess.Popen(
                    [*argv, "--stay", str(place), str(listener.fileno()), str(round(lease * 1000))],
                    pass_fds=(listener.fileno(),),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    env=bare_environment(),
                    start_new_session=True,
                )
                return process, connect(place), token
        except OSError as error:
            shutil.rmtree(place, ignore_errors=True)
            raise CannotStart(f"no keeper for a session that stays: {error}") from error

    def names(self) -> list[str]:
        """What there is, living or not, the oldest first."""
        try:
            found = [one for one in os.scandir(self.place) if one.is_dir(follow_symlinks=False)]
            return [one.name for one in sorted(found, key=lambda one: one.stat().st_mtime)]
        except OSError:
            return []

    def about(self, name: str) -> bytes:
        """What was noted when it was started.

        Raises: OSError.
        """
        return _read(self.place / name / ABOUT, _ABOUT_MAX)

    def note(self, name: str, about: bytes) -> None:
        """Note it anew, whole or not at all.

        Raises: OSError.
        """
        fresh = self.place / name / f"{ABOUT}.{secrets.token_hex(4)}"
        _write(fresh, about)
        fresh.replace(self.place / name / ABOUT)

    def reach(self, name: str) -> tuple[socket.socket, str]:
        """A connection to a keeper, on which nothing was said yet, and its token.

        Raises: OSError; ConnectionRefusedError if it is dead, FileNotFoundError if there is none.
        """
        place = self.place / name
        if not is_private(place):
            raise PermissionError(f"{place} is not a directory that only you can enter")
        return connect(place), _read(place / TOKEN, 128).decode("ascii", "replace").strip()

    def living(self) -> set[str]:
        """Those whose keeper is there."""
        found = set()
        for name in self.names():
            with suppress(OSError):
                connect(self.place / name).close()
                found.add(name)
        return found

    def sweep(self) -> list[str]:
        """Remove what keepers left that were killed; their names."""
        swept = []
        for name in self.names():
            with suppress(OSError):
                try:
                    connect(self.place / name).close()
                except (ConnectionRefusedError, FileNotFoundError):
                    if is_private(self.place / name):
                        shutil.rmtree(self.place / name, ignore_errors=True)
                        swept.append(name)
        return swept


def stay_folder(config: Config) -> Path:
    """Where these settings have keepers that stay."""
    return Path(config.state.dir) / "stay"


def staying_runs(config: Config) -> Collection[str]:
    """The ids of what outlives its server, and has a keeper."""
    return StayFolder(stay_folder(config)).living()


def is_private(place: Path) -> bool:
    """A directory of ours, no link to one, that nobody else can enter."""
    try:
        own = place.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(own.st_mode) and own.st_uid == os.geteuid() and not own.st_mode & 0o077


def connect(place: Path) -> socket.socket:
    """Raises: OSError; BlockingIOError if too many wait already."""
    channel = socket.socket(socket.AF_UNIX)
    channel.setblocking(False)
    try:
        with _short(place) as name:
            channel.connect(f"{name}/{SOCKET}")
    except OSError:
        channel.close()
        raise
    return channel


@contextmanager
def _listening(place: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listener, _short(place) as name:
        listener.bind(f"{name}/{SOCKET}")
        listener.listen(_BACKLOG)
        yield listener


@contextmanager
def _short(place: Path) -> Iterator[str]:
    """A name of it that fits into the address of a socket, which has 107 bytes."""
    if len(os.fsencode(place)) + len(SOCKET) < 100 or not Path("/proc/self/fd").is_dir():
        yield str(place)
        return
    directory = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}"
    finally:
        os.close(directory)


def _write(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "wb") as file:  # noqa: PTH123  a descriptor
        file.write(data)


def _read(path: Path, most: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123  a descriptor
        return file.read(most)
