"""Peer credentials of a Unix socket (SO_PEERCRED, SO_PEERPIDFD), and whether the peer lives."""

import errno
import os
import select
import socket
import struct
import sys
from contextlib import suppress

_SO_PEERPIDFD = 77  # Linux 6.5
_LOCAL_PEERCRED, _LOCAL_PEERPID = 1, 2  # of macOS and the BSDs
_XUCRED = struct.Struct("=IIh2x16I")


class Peer:
    """The process that connected. While `present()`, its pid is still its own."""

    def __init__(self, connection: socket.socket) -> None:
        self.pid, self.uid = _credentials(connection)
        self._pidfd = _pidfd(connection, self.pid)

    def present(self) -> bool:
        """Whether it lives; if the kernel cannot tell, whether somebody with its pid does."""
        if self._pidfd is None:
            return _alive(self.pid)
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        """Hold it no longer."""
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None


def _credentials(connection: socket.socket) -> tuple[int, int]:
    if sys.platform == "linux":
        packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        pid, uid, _ = struct.unpack("3i", packed)
        return pid, uid
    owner = connection.getsockopt(0, _LOCAL_PEERCRED, _XUCRED.size)
    pid = connection.getsockopt(0, _LOCAL_PEERPID)
    return pid, _XUCRED.unpack(owner)[1]


def _pidfd(connection: socket.socket, pid: int) -> int | None:
    """A descriptor for the process itself, made when it connected where the kernel can."""
    if sys.platform != "linux" or pid <= 0:
        return None
    try:
        return connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError as error:
        if error.errno != errno.ENOPROTOOPT:
            raise
    with suppress(OSError):
        return os.pidfd_open(pid)
    return None


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return pid > 0  # 0 is what a process in a foreign namespace has here
