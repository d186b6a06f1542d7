"""A server in a process of its own that asks what a test wants, and the command line beside it."""

import contextlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from shelltie.approval.ancestry import why_not_a_person

ROOT = Path(__file__).resolve().parent.parent
SHELLTIE = [sys.executable, "-m", "shelltie"]
not_on_a_leash = pytest.mark.skipif(
    why_not_a_person(os.getpid()) is not None, reason="what runs on a leash can approve nothing"
)


class Asking:
    """The server, and what it says."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._stdin = process.stdin
        self._stdout = BufferedByteReceiveStream(process.stdout)
        self.socket = Path()

    async def says(self) -> dict[str, Any]:
        """The next thing it says."""
        with anyio.fail_after(50):
            line = await self._stdout.receive_until(b"\n", 1 << 20)
        said = json.loads(line)
        assert isinstance(said, dict)
        return said

    async def send(self, command: str, **wish: object) -> None:
        """Have it want to run a command."""
        await self._stdin.send(json.dumps({"command": command, **wish}).encode() + b"\n")

    async def ask(self, command: str, **wish: object) -> str:
        """Have it ask about a command; the question's id, once it can be answered."""
        await self.send(command, **wish)
        return str((await self.says())["asked"])


@asynccontextmanager
async def asking() -> AsyncIterator[Asking]:
    """A running server."""
    command = [sys.executable, "-m", "tests.programs.asking"]
    process = await anyio.open_process(command, cwd=ROOT, stderr=None)
    try:
        server = Asking(process)
        server.socket = Path((await server.says())["socket"])
        yield server
    finally:
        process.terminate()
        await process.aclose()


async def shelltie(*args: str) -> tuple[int, str, str]:
    """The command line, beside the server: exit code, stdout, stderr."""
    with anyio.fail_after(50):
        done = await anyio.run_process(
            [*SHELLTIE, *args], check=False, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def _typed(argv: list[str], answer: bytes) -> tuple[int, str]:
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "tests.programs.at_terminal", *argv]
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, start_new_session=True
    ) as process:
        os.close(slave)
        shown, asked = b"", False
        with contextlib.suppress(OSError):  # EIO: nobody has the other side open any more
            while chunk := os.read(master, 4096):
                shown += chunk
                if not asked and (b"[y/N] " in shown or b"[N] no: " in shown):
                    asked = True
                    os.write(master, answer)
        code = process.wait(30)
    os.close(master)
    return code, shown.decode()


async def typed(*argv: str, answer: str) -> tuple[int, str]:
    """A person at a terminal of their own runs this, and types that when they are asked."""
    with anyio.fail_after(50):
        return await anyio.to_thread.run_sync(_typed, list(argv), answer.encode())


async def until_asked(count: int = 1) -> list[dict[str, Any]]:
    """The questions that wait for a person, once there are so many."""
    with anyio.fail_after(50):
        while True:
            asked = json.loads((await shelltie("pending", "--json"))[1])
            if len(asked) >= count:
                return list(asked)
