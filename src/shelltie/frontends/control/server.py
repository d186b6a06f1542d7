"""Unix socket server in the user's runtime directory, for processes of the same user."""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Self

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import SocketAttribute, SocketListener, SocketStream, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from shelltie.approval.ancestry import why_not_a_person
from shelltie.basics.pulse import Pulse
from shelltie.basics.validate import whole_number
from shelltie.errors import ControlRefused, TerminalError, parameter
from shelltie.frontends.control import line_format
from shelltie.frontends.control.line_format import MessageFields
from shelltie.frontends.control.peer import Peer
from shelltie.frontends.control.socket_dirs import listen

_CLIENTS_MAX = 64
_BREATH = 0.1
_LAST_ANSWERS = 0.5  # seconds that whoever has asked holds us up when we leave
_IDLE = 15.0  # seconds in which a client must have said or read something
_PID = whole_number("the pid of a process", 1)
_GONE = (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)

_log = logging.getLogger(__name__)

Perform = Callable[[Peer, MessageFields], Awaitable[MessageFields]]


class Control:
    """The socket of this process, open while inside `async with`.

    Without a place for it `path` is None, and a server does without. To `hello` it answers itself,
    with what is `about` the server; what else it can do is in `commands`, by name. A socket that
    `listens` already belongs to who made it.
    """

    def __init__(
        self,
        commands: Mapping[str, Perform],
        environ: Mapping[str, str],
        about: MessageFields = MappingProxyType({}),
        listens: socket.socket | None = None,
    ) -> None:
        self.path: Path | None = None
        self._listens = listens
        self.client = ""
        self._commands = {"hello": self._hello, **commands}
        self._environ = environ
        self._about = dict(about)
        self._started = time.time()
        self._clients: set[socket.socket] = set()
        self._answering = 0
        self._answered = Pulse()
        self._tasks: TaskGroup | None = None

    def meet(self, client: str) -> None:
        """Tell people from now on that this one is served."""
        self.client = client or self.client

    async def __aenter__(self) -> Self:
        listener = await self._listen()
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        if listener is not None:
            self._tasks.start_soon(self._serve, listener, self._tasks)
        return self

    async def answer_all(self) -> None:
        """Wait until whoever has asked has an answer, but not for long."""
        with anyio.move_on_after(_LAST_ANSWERS):
            while self._answering:
                await self._answered.wait()

    async def __aexit__(self, *_: object) -> None:
        if self.path is not None:
            self.path.unlink(missing_ok=True)
        if self._tasks is not None:
            # Who comes in this very moment would meet the future of a task that is cancelled.
            for ours in (self._listens, *self._clients):
                if ours is not None and ours.fileno() != -1:
                    asyncio.get_running_loop().remove_reader(ours)
            self._tasks.cancel_scope.cancel()
            # Not told about the error: it would be wrapped, and callers want it as it is.
            await self._tasks.__aexit__(None, None, None)

    async def _listen(self) -> SocketListener | None:
        if self._listens is None:
            made = listen(self._environ)
            if made is None:
                _log.warning("no place for a control socket: ps, kill, approve cannot reach us")
                return None
            self._listens, self.path = made
        return await SocketListener.from_socket(self._listens)

    async def _serve(self, listener: SocketListener, tasks: TaskGroup) -> None:
        async with listener:
            while True:
                with suppress(*_GONE):  # there are no descriptors left, for now
                    await listener.serve(self._welcome, tasks)
                await anyio.sleep(_BREATH)

    async def _welcome(self, stream: SocketStream) -> None:
        async with stream:
            client = stream.extra(SocketAttribute.raw_socket)  # noqa: S610  no Django here
            self._clients.add(client)
            try:
                await self._converse(stream, client)
            except _GONE:
                pass
            finally:
                self._clients.discard(client)

    async def _converse(self, stream: SocketStream, client: socket.socket) -> None:
        if len(self._clients) > _CLIENTS_MAX:
            await _send(
                stream, line_format.failure("BUSY", f"{_CLIENTS_MAX} clients are served already")
            )
            return
        peer = Peer(client)
        try:
            lines = BufferedByteReceiveStream(stream)
            while (line := await _receive(lines, stream)) is not None:
                self._answering += 1
                try:
                    await _send(stream, await self._perform(peer, line))
                finally:
                    self._answering -= 1
                    self._answered.beat()
        finally:
            peer.close()

    async def _perform(self, peer: Peer, line: bytes) -> bytes:
        if peer.uid not in (0, os.geteuid()):
            return line_format.failure("REFUSED", "this server is another user's")
        try:
            fields = line_format.understood(line)
            name = str(fields.get("do"))
            perform = self._commands.get(name)
            if perform is None:
                known = ", ".join(self._commands)
                return line_format.failure(
                    "UNKNOWN", f"this server cannot do {name!r}; it can: {known}"
                )
            return line_format.answer(await perform(peer, fields))
        except line_format.NotOurMessage as error:
            return line_format.failure("MALFORMED", str(error))
        except TerminalError as error:
            return line_format.failure(error.code, str(error))
        except Exception:  # noqa: BLE001  the server lives on, whatever it was
            _log.exception("a request failed")
            return line_format.failure(
                "INTERNAL", "this is a fault of shelltie itself; please report it"
            )

    async def _hello(self, _: Peer, __: MessageFields) -> MessageFields:
        own = {"pid": os.getpid(), "client": self.client, "started": self._started}
        return {**self._about, **own}


async def _receive(lines: BufferedByteReceiveStream, stream: SocketStream) -> bytes | None:
    """The next line; `None` when there will be none."""
    try:
        with anyio.fail_after(_IDLE):
            return await lines.receive_until(b"\n", line_format.REQUEST_MAX)
    except anyio.DelimiterNotFound:
        await _send(
            stream, line_format.failure("MALFORMED", "a request is one line of at most 64 KiB")
        )
    except (anyio.IncompleteRead, TimeoutError):
        pass
    return None


async def _send(stream: SocketStream, line: bytes) -> None:
    with suppress(TimeoutError), anyio.fail_after(_IDLE):
        await stream.send(line)


async def must_be_a_person(
    peer: Peer, unheld: Callable[[], bool] = lambda: False, behalf: int | None = None
) -> None:
    """Let only those go on who are not on one of our leashes, nor may have been.

    Who asks on `behalf` of another process, as the web page does for a browser, is believed only
    if both are: it adds a condition, and takes none away.
    Raises: ControlRefused.
    """
    pids = [peer.pid] if behalf is None else [peer.pid, behalf]
    why = await _objection(pids, unheld=False)
    # Whose leash has died has seen it close its socket before: then we have heard of it by now.
    await anyio.lowlevel.checkpoint()
    if why is None and unheld():
        why = await _objection(pids, unheld=True)
    # Only now: had it ended before, its pid could have been somebody else's while we looked.
    if why is None and not peer.present():
        why = "it has ended"
    if why is not None:
        _log.warning("process %d may not answer for a person: %s", pids[-1], why)
        raise ControlRefused(f"only a person may do this, and whoever asks may not: {why}")


async def _objection(pids: list[int], *, unheld: bool) -> str | None:
    def look() -> str | None:
        found = (why_not_a_person(pid, os.getpid(), unheld=unheld) for pid in pids)
        return next(filter(None, found), None)

    return await anyio.to_thread.run_sync(look)


def behalf_of(fields: MessageFields) -> int | None:
    """The process for which somebody asks, if not for themselves.

    Raises: InvalidParameters.
    """
    pid = fields.get("behalf")
    return None if pid is None else parameter("behalf", pid, _PID)
