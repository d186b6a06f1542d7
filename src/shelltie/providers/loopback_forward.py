"""Loopback forward: a port in the network namespace of a view that leads to one service outside.

The keeper makes the listening socket inside; what connects there reaches that port of this
machine's loopback, or a container engine, which is only read: HTTP GET and HEAD.
"""

import asyncio
import contextlib
import errno
import json
import re
import socket

import anyio

from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy
from shelltie.keeper.link import Link, taken_socket

_ANSWER_TIMEOUT = 10.0
_READ_SIZE = 64 * 1024
_HEAD_MAX = 64 * 1024
_CONNECTIONS_MAX = 64
_READS = lazy(rb"(?:GET|HEAD) /[!-~]* HTTP/1\.1\r\n")
# A body, or a connection that becomes something else, could carry an order.
_MORE_THAN_READING = lazy(
    rb"\r\n(?:transfer-encoding|upgrade)[ \t]*:|\r\ncontent-length[ \t]*:[ \t]*0*[1-9]|\n[ \t]"
    rb"|(?<!\r)\n",  # which ends a line for some engines, so that another request may follow
    re.IGNORECASE,
)
_REFUSED = "read-only file system: the read-only view lets a container engine only be read"


@frozen
class LoopbackForward:
    """From 127.0.0.1:`port` inside to the same outside, or to a container engine's `socket`."""

    port: int
    socket: str | None = None

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """To what it leads to.

        Raises: OSError.
        """
        if self.socket is None:
            return await asyncio.open_connection("127.0.0.1", self.port)
        return await asyncio.open_unix_connection(self.socket)

    async def answers(self) -> bool:
        """Whether anything is there. A port inside that leads nowhere would look like a fault."""
        try:
            _, writer = await self.connect()
        except OSError:
            return False
        writer.transport.abort()
        return True


class LoopbackForwards:
    """Open forwards of one view, until they are closed."""

    def __init__(self) -> None:
        self._servers: list[asyncio.Server] = []
        self._clients: set[asyncio.StreamWriter] = set()

    async def open(self, link: Link, forward: LoopbackForward) -> None:
        """Listen inside.

        Raises: OSError.
        """
        inside = await socket_inside(link)
        try:
            inside.bind(("127.0.0.1", forward.port))
            inside.setblocking(False)

            async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await self._carry(reader, writer, forward)

            self._servers.append(await asyncio.start_server(carry, sock=inside))
        except BaseException:
            inside.close()
            raise

    def close(self) -> None:
        """Nothing is reached any more."""
        for server in self._servers:
            server.close()
        for client in tuple(self._clients):
            client.transport.abort()

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        forward: LoopbackForward,
    ) -> None:
        if len(self._clients) >= _CONNECTIONS_MAX:
            writer.transport.abort()
            return
        self._clients.add(writer)
        try:
            with contextlib.suppress(OSError):
                await _connect_and_carry(reader, writer, forward)
        finally:
            self._clients.discard(writer)
            writer.transport.abort() if writer.transport.is_closing() else writer.close()


async def _connect_and_carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, forward: LoopbackForward
) -> None:
    answers, target = await forward.connect()
    try:
        async with anyio.create_task_group() as tasks:
            if forward.socket is None:
                tasks.start_soon(_copy, reader, target)
            else:
                tasks.start_soon(_copy_reads, reader, target, writer)
            await _copy(answers, writer)
            tasks.cancel_scope.cancel()
    finally:
        target.transport.abort()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(_READ_SIZE):
            target.write(data)
            await target.drain()
        if target.can_write_eof():
            target.write_eof()


async def _copy_reads(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, client: asyncio.StreamWriter
) -> None:
    """Requests without a body, one after the other; the first that does more ends all."""
    held = b""
    with contextlib.suppress(OSError):
        while data := await source.read(_READ_SIZE):
            held += data
            while (end := held.find(b"\r\n\r\n")) >= 0:
                head, held = held[: end + 4], held[end + 4 :]
                if not only_reads(head):
                    await _refuse(client)
                    target.transport.abort()
                    return
                target.write(head)
                await target.drain()
            if len(held) > _HEAD_MAX:
                target.transport.abort()
                return
        target.write_eof()


async def _refuse(client: asyncio.StreamWriter) -> None:
    body = json.dumps({"message": _REFUSED}).encode()
    head = (
        f"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    )
    client.write(head.encode() + b"\r\nConnection: close\r\n\r\n" + body)
    await client.drain()


def only_reads(head: bytes) -> bool:
    """Whether this head of an HTTP request, to its empty line, only asks for something."""
    reads = _READS.match(head) and not _MORE_THAN_READING.search(head)
    # A web socket is a GET, too.
    return bool(reads) and b"/attach" not in head.partition(b"\r\n")[0]


async def socket_inside(link: Link) -> socket.socket:
    """A socket of the keeper's network namespace.

    Raises: OSError.
    """
    answer = link.ask_socket(4)
    try:
        with anyio.fail_after(_ANSWER_TIMEOUT):
            await anyio.wait_readable(answer)
        server = taken_socket(answer)
    except TimeoutError as error:
        raise OSError(errno.ETIMEDOUT, "the keeper does not answer") from error
    finally:
        answer.close()
    if server is None:
        raise OSError(errno.EPROTO, "the keeper gave no socket")
    return server
