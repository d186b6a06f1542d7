"""StayingProvider: commands on this machine that outlive the server, each on a keeper that stays.

Each command has a keeper of its own, so that what holds one can fail without the others, and an
upgrade has the next one use the new keeper.
"""

import asyncio
import secrets
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import BinaryIO

import anyio

from shelltie.environment.child import RUN_MARK
from shelltie.errors import CannotStart
from shelltie.keeper.binaries import choose, staying_argv
from shelltie.keeper.protocol import LeashWord
from shelltie.keeper.stay_folder import StayFolder
from shelltie.keeper.stream_link import HeldCommand, HeldRow, StreamLink
from shelltie.keeper.stream_protocol import StreamAsk
from shelltie.model import Bar, Isolation, TerminalSize
from shelltie.providers import cgroup
from shelltie.providers.provider import STAYING, Prepared
from shelltie.providers.stream_ends import (
    LocalEnds,
    feed,
    is_terminal,
    open_ends,
    run_fields,
    start_fields,
)

_ANSWERS_WITHIN = 5.0  # seconds, a keeper that is there
_CLOSES_WITHIN = 8.0  # seconds, a keeper that ends everything
_TICK = 0.02
# What may be acknowledged, and not read yet: more than a pipe and a socket hold. A server that is
# killed then loses nothing of it.
_SPOOL_MIN = 1024 * 1024


class StayingProcess:
    """A command that outlives us; its streams are ours as long as we hold it."""

    __slots__ = ("_folder", "_held", "_link", "stderr", "stdin", "stdout")

    def __init__(
        self, link: StreamLink, held: HeldCommand, ends: LocalEnds, folder: StayFolder
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
        body = run_fields(prepared)
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
        link.ask(StreamAsk.START, name, *start_fields(prepared, self._bound), data=body)
        if is_terminal(prepared):
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
        ends = open_ends(prepared)
        assert ends.outputs is not None
        shared = is_terminal(prepared)
        held.attach(ends.outputs, ends.typed, row, shared=shared, starts=starts)
        if row is None:
            feed(ends, prepared)
        return StayingProcess(link, held, ends, self.folder)

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
        links, self._links = self._links, []
        for link in links:
            if (
                link.idle and not link.finishing
            ):  # what has ended there is left for whoever is to read of it
                link.close()
            link.ask(StreamAsk.FINISH)
        with anyio.move_on_after(_CLOSES_WITHIN, shield=True):
            for link in links:
                while link.alive:  # noqa: ASYNC110  its commands listen to it, nobody else does
                    await anyio.sleep(_TICK)
        for link in links:
            link.close()


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
