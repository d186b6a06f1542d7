"""Translate pids from a nested pid namespace into ours (SCM_CREDENTIALS, NSpid).

A process inside names itself and others by numbers that here belong to strangers. The kernel
tells who really sent a message (SCM_CREDENTIALS), and in /proc what a process is called where.
"""

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
_PROCESSES_MAX = 4096  # processes to look at


def ask_who_sends(receiver: socket.socket) -> None:
    """From now on each message to this socket carries the pid of its sender."""
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)


def receive(source: socket.socket, size: int) -> tuple[bytes, int]:
    """What has arrived, and from which pid: 0 if it cannot be known."""
    arrived, ancillary, _, _ = source.recvmsg(size, socket.CMSG_SPACE(_CREDENTIALS.size))
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
            return arrived, int(_CREDENTIALS.unpack(content[: _CREDENTIALS.size])[0])
    return arrived, 0


def command_of(leash: int, inner: int) -> int:
    """Our pid of the command that a leash has just started; 0 if it is gone already."""
    children = _numbers(f"/proc/{leash}/task/{leash}/children")
    if len(children) < 2:  # which it nearly always is: only orphans could come beside it
        return children[0] if children else 0
    return next(iter(outside(leash, (inner,))), 0)


def outside(leash: int, inner: tuple[int, ...]) -> tuple[int, ...]:
    """Our pids of those below a leash that call themselves so; who is gone has none."""
    depth = len(_names(leash))
    wanted = set(inner)
    below = descendants(leash) if depth else ()
    return tuple(pid for pid in below if wanted.intersection(_names(pid)[depth - 1 : depth]))


def is_first(pid: int) -> bool:
    """Whether it is the first process of a pid namespace below ours."""
    names = _names(pid)
    return len(names) > 1 and names[-1] == 1


def descendants(pid: int) -> Iterator[int]:
    """Everybody below a process, in our numbers, as far as there are not too many."""
    queue = [pid]
    for one in queue:  # which grows meanwhile
        children = [child for task in _tasks(one) for child in _numbers(f"{task}/children")]
        queue += children[: max(0, _PROCESSES_MAX - len(queue))]
        yield from children


def _tasks(pid: int) -> list[Path]:
    with suppress(OSError):
        return list(Path(f"/proc/{pid}/task").iterdir())
    return []


def _numbers(path: str) -> list[int]:
    # Each start waits for this: without a buffer it takes half of the system calls.
    with suppress(OSError), open(path, "rb", buffering=0) as file:  # noqa: PTH123
        return [int(word) for word in file.read().split()]
    return []


def _names(pid: int) -> list[int]:
    """What a process is called in each namespace it is in, ours first."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_bytes().splitlines():
            if line.startswith(b"NSpid:"):
                return [int(word) for word in line.split()[1:]]
    return []
