"""BubblewrapProvider: sandboxes with bwrap, and an explanation when bwrap refuses."""

import asyncio
import contextlib
import os
import select
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from io import FileIO
from pathlib import Path
from typing import BinaryIO

import anyio
import anyio.to_thread

from shelltie.basics.frozen import frozen, mutable
from shelltie.basics.readable import forget, watch
from shelltie.errors import CannotStart
from shelltie.keeper.binaries import BINARY, SCRIPT, KeeperKind, choose
from shelltie.keeper.link import Link
from shelltie.keeper.pid_namespace import descendants
from shelltie.keeper.protocol import LeashWord
from shelltie.model import Bar, Isolation
from shelltie.providers.bubblewrap.bwrap import explain, find_bwrap
from shelltie.providers.bubblewrap.home import shared_caches
from shelltie.providers.bubblewrap.kept_caches import KeptCaches
from shelltie.providers.bubblewrap.mounts import OPTIONAL, SandboxView, visible
from shelltie.providers.bubblewrap.overlay import (
    SANDBOX_ENDED,
    Overlay,
    cache_overlay,
    check_all_is_seen,
    check_can_be_written,
    entering,
    mounting,
    mounts_now,
    overlay_in_place,
    overlays_of,
)
from shelltie.providers.bubblewrap.seccomp import barred
from shelltie.providers.files.file_rules import FileRules, guarded_by
from shelltie.providers.files.workspace_files import WorkspaceFiles
from shelltie.providers.policies import SandboxPolicy, bars_of
from shelltie.providers.pool import Sandbox, SandboxPool
from shelltie.providers.provider import OLDER_BWRAP, Prepared
from shelltie.providers.proxy.server import open_proxy, proxy_variables
from shelltie.providers.spawn import LeashedProcess, answers, spawn
from shelltie.providers.workspace.boundaries import checked, within
from shelltie.providers.workspace.guards import RememberedFiles, guards_of
from shelltie.providers.workspace.new_repositories import NewRepositories
from shelltie.providers.workspace.watched_names import WatchedNames
from shelltie.settings.network_list import expanded

_OLDER = (
    OLDER_BWRAP + " {}, so the sandbox is weaker than it could be: update bubblewrap (0.11 knows"
    " all)"
)
_PRIVATE_CACHES = "your caches cannot be seen in this sandbox, and what it downloads is lost: {}"
_TICK = 0.005
_PATIENCE = 5.0  # seconds, with a keeper that ends
_ENTERS_WITHIN = 10.0
_ENTERED = b"mnt:["  # so begins what one says that has entered a sandbox
_WORD_MAX = 4096
_KEEPER = "/run/shelltie-keeper"
_MORE = "add the directory to sandbox.readable or sandbox.writable"
# They lead to sockets and directories that are not there.
_USELESS = ("XDG_RUNTIME_DIR", "TMPDIR", "TEMP", "TMP")
# Without a network these package managers would try again for a minute before they say so.
_NO_RETRIES = {
    "npm_config_fetch_retries": "0",
    "YARN_HTTP_RETRY": "0",
    "PIP_RETRIES": "0",
    "UV_HTTP_RETRIES": "0",
    "CARGO_NET_RETRY": "0",
    "BUNDLE_RETRY": "0",
}


@mutable
class _Sandbox(Sandbox):
    complaints: BinaryIO = field(kw_only=True)
    answered: bool = False
    guarded: frozenset[str] = frozenset()
    give_back: Callable[[], None] = lambda: None  # what its caches are kept in
    caches: bool = False  # of the user, which are seen here
    mounts: bytes = b""  # with which an overlay shows all of its workspace
    opening: anyio.Lock = field(default_factory=anyio.Lock)  # of its proxy

    @property
    def said(self) -> str:
        """What bwrap, or the keeper in it, complained of."""
        self.complaints.seek(0)
        return self.complaints.read().decode("utf-8", "replace").strip()

    def free(self) -> None:
        """See `Sandbox`."""
        self.complaints.close()
        self.give_back()


