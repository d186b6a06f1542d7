"""Process at the other end of a loopback TCP connection, by its inode in /proc/net/tcp.

TCP has no peer credentials. But the kernel lists the other end of a loopback connection, too, with
the user that it belongs to and the inode of its socket, and each process shows the inodes that it
has open.
"""

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from shelltie.basics.frozen import frozen

_ESTABLISHED = b"01"


@frozen
class TcpEnd:
    """An end of a connection: whose it is, and its socket."""

    uid: int
    inode: int


def other_end(peer: tuple[str, int], own: tuple[str, int]) -> TcpEnd | None:
    """The end of whoever connected from `peer` to our address; `None` if it cannot be seen."""
    wanted = _address(*peer), _address(*own)
    try:
        table = Path("/proc/net/tcp").read_bytes()
    except OSError:
        return None
    for line in table.splitlines()[1:]:
        fields = line.split()
        if (fields[1], fields[2]) == wanted and fields[3] == _ESTABLISHED:
            return TcpEnd(int(fields[7]), int(fields[9]))
    return None


def _address(host: str, port: int) -> bytes:
    """As /proc/net/tcp writes it: the address in the byte order of the machine."""
    (number,) = struct.unpack("=I", socket.inet_aton(host))
    return b"%08X:%04X" % (number, port)


def holders(end: TcpEnd) -> list[int]:
    """Every process that has this socket open, as far as we may look."""
    wanted = f"socket:[{end.inode}]"
    pids = (int(name) for name in os.listdir("/proc") if name.isdecimal())  # noqa: PTH208  of all
    return [pid for pid in pids if wanted in _open_files(pid)]


def _open_files(pid: int) -> Iterator[str]:
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208  Path is three times as slow, times 10000
            with suppress(OSError):
                yield os.readlink(f"{folder}/{name}")  # noqa: PTH115
