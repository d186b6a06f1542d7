"""StayingProvider: commands on this machine that outlive the server, each on a keeper that stays.

Each command has a keeper of its own, so that what holds one can fail without the others, and an
upgrade has the next one use the new keeper.
"""

import asyncio
import os
import secrets
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import BinaryIO

import anyio

from shelltie.basics.frozen import mutable
from shelltie.environment.child import RUN_MARK
from shelltie.errors import CannotStart
from shelltie.keeper.binaries import choose, staying_argv
from shelltie.keeper.link import checked_run_frame
from shelltie.keeper.protocol import HEADER, LeashWord
from shelltie.keeper.stay_folder import StayFolder
from shelltie.keeper.stream_link import HeldCommand, HeldRow, StreamLink
from shelltie.keeper.stream_protocol import StreamAsk
from shelltie.model import Bar, Isolation, TerminalSize
from shelltie.providers import cgroup
from shelltie.providers.provider import STAYING, Prepared

_ANSWERS_WITHIN = 5.0  # seconds, a keeper that is there
_CLOSES_WITHIN = 8.0  # seconds, a keeper that ends everything
_TICK = 0.02
_SPOOL_MIN = 64 * 1024


class StayingProcess:
    """A command that outlives us; its streams are ours as long as we hold it."""

    __slots__ = ("_folder", "_held", "_link", "stderr", "stdin", "stdout")

    def __init__(
        self, link: StreamLink, held: HeldCommand, ends: "_LocalEnds", folder: StayFolder
    ) -> None:
        self._link = link
        self._held = held
        self._folder = folder
        self.stdout = ends.stdout
        self.stderr = ends.stderr
        self.stdin = ends.stdin

    @property
    def terminal(self) -> int | None:
        """Its terminal, to look at; `None` until the keeper has passed it."""
        return self._held.terminal

    def resize(self, size: TerminalSize) -> None:
        """See `Process`."""
        self._held.resize(size.rows, size.columns)

    def signal(self, number: int) -> None:
        """See `Process`."""
        self._held.signal(number)

    def shoot(self) -> None:
        """See `Process`."""
        self._held.shoot()

    def poll(self) -> None:
        """See `Process`."""
        self._held.poll()

    def limit(self, total: float) -> None:
        """See `OutlivingProcess`."""
        self._held.limit(total)

    def note(self, about: bytes) -> None:
        """See `OutlivingProcess`."""
        with suppress(OSError):  # it has just ended, or there is no room: then it is ended later
            self._folder.note(self._held.run, about)

    def forget(self) -> None:
        """See `OutlivingProcess`. Its keeper has nothing else to hold."""
        self._link.ask(StreamAsk.FINISH)
        self._held.close_terminal()

    def release(self) -> None:
        """See `OutlivingProcess`."""
        self._held.let_go()
        self._link.close()
        self._held.close_terminal()


@mutable
class _LocalEnds:
    """Both ends of a command's streams: those that a reader here has, and the keeper's side."""

    stdout: int = -1
    stderr: int | None = None
    stdin: int | None = None
    outputs: dict[int, int] | None = None
    typed: int | None = None


