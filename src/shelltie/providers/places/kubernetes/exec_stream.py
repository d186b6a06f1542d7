"""Exec in a pod over a WebSocket: a program that is run to its end, and streams to one that stays.

Each message begins with a byte that says its channel. On the last of them comes how it ended.
"""

import asyncio
import json
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress

import anyio
from httpx2.websockets import AsyncWebSocketSession, HTTPXWSException

from shelltie.basics.frozen import frozen
from shelltie.errors import CannotStart
from shelltie.providers.places.kubernetes.api import KubernetesApi

_STDIN, _STDOUT, _STDERR, _STATUS = b"\0", 1, 2, 3
_CHUNK = 64 * 1024
_SAID_MAX = 64 * 1024
_SEND_PATIENCE = 30.0  # seconds; over a link that is cut nothing is ever taken


@frozen
class ExecResult:
    """How a program in a pod ended. Without a code the connection broke, or it was never begun."""

    code: int | None
    output: str
    complaints: str


async def run_in_pod(
    api: KubernetesApi, pod: str, command: Sequence[str], reply: Callable[[str], bytes]
) -> ExecResult:
    """Run it to its end. Whenever more was printed, `reply` is given all, and says what to type.

    Raises: CannotStart, and what `reply` raises of these.
    """
    said = {_STDOUT: bytearray(), _STDERR: bytearray()}
    status, problem = b"", None
    async with api.exec(pod, command) as session:
        # What is raised in here comes out as a group: it is remembered until we are outside.
        try:
            while not status:
                message = await session.receive_bytes()
                channel, data = message[0], message[1:]
                if channel == _STATUS:
                    status = data
                elif channel in said:
                    said[channel] += data[: _SAID_MAX - len(said[channel])]
                    await _type(session, reply(_text(said[_STDOUT])))
        except HTTPXWSException:
            pass
        except CannotStart as error:
            problem = error
    if problem is not None:
        raise problem
    return _result(status, _text(said[_STDOUT]), _text(said[_STDERR]))


async def _type(session: AsyncWebSocketSession, data: bytes) -> None:
    for start in range(0, len(data), _CHUNK):
        await session.send_bytes(_STDIN + data[start : start + _CHUNK])


def _text(data: bytes | bytearray) -> str:
    return bytes(data).decode("utf-8", "replace")


def _result(status: bytes, output: str, complaints: str) -> ExecResult:
    """What the status on the last channel means: an object Status, as the API server has it."""
    try:
        found = json.loads(status)
        if found.get("status") == "Success":
            return ExecResult(0, output, complaints)
        causes = (found.get("details") or {}).get("causes") or []
        codes = [int(one["message"]) for one in causes if one.get("reason") == "ExitCode"]
        if codes:
            return ExecResult(codes[0], output, complaints)
        return ExecResult(None, output, str(found.get("message") or complaints))
    except (ValueError, LookupError, TypeError, AttributeError):
        return ExecResult(None, output, complaints)


class ExecStreams:
    """Local sockets that are pumped to programs in pods, each by a task until one side ends."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        # By scopes, not by Task.cancel: that would interrupt closing, too, which is shielded.
        self._tasks: dict[asyncio.Task[None], anyio.CancelScope] = {}

    async def open(
        self, pod: str, command: Sequence[str], ended: Callable[[int | None], None]
    ) -> socket.socket:
        """A non-blocking socket: what is sent goes to its stdin, what it prints is received.

        `ended` is given its exit code, if it ends before the connection does.
        Raises: ApiRefusal, CannotStart, OSError.
        """
        loop = asyncio.get_running_loop()
        ours, inner = socket.socketpair()
        ours.setblocking(False)
        inner.setblocking(False)
        opened = loop.create_future()
        scope = anyio.CancelScope()
        task = loop.create_task(self._carry(pod, command, inner, opened, ended, scope))
        self._tasks[task] = scope
        task.add_done_callback(self._tasks.pop)
        try:
            await opened
        except BaseException:
            ours.close()
            scope.cancel()
            raise
        return ours

    async def close(self) -> None:
        """End all of them."""
        for scope in self._tasks.values():
            scope.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def _carry(
        self,
        pod: str,
        command: Sequence[str],
        inner: socket.socket,
        opened: asyncio.Future[None],
        ended: Callable[[int | None], None],
        scope: anyio.CancelScope,
    ) -> None:
        with inner, scope:
            try:
                async with self._api.exec(pod, command) as session:
                    if not opened.done():
                        opened.set_result(None)
                    async with anyio.create_task_group() as ways:
                        ways.start_soon(_carry_out, session, inner, ways.cancel_scope)
                        ways.start_soon(_carry_in, session, inner, ended, ways.cancel_scope)
            except CannotStart as error:  # after it was opened: the stream just ends
                if not opened.done():
                    opened.set_exception(error)
            finally:
                if not opened.done():
                    opened.set_exception(ConnectionError(f"{pod} was lost at once"))


async def _carry_out(
    session: AsyncWebSocketSession, inner: socket.socket, over: anyio.CancelScope
) -> None:
    loop = asyncio.get_running_loop()
    with suppress(HTTPXWSException, OSError):
        while data := await loop.sock_recv(inner, _CHUNK):
            with anyio.fail_after(_SEND_PATIENCE):  # TimeoutError is an OSError
                await session.send_bytes(_STDIN + data)
    over.cancel()


async def _carry_in(
    session: AsyncWebSocketSession,
    inner: socket.socket,
    ended: Callable[[int | None], None],
    over: anyio.CancelScope,
) -> None:
    loop = asyncio.get_running_loop()
    with suppress(HTTPXWSException, OSError):
        while True:
            message = await session.receive_bytes()
            if message[0] == _STDOUT:
                await loop.sock_sendall(inner, message[1:])
            elif message[0] == _STATUS and len(message) > 1:
                ended(_result(message[1:], "", "").code)
                break
    over.cancel()
