"""Lazy control socket: a process that runs commands can be seen and steered by `ps` and `kill`.

A short command must not pay for it. So there is a bare listening socket, and the code that answers
is loaded at the first connection, which few commands live to see.
"""

import asyncio
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import anyio

from shelltie.frontends.control import socket_dirs
from shelltie.running.supervisor import Supervisor


class Presence:
    """The control socket of a program or of `shelltie run`; use it as `async with`.

    `client` is whom `ps` names. It opens before the first command, and outlives the last one.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        environ: Mapping[str, str],
        client: str,
        sessions: Callable[[], list[Any]] = list,
    ) -> None:
        self._supervisor = supervisor
        self._environ = environ
        self._client = client or program_name()
        self._sessions = sessions
        self._listener: socket.socket | None = None
        self._path: Path | None = None
        self._push: Any = None  # an EventPush, once somebody watches
        self._leaving = anyio.Event()
        self._server: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        made = socket_dirs.listen(self._environ)
        if made is not None:
            self._listener, self._path = made
            asyncio.get_running_loop().add_reader(self._listener, self._answer)
            if monitors := socket_dirs.watch_sockets(self._path.parent):
                self._tell(monitors)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._listener is None or self._path is None:
            return
        asyncio.get_running_loop().remove_reader(self._listener)
        self._path.unlink(missing_ok=True)
        if self._push is not None:
            self._push.close()
        if self._server is not None:
            self._leaving.set()
            with anyio.CancelScope(shield=True):
                await asyncio.wait({self._server})  # whatever became of it harms no command
        self._listener.close()

    def _tell(self, monitors: list[Path]) -> None:
        from shelltie.frontends.control.runs import new_push  # somebody watches

        self._push = new_push(self._supervisor, self._environ, lambda: self._client)
        for monitor in monitors:
            self._push.connect(monitor)

    def _answer(self) -> None:
        """Somebody connects for the first time."""
        loop = asyncio.get_running_loop()
        assert self._listener is not None
        loop.remove_reader(self._listener)
        # A callback has no task group to start it in; it is waited for when we leave.
        self._server = loop.create_task(self._serve())

    async def _serve(self) -> None:
        from shelltie.frontends.control.runs import answering

        async with answering(
            self._supervisor,
            self._sessions,
            self._environ,
            listens=self._listener,
            push=self._push,
        ) as control:
            control.meet(self._client)
            await self._leaving.wait()
            await control.answer_all()


def program_name() -> str:
    """What a person calls the Python program that we are in."""
    name = Path(sys.argv[0]).name if sys.argv and sys.argv[0] not in ("", "-c", "-m") else ""
    return f"python {name}".strip()