class StayingProvider:
    """Starts commands here that stay when we leave. `bound` bytes are kept of each stream."""

    name = STAYING
    isolation = Isolation.NONE
    bars: frozenset[Bar] = frozenset()

    def __init__(
        self,
        folder: StayFolder,
        keeper: str | None = None,
        *,
        lease: float,
        bound: int,
        most: int = 100,
    ) -> None:
        argv, self.kind = choose(keeper)
        self._argv = staying_argv(argv, self.kind)
        self.folder = folder
        self._most = most
        self._lease, self._bound = lease, max(bound, _SPOOL_MIN)
        self._links: list[StreamLink] = []
        self._launches: list[_Launch] = []

    async def ready(self, workspace: str) -> None:
        """See `Provider`."""

    def spawn(self, prepared: Prepared, listen: Callable[[LeashWord], None]) -> StayingProcess:
        """See `Provider`."""
        if cgroup.wanted(prepared.resources):
            raise CannotStart(
                "what stays cannot have limits of memory or processes: start it without"
                " `stays`, or without them"
            )
        if len(there := self.folder.names()) >= self._most:
            raise CannotStart(
                f"{len(there)} commands stay already, and {self._most} may (stay.max): `shelltie"
                " doctor` lists them, `shelltie kill ID` ends one"
            )
        body = _run_fields(prepared)
        name = prepared.env.get(RUN_MARK) or f"run-{secrets.token_hex(8)}"
        complaints = tempfile.TemporaryFile()  # noqa: SIM115  read when the keeper has ended
        try:
            process, channel, token = self.folder.launch(
                self._argv, name, b"", self._lease, stderr=complaints.fileno()
            )
        except BaseException:
            complaints.close()
            raise
        link = StreamLink(channel, token, take=True)
        self._launches = [one for one in self._launches if not one.over]
        self._launches.append(launch := _Launch(process, complaints, link))
        launch.look()
        streams = ("p" if prepared.pty else "") + ("o" if prepared.one_output else "")
        streams += "i" if _takes_input(prepared) else ""
        size = prepared.pty or TerminalSize(24, 80)
        link.ask(
            StreamAsk.START, name, 0, 0, self._bound, streams, size.rows, size.columns, data=body
        )  # fmt: skip
        if _is_terminal(prepared):
            link.ask(StreamAsk.TERMINAL, name)
        held = link.command(name, listen)
        return self.attach(link, held, prepared)

    def attach(
        self,
        link: StreamLink,
        held: HeldCommand,
        prepared: Prepared,
        row: HeldRow | None = None,
        starts: Mapping[int, int] = MappingProxyType({}),
    ) -> StayingProcess:
        """Have our ends of its streams. With a `row` it was there before; then `starts` are the
        bytes from which on they are wanted.
        """
        self._links = [one for one in self._links if one.alive and one is not link] + [link]
        ends = _open_ends(prepared)
        assert ends.outputs is not None
        shared = _is_terminal(prepared)
        held.attach(ends.outputs, ends.typed, row, shared=shared, starts=starts)
        given = row is None and prepared.stdin is not None and not prepared.stays_open
        if given and not _is_terminal(prepared):
            self._give(ends, prepared.stdin or b"")
        return StayingProcess(link, held, ends, self.folder)

    def _give(self, ends: _LocalEnds, data: bytes) -> None:
        """Input that ends: the keeper is given it as fast as the command reads."""
        assert ends.stdin is not None
        fd, ends.stdin = ends.stdin, None
        os.set_blocking(fd, False)
        rest = memoryview(data)
        loop = asyncio.get_running_loop()

        def write() -> None:
            nonlocal rest
            with suppress(BlockingIOError):
                try:
                    while rest:
                        rest = rest[os.write(fd, rest) :]
                except BrokenPipeError:
                    rest = rest[:0]
                loop.remove_writer(fd)
                os.close(fd)
                return
            loop.add_writer(fd, write)

        write()

    async def reach(
        self, name: str, listen: Callable[[LeashWord], None], *, take: bool
    ) -> tuple[StreamLink, HeldCommand, HeldRow]:
        """Hold what a keeper has that was there before; `attach` has it go on.

        Raises: CannotStart, which says why it cannot be held.
        """
        try:
            channel, token = self.folder.reach(name)
        except OSError as error:
            raise CannotStart(f"nothing stays as {name}: {error.strerror or error}") from error
        link = StreamLink(channel, token, take=take)
        held = link.command(name, listen)
        with anyio.move_on_after(_ANSWERS_WITHIN):
            while link.alive and not link.complete:  # noqa: ASYNC110  as below
                await anyio.sleep(_TICK)
            row = link.rows.get(name)
            if row is not None and row.has_terminal:
                link.ask(StreamAsk.TERMINAL, name)
                while link.alive and held.terminal is None:  # noqa: ASYNC110  as below
                    await anyio.sleep(_TICK)
        row = link.rows.get(name)
        if row is None or not link.alive:
            held.let_go()
            link.close()
            why = link.problem[1] if link.problem else "its keeper does not answer"
            raise CannotStart(f"{name} cannot be held: {why}")
        return link, held, row

    async def end(self, name: str) -> None:
        """End what a keeper holds of which nobody knows anything. Never raises."""
        with suppress(OSError):
            channel, token = self.folder.reach(name)
            link = StreamLink(channel, token)
            link.ask(StreamAsk.FINISH)
            with anyio.move_on_after(_CLOSES_WITHIN):
                while link.alive:  # noqa: ASYNC110  as below
                    await anyio.sleep(_TICK)
            link.close()

    async def close(self) -> None:
        """See `Provider`: ends what it still holds. What was released goes on."""
        launches, self._launches = self._launches, []
        with anyio.move_on_after(_CLOSES_WITHIN, shield=True):
            for launch in launches:
                while not launch.over:  # noqa: ASYNC110  as below
                    await anyio.sleep(_TICK)
        links, self._links = [link for link in self._links if link.alive], []
        for link in links:
            link.ask(StreamAsk.FINISH)
        with anyio.move_on_after(_CLOSES_WITHIN, shield=True):
            for link in links:
                while link.alive:  # noqa: ASYNC110  its commands listen to it, nobody else does
                    await anyio.sleep(_TICK)
        for link in links:
            link.close()


def _run_fields(prepared: Prepared) -> bytes:
    """What a RUN frame has after its id. Raises: CannotStart."""
    frame = checked_run_frame(
        0,
        prepared.argv,
        prepared.env,
        prepared.cwd,
        tty=_is_terminal(prepared),
        resources=prepared.resources,
        directory=prepared.directory,
    )
    return frame[HEADER.size :].partition(b"\0")[2]


def _is_terminal(prepared: Prepared) -> bool:
    """Input and output are one terminal."""
    return prepared.pty is not None and not prepared.one_output


def _takes_input(prepared: Prepared) -> bool:
    if _is_terminal(prepared):
        return False
    return prepared.stays_open or prepared.stdin is not None


def _open_ends(prepared: Prepared) -> _LocalEnds:
    ends = _LocalEnds(outputs={})
    assert ends.outputs is not None
    if _is_terminal(prepared):
        ours, theirs = socket.socketpair()
        ends.stdout, inner = ours.detach(), theirs.detach()
        ends.outputs[1], ends.typed = inner, os.dup(inner)
        return ends
    ends.stdout, ends.outputs[1] = os.pipe()
    if not prepared.one_output:
        ends.stderr, ends.outputs[2] = os.pipe()
    if _takes_input(prepared):
        ends.typed, ends.stdin = os.pipe()
    return ends


class _Launch:
    """The process that starts a keeper: it ends as soon as that is on its own, or cannot be."""

    over = False

    def __init__(
        self, process: "subprocess.Popen[bytes]", complaints: BinaryIO, link: StreamLink
    ) -> None:
        self._process = process
        self._complaints = complaints
        self._link = link

    def look(self) -> None:
        """Whether it has ended; if not, again in a moment."""
        code = self._process.poll()
        if code is None:
            asyncio.get_running_loop().call_later(_TICK, self.look)
            return
        self.over = True
        with self._complaints:
            self._complaints.seek(0)
            said = self._complaints.read(4096).decode("utf-8", "replace").strip()
        if code:
            self._link.fail(said or f"the keeper ended with {code}")
