"""This machine, without isolation: each command on its own leash."""

import contextlib
import fcntl
import os
import struct
import tempfile
import termios
from collections.abc import Callable
from typing import NamedTuple

from shelltie.errors import CannotStart
from shelltie.keeper.link import Leash, Link, choose
from shelltie.keeper.protocol import Word
from shelltie.model import TerminalSize
from shelltie.providers.provider import Prepared


class _Ends(NamedTuple):
    """Our ends of a command's streams."""

    stdout: int
    stderr: int | None = None
    stdin: int | None = None


class LocalProcess:
    """A command on this machine."""

    __slots__ = ("_leash", "stderr", "stdin", "stdout")

    def __init__(self, leash: Leash, ends: _Ends) -> None:
        self._leash = leash
        self.stdout = ends.stdout
        self.stderr = ends.stderr
        self.stdin = ends.stdin

    def resize(self, size: TerminalSize) -> None:
        """See `Process`."""
        resize(self.stdout, size)

    def signal(self, number: int) -> None:
        """See `Process`."""
        self._leash.signal(number)

    def shoot(self) -> None:
        """See `Process`."""
        self._leash.shoot()

    def poll(self) -> None:
        """See `Process`."""
        self._leash.poll()


class LocalProvider:
    """Starts commands here; its keeper starts with the first of them."""

    name = "local"
    isolation = "none"

    def __init__(self, keeper: str | None = None) -> None:
        self._argv, self.kind = choose(keeper)
        self._links: list[Link] = []  # the last one serves; older ones still have leashes

    def spawn(self, prepared: Prepared, listen: Callable[[Word], None]) -> LocalProcess:
        """See `Provider`."""
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            try:
                stdio, ends = _open_streams(prepared, theirs, ours)
            except OSError as error:
                raise CannotStart(f"no streams for the command: {error.strerror}") from error
            leash = self._living_link().spawn(
                prepared.argv,
                prepared.env,
                prepared.cwd,
                stdio,
                tty=prepared.pty is not None,
                resources=prepared.resources,
                listen=listen,
            )
            ours.pop_all()
        return LocalProcess(leash, ends)

    async def close(self) -> None:
        """See `Provider`."""
        for link in self._links:
            await link.close()
        self._links = []

    def _living_link(self) -> Link:
        """A command may kill the keeper; the next one gets another."""
        if not self._links or not self._links[-1].alive:
            self._links.append(Link(self._argv, self.kind))
        return self._links[-1]


def _open_streams(
    prepared: Prepared, theirs: contextlib.ExitStack, ours: contextlib.ExitStack
) -> tuple[tuple[int, int, int], _Ends]:
    """The command's three descriptors and our ends of them. Each stack closes one side's."""
    if prepared.pty is not None:
        terminal, slave = _pair(os.openpty, ours, theirs)
        resize(slave, prepared.pty)
        return (slave, slave, slave), _Ends(terminal)
    their_stdin, stdin = _input(prepared, theirs, ours)
    stdout, their_stdout = _pair(os.pipe, ours, theirs)
    stderr, their_stderr = _pair(os.pipe, ours, theirs)
    return (their_stdin, their_stdout, their_stderr), _Ends(stdout, stderr, stdin)


def _input(
    prepared: Prepared, theirs: contextlib.ExitStack, ours: contextlib.ExitStack
) -> tuple[int, int | None]:
    if prepared.stays_open:
        stdin, our_stdin = _pair(os.pipe, theirs, ours)
        return stdin, our_stdin
    stdin = _stdin(prepared.stdin)
    theirs.callback(os.close, stdin)
    return stdin, None


def _pair(
    make: Callable[[], tuple[int, int]], first: contextlib.ExitStack, second: contextlib.ExitStack
) -> tuple[int, int]:
    one, other = make()
    first.callback(os.close, one)
    second.callback(os.close, other)
    return one, other


def _stdin(data: bytes | None) -> int:
    """A file that ends: a command that reads finds the end instead of waiting for ever.

    Input is a file, not a pipe: a command that does not read it blocks nobody.
    """
    if data is None:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        return os.dup(file.fileno())


def resize(terminal: int, size: TerminalSize) -> None:
    """Tell a pty its size."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))
