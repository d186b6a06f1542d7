"""Link to a keeper in a container: the engine started it, and it connected to our socket."""

import os
import select
import signal
import socket
import struct
from contextlib import suppress

from shelltie.keeper.binaries import KeeperKind
from shelltie.keeper.link import Link

_PEER = struct.Struct("3i")  # pid, uid, gid


class JoinedKeeper:
    """Who has connected, as a process that can be watched and ended.

    Raises: OSError if it is gone; ProcessLookupError also if it cannot be seen from here.
    """

    def __init__(self, channel: socket.socket) -> None:
        peer = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        self.pid = int(_PEER.unpack(peer)[0])
        if self.pid == 0:
            raise ProcessLookupError("it is in no pid namespace below ours")
        self._handle: int | None = os.pidfd_open(self.pid)

    def poll(self) -> int | None:
        """See `Keeper`. When it is gone, so is everybody whose first process it was."""
        if self._handle is not None and select.select([self._handle], [], [], 0)[0]:
            os.close(self._handle)
            self._handle = None
        return None if self._handle is not None else 0

    def kill(self) -> None:
        """See `Keeper`. It may belong to somebody whom only the engine may touch."""
        with suppress(OSError):
            self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        """See `Keeper`."""
        if self._handle is not None:
            signal.pidfd_send_signal(self._handle, number)


class JoinedLink(Link):
    """The link to one that is the first process of its pid namespace."""

    def __init__(self, channel: socket.socket, keeper: JoinedKeeper) -> None:
        self._hold(channel, keeper, KeeperKind.C, contained=True)
