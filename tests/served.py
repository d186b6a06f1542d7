"""Real servers with sessions, and a person with a terminal of their own beside them."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.asking import ROOT, SHELLTIE
from tests.conformance.raw_mcp import SERVER, RawClient, request, server_environment

ALLOWED = {
    "SHELLTIE_SAFETY_PROFILES_BASH_UNKNOWN": "allow",
    "SHELLTIE_PERSISTENT_MININTERVAL": "0.05",
    "SHELLTIE_PERSISTENT_SETTLEINTERVAL": "20",  # who wants to see something, waits for it
    "SHELLTIE_LIMITS_GRACE": "0.5",
}


class Served:
    """A server, as its client sees it."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.pid = client.process.pid
        self._numbers = iter(range(1, 1000))

    async def call(self, name: str, **arguments: object) -> dict[str, Any]:
        """The structured answer of a tool."""
        await self.send(name, **arguments)
        return await self.answer()

    async def send(self, name: str, **arguments: object) -> None:
        """Call a tool, and do not wait."""
        call = request(next(self._numbers), "tools/call", name=name, arguments=arguments)
        await self.client.send(call)

    async def answer(self) -> dict[str, Any]:
        """What the tool that was called says."""
        while "result" not in (said := await self.client.receive()):
            assert "method" in said, said  # something it tells meanwhile
        return dict(said["result"]["structuredContent"])

    async def start(self, command: str, **arguments: object) -> str:
        """Start a session; its id. It may not have printed anything yet, unless that is said
        with `waitFor`.
        """
        wait = {} if "waitFor" in arguments else {"maxWait": 0}
        started = await self.call("terminal_start", command=command, **wait, **arguments)
        return str(started["id"])

    def die(self) -> None:
        """At once, and without a word."""
        self.client.process.kill()


@asynccontextmanager
async def served(command: Sequence[str] = SERVER, **settings: str) -> AsyncIterator[Served]:
    """A running server that has been greeted."""
    env = {**server_environment(), **ALLOWED, **settings}
    process = await anyio.open_process(command, env=env, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        client = RawClient(process, BufferedByteReceiveStream(process.stdout))
        await client.greet()
        yield Served(client)
    finally:
        if process.returncode is None:
            await client.hang_up()
            with anyio.move_on_after(30), contextlib.suppress(OSError):
                await process.wait()
        if process.returncode is None:
            process.kill()
        with anyio.CancelScope(shield=True):
            await process.aclose()


class Person:
    """Somebody at a terminal who runs one command there."""

    def __init__(self, master: int, slave: int, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.shown = b""
        self._master = master
        self._slave = slave
        self._before = termios.tcgetattr(slave)

    async def sees(self, text: str) -> None:
        """Wait until it is on the terminal, after what was waited for before."""
        with anyio.move_on_after(50):
            while text.encode() not in self.shown and self.process.poll() is None:
                await self._look()
        self._read_what_is_there()  # its last words, if it has left
        assert text.encode() in self.shown, self.shown[-2000:]
        self.shown = self.shown.partition(text.encode())[2]

    def types(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def resizes(self, rows: int, columns: int) -> None:
        _resize(self._master, rows, columns)
        self.process.send_signal(signal.SIGWINCH)  # as the kernel would tell the foreground

    async def leaves(self) -> int:
        """Wait until the command has ended; its exit code."""
        with anyio.fail_after(50):
            while self.process.poll() is None:
                await self._look()
        self._read_what_is_there()
        return self.process.returncode

    async def _look(self) -> None:
        with anyio.move_on_after(0.1):
            await anyio.wait_readable(self._master)
            self.shown += os.read(self._master, 65536)

    def _read_what_is_there(self) -> None:
        """All of it: one read of a terminal gives 4 KiB at most, whatever is waiting in it."""
        while select.select([self._master], [], [], 0)[0]:
            self.shown += os.read(self._master, 65536)

    @property
    def as_before(self) -> bool:
        """The terminal is in the modes it was in."""
        return termios.tcgetattr(self._slave) == self._before

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        os.close(self._master)
        os.close(self._slave)


@asynccontextmanager
async def person(*args: str, rows: int = 30, columns: int = 100) -> AsyncIterator[Person]:
    """They type `shelltie ARGS` at a terminal of this size."""
    async with person_with([*SHELLTIE, *args], rows=rows, columns=columns) as somebody:
        yield somebody


@asynccontextmanager
async def person_with(
    argv: Sequence[str], rows: int = 30, columns: int = 100
) -> AsyncIterator[Person]:
    """They have a terminal of this size, in which this runs."""
    master, slave = pty.openpty()
    _resize(slave, rows, columns)
    somebody = Person(master, slave, _at_terminal(slave, argv))
    try:
        yield somebody
    finally:
        somebody.close()


def _at_terminal(slave: int, argv: Sequence[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.programs.at_terminal", *argv]
    return subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, start_new_session=True
    )


def _resize(fd: int, rows: int, columns: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def socket_of(pid: int) -> Path:
    """Where a server listens."""
    place = Path(os.environ["XDG_RUNTIME_DIR"]) / "shelltie"
    return next(place.glob(f"{pid}-*.sock"))
