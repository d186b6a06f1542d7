"""`shelltie monitor`: live events of everything that runs for this user.

It listens on a socket in the runtime directory. Who starts a command connects to it first, so that
a command of a millisecond is seen, too; who runs already is asked to.
"""

import json
import socket
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import SocketListener, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from shelltie.environment.inherited import inherited
from shelltie.errors import NoServerAnswer, TerminalError
from shelltie.frontends.cli.monitor_rows import MonitorRows
from shelltie.frontends.cli.terminal import Style, print_error
from shelltie.frontends.control import client, socket_dirs

_LINE_MAX = 1024 * 1024
_LEFT = (anyio.IncompleteRead, anyio.BrokenResourceError, anyio.DelimiterNotFound, ValueError)


def main(args: Namespace) -> int:
    """Until somebody interrupts it, or nobody reads any more."""
    try:
        with _listening() as listeners:
            anyio.run(_Monitor(args).watch, listeners)
    except BaseExceptionGroup as group:
        if (pipe := group.subgroup(BrokenPipeError)) is not None:
            raise BrokenPipeError from pipe
        raise
    return 0


@contextmanager
def _listening() -> Iterator[dict[Path, socket.socket]]:
    """A socket in each place where something may start, by its path."""
    environ = inherited()
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


class _Monitor:
    """Reads from each process in a task of its own."""

    def __init__(self, args: Namespace) -> None:
        self._json = args.json
        self._lines = MonitorRows(Style(sys.stdout, args.color))

    async def watch(self, listeners: dict[Path, socket.socket]) -> None:
        """Everything, from now on."""
        print_error("watching; leave with ctrl-c")
        if not self._json:
            print(self._lines.head(), flush=True)
        async with anyio.create_task_group() as tasks:
            for raw in listeners.values():
                listener = await SocketListener.from_socket(raw)
                tasks.start_soon(listener.serve, self._follow, tasks)
            await anyio.to_thread.run_sync(_call_all, list(listeners), abandon_on_cancel=True)

    async def _follow(self, stream: SocketStream) -> None:
        """One process, until it ends."""
        lines = BufferedByteReceiveStream(stream)
        async with stream:
            with suppress(*_LEFT):
                about = json.loads(await lines.receive_until(b"\n", _LINE_MAX))
                while True:
                    event = json.loads(await lines.receive_until(b"\n", _LINE_MAX))
                    self._show(event, about)

    def _show(self, event: dict[str, Any], about: dict[str, Any]) -> None:
        pid, name = about.get("pid"), str(about.get("client") or "")
        if missed := event.get("missed"):
            print_error(f"{name or pid}: {missed} events were missed")
        elif self._json:
            print(json.dumps({**event, "server": pid, "serverClient": name}), flush=True)
        elif (line := self._lines.line(event, name or str(pid))) is not None:
            print(line, flush=True)


def _call_all(paths: list[Path]) -> None:
    """Ask those that run already to tell us."""
    beside = {path.parent: str(path) for path in paths}
    for server in client.servers(inherited()):
        if server.path.parent in beside:
            with suppress(NoServerAnswer):  # it has just left
                client.ask(server.path, "watch", monitor=beside[server.path.parent])
