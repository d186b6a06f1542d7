"""Runtime directories for sockets (mode 0700), out of reach of other users."""

import os
import socket
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from shelltie.settings import paths

_STARTING = 60.0  # seconds after which a socket without a listener is nobody's


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


def sweep(place: Path) -> None:
    """Remove the sockets of servers that are dead."""
    for path in place.glob("*.sock"):
        with suppress(OSError):
            age = time.time() - path.lstat().st_mtime
            if _refused(path) and (not _alive(path) or age > _STARTING):
                path.unlink()


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
