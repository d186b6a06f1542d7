"""Runtime directories for Unix sockets (mode 0700): bind, find, sweep.

Every process that runs commands has a socket there, short ones too, so to start must be cheap: it
never connects to the others, which would wake them.
"""

import logging
import os
import socket
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from shelltie.settings import paths

SOCKET, WATCH = ".sock", ".watch"  # of who runs commands, and of who watches them all
_STARTING = 60.0  # seconds after which a socket without a listener is nobody's
_BACKLOG = 256
_WATCHERS_MAX = 8


def prepared(environ: Mapping[str, str]) -> Iterator[Path]:
    """The places in which a socket of ours can be made, made where they were missing."""
    for place in paths.runtime_dirs(environ):
        with suppress(OSError):
            if place.parent == paths.state_dir(environ):
                place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError):
                place.mkdir(mode=0o700)
            if is_ours(place):
                yield place


def existing(environ: Mapping[str, str]) -> Iterator[Path]:
    """The places in which servers of ours may be found."""
    yield from (place for place in paths.runtime_dirs(environ) if is_ours(place))


def is_ours(place: Path) -> bool:
    """A directory, no link to one, that only we can enter, where others cannot exchange it."""
    try:
        own, above = place.lstat(), place.parent.stat()
    except OSError:
        return False
    closed = stat.S_ISDIR(own.st_mode) and own.st_uid == os.geteuid() and not own.st_mode & 0o077
    return closed and _stays(above)


def _stays(above: os.stat_result) -> bool:
    trusted = above.st_uid in (0, os.geteuid())
    return trusted and (not above.st_mode & 0o022 or bool(above.st_mode & stat.S_ISVTX))


def bind(place: Path, suffix: str = SOCKET) -> tuple[socket.socket, Path] | None:
    """A listening socket there that only we can reach; None where its path is too long for one."""
    path = place / f"{os.getpid()}-{os.urandom(4).hex()}{suffix}"
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        logging.getLogger(__name__).debug("no socket at %s: %s", path, error)
        listener.close()
        return None
    return listener, path


def listen(environ: Mapping[str, str]) -> tuple[socket.socket, Path] | None:
    """The control socket of this process, in the best place that there is."""
    for place in prepared(environ):
        sweep_dead(place)
        if (made := bind(place)) is not None:
            return made
    return None


def watch_sockets(place: Path) -> list[Path]:
    """Of everyone who wants to hear what happens in processes that start there."""
    with suppress(OSError), os.scandir(place) as found:
        return [place / one.name for one in found if one.name.endswith(WATCH)][:_WATCHERS_MAX]
    return []


def sweep(place: Path) -> None:
    """Remove the sockets on which nobody listens any more."""
    for path in _sockets(place):
        with suppress(OSError):
            age = time.time() - path.lstat().st_mtime
            if _refused(path) and (not _alive(path) or age > _STARTING):
                path.unlink()


def sweep_dead(place: Path) -> None:
    """The same, but only of processes that are dead: the living are not disturbed."""
    for path in _sockets(place):
        if not _alive(path) and _refused(path):
            path.unlink(missing_ok=True)


def _sockets(place: Path) -> list[Path]:
    with suppress(OSError), os.scandir(place) as found:
        return [place / one.name for one in found if one.name.endswith((SOCKET, WATCH))]
    return []


def _refused(path: Path) -> bool:
    """Nobody listens. A server that is just being started does not do so yet."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def _alive(path: Path) -> bool:
    pid = path.name.partition("-")[0]
    try:
        os.kill(int(pid), 0)
    except PermissionError:
        return True
    except (OSError, ValueError, OverflowError):
        return False
    return True
