"""`shelltie acp` between an editor and an agent, both of which say what a test wants."""

import contextlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import anyio
from anyio.abc import ByteSendStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream

PUPPET = Path(__file__).parent / "programs" / "puppet_agent.py"
PROGRAM = [sys.executable, "-m", "shelltie", "acp"]
LIMIT = 50.0
SESSION = "sess_1"
DEVNULL = subprocess.DEVNULL
MOST = 128 * 1024 * 1024
HELLO = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n'
    b'{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/"}}\n'
)

Message = dict[str, Any]


@dataclass
class End:
    """One end of the conversation: it says what it wants, and hears what gets through."""

    sends: ByteSendStream
    hears: BufferedByteReceiveStream
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    aside: list[Message] = field(default_factory=list)

    async def say(self, *messages: Message) -> None:
        await self.say_bytes(b"".join(json.dumps(one).encode() + b"\n" for one in messages))

    async def say_bytes(self, data: bytes) -> None:
        with anyio.fail_after(LIMIT):
            await self.sends.send(data)

    async def hear_bytes(self) -> bytes:
        with anyio.fail_after(LIMIT):
            return await self.hears.receive_until(b"\n", MOST)

    async def hear(self) -> Message:
        """The next message that was not put aside."""
        if self.aside:
            return self.aside.pop(0)
        return dict(json.loads(await self.hear_bytes()))

    async def request(self, method: str, **params: object) -> int:
        """Ask, and do not wait; the id."""
        number = next(self.numbers)
        await self.say({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    async def answer_to(self, number: object) -> Message:
        """The answer; what else is heard meanwhile is put aside."""
        others = []
        while (message := await self.hear()).get("id") != number or "method" in message:
            others.append(message)
        self.aside = others + self.aside
        return message

    async def call(self, method: str, **params: object) -> Message:
        """Ask, and wait for the answer."""
        return await self.answer_to(await self.request(method, **params))

    async def result(self, method: str, **params: object) -> Message:
        answer = await self.call(method, **params)
        assert "result" in answer, answer
        return dict(answer["result"])

    async def refused(self, method: str, **params: object) -> Message:
        answer = await self.call(method, **params)
        assert "error" in answer, answer
        return dict(answer["error"])

    async def terminal(self, command: str, *args: str, **params: object) -> str:
        """Create one; its id."""
        made = await self.result(
            "terminal/create", sessionId=SESSION, command=command, args=list(args), **params
        )
        return str(made["terminalId"])

    async def of(self, terminal: str, method: str, **params: object) -> Message:
        """The result of a method of a terminal."""
        return await self.result(
            f"terminal/{method}", sessionId=SESSION, terminalId=terminal, **params
        )


@dataclass
class Pair:
    """Editor and agent, with the program between them."""

    process: Process
    editor: End
    agent: End

    async def begin(self, cwd: Path, **capabilities: object) -> Message:
        """Shake hands and open a session; what the agent was told at first."""
        first = await self.editor.request(
            "initialize",
            protocolVersion=1,
            clientCapabilities=capabilities,
            clientInfo={"name": "test-editor", "version": "1"},
        )
        greeting = await self.agent.hear()
        await self.agent.say({"jsonrpc": "2.0", "id": first, "result": {"protocolVersion": 1}})
        await self.editor.answer_to(first)
        await self.open_session(SESSION, cwd)
        return greeting

    async def open_session(self, session: str, cwd: Path) -> None:
        number = await self.editor.request("session/new", cwd=str(cwd), mcpServers=[])
        await self.agent.hear()
        await self.agent.say({"jsonrpc": "2.0", "id": number, "result": {"sessionId": session}})
        await self.editor.answer_to(number)


@asynccontextmanager
async def pair(
    place: Path, *options: str, complaints: int | IO[bytes] = DEVNULL, **settings: str
) -> AsyncIterator[Pair]:
    """The program, running, with both ends of it in our hands."""
    path = place / "strings"
    env = {**os.environ, "SHELLTIE_ENVIRONMENT_PATH": "inherit", **settings}
    argv = [*PROGRAM, *options, "--", sys.executable, "-I", str(PUPPET), str(path)]
    listener = await anyio.create_unix_listener(path)
    process = await anyio.open_process(argv, env=env, stderr=complaints)
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        with anyio.fail_after(LIMIT):
            stream = await listener.accept()
        async with stream:
            editor = End(process.stdin, BufferedByteReceiveStream(process.stdout))
            yield Pair(process, editor, End(stream, BufferedByteReceiveStream(stream)))
    finally:
        await listener.aclose()
        await leave(process)


async def leave(process: Process) -> int:
    """Close its input as an editor does; its exit code."""
    with anyio.CancelScope(shield=True):
        if process.stdin is not None:
            with contextlib.suppress(OSError, anyio.BrokenResourceError):
                await process.stdin.aclose()
        with anyio.move_on_after(LIMIT):
            await process.wait()
        if process.returncode is None:
            process.kill()
        await process.wait()
    assert process.returncode is not None
    return process.returncode
