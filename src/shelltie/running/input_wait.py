"""Detects a program that waits for input: threads blocked in read(2) or poll(2) on the tty.

A thread that waits for its terminal sits in read(2), or in poll, select or epoll with the terminal
among what it waits for. It may be any thread: Java and Go never read in the first one.
"""

import contextlib
import fcntl
import os
import struct
import termios
from collections.abc import Iterable, Iterator, Sequence

from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy
from shelltie.running.procfs import slurp, stat, target, threads

LINE_END = 256  # bytes of output that tell at what it waits
_WHERE = b"\x1b[6n"  # asks the terminal for the cursor's place; ours does not answer
_UNSEEN_END = lazy(rb"(?>(?:\r|\x1b\[[0-9;?]*+[hlm])+)\Z")  # modes and colours, no moves
_MOST_THREADS = 500
_MOST_DESCRIPTORS = 1024
_TIOCGPTPEER = 0x5441  # opens the other side of a terminal
# The numbers of read(2) and of the calls that wait for several descriptors at once.
_CALLS = {
    "x86_64": {
        **dict.fromkeys((0,), "read"),
        **dict.fromkeys((7, 271), "poll"),
        **dict.fromkeys((23, 270), "select"),
        **dict.fromkeys((232, 281, 441), "epoll"),
    },
    "aarch64": {63: "read", 73: "poll", 72: "select", 22: "epoll", 441: "epoll"},
}
_KIND_OF_CALL = _CALLS.get(os.uname().machine, {})


@frozen
class InputWait:
    """Who waits for the terminal, if anybody does.

    `password`: with echo off. `polls`: for several things at once and with line mode off, as line
    editors and full-screen programs do; they may as well wait for something else.
    `first_thread`: the program's first thread does. `cpu` is what the foreground has used, in
    ticks.
    """

    waits: bool = False
    password: bool = False
    polls: bool = False
    first_thread: bool = False
    cpu: int = 0


def look_for_reader(pids: Iterable[int], terminal: int) -> InputWait:
    """Which of these processes wait for input from the terminal whose other end is ours."""
    try:
        foreground = os.tcgetpgrp(terminal)
        local_modes = termios.tcgetattr(terminal)[3]
    except (OSError, termios.error):
        return InputWait()
    stats = {pid: stat(pid) for pid in pids}
    group = {pid: one for pid, one in stats.items() if len(one) > 14 and int(one[2]) == foreground}
    cpu = sum(int(ticks) for one in group.values() for ticks in one[11:15])
    readers = list(_readers(group))
    if not readers or _unread(terminal):
        return InputWait(cpu=cpu)
    by_line = bool(local_modes & termios.ICANON)
    return InputWait(
        waits=True,
        password=by_line and not local_modes & termios.ECHO,
        polls=not by_line and all(kind != "read" for kind, _ in readers),
        first_thread=any(first for _, first in readers),
        cpu=cpu,
    )


def shows_no_prompt(printed: bytes) -> bool:
    """Whether what was printed last is no prompt: the end of a line, or a question to the terminal.

    Who edits lines itself shows a prompt when it waits. Node, for one, polls its terminal also
    while a promise is awaited, and nothing else tells the difference. ipython waits two seconds
    for the cursor's place before it goes on, and says so in a line when it has none.
    """
    return _WHERE in printed or _UNSEEN_END.sub(b"", printed).endswith(b"\n")


def _readers(pids: Iterable[int]) -> Iterator[tuple[str, bool]]:
    """In which kind of call each reader waits, and whether it is its process's first thread."""
    left = _MOST_THREADS
    for pid in pids:
        for place, thread in enumerate(threads(pid)[:left]):
            left -= 1
            kind = _waits_for_terminal(pid, slurp(f"{thread}/syscall").split())
            if kind is not None:
                yield kind, place == 0


def _waits_for_terminal(pid: int, call: Sequence[bytes]) -> str | None:
    if len(call) < 7 or not call[0].isdigit():  # it runs, or nobody may look
        return None
    kind = _KIND_OF_CALL.get(int(call[0]))
    arguments = [int(word, 16) for word in call[1:7]]
    if kind is None:
        return None
    if kind == "read":
        return kind if _is_terminal(target(pid, arguments[0])) else None
    waited_for = [target(pid, fd) for fd in _descriptors(pid, kind, arguments)]
    if not any(map(_is_terminal, waited_for)):
        return None
    # Who also waits for the network, or for a terminal it holds itself, is not waiting for us.
    return None if any(_is_elsewhere(pid, one) for one in waited_for) else kind


def _descriptors(pid: int, kind: str, arguments: Sequence[int]) -> list[int]:
    """What a call waits to read from."""
    if kind == "epoll":
        lines = slurp(f"/proc/{pid}/fdinfo/{arguments[0]}").splitlines()
        return [int(line.split()[1]) for line in lines if line.startswith(b"tfd:")]
    if kind == "poll":
        count = min(arguments[1], _MOST_DESCRIPTORS)
        wanted = struct.iter_unpack("ihh", _memory(pid, arguments[0], 8 * count))
        return [fd for fd, events, _ in wanted if fd >= 0 and events & 1]  # POLLIN
    count = min(arguments[0], _MOST_DESCRIPTORS)
    bits = int.from_bytes(_memory(pid, arguments[1], (count + 7) // 8), "little")
    return [fd for fd in range(count) if bits >> fd & 1]


def _memory(pid: int, address: int, size: int) -> bytes:
    """Whoever may read what a process is blocked in may read its memory, too."""
    with contextlib.suppress(OSError, OverflowError, ValueError):
        fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(fd, size, address) if address else b""
        finally:
            os.close(fd)
    return b""


def _is_terminal(name: str) -> bool:
    return name == "/dev/tty" or (name.startswith("/dev/pts/") and name != "/dev/pts/ptmx")


def _is_elsewhere(pid: int, name: str) -> bool:
    """A socket of the network, or the master of a terminal within; asyncio's own is a Unix one."""
    if name.endswith("/ptmx"):
        return True
    if not name.startswith("socket:["):
        return False
    inode = name.removeprefix("socket:[").removesuffix("]").encode()
    return inode not in slurp(f"/proc/{pid}/net/unix").split()


def _unread(terminal: int) -> int:
    """How much was typed that nobody has read yet: who waits has only not woken up."""
    with contextlib.suppress(OSError):
        other = fcntl.ioctl(terminal, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            (count,) = struct.unpack("i", fcntl.ioctl(other, termios.FIONREAD, b"\0" * 4))
        finally:
            os.close(other)
        return int(count)
    return 0
