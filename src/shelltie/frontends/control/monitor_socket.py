"""Monitor socket in the runtime directory: every process that runs commands sends its events there.

Who starts a command connects to it first, so that a command of a millisecond is seen, too; who runs
already is asked to.
"""

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import SocketListener, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from shelltie.errors import NoServerAnswer, TerminalError
from shelltie.frontends.control import client, socket_dirs

Message = dict[str, Any]
Hear = Callable[[Message, Message], None]  # an event, and who it is from

_LINE_MAX = 1024 * 1024
_LEFT = (anyio.IncompleteRead, anyio.BrokenResourceError, anyio.DelimiterNotFound, ValueError)


@contextmanager
def listening(environ: Mapping[str, str]) -> Iterator[dict[Path, socket.socket]]:
    """A socket in each place where something may start, by its path.

    Raises: TerminalError.
    """
    places = {*islice(socket_dirs.prepared(environ), 1), *socket_dirs.existing(environ)}
    with ExitStack() as stack:
        found: dict[Path, socket.socket] = {}
        for place in places:
            if (made := socket_dirs.bind(place, socket_dirs.WATCH)) is not None:
                listener, path = made
                stack.enter_context(listener)
                stack.callback(partial(path.unlink, missing_ok=True))
                found[path] = listener
        if not found:
            raise TerminalError("no place for a socket: see `shelltie paths`")
        yield found


async def hear_all(listeners: Mapping[Path, socket.socket], hear: Hear) -> None:
    """Tell of every event from now on, each process in a task of its own; it does not return."""

    async def follow(stream: SocketStream) -> None:
        lines = BufferedByteReceiveStream(stream)
        async with stream:
            with suppress(*_LEFT):
                about = json.loads(await lines.receive_until(b"\n", _LINE_MAX))
                while True:
                    hear(json.loads(await lines.receive_until(b"\n", _LINE_MAX)), about)

    async with anyio.create_task_group() as tasks:
        for raw in listeners.values():
            listener = await SocketListener.from_socket(raw)
            tasks.start_soon(listener.serve, follow, tasks)


def call_all(environ: Mapping[str, str], paths: list[Path]) -> None:
    """Ask those that run already to tell us."""
    beside = {path.parent: str(path) for path in paths}
    for server in client.servers(environ):
        if server.path.parent in beside:
            with suppress(NoServerAnswer):  # it has just left
                client.ask(server.path, "watch", monitor=beside[server.path.parent])
