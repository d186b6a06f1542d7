"""What a sandboxed session listens on is reached at 127.0.0.1, and ends with the session."""

import contextlib
import hashlib
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import anyio.abc
import httpx2
import psutil
import pytest

from shelltie.model import ForwardedPort
from shelltie.providers import port_forward
from shelltie.running.run import Run
from tests.conftest import Open
from tests.sandboxes import become_nobody
from tests.tree import until

pytestmark = [pytest.mark.needs("bwrap", "setpriv"), pytest.mark.proves("D16")]

_SIZE = 24 * 1024 * 1024
# Each connection begins with a word: what to do with the rest of it.
_SERVER = f"""
import http.server, socket, socketserver, sys, threading
class Answer(socketserver.StreamRequestHandler):
    def handle(self):
        word = self.rfile.readline().strip()
        if word == b"echo":
            self.wfile.write(self.rfile.read())
        elif word == b"large":
            for number in range({_SIZE} // 65536):
                self.wfile.write(bytes([number % 251]) * 65536)
        elif word == b"hold":
            self.wfile.write(b"held")
            self.rfile.read()
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads, request_queue_size = True, True, 128
def serve(version, port):
    Server.address_family = socket.AF_INET6 if version == "6" else socket.AF_INET
    server = Server(("::1" if version == "6" else "127.0.0.1", int(port)), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("port", server.server_address[1], flush=True)
    return server
"""
_STAY = "\nfor word in sys.argv[1:]: serve(*word.split(':'))\nthreading.Event().wait()\n"


Serving = Callable[..., contextlib.AbstractAsyncContextManager[Run]]


@pytest.fixture
def serving(open_terminal: Open, workspace: Path) -> Serving:
    """Starts the server as a session of a sandbox does: it sees what others write."""
    assert Path.cwd() == workspace

    @contextlib.asynccontextmanager
    async def started(*words: str, text: str = _STAY, **settings: object) -> AsyncIterator[Run]:
        python = [os.path.realpath(sys.executable), "-I", "-S", "-u", "-c", _SERVER + text, *words]
        shown = {"sandbox_readable": (sys.base_prefix,), "limits_grace": 0.5, **settings}
        async with open_terminal(sandbox_writes="live", **shown) as terminal:
            run = await terminal.start(python, isolation="sandbox", timeout=300, silence=300)
            run.watch_ports()
            yield run

    return started


async def ports_of(run: Run, count: int = 1) -> tuple[ForwardedPort, ...]:
    """What it listens on, once that is so much."""
    await until(lambda: len(run.ports or ()) == count or run.outcome is not None, 60)
    assert run.ports is not None
    assert len(run.ports) == count, run.output.read(0, 4096)
    return run.ports


def number_of(address: str | None) -> int:
    assert address is not None
    host, _, port = address.rpartition(":")
    assert host == "127.0.0.1"
    return int(port)


def listening(number: int) -> list[str]:
    """The addresses at which we listen with this number."""
    return [
        one.laddr.ip
        for one in psutil.Process().net_connections("tcp")
        if one.status == psutil.CONN_LISTEN and one.laddr.port == number
    ]


async def ask(port: ForwardedPort, said: bytes) -> bytes:
    """Say something, end our half, and read all of the answer."""
    async with await anyio.connect_tcp("127.0.0.1", number_of(port.outside)) as stream:
        await stream.send(said)
        await stream.send_eof()
        return b"".join([chunk async for chunk in stream])


async def echoes(port: ForwardedPort, said: bytes = b"hello") -> bool:
    try:
        return await ask(port, b"echo\n" + said) == said
    except (OSError, anyio.BrokenResourceError):
        return False


