"""Session id counter in an append-only file that all servers of a user share (O_APPEND, no lock).

An agent may remember an id for longer than its server lives. So none is given twice.
"""

import itertools
import os
import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio.to_thread

from shelltie.record.queries import largest_session_number
from shelltie.settings.config import Config

_UNKEPT = 10**9  # no file gets as long


class SessionNumbers:
    """Gives the next number. Where it cannot be kept, they begin at a random one of ten digits.

    `used` is the largest that is known from elsewhere, and `look` says which that is by now: it is
    asked when the file is another than before. One that is shorter than what was given has been
    lost, and how far other servers had counted with it: it is not believed any more.
    """

    def __init__(self, path: Path, used: int = 0, look: Callable[[], int] | None = None) -> None:
        self._path = path
        self._used = used
        self._look = look or (lambda: 0)
        self._file: int | None = None  # the inode of the file that was counted on
        self._lost = False
        self._unkept = itertools.count(_UNKEPT + secrets.randbelow(9 * _UNKEPT))

    def __call__(self) -> int:
        """A number that nobody has had."""
        try:
            number, file = self._count_on()
        except OSError:
            return next(self._unkept)
        # A new file may have the inode of the one that was removed, but it begins at one again.
        if file != self._file or number <= self._used:
            self._file, self._used = file, max(self._used, self._look())
        self._lost = self._lost or number <= self._used
        if self._lost:
            return next(self._unkept)
        self._used = number
        return number

    def _count_on(self) -> tuple[int, int]:
        """The next number, and the inode of the file.

        It has a byte for each number. To append one is atomic, so there is no lock that a server
        which was stopped could hold, and nothing that could be read wrongly.
        """
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        fd = os.open(self._path, flags | os.O_CLOEXEC, 0o600)
        try:
            if os.write(fd, b".") != 1:
                raise OSError("the file of numbers takes no more")
            return os.lseek(fd, 0, os.SEEK_CUR), os.fstat(fd).st_ino
        finally:
            os.close(fd)


async def session_numbers(config: Config) -> SessionNumbers:
    """Numbers for the sessions of all servers that keep their state here."""
    look = partial(largest_session_number, config.journal)
    used = await anyio.to_thread.run_sync(look)
    return SessionNumbers(Path(config.state.dir) / "session-numbers", used, look)
