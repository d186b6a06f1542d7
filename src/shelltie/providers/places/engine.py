"""Protocol of an engine: where keepers of a place are launched and reached (ssh, pods, actors).

An engine knows nothing of commands. It starts keepers that stay (keeper/stay.c, pystay.py), hands
out byte streams to them, and removes them. Heartbeats, reconnecting, resuming and what a command
is, are `provider.py`'s.
"""

import socket
from typing import Protocol

from shelltie.basics.frozen import frozen


@frozen
class FarKeeper:
    """A keeper that stays, somewhere else."""

    name: str
    """Ours and unique; safe as a file, a label and the name of a pod: [a-z0-9-], 40 at most."""
    token: str
    """What whoever connects to it shows."""
    where: str
    """For people: "host web1", "pod shelltie-ab12 in agents on node n2"."""


class PlaceEngine(Protocol):
    """Launches keepers in a place of one kind, and reaches them."""

    kind: str
    """As in settings: ssh, kubernetes, ray."""
    shared: bool
    """One keeper holds many commands, as on a host; else each has its own, as in a pod."""

    async def launch(self, name: str, lease: float) -> FarKeeper:
        """Have a keeper of that name run there, with that lease in seconds.

        Raises: CannotStart, which says why and what to do, within seconds; nothing is left of it.
        """
        ...

    async def open_stream(self, keeper: FarKeeper) -> socket.socket:
        """A local non-blocking AF_UNIX stream whose other end is pumped to the keeper's socket.

        It ends when the connection breaks, if that is noticed; who uses it sends heartbeats.
        Raises: OSError, CannotStart; KeeperGone where the place can be reached, and the keeper is
            not there any more: then nobody tries again.
        """
        ...

    async def destroy(self, keeper: FarKeeper) -> None:
        """Remove everything of it there, whatever that takes. Bounded; never raises."""
        ...

    async def list(self) -> list[str]:
        """Names of the keepers there: ours, and those that dead servers left.

        Raises: CannotStart, OSError.
        """
        ...

    async def close(self) -> None:
        """Close connections; what runs there goes on until its lease is over."""
        ...
