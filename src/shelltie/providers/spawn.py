"""Spawn a command on a leash: pipes or pty, signals, resource limits."""

import asyncio
import fcntl
import os
import struct
import sys
import tempfile
import termios
from collections.abc import Callable
from typing import NamedTuple

import anyio

from shelltie.errors import CannotStart
from shelltie.keeper.link import Leash, Link
from shelltie.keeper.protocol import Exited, Failed, Gone, LeashWord, Lost, Noted
from shelltie.model import Resources, TerminalSize
from shelltie.providers import cgroup
from shelltie.providers.provider import PortWatch, Prepared

_LINUX = sys.platform == "linux"
_ANSWERS_WITHIN = 10.0  # seconds, a keeper that is there
_EXHAUSTED = {
    "memory": "it wanted more memory than its limit, and the kernel ended some or all of it",
    "tasks": "it wanted more processes than its limit, and was refused them",
}

# Nobody can write more to it, in a sandbox either: what it holds would be outside.
_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK if _LINUX else 0


class _Ends(NamedTuple):
    """Our ends of a command's streams."""

    stdout: int
    stderr: int | None = None
    stdin: int | None = None


class LeashedProcess:
    """A command that a keeper on this machine holds, in whatever namespaces."""

    __slots__ = ("_leash", "ports", "stderr", "stdin", "stdout")

    def __init__(self, leash: Leash, ends: _Ends) -> None:
        self._leash = leash
        self.stdout = ends.stdout
        self.stderr = ends.stderr
        self.stdin = ends.stdin
        self.ports: PortWatch | None = None

    @property
    def leash(self) -> int:
        """The pid of its leash; 0 until the command runs."""
        return self._leash.pid

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


def spawn(link: Link, prepared: Prepared, listen: Callable[[LeashWord], None]) -> LeashedProcess:
    """Open the streams and have the keeper start the command.

    Raises: CannotStart, and then nothing was started.
    """
    # No ExitStack: it takes as long as the rest.
    theirs: list[int] = []
    ours: list[int] = []
    group = None
    try:
        try:
            stdio, ends = _open_streams(prepared, theirs, ours)
            group, note = _grouped(prepared.resources)
        except OSError as error:
            raise CannotStart(f"no streams for the command: {error.strerror}") from error
        if group is not None:
            listen = _removing(group, limited(group, listen))
        leash = link.spawn(
            prepared.argv,
            prepared.env,
            prepared.cwd,
            stdio,
            tty=prepared.pty is not None and not prepared.one_output,
            resources=prepared.resources,
            listen=listen,
            joins=() if group is None else group.joins,
            directory=prepared.directory,
        )
    except BaseException:
        _close(ours)
        if group is not None:
            _remove(group)
        raise
    finally:
        _close(theirs)
        if group is not None:
            group.sealed()
    if note:
        listen(Noted(note))
    return LeashedProcess(leash, ends)


def _grouped(resources: Resources) -> tuple[cgroup.CommandCgroup | None, str]:
    """The cgroup for limits of a whole tree, and what to tell of those that do not hold."""
    limits = cgroup.wanted(resources)
    if not limits:
        return None, ""
    why = "this kernel or user has no cgroup for that"
    try:
        group, left = cgroup.make(limits, cgroup.our_parents())
    except OSError as error:
        group, left, why = None, set(limits), f"its cgroup could not be made: {error}"
    note = f"no limit holds for its {' and '.join(sorted(left))}: {why}" if left else ""
    return group, note


def limited(
    group: cgroup.CommandCgroup, listen: Callable[[LeashWord], None]
) -> Callable[[LeashWord], None]:
    """Who listens, and is told at the end what there was not enough of meanwhile."""
    before = group.exhausted()

    def hear(word: LeashWord) -> None:
        if isinstance(word, Gone | Lost):
            for what, count in group.exhausted().items():
                if count > before[what]:
                    listen(Noted(_EXHAUSTED[what], what))
        listen(word)

    return hear