class BubblewrapProvider:
    """Commands in sandboxes that see a read-only system and may write in their workspace."""

    name = "bubblewrap"
    isolation = Isolation.SANDBOX

    def __init__(self, policy: SandboxPolicy, keeper: str | None = None) -> None:
        self.bars = bars_of(policy.settings.network)
        self._allowed = expanded(policy.settings.network_allow)
        self._policy = policy
        self._keeper = keeper
        self._program: _Program | None = None
        self._bwrap: str | None = None
        self._lacking: set[str] = set()  # options that this bwrap does not know
        self._caches = KeptCaches(policy.caches) if policy.caches is not None else None
        self._rooms: SandboxPool[_Sandbox] = SandboxPool("sandbox", _MORE, policy.settings.idle)

    async def ready(self, workspace: str) -> None:
        """See `Provider`."""
        await self._reserved(workspace)

    def files(self, workspace: str, *, secrets: bool) -> WorkspaceFiles:  # noqa: ARG002  commands read them, too
        """See `FileProvider`: those that its commands see and may change."""
        policy, place = self._policy, self._checked(workspace)

        def guarded() -> tuple[Path, ...]:
            roots = (place, *policy.writable)
            return guarded_by(guards_of(roots, policy.home, policy.hidden, policy.own))

        return WorkspaceFiles(workspace, FileRules(policy.hidden, guarded=guarded), place)

    async def open_trial(self, workspace: str, folder: Path) -> "TrialPlace":
        """A sandbox for one command, on copy-on-write views; what it writes stays in `folder`.

        Raises: CannotStart, which says why there is none.
        """
        place = self._checked(workspace)
        roots = (place, *self._policy.writable)
        caches = (one for one in shared_caches(self._policy.home) if not within(roots)(one))
        overlays = overlays_of((*roots, *caches), folder)
        sandbox = await self._answering(lambda: self._rooms.add_single(self._made(place, overlays)))
        return TrialPlace(self, sandbox)

    async def enter_overlay(self, workspace: str, folder: Path) -> "OverlaidPlace":
        """The living sandbox of a workspace for one command, which alone sees a copy-on-write view
        there; what it writes stays in `folder`.

        Raises: CannotStart, which says why that is not possible.
        """
        sandbox = self._rooms.reserved(workspace) or await self._reserved(workspace)
        try:
            return await self._entered(sandbox, folder)
        except CannotStart as error:
            if SANDBOX_ENDED in str(error):  # its keeper is about to end, of which nobody tells
                with anyio.move_on_after(_PATIENCE):
                    while sandbox.link.serves:  # noqa: ASYNC110  as said
                        await anyio.sleep(_TICK)
            if sandbox.link.serves:
                raise
            # It may have been mounted, and a volatile overlay has no second time with its workdir.
            with contextlib.suppress(FileNotFoundError):
                (folder / "work").rename(folder / "work-before")
            return await self._entered(await self._reserved(workspace), folder)

    async def _reserved(self, workspace: str) -> _Sandbox:
        await self._end_outdated(workspace)
        sandbox = await self._answering(lambda: self._open(workspace))
        self._rooms.reserve(sandbox)
        return sandbox

    async def _entered(self, sandbox: _Sandbox, folder: Path) -> "OverlaidPlace":
        if (mounts := mounts_now()) != sandbox.mounts:
            check_all_is_seen(sandbox.place, self._policy.hidden, mounts)
            sandbox.mounts = mounts
        check_can_be_written(sandbox.place)
        overlay = overlay_in_place(sandbox.place, folder)
        program = self._program = self._program or _program(self._keeper)
        with contextlib.closing(RememberedFiles()) as held, contextlib.ExitStack() as undo:
            reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            words = undo.enter_context(open(reader, "rb", buffering=0))  # noqa: PTH123, ASYNC230  a pipe
            seccomp = self._seccomp()
            filtered = -1 if seccomp is None else held.content(seccomp)
            try:
                link = Link(
                    [*entering(sandbox.link.pid, overlay, filtered, program.kind), *program.argv],
                    program.kind,
                    contained=True,
                    stderr=writer,
                    passed=tuple(held.descriptors),
                )
            finally:
                os.close(writer)
            place = OverlaidPlace(self, sandbox, link, words)
            sandbox.visitors += 1
            undo.pop_all()
        if not await place.is_entered() or not sandbox.link.serves:
            await place.close()
            place.leave(survivors=False)
            raise CannotStart(f"no command can enter its sandbox: {explain(place.said)}")
        return place

    def leave(self, sandbox: _Sandbox, *, survivors: bool) -> None:
        """A command that had a keeper of its own there has ended; who is still there is ended with
        the sandbox.
        """
        sandbox.visitors -= 1
        if survivors:
            self._rooms.expel(sandbox)
        self._rooms.release(sandbox)

    def _seccomp(self) -> bytes | None:
        return barred(os.uname().machine, sockets=self._policy.settings.network == "off")

    async def _answering(self, make: Callable[[], _Sandbox]) -> _Sandbox:
        """One whose keeper has answered; with what this bwrap does not know left out.

        Raises: CannotStart.
        """
        sandbox = make()
        while not sandbox.answered and not await answers(sandbox.link):
            said = sandbox.said
            lacking = {one for one in OPTIONAL if f"Unknown option {one}" in said} - self._lacking
            if sandbox.caches and "overlay: " in said:
                await self._close_caches()
                sandbox = make()
                sandbox.notes.append(_PRIVATE_CACHES.format(explain(said)))
                continue
            if not lacking:
                raise CannotStart(f"bubblewrap cannot make a sandbox: {explain(said)}")
            self._lacking |= lacking
            sandbox = make()
        sandbox.answered = True
        if self._policy.settings.network == "allow":
            async with sandbox.opening:
                sandbox.proxy = sandbox.proxy or await open_proxy(sandbox.link, self._allowed)
        return sandbox

    def spawn(
        self,
        prepared: Prepared,
        listen: Callable[[LeashWord], None],
        sandbox: _Sandbox | None = None,
        keeper: Link | None = None,
    ) -> LeashedProcess:
        """See `Provider`; in the `sandbox` of a trial, if that is given, by a `keeper` there."""
        if sandbox is None:
            sandbox = self._rooms.reserved(prepared.workspace) or self._open(prepared.workspace)
        env = {name: value for name, value in prepared.env.items() if name not in _USELESS}
        settings = self._policy.settings
        if settings.network == "allow" and sandbox.proxy is None:
            raise CannotStart("its sandbox has just ended: ask again, and there will be another")
        if "HOME" in env:  # without it, somebody's own variables
            env = _NO_RETRIES | env if Bar.NETWORK in self.bars else env
            env = env if sandbox.proxy is None else {**env, **proxy_variables()}
        if prepared.resources.processes is None and settings.processes:
            limited = replace(prepared.resources, processes=settings.processes)
            prepared = replace(prepared, resources=limited)
        link = keeper or sandbox.link
        with self._rooms.entered(sandbox, prepared, env, listen) as (inside, told):
            if settings.network == "on":  # what it listens on is this machine's
                return spawn(link, inside, told)
            hear, attached = sandbox.networked(told, forward=settings.forward)
            return attached(spawn(link, inside, hear))

    async def close_single(self, sandbox: _Sandbox) -> None:
        """End one that is for one command."""
        await self._rooms.close_single(sandbox)

    async def close(self) -> None:
        """See `Provider`."""
        await self._rooms.close()
        await self._close_caches()

    async def _close_caches(self) -> None:
        caches, self._caches = self._caches, None
        if caches is not None:
            await anyio.to_thread.run_sync(caches.close)

    async def _end_outdated(self, workspace: str) -> None:
        """Wait for the end of a sandbox that is to be replaced, as the next one has its caches."""
        if self._caches is None or self._rooms.by_name(workspace) is not None:
            return
        with anyio.move_on_after(_PATIENCE):
            while any(one.caches and one.empty for one in self._rooms.stopping):  # noqa: ASYNC110  its keeper tells nobody
                await anyio.sleep(_TICK)

    def _shared_caches(self, place: Path, undo: contextlib.ExitStack) -> tuple[Overlay, ...]:
        """Views of the user's own caches for a sandbox, and where what it adds is kept."""
        roots = (place, *self._policy.writable)
        found = [one for one in shared_caches(self._policy.home) if not within(roots)(one)]
        if self._caches is None or not found:
            return ()
        try:
            folder = self._caches.take(place)
        except OSError as error:
            raise CannotStart(f"no place for caches: {error}") from error
        undo.callback(self._caches.give_back, folder)
        return tuple(cache_overlay(one, folder, self._policy.home) for one in found)

    def _checked(self, workspace: str) -> Path:
        policy = self._policy
        if policy.home == Path("/"):
            raise CannotStart("HOME is / or empty: set it to a directory that is somebody's home")
        for place in policy.writable:
            checked(str(place), policy.home, policy.hidden)
        for place in policy.readable:
            if not place.exists():
                raise CannotStart(f"sandbox.readable names {place}, which is not there")
        return checked(workspace, policy.home, policy.hidden)

    def _open(self, workspace: str) -> _Sandbox:
        """The sandbox of that directory; there may be one, under this or another name."""
        living = self._rooms.by_name(workspace)
        if living is not None:
            return living
        place = self._checked(workspace)
        return self._rooms.by_path(place, workspace) or self._rooms.add(
            self._made(place), workspace
        )

    def _made(self, place: Path, overlays: Sequence[Overlay] = ()) -> _Sandbox:
        if not overlays:
            self._rooms.replace(place)
        bwrap = self._bwrap = self._bwrap or find_bwrap(self._policy)
        program = self._program = self._program or _program(self._keeper)
        shared = contextlib.ExitStack()
        caches = () if overlays else self._shared_caches(place, shared)
        view = SandboxView(
            self._policy,
            place,
            self._lacking,
            {one.lower: one.target for one in overlays},
            {one.lower: one.target for one in caches},
        )
        if within(view.roots)(Path(os.path.realpath(bwrap))):
            raise CannotStart(f"{bwrap} lies where commands can write: install it elsewhere")
        with contextlib.closing(view.held), contextlib.ExitStack() as undo:
            undo.push(shared)
            view.build(program.needs)
            watched = undo.enter_context(contextlib.closing(WatchedNames(view.watched)))
            complaints = undo.enter_context(tempfile.TemporaryFile())
            seccomp = self._seccomp()
            barring = () if seccomp is None else ("--seccomp", str(view.held.content(seccomp)))
            link = Link(
                [*mounting((*overlays, *caches)), bwrap, *barring, *view.options, *program.argv],
                program.kind,
                contained=True,
                stderr=complaints.fileno(),
                passed=tuple(view.held.descriptors),
            )
            undo.pop_all()
        return _Sandbox(
            place,
            visible(self._policy, place),
            link,
            held=view.held,
            watched=watched,
            made=None if overlays else NewRepositories(place, view.repositories),
            notes=[_OLDER.format(", ".join(sorted(self._lacking)))] if self._lacking else [],
            complaints=complaints,
            guarded=view.guarded,
            give_back=shared.close,
            caches=bool(caches),
        )


