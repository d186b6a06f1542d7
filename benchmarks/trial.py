"""What enforcing costs: safe commands in a read-only view, beside the same ones without; and what
the proxy of a sandbox costs, beside a connection without it.
"""

import asyncio
import shutil
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from tempfile import TemporaryDirectory

from benchmarks.measuring import take_turns
from benchmarks.rows import Goal, Of, Row
from shelltie import Config, Terminal
from shelltie.providers.proxy.server import NetworkProxy
from shelltie.settings.network_list import expanded

_SIZE = 32 * 1024 * 1024
_CHUNK = bytes(64 * 1024)
_SAFE = ("cat /etc/hostname", "ls -la /usr", "head -5 /etc/services | sort")


def measure() -> list[Row]:
    """What is enforced only where bubblewrap is."""
    enforced = asyncio.run(_enforced()) if shutil.which("bwrap") else []
    return [*enforced, *asyncio.run(_proxied())]


async def _proxied() -> list[Row]:
    with (
        socket.create_server(("127.0.0.1", 0)) as host,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        threading.Thread(target=_serve, args=(host,), daemon=True).start()
        there, port = host.getsockname()[1], server.getsockname()[1]
        proxy = NetworkProxy(server, expanded((f"127.0.0.1:{there}",)))
        through, straight = await take_turns(
            partial(
                asyncio.to_thread, _fetch, port, f"CONNECT 127.0.0.1:{there} HTTP/1.1\r\n\r\nget"
            ),
            partial(asyncio.to_thread, _fetch, there, "get"),
            rounds=7,
            calls=1,
        )
        proxy.close()
    size = f"{_SIZE // 1024 // 1024} MiB"
    return [
        Row(
            f"{size} through the proxy of a sandbox, against straight over loopback",
            "ms", through.p50, straight.p50, through.p95, straight.p95,
        )
    ]  # fmt: skip


def _serve(host: socket.socket) -> None:
    with suppress(OSError):
        while True:
            with host.accept()[0] as connection, suppress(OSError):
                connection.recv(64)
                for _ in range(_SIZE // len(_CHUNK)):
                    connection.sendall(_CHUNK)


def _fetch(port: int, said: str) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(said.encode())
        heard = 0
        while data := connection.recv(1024 * 1024):
            heard += len(data)
    if heard < _SIZE:
        raise RuntimeError(f"{heard} bytes came of {_SIZE}")


async def _enforced() -> list[Row]:
    async with AsyncExitStack() as stack:
        terminals = [
            await stack.enter_async_context(_terminal(stack, enforce))
            for enforce in ("auto", "off")
        ]
        enforced, plain = await take_turns(*map(_next, terminals), rounds=15, calls=6)
        first, first_plain = await take_turns(_first("auto"), _first("off"), rounds=9, calls=2)
    return [
        Row(
            "safe commands enforced, against plain",
            "ms", enforced.p50, plain.p50, enforced.p95, plain.p95, Goal(Of.RATIO, 1.15),
        ),
        Row("CPU in the server of one", "ms", enforced.cpu_each, plain.cpu_each),
        Row(
            "first safe command of a terminal, enforced, against plain",
            "ms", first.p50, first_plain.p50, first.p95, first_plain.p95,
        ),
    ]  # fmt: skip


def _terminal(stack: AsyncExitStack, enforce: str) -> Terminal:
    state = stack.enter_context(TemporaryDirectory())
    return Terminal(Config.of(state_dir=state, safety_enforce=enforce))


def _next(terminal: Terminal) -> Callable[[], Awaitable[None]]:
    turn = 0

    async def one() -> None:
        nonlocal turn
        turn += 1
        await terminal.run(_SAFE[turn % len(_SAFE)])

    return one


def _first(enforce: str) -> Callable[[], Awaitable[None]]:
    async def one() -> None:
        async with AsyncExitStack() as stack:
            terminal = await stack.enter_async_context(_terminal(stack, enforce))
            await terminal.run(_SAFE[0])

    return one
