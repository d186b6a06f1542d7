"""The driver process, from the server's side: starts it, asks it, notices its end."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio

from shelltie.basics.readable import forget, watch
from shelltie.environment.inherited import inherited
from shelltie.errors import CannotStart, KeeperGone
from shelltie.keeper.hardening import bare_environment

_PROGRAM = Path(__file__).with_name("driver.py")
_READ_SIZE = 64 * 1024
_ENDS_WITHIN = 3.0  # seconds, a process whose socket was closed
# What Ray reads: its own variables, where its token lies, and certificates.
_ITS_VARIABLES = ("HOME", "USER", "LOGNAME", "TMPDIR", "SSL_CERT_FILE")


class DriverProcess:
    """A driver that runs. It belongs to the event loop in which it was made."""

    def __init__(self, python: str) -> None:
        """Raises: CannotStart."""
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        self._line = b""
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  read when it has ended
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [python or sys.executable, str(_PROGRAM), str(theirs.fileno())],
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._complaints,
                    env=_environment(),
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                self._complaints.close()
                raise CannotStart(
                    f"no Ray driver: {python or sys.executable}: {error.strerror or error}"
                ) from error
        ours.setblocking(False)
        self._channel: socket.socket | None = ours
        watch(self._loop, ours.fileno(), self._hear)

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._channel is not None

    async def ask(
        self,
        do: str,
        *,
        within: float,
        channel: socket.socket | None = None,
        **fields: object,
    ) -> Any:  # noqa: ANN401  JSON, and which is up to the request
        """Have it do something; what it answers. A socket is its own from then on.

        A driver that says nothing for so long is ended, and every stream with it.
        Raises: CannotStart; KeeperGone.
        """
        if self._channel is None:
            raise CannotStart("the Ray driver has ended")
        self._number += 1
        number, answer = self._number, self._loop.create_future()
        self._waiting[number] = answer
        try:
            await self._send(json.dumps({"id": number, "do": do, **fields}).encode(), channel)
            with anyio.fail_after(within):
                said = await answer
        except TimeoutError:
            self._hang_up()
            raise CannotStart(f"the Ray driver did not answer in {within:g} s ({do})") from None
        finally:
            self._waiting.pop(number, None)
        if "error" in said:
            raise (KeeperGone if said.get("gone") else CannotStart)(said["error"])
        return said["is"]

    async def _send(self, request: bytes, channel: socket.socket | None) -> None:
        rest = memoryview(request + b"\n")
        passed = [] if channel is None else [channel.fileno()]
        while rest and self._channel is not None:
            try:
                rest = rest[socket.send_fds(self._channel, [rest], passed) :]
                passed = []
            except BlockingIOError:
                await anyio.wait_writable(self._channel)
            except OSError:
                self._hang_up()

    def _hear(self) -> None:
        assert self._channel is not None
        try:
            data = self._channel.recv(_READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._hang_up()
            return
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            said = json.loads(line)
            answer = self._waiting.get(said["id"])
            if answer is not None and not answer.done():
                answer.set_result(said)

    def _hang_up(self) -> None:
        """It ends when its socket does; what waits for it hears what it complained about."""
        channel, self._channel = self._channel, None
        if channel is None:
            return
        forget(self._loop, channel.fileno())
        channel.close()
        self._complaints.seek(0, os.SEEK_END)
        self._complaints.seek(max(0, self._complaints.tell() - 400))
        said = self._complaints.read().decode("utf-8", "replace").strip()
        for answer in self._waiting.values():
            if not answer.done():
                why = said or "without a word"
                answer.set_result({"error": f"the Ray driver has ended: {why}"})
        self._complaints.close()
        self._loop.run_in_executor(None, self._reap)

    def _reap(self) -> None:
        try:
            self._process.wait(_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    async def close(self) -> None:
        """End it. Actors and keepers go on."""
        self._hang_up()
        await anyio.to_thread.run_sync(self._reap)


def _environment() -> dict[str, str]:
    its = {
        name: value
        for name, value in inherited().items()
        if name in _ITS_VARIABLES or name.startswith("RAY_")
    }
    return {**bare_environment(), **its}