@pytest.mark.parametrize(("user", "keeper"), [("root", "c"), ("root", "python"), ("nobody", "c")])
async def test_http_is_reached_from_outside(
    open_terminal: Open,
    workspace: Path,
    public_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    user: str,
    keeper: str,
) -> None:
    if user == "nobody":
        become_nobody(public_path, monkeypatch)
    monkeypatch.setenv("SHELLTIE_KEEPER", keeper)
    (workspace / "index.html").write_text("from inside")
    shown = () if user == "nobody" else (sys.base_prefix,)
    python = "/usr/bin/python3" if user == "nobody" else os.path.realpath(sys.executable)
    async with open_terminal(sandbox_readable=shown, limits_grace=0.5) as terminal:
        argv = [python, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
        run = await terminal.start(argv, isolation="sandbox", timeout=300, silence=300)
        run.watch_ports()
        (port,) = await ports_of(run)
        async with httpx2.AsyncClient() as client:
            answer = await client.get(f"http://{port.outside}/", timeout=60)
        await run.kill("enough")

    assert answer.text == "from inside"
    assert port.inside.startswith("127.0.0.1:")


async def test_two_ports_and_the_loopback_of_ipv6(serving: Serving) -> None:
    async with serving("4:0", "6:0") as run:
        ports = await ports_of(run, 2)
        answered = [await echoes(port) for port in ports]

    assert answered == [True, True]
    assert {port.inside.rpartition(":")[0] for port in ports} == {"127.0.0.1", "[::1]"}
    assert len({port.outside for port in ports}) == 2


async def test_the_port_is_the_same_outside_if_it_is_free(serving: Serving) -> None:
    same = False
    for _ in range(5):  # somebody else may take it meanwhile
        with socket.create_server(("127.0.0.1", 0)) as free:
            wanted = free.getsockname()[1]
        async with serving(f"4:{wanted}") as run:
            (port,) = await ports_of(run)
        same = same or number_of(port.outside) == wanted

    assert same


async def test_one_that_is_taken_outside_is_forwarded_from_another(serving: Serving) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        wanted = taken.getsockname()[1]
        async with serving(f"4:{wanted}") as run:
            (port,) = await ports_of(run)
            answered = await echoes(port)

    assert answered
    assert port.inside == f"127.0.0.1:{wanted}"
    assert number_of(port.outside) != wanted


async def test_it_is_open_on_the_loopback_alone(serving: Serving) -> None:
    async with serving("4:0") as run:
        (port,) = await ports_of(run)
        number = number_of(port.outside)
        ours = listening(number)

    assert ours == ["127.0.0.1"]


async def test_a_server_that_stops_and_starts_again_keeps_its_place(
    serving: Serving, workspace: Path
) -> None:
    again = """
import os, time
server = serve("4", 0)
port = server.server_address[1]
def wait(name):
    while not os.path.exists(name): time.sleep(0.02)
wait("stop")
server.shutdown(); server.server_close(); print("stopped", flush=True)
wait("start")
serve("4", port)
threading.Event().wait()
"""
    async with serving(text=again) as run:
        (first,) = await ports_of(run)
        answered = await echoes(first)
        (workspace / "stop").touch()
        await until(lambda: run.ports == (), 60)
        meanwhile = await echoes(first)
        (workspace / "start").touch()
        (second,) = await ports_of(run)
        once_more = await echoes(second)

    assert (answered, meanwhile, once_more) == (True, False, True)
    assert second == first


async def test_fifty_connections_at_once(serving: Serving) -> None:
    answered: list[bool] = []

    async def one(port: ForwardedPort, number: int) -> None:
        answered.append(await echoes(port, bytes([number]) * 100_000))

    async with serving("4:0") as run:
        (port,) = await ports_of(run)
        with anyio.fail_after(120):
            async with anyio.create_task_group() as group:
                for number in range(50):
                    group.start_soon(one, port, number)

    assert answered == [True] * 50


async def test_more_than_may_be_open_wait_for_their_turn(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port_forward, "CONNECTIONS_MAX", 2)
    async with serving("4:0") as run:
        (port,) = await ports_of(run)
        answered: list[bool] = []

        async def one() -> None:
            answered.append(await echoes(port))

        with anyio.fail_after(120):
            async with anyio.create_task_group() as group:
                for _ in range(20):
                    group.start_soon(one)

    assert answered == [True] * 20


async def test_a_half_that_is_closed_leaves_the_other_open(serving: Serving) -> None:
    async with serving("4:0") as run:
        (port,) = await ports_of(run)
        async with await anyio.connect_tcp("127.0.0.1", number_of(port.outside)) as stream:
            await stream.send(b"large\n")
            await stream.send_eof()
            with anyio.fail_after(120):
                received = b"".join([chunk async for chunk in stream])

    wanted = b"".join(bytes([number % 251]) * 65536 for number in range(_SIZE // 65536))
    assert hashlib.sha256(received).digest() == hashlib.sha256(wanted).digest()


async def test_much_is_carried_both_ways(serving: Serving) -> None:
    said = os.urandom(4 * 1024 * 1024)
    async with serving("4:0") as run:
        (port,) = await ports_of(run)
        received = bytearray()

        async def receive(stream: anyio.abc.SocketStream) -> None:
            async for chunk in stream:
                received.extend(chunk)

        with anyio.fail_after(120):
            async with await anyio.connect_tcp("127.0.0.1", number_of(port.outside)) as stream:
                async with anyio.create_task_group() as group:
                    group.start_soon(receive, stream)
                    await stream.send(b"echo\n" + said)
                    await stream.send_eof()

    assert bytes(received) == said


async def test_with_the_session_every_connection_ends_and_the_port_is_free(
    serving: Serving,
) -> None:
    async with serving("4:0") as run:
        (port,) = await ports_of(run)
        number = number_of(port.outside)
        async with await anyio.connect_tcp("127.0.0.1", number) as stream:
            await stream.send(b"large\n")
            await stream.receive()  # the rest is on its way
            await run.kill("enough")
            with anyio.fail_after(60), contextlib.suppress(anyio.BrokenResourceError):
                async for _ in stream:
                    pass
        still = listening(number)

    assert still == []
    assert run.ports == ()


async def test_what_another_session_of_the_same_sandbox_listens_on_is_not_its_own(
    open_terminal: Open, workspace: Path
) -> None:
    assert Path.cwd() == workspace
    python = [os.path.realpath(sys.executable), "-I", "-S", "-u", "-c", _SERVER + _STAY]
    async with open_terminal(sandbox_readable=(sys.base_prefix,), limits_grace=0.5) as terminal:
        runs = []
        for words in (["4:0"], ["4:0", "4:0"]):
            run = await terminal.start(
                [*python, *words], isolation="sandbox", timeout=300, silence=300
            )
            run.watch_ports()
            runs.append(run)
        one, other = await ports_of(runs[0]), await ports_of(runs[1], 2)

    assert not {port.inside for port in one} & {port.inside for port in other}


async def test_nothing_is_forwarded_where_the_settings_say_so(serving: Serving) -> None:
    async with serving("4:0", sandbox_forward=False) as run:
        (port,) = await ports_of(run)

    assert port.outside is None
    assert "sandbox.forward" in str(port.problem)


async def test_no_more_ports_than_a_command_may_have(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port_forward, "PORTS_MAX", 2)
    async with serving("4:0", "4:0", "4:0") as run:
        ports = await ports_of(run, 3)

    assert [port.outside is None for port in ports].count(True) == 1
    assert "not forwarded" in "".join(port.problem or "" for port in ports)


def test_the_port_of_a_service_of_the_machine_is_never_taken() -> None:
    with port_forward.outside_server(443) as server:
        address, number = server.getsockname()

    assert address == "127.0.0.1"
    assert number >= 1024