def _removing(
    group: cgroup.CommandCgroup, listen: Callable[[LeashWord], None]
) -> Callable[[LeashWord], None]:
    def hear(word: LeashWord) -> None:
        listen(word)
        if isinstance(word, Gone | Lost):
            _remove(group)

    return hear


def _remove(group: cgroup.CommandCgroup, tries: int = 50) -> None:
    """The leash is in it until it is reaped, of which nobody tells."""
    if not group.removed() and tries:
        asyncio.get_running_loop().call_later(0.02, _remove, group, tries - 1)


def _open_streams(
    prepared: Prepared, theirs: list[int], ours: list[int]
) -> tuple[tuple[int, int, int], _Ends]:
    """The command's three descriptors and our ends of them. Each list has one side's."""
    if prepared.one_output:
        return _one_output(prepared, theirs, ours)
    if prepared.pty is not None:
        terminal, slave = _pair(os.openpty, ours, theirs)
        resize(slave, prepared.pty)
        stderr = slave if prepared.commands is None else prepared.commands
        return (slave, slave, stderr), _Ends(terminal)
    their_stdin, stdin = _input(prepared, theirs, ours)
    stdout, their_stdout = _pair(os.pipe, ours, theirs)
    stderr, their_stderr = _pair(os.pipe, ours, theirs)
    return (their_stdin, their_stdout, their_stderr), _Ends(stdout, stderr, stdin)


def _one_output(
    prepared: Prepared, theirs: list[int], ours: list[int]
) -> tuple[tuple[int, int, int], _Ends]:
    """Stdout and stderr in one. A terminal is not its controlling one: who wants a password there
    is refused /dev/tty, instead of waiting for somebody who cannot type.
    """
    their_stdin, stdin = _input(prepared, theirs, ours)
    output, their_output = _pair(os.pipe if prepared.pty is None else os.openpty, ours, theirs)
    if prepared.pty is not None:
        resize(their_output, prepared.pty)
    return (their_stdin, their_output, their_output), _Ends(output, None, stdin)


def _input(prepared: Prepared, theirs: list[int], ours: list[int]) -> tuple[int, int | None]:
    if prepared.stays_open:
        stdin, our_stdin = _pair(os.pipe, theirs, ours)
        return stdin, our_stdin
    given = prepared.stdin_from
    stdin = _stdin(prepared.stdin) if given is None else os.dup(given)
    theirs.append(stdin)
    return stdin, None


def _pair(
    make: Callable[[], tuple[int, int]], first: list[int], second: list[int]
) -> tuple[int, int]:
    one, other = make()
    first.append(one)
    second.append(other)
    return one, other


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _stdin(data: bytes | None) -> int:
    """A file that ends: a command that reads finds the end instead of waiting for ever.

    Input is a file, not a pipe: a command that does not read it blocks nobody.
    """
    if data is None:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    if not _LINUX:
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.seek(0)
            return os.dup(file.fileno())
    descriptor = os.memfd_create("stdin", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with open(descriptor, "wb", closefd=False) as memory:
            memory.write(data)
        os.lseek(descriptor, 0, os.SEEK_SET)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def resize(terminal: int, size: TerminalSize) -> None:
    """Tell a pty its size."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))


async def answers(link: Link, shell: str = "") -> bool:
    """Whether the keeper is there, and a shell works; it can say that a directory is no program."""
    words: list[LeashWord] = []
    over = anyio.Event()

    def hear(word: LeashWord) -> None:
        words.append(word)
        if isinstance(word, Gone | Lost):
            over.set()

    argv = (shell, "-c", ":") if shell else ("/",)
    with open(os.devnull, "r+b") as null:  # noqa: PTH123, ASYNC230  it has no disk
        stdio = (null.fileno(), null.fileno(), null.fileno())
        try:
            link.spawn(argv, {}, "/", stdio, tty=False, resources=Resources(), listen=hear)
        except CannotStart:  # it is dead already
            return False
    with anyio.move_on_after(_ANSWERS_WITHIN):
        await over.wait()
        if shell:
            return any(isinstance(word, Exited) and word.wait_status == 0 for word in words)
        return any(isinstance(word, Failed) for word in words)
    await link.close()
    return False
