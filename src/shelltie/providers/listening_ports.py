"""Listening TCP ports of a process tree, read from /proc/PID/net/tcp and its file descriptors.

That file lists every socket of a network namespace, which all commands of a sandbox share. So a
socket belongs to a tree if somebody in it has it open.
"""

import os
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress

from shelltie.basics.frozen import frozen
from shelltie.keeper.pid_namespace import descendants

_LISTENS = "0A"
_TABLES = (("tcp", 4), ("tcp6", 6))
_TABLE_MAX = 1024 * 1024  # bytes, some 7000 sockets
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  whoever listens on all is at home, too


@frozen
class ListeningSocket:
    """A listening socket: its address inside, and the inode by which its owners are found."""

    address: str
    port: int
    version: int
    inode: str

    @property
    def reached_at(self) -> tuple[str, int]:
        """Where to connect in its network namespace."""
        return _ANY.get(self.address, self.address), self.port

    def __str__(self) -> str:
        return (
            f"[{self.address}]:{self.port}" if self.version == 6 else f"{self.address}:{self.port}"
        )


def listeners(leash: int) -> tuple[ListeningSocket, ...]:
    """What the tree of a leash listens on, the smallest port first; each port once."""
    found = [one for name, version in _TABLES for one in parse(_rows(leash, name), version)]
    if not found:  # which it nearly always is, and to look at descriptors is dear
        return ()
    ours = _open_sockets(leash)
    mine = [one for one in found if ours is None or one.inode in ours]
    first = {one.port: one for one in reversed(mine)}  # IPv4 before IPv6
    return tuple(first[port] for port in sorted(first))


def holds_connection(leash: int, local: int, remote: int) -> bool:
    """Whether the tree of a leash has the connection between these two ports of its loopback."""
    ours = _open_sockets(leash)
    return ours is None or any(
        _port(fields[1]) == local and _port(fields[2]) == remote and fields[9] in ours
        for fields in map(str.split, _rows(leash, "tcp"))
        if len(fields) > 9
    )


def _port(place: str) -> int:
    return int(place.rpartition(":")[2], 16)


def _rows(pid: int, name: str) -> list[str]:
    """The lines of a table, without its head."""
    with suppress(OSError), open(f"/proc/{pid}/net/{name}", encoding="ascii") as table:  # noqa: PTH123  each look waits for it
        return table.read(_TABLE_MAX).splitlines()[1:]
    return []


def parse(rows: Iterable[str], version: int) -> Iterator[ListeningSocket]:
    """The listening sockets of /proc/net/tcp or tcp6, without its head. Pure."""
    for row in rows:
        fields = row.split()
        if len(fields) > 9 and fields[3] == _LISTENS:
            address, _, port = fields[1].partition(":")
            # The kernel writes each 32 bits as a number, in the order of the machine.
            words = [int(address[i : i + 8], 16) for i in range(0, len(address), 8)]
            family = socket.AF_INET6 if version == 6 else socket.AF_INET
            yield ListeningSocket(
                socket.inet_ntop(family, struct.pack(f"={len(words)}I", *words)),
                int(port, 16),
                version,
                fields[9],
            )


def _open_sockets(leash: int) -> set[str] | None:
    """The inodes of all sockets in a tree; `None` if somebody in it cannot be looked at."""
    found: set[str] = set()
    for pid in descendants(leash):
        try:
            names = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208  of a text
        except PermissionError:
            return None
        except OSError:  # it has just ended
            continue
        for name in names:
            with suppress(OSError):
                kind, _, inode = os.readlink(f"/proc/{pid}/fd/{name}").partition(":[")  # noqa: PTH115  as above
                if kind == "socket":
                    found.add(inode.removesuffix("]"))
    return found