class TrialPlace:
    """A provider for one command, whose writes are kept apart; it ends with that command."""

    name = BubblewrapProvider.name
    isolation = Isolation.SANDBOX

    def __init__(self, provider: BubblewrapProvider, sandbox: _Sandbox) -> None:
        self.bars = provider.bars
        self.spawn = partial(provider.spawn, sandbox=sandbox)  # see `Provider`
        self._close = partial(provider.close_single, sandbox)

    async def ready(self, workspace: str) -> None:
        """See `Provider`."""

    async def close(self) -> None:
        """See `Provider`: then nothing is mounted any more, and what it wrote can be read."""
        await self._close()


class OverlaidPlace:
    """A provider for one command in a living sandbox, which alone sees an overlay there."""

    name = BubblewrapProvider.name
    isolation = Isolation.SANDBOX

    def __init__(
        self,
        provider: BubblewrapProvider,
        sandbox: _Sandbox,
        keeper: Link,
        words: FileIO,
    ) -> None:
        self.bars = provider.bars
        self.guarded = sandbox.guarded  # paths of the workspace that must not be written
        self.spawn = partial(provider.spawn, sandbox=sandbox, keeper=keeper)  # see `Provider`
        self.said = ""  # by the program that entered the sandbox: its mount namespace, or why not
        self._leave = partial(provider.leave, sandbox)
        self._sandbox = sandbox
        self._keeper = keeper
        self._handle = os.pidfd_open(keeper.pid)  # now, as nobody has waited for it yet
        self._words = words

    async def is_entered(self) -> bool:
        """Wait until the overlay is in its place, or cannot be; whether it is."""
        loop, heard, over = asyncio.get_running_loop(), bytearray(), anyio.Event()

        def hear() -> None:
            arrived = self._words.read(_WORD_MAX)
            heard.extend(arrived or b"")
            if not arrived or (heard.startswith(_ENTERED) and heard.endswith(b"\n")):
                forget(loop, self._words.fileno())
                over.set()

        watch(loop, self._words.fileno(), hear)
        try:
            with anyio.move_on_after(_ENTERS_WITHIN):
                await over.wait()
        finally:
            forget(loop, self._words.fileno())
        self.said = heard.decode("utf-8", "replace").strip()
        return heard.startswith(_ENTERED)

    async def ready(self, workspace: str) -> None:
        """See `Provider`."""

    async def close(self) -> None:
        """See `Provider`."""
        await self._keeper.close()

    def dismiss(self) -> Callable[[], bool]:
        """Its command has ended: let its keeper go. What is returned waits for that, in a thread,
        and tells whether nobody is left who sees the overlay.
        """
        self._keeper.dismiss()
        return partial(_nobody_left, self._handle, self._sandbox.link.pid, self.said)

    def leave(self, *, survivors: bool) -> None:
        """It is over; who is left of it is ended with the sandbox."""
        self._words.close()
        os.close(self._handle)
        self._keeper.reap()
        self._leave(survivors=survivors)


def _nobody_left(keeper: int, bwrap: int, namespace: str) -> bool:
    """Wait for the end of a keeper, and look for processes that it did not take with it.

    A command that killed it, and its leash, would be such a one. Who cannot be looked at counts.
    """
    if not select.select([keeper], [], [], _PATIENCE)[0]:
        return False
    for pid in descendants(bwrap):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            try:
                if os.readlink(f"/proc/{pid}/ns/mnt") == namespace:  # noqa: PTH115  as a text
                    return False
            except PermissionError:
                return False
    return True


@frozen
class _Program:
    """The keeper as it is started inside, and what of the outside it needs, by its name there."""

    argv: tuple[str, ...]
    kind: KeeperKind
    needs: Mapping[str, str]


def _program(wanted: str | None) -> _Program:
    _, kind = choose(wanted)
    if kind is KeeperKind.C:
        return _Program(("--", _KEEPER), kind, {_KEEPER: str(BINARY)})
    python, base = os.path.realpath(sys.executable), sys.base_prefix
    argv = ("--", python, "-I", "-S", _KEEPER)
    return _Program(argv, kind, {base: base, _KEEPER: str(SCRIPT)})
