"""PlaceProvider: commands on other machines, on keepers that an engine launches there.

One keeper holds many commands where the engine shares it (a host); else each command has its own,
launched by `ready`, which the next `spawn` takes.
"""

import asyncio
import os
import secrets
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import anyio

from shelltie.basics.frozen import frozen
from shelltie.basics.pulse import Pulse
from shelltie.environment.child import RUN_MARK, sift
from shelltie.errors import CannotStart
from shelltie.keeper.lasting_link import LastingLink
from shelltie.keeper.protocol import Exited, Gone, LeashWord, Lost
from shelltie.keeper.stream_link import HeldCommand
from shelltie.keeper.stream_protocol import StreamAsk
from shelltie.model import Bar, Resources, TerminalSize
from shelltie.providers import cgroup
from shelltie.providers.places.engine import FarKeeper, PlaceEngine
from shelltie.providers.provider import FarSurroundings, Prepared
from shelltie.providers.stream_ends import (
    LocalEnds,
    feed,
    is_terminal,
    open_ends,
    run_fields,
    start_fields,
)
from shelltie.settings.places import Place

_RESERVED = 30.0  # seconds for which a keeper waits for the command that it was launched for
_CLOSES_WITHIN = 8.0  # seconds, a keeper that ends everything
_DESTROYED_WITHIN = 20.0
_UNREACHED_WITHIN = 3.0
_LOOKS_WITHIN = 20.0
_READ_SIZE = 64 * 1024
_TICK = 0.02
# An account's own start-up files are not read: whoever needs them says so in the command.
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LOOK = r"""
user=$(id -un 2>/dev/null || id -u)
home=$(eval echo "~$user" 2>/dev/null)
case $home in /*) ;; *) home=/ ;; esac
shell=/bin/sh
for one in /bin/bash /usr/bin/bash /usr/local/bin/bash; do [ -x $one ] && shell=$one && break; done
printf 'HOME=%s\nUSER=%s\nLOGNAME=%s\nSHELL=%s\n' "$home" "$user" "$user" "$shell"
[ -z "$1" ] || tr '\0' '\n' </proc/1/environ 2>/dev/null | grep '^[A-Za-z_][A-Za-z0-9_]*=' || :
"""


