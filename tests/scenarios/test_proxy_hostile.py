"""A client that means harm to the proxy of its sandbox: it gets an answer, or nothing at all."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import anyio
import anyio.abc

from shelltie.providers.proxy.connection import ProxyLimits
from shelltie.providers.proxy.lookup import Resolve
from shelltie.providers.proxy.requests import HEAD_MAX
from shelltie.providers.proxy.server import NetworkProxy
from shelltie.settings.network_list import expanded
from tests.tree import until

_HELLO = b"hello from the host"


@contextlib.contextmanager
def host(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server that answers each connection in a thread of its own; its port."""

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                threading.Thread(target=handle, args=(connection,), daemon=True).start()

    def handle(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            answer(connection)

    with socket.create_server(("127.0.0.1", 0), backlog=256) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def says_hello(connection: socket.socket) -> None:
    connection.sendall(_HELLO)
    connection.recv(1)


@contextlib.contextmanager
def proxy(
    *entries: str, resolve: Resolve | None = None, limits: ProxyLimits | None = None
) -> Iterator[int]:
    """A proxy on the loopback of this machine; its port."""
    server = socket.create_server(("127.0.0.1", 0), backlog=256)
    port = server.getsockname()[1]
    seconds = limits or ProxyLimits()
    made = NetworkProxy(server, expanded(entries), resolve or (lambda *_: ()), seconds)
    try:
        yield port
    finally:
        made.close()


async def exchange(port: int, said: bytes, *, end: bool = False) -> bytes:
    """All that comes back for these bytes; what is reset has nothing more to say."""
    heard = b""
    with anyio.fail_after(50):
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            with contextlib.suppress(anyio.BrokenResourceError):
                await stream.send(said)
                if end:
                    await stream.send_eof()
                async for chunk in stream:
                    heard += chunk
                    if heard.endswith(_HELLO):
                        break
    return heard


def connect(place: str) -> bytes:
    return f"CONNECT {place} HTTP/1.1\r\n\r\n".encode()


async def test_garbage_is_answered_and_hurts_nobody() -> None:
    with host(says_hello) as there, proxy(f"127.0.0.1:{there}") as port:
        answers = [
            await exchange(port, said, end=True)
            for said in (
                *(b"", b"\0" * 100, b"\x05", b"\x05\xff", b"\x05\x00", b"GET / HTTP/1.1\r\n\r\n"),
                *(b"\x16\x03\x01\x02\x00", b"\x05\x01\x00\x05\x03\x00\x01", b"CONNECT"),
                *(b"X" * 200_000, b"GET http://a/ HTTP/1.1\r\n" + b"A: b\r\n" * 10_000),
                *(b"A" * HEAD_MAX, connect("127.0.0.1:1"), connect(f"127.0.0.1:{there}x")),
                b"\x05\x01\x00\x05\x01\x00\x03\x04a\0bc\x00\x50",
            )
        ]
        after = await exchange(port, connect(f"127.0.0.1:{there}"))

    assert not any(_HELLO in answer for answer in answers)
    assert after.endswith(_HELLO)


async def test_a_second_request_is_not_passed_on() -> None:
    heard = b""

    def hears(connection: socket.socket) -> None:
        nonlocal heard
        connection.settimeout(50)
        while not heard.endswith(b"0\r\n\r\n"):
            heard += connection.recv(4096)
        connection.shutdown(socket.SHUT_WR)
        while rest := connection.recv(4096):
            heard += rest

    with host(hears) as there, proxy(f"127.0.0.1:{there}") as port:
        line = f"POST http://127.0.0.1:{there}/x HTTP/1.1\r\n".encode()
        chunks = b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
        second = b"GET http://evil/ HTTP/1.1\r\nHost: evil\r\n\r\n"
        await exchange(port, line + chunks + second, end=True)
        both = await exchange(port, line + b"Content-Length: 3\r\n" + chunks)

    assert heard.startswith(b"POST /x HTTP/1.1\r\n")
    assert heard.endswith(b"\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    assert both.startswith(b"HTTP/1.1 400 ")


async def test_more_connections_than_there_may_be_wait_for_their_turn() -> None:
    limits = replace(ProxyLimits(), connections=16)
    answers = []

    async def once(port: int, place: str) -> None:
        answers.append(await exchange(port, connect(place)))

    with host(says_hello) as there, proxy(f"127.0.0.1:{there}", limits=limits) as port:
        async with anyio.create_task_group() as together:
            for _ in range(200):
                together.start_soon(once, port, f"127.0.0.1:{there}")

    assert [answer for answer in answers if not answer.endswith(_HELLO)] == []
    assert len(answers) == 200


async def test_a_name_is_looked_up_once_and_every_address_is_checked() -> None:
    """DNS rebinding: what a name means a moment later, or beside something harmless, is nothing."""
    asked: list[str] = []

    def rebinding(name: str, _: int) -> tuple[str, ...]:
        asked.append(name)
        later = {
            "mixed.example.test": ("1.1.1.1", "127.0.0.1"),
            "mapped.example.test": ("::ffff:127.0.0.1",),
        }
        if name == "mirror.test":
            return ("127.0.0.1",) if asked.count(name) == 1 else ("169.254.169.254",)
        return later.get(name, ("127.0.0.1",))

    with host(says_hello) as there:
        allowed = (f"mirror.test:{there}", "*.example.test", f"*.example.test:{there}")
        with proxy(*allowed, resolve=rebinding) as port:
            first = await exchange(port, connect(f"mirror.test:{there}"))
            once = asked.copy()
            second = await exchange(port, connect(f"mirror.test:{there}"))
            private = [
                await exchange(port, connect(f"{name}.example.test:{there}"))
                for name in ("mixed", "mapped", "plain")
            ]

    assert first.endswith(_HELLO)
    assert once == ["mirror.test"]
    for answer in (second, *private):
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert b"which is private" in answer


async def test_who_does_not_read_costs_a_bounded_amount_of_memory() -> None:
    sent = 0
    blocked = threading.Event()

    def floods(connection: socket.socket) -> None:
        nonlocal sent
        connection.settimeout(1.0)
        try:
            while sent < 256 * 1024 * 1024:
                sent += connection.send(bytes(65536))
        finally:
            blocked.set()

    with host(floods) as there, proxy(f"127.0.0.1:{there}") as port:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(connect(f"127.0.0.1:{there}"))
            await until(blocked.is_set)

    assert 0 < sent < 64 * 1024 * 1024  # the kernel's buffers on both ways, and a chunk of ours


async def test_who_says_nothing_is_let_go() -> None:
    with proxy("example.org", limits=ProxyLimits(head=0.2)) as port:
        answers = [await exchange(port, said) for said in (b"", b"CONNECT exam", b"\x05\x01\x00")]

    assert b"".join(answers) in (b"", b"\x05\x00")


async def test_what_does_not_answer_or_stands_still_is_let_go() -> None:
    hangs = threading.Event()

    def slow(_: str, __: int) -> tuple[str, ...]:
        hangs.wait(50)
        return ()

    limits = ProxyLimits(connect=0.5, idle=0.2)
    with host(says_hello) as there:
        allowed = (f"127.0.0.1:{there}", "*.example.test")
        with proxy(*allowed, resolve=slow, limits=limits) as port:
            unanswered = await exchange(port, connect("slow.example.test:443"))
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(connect(f"127.0.0.1:{there}"))
                with anyio.fail_after(50), contextlib.suppress(anyio.BrokenResourceError):
                    async for _ in stream:  # nobody but the proxy ends it
                        pass
        hangs.set()

    assert unanswered.startswith(b"HTTP/1.1 502 ")


async def test_no_more_names_are_looked_up_at_a_time_than_may_be() -> None:
    at_once, most, answered = 0, 0, threading.Event()
    lock = threading.Lock()

    def slow(_: str, __: int) -> tuple[str, ...]:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        answered.wait(50)
        with lock:
            at_once -= 1
        return ()

    with proxy("*.example.org", resolve=slow) as port:
        async with anyio.create_task_group() as together:
            for number in range(40):
                said = connect(f"n{number}.example.org:443")
                together.start_soon(partial(exchange, port, said))
            await until(lambda: at_once == 8)
            answered.set()

    assert most == 8