@frozen
class OwnRun:
    """How a command of our own has ended."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class _Far:
    """A keeper at the place, and the link to it."""

    def __init__(self, keeper: FarKeeper, link: LastingLink) -> None:
        self.keeper = keeper
        self.link = link
        self.commands = 0


class PlaceProcess:
    """A command at a place; its streams are ours, and survive a connection that breaks."""

    __slots__ = ("_far", "_held", "stderr", "stdin", "stdout")

    def __init__(self, far: _Far, held: HeldCommand, ends: LocalEnds) -> None:
        self._far = far
        self._held = held
        self.stdout = ends.stdout
        self.stderr = ends.stderr
        self.stdin = ends.stdin

    @property
    def where(self) -> str:
        """Where it is, for people."""
        return self._far.keeper.where

    @property
    def reachable(self) -> bool:
        """Whether we hear of it now."""
        return self._far.link.reachable

    @property
    def ends_at(self) -> float:
        """By the wall clock, when what cannot be reached has ended there at the latest."""
        return self._far.link.ends_at

    def resize(self, size: TerminalSize) -> None:
        """See `Process`."""
        self._held.resize(size.rows, size.columns)

    def signal(self, number: int) -> None:
        """See `Process`; while it cannot be reached, it is sent as soon as it can."""
        self._held.signal(number)

    def shoot(self) -> None:
        """See `Process`."""
        self._held.shoot()

    def poll(self) -> None:
        """See `Process`."""
        self._held.poll()

    def limit(self, total: float) -> None:
        """Have its keeper end it in so many seconds, whether we can be heard then or not."""
        self._held.limit(total)

    def abandon(self) -> None:
        """Wait for it no longer; the last word is Lost."""
        self._held.finish(Lost())


class PlaceProvider:
    """Runs commands in a place of the settings. `passed` are variables of ours that they get."""

    bars: frozenset[Bar] = frozenset()

    def __init__(
        self, name: str, place: Place, engine: PlaceEngine, passed: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.place = place
        self.engine = engine
        self.isolation = place.isolation
        self._passed = passed
        self._fars: list[_Far] = []
        self._free: list[_Far] = []  # without a command, where each has its own
        self._reserved: list[float] = []  # when it was asked for one of those
        self._launching = anyio.Lock()
        self._surroundings: FarSurroundings | None = None
        self._ended: list[_Far] = []
        self._destroying: asyncio.Task[None] | None = None
        self._closed = False

    async def look_there(self) -> FarSurroundings:
        """See `FarProvider`."""
        async with self._launching:
            if self._surroundings is None:
                if not any(far.link.reachable for far in self._fars):
                    far = await self._launch()
                    if not self.engine.shared:
                        self._free.append(far)
                self._surroundings = await self._look()
            return self._surroundings

    async def ready(self, workspace: str) -> None:  # noqa: ARG002  of this machine
        """See `Provider`: there is a keeper for the next command."""
        async with self._launching:
            if self._closed:
                raise CannotStart(f"{self.name} is closed")
            self._destroy_later()
            if self.engine.shared:
                if not any(far.link.reachable for far in self._fars):
                    await self._launch()
                return
            missing = self._reserve()
        if missing:  # outside of the lock: to launch one takes a second, and many do at once
            far = await self._launch()
            if self._closed:
                await self._destroy(far)
                raise CannotStart(f"{self.name} is closed")
            self._free.append(far)

    def _reserve(self) -> bool:
        """Whether whoever asks now needs one more than there are."""
        now = time.monotonic()
        self._free = [far for far in self._free if not far.link.over]
        self._reserved = [at for at in self._reserved if now - at < _RESERVED]
        self._reserved.append(now)
        return len(self._free) < len(self._reserved)

    async def _launch(self) -> _Far:
        """Raises: CannotStart; then nothing is left of it."""
        name = f"shelltie-{secrets.token_hex(6)}"
        try:
            keeper = await self.engine.launch(name, self.place.lease)
        except OSError as error:
            raise CannotStart(f"{self.name} cannot be reached: {error}") from error
        try:
            channel = await self.engine.open_stream(keeper)
            link = LastingLink(
                channel,
                keeper.token,
                lambda: self.engine.open_stream(keeper),
                lease=self.place.lease,
                where=keeper.where,
                bound_setting=f"places.{self.name}.output",
            )
            await link.greeted()
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                await self.engine.destroy(keeper)
            if isinstance(error, OSError):
                raise CannotStart(f"{self.name}: its keeper cannot be reached: {error}") from error
            raise
        far = _Far(keeper, link)
        self._fars.append(far)
        return far

    async def _look(self) -> FarSurroundings:
        # What an image sets for its programs, its first process has.
        own = "pod" if self.engine.kind == "kubernetes" else ""
        found = await self.run(("/bin/sh", "-c", _LOOK, "sh", own), limit=_LOOKS_WITHIN)
        if found.exit_code != 0:
            told = found.stderr[:200].decode("utf-8", "replace")
            raise CannotStart(f"{self.name} has no shell that can be used: {told}")
        there: dict[str, str] = {}
        for line in found.stdout.decode("utf-8", "replace").splitlines():
            name, _, value = line.partition("=")
            there.setdefault(name, value)
        there.setdefault("PATH", _PATH)
        shell = self.place.shell or there["SHELL"]
        bare = ("--noprofile", "--norc") if os.path.basename(shell) == "bash" else ()  # noqa: PTH119  of another machine
        return FarSurroundings(
            (shell, *bare), self.place.directory or there["HOME"], sift(there, self._passed)
        )

    def spawn(self, prepared: Prepared, listen: Callable[[LeashWord], None]) -> PlaceProcess:
        """See `Provider`."""
        if cgroup.wanted(prepared.resources):
            raise CannotStart(
                f"limits of memory or processes cannot be set at {self.name}: leave them out"
            )
        if prepared.commands is not None or prepared.stdin_from is not None:
            raise CannotStart(f"a descriptor of this machine cannot be passed to {self.name}")
        running = sum(far.commands for far in self._fars)
        if running >= self.place.commands:
            raise CannotStart(
                f"{running} commands run at {self.name} already, and {self.place.commands} may"
                f" (places.{self.name}.max): wait for one, or end it"
            )
        far = self._take()
        far.commands += 1

        def hear(word: LeashWord) -> None:
            if isinstance(word, Gone | Lost):
                far.commands -= 1
                if not self.engine.shared and far in self._fars:
                    self._ended.append(far)
                    self._destroy_later()
            listen(word)

        try:
            return self._spawn(far, prepared, hear)
        except BaseException:
            far.commands -= 1
            raise

    def _take(self) -> _Far:
        """Raises: CannotStart."""
        known = self._fars if self.engine.shared else self._free
        far = next((far for far in known if far.link.reachable), None)
        if far is None:
            raise CannotStart(f"{self.name} cannot be reached: call again, and it is tried anew")
        if not self.engine.shared:
            self._free.remove(far)
            del self._reserved[:1]
        return far

    def _spawn(
        self, far: _Far, prepared: Prepared, listen: Callable[[LeashWord], None]
    ) -> PlaceProcess:
        """Raises: CannotStart, and then nothing was started."""
        body = run_fields(prepared)
        name = prepared.env.get(RUN_MARK) or f"run-{secrets.token_hex(8)}"
        far.link.ask(StreamAsk.START, name, *start_fields(prepared, self.place.output), data=body)

        def hear(word: LeashWord) -> None:
            if isinstance(word, Gone):
                far.link.ask(StreamAsk.FORGET, name)
            listen(word)

        held = far.link.command(name, hear)
        ends = open_ends(prepared)
        assert ends.outputs is not None
        held.attach(ends.outputs, ends.typed, None, shared=is_terminal(prepared), starts={})
        feed(ends, prepared)
        return PlaceProcess(far, held, ends)

    async def run(
        self, argv: Sequence[str], *, given: bytes | None = None, limit: float, cwd: str = "/"
    ) -> OwnRun:
        """Run a command of our own there, to its end.

        Raises: CannotStart, also where it does not end within `limit` seconds.
        """
        known = self._fars if self.engine.shared else [*self._free, *self._fars]
        far = next((far for far in known if far.link.reachable), None)
        if far is None:
            raise CannotStart(f"{self.name} cannot be reached: call again, and it is tried anew")
        words: list[LeashWord] = []
        more = Pulse()

        def hear(word: LeashWord) -> None:
            words.append(word)
            more.beat()

        env = {"PATH": _PATH, RUN_MARK: f"own-{secrets.token_hex(8)}"}
        prepared = Prepared(tuple(argv), env, cwd, given, None, Resources())
        process = self._spawn(far, prepared, hear)
        assert process.stderr is not None
        printed, complaints = bytearray(), bytearray()
        try:
            with anyio.fail_after(limit):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_read_all, process.stdout, printed)
                    tasks.start_soon(_read_all, process.stderr, complaints)
                while not words or not isinstance(words[-1], Gone | Lost):
                    await more.wait()
        except BaseException as error:
            process.signal(signal.SIGKILL)
            if isinstance(error, TimeoutError):
                told = f"{self.name}: {argv[0]} has not ended there within {limit:.0f} s"
                raise CannotStart(told) from error
            raise
        finally:
            os.close(process.stdout)
            os.close(process.stderr)
        status = next((one.wait_status for one in words if isinstance(one, Exited)), None)
        if status is None:
            raise CannotStart(f"{self.name}: {argv[0]} could not be run there")
        return OwnRun(os.waitstatus_to_exitcode(status), bytes(printed), bytes(complaints))

    def _destroy_later(self) -> None:
        """A pod whose command has ended costs somebody something."""
        if self._destroying is None or self._destroying.done():
            loop = asyncio.get_running_loop()
            self._destroying = loop.create_task(self._destroy_ended())

    async def _destroy_ended(self) -> None:
        """Keepers whose command has ended, and those that are lost."""
        while True:
            lost = [far for far in self._fars if far.link.over]
            ended, self._ended = {*self._ended, *lost}, []
            if not ended:
                return
            self._fars = [far for far in self._fars if far not in ended]
            self._free = [far for far in self._free if far not in ended]
            async with anyio.create_task_group() as tasks:
                for far in ended:
                    tasks.start_soon(self._destroy, far)

    async def _destroy(self, far: _Far) -> None:
        """What it holds is ended by itself if it can be asked, and by the engine in any case."""
        link = far.link
        # What cannot be reached is tried for a moment; its lease ends it.
        limit = _DESTROYED_WITHIN if link.reachable or link.over else _UNREACHED_WITHIN
        link.ask(StreamAsk.FINISH)
        with anyio.move_on_after(_CLOSES_WITHIN, shield=True):
            while not link.over and link.reachable:  # noqa: ASYNC110  its commands listen to it
                await anyio.sleep(_TICK)
        link.close()
        with anyio.move_on_after(limit, shield=True), suppress(OSError, CannotStart):
            await self.engine.destroy(far.keeper)

    async def keepers(self) -> list[str]:
        """Names of the keepers there: ours, and those that dead servers left.

        Raises: CannotStart.
        """
        try:
            return await self.engine.list()
        except OSError as error:
            raise CannotStart(f"{self.name} cannot be reached: {error}") from error

    async def close(self) -> None:
        """See `Provider`: what cannot be reached is ended by its keeper, when the lease is over."""
        self._closed = True
        self._ended += self._fars
        if self._destroying is not None:
            await asyncio.wait([self._destroying])
        await self._destroy_ended()
        await self.engine.close()


async def _read_all(fd: int, into: bytearray) -> None:
    while True:
        await anyio.wait_readable(fd)
        data = os.read(fd, _READ_SIZE)
        if not data:
            return
        into += data
