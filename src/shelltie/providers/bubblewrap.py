"""A sandbox of bubblewrap for each workspace, with a keeper in it that lives as long as it is used.

To start it costs some milliseconds; each command in it then costs what one outside does.
"""

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import anyio

from shelltie.errors import CannotStart
from shelltie.frozen import frozen
from shelltie.keeper.link import Link
from shelltie.keeper.programs import BINARY, SCRIPT, Kind, choose
from shelltie.keeper.protocol import Failed, Gone, Lost, Word
from shelltie.model import Bar, Isolation, Resources
from shelltie.providers.leashed import LeashedProcess, spawn
from shelltie.providers.provider import Prepared
from shelltie.providers.refused import explain
from shelltie.providers.sandbox_view import OPTIONAL, SandboxPolicy, options, visible
from shelltie.providers.seccomp import no_sockets
from shelltie.providers.workspace import checked

_KEEPER = "/run/shelltie-keeper"
_PATIENCE = 10.0  # with a sandbox that does not come up
# They lead to sockets and directories that are not there.
_USELESS = ("XDG_RUNTIME_DIR", "TMPDIR", "TEMP", "TMP")


@dataclass(slots=True)
class _Sandbox:
    place: Path
    visible: tuple[str, ...]
    link: Link
    complaints: BinaryIO
    answered: bool = False
    idle: asyncio.TimerHandle | None = None

    @property
    def said(self) -> str:
        """What bwrap, or the keeper in it, complained of."""
        self.complaints.seek(0)
        return self.complaints.read().decode("utf-8", "replace").strip()


class BubblewrapProvider:
    """Commands in sandboxes that see a read-only system and may write in their workspace."""

    name = "bubblewrap"
    isolation = Isolation.SANDBOX

    def __init__(self, policy: SandboxPolicy, keeper: str | None = None) -> None:
        self.bars = frozenset(Bar) - ({Bar.NETWORK} if policy.network == "on" else set())
        self._policy = policy
        self._keeper = keeper
        self._program: _Program | None = None
        self._lacking: set[str] = set()  # options that this bwrap does not know
        self._sandboxes: dict[Path, _Sandbox] = {}
        self._named: dict[str, _Sandbox] = {}  # the same, as calls have named them
        self._left: list[_Sandbox] = []  # dead or dismissed, perhaps with leashes

    async def ready(self, workspace: str) -> None:
        """See `Provider`."""
        sandbox = self._living(workspace) or self._open(workspace)
        if sandbox.answered:
            return
        while not await _answers(sandbox.link):
            said = sandbox.said
            lacking = {one for one in OPTIONAL if f"Unknown option {one}" in said} - self._lacking
            if not lacking:
                raise CannotStart(f"bubblewrap cannot make a sandbox: {explain(said)}")
            self._lacking |= lacking
            sandbox = self._open(workspace)
        sandbox.answered = True
        self._rest(sandbox)

    def spawn(self, prepared: Prepared, listen: Callable[[Word], None]) -> LeashedProcess:
        """See `Provider`."""
        sandbox = self._living(prepared.workspace) or self._open(prepared.workspace)
        cwd = os.path.realpath(prepared.cwd)
        if not any(f"{cwd}/".startswith(f"{root}/") for root in sandbox.visible):
            raise CannotStart(
                f"{cwd} is not to be seen in the sandbox, whose workspace is {sandbox.place}: run"
                " it there, or add the directory to sandbox.readable or sandbox.writable"
            )
        env = {name: value for name, value in prepared.env.items() if name not in _USELESS}
        inside = replace(prepared, cwd=cwd, env=env)
        try:
            return self._spawn(sandbox, inside, listen)
        except CannotStart:
            if sandbox.link.alive:
                raise
        return self._spawn(self._open(prepared.workspace), inside, listen)  # it had just died

    def _spawn(
        self, sandbox: _Sandbox, prepared: Prepared, listen: Callable[[Word], None]
    ) -> LeashedProcess:
        def hear(word: Word) -> None:
            listen(word)
            if isinstance(word, Gone | Lost):
                self._rest(sandbox)

        process = spawn(sandbox.link, prepared, hear)
        _cancel(sandbox)
        return process

    async def close(self) -> None:
        """See `Provider`."""
        everything = [*self._sandboxes.values(), *self._left]
        self._sandboxes, self._named, self._left = {}, {}, []
        for sandbox in everything:
            _cancel(sandbox)
            await sandbox.link.close()
            sandbox.complaints.close()

    def _checked(self, workspace: str) -> Path:
        policy = self._policy
        for place in policy.writable:
            checked(str(place), policy.home, policy.hidden)
        return checked(workspace, policy.home, policy.hidden)

    def _living(self, workspace: str) -> _Sandbox | None:
        """The one that was made for this name. What a link means was settled then."""
        sandbox = self._named.get(workspace)
        return sandbox if sandbox is not None and sandbox.link.alive else None

    def _open(self, workspace: str) -> _Sandbox:
        """The sandbox of that directory; there may be one, under another name."""
        place = self._checked(workspace)
        sandbox = self._sandboxes.get(place)
        if sandbox is None or not sandbox.link.alive:
            sandbox = self._made(place)
        self._named[workspace] = sandbox
        return sandbox

    def _made(self, place: Path) -> _Sandbox:
        if place in self._sandboxes:
            self._left.append(self._sandboxes.pop(place))
        self._left = [one for one in self._left if not _forgotten(one)]
        bwrap = shutil.which("bwrap")
        if bwrap is None:
            raise CannotStart("bubblewrap is not installed: apt install bubblewrap, or its like")
        program = self._program = self._program or _program(self._keeper)
        view = options(self._policy, place, program.needs, self._lacking)
        with contextlib.ExitStack() as passed, contextlib.ExitStack() as undo:
            complaints = undo.enter_context(tempfile.TemporaryFile())
            barred = _without_sockets(passed) if self._policy.network == "off" else None
            barring = () if barred is None else ("--seccomp", str(barred))
            link = Link(
                [bwrap, *barring, *view, *program.argv],
                program.kind,
                contained=True,
                stderr=complaints.fileno(),
                passed=() if barred is None else (barred,),
            )
            undo.pop_all()
        sandbox = _Sandbox(place, visible(self._policy, place), link, complaints)
        self._sandboxes[place] = sandbox
        return sandbox

    def _rest(self, sandbox: _Sandbox) -> None:
        """Nobody needs it now; before long it is let go."""
        _cancel(sandbox)
        if sandbox.link.alive and sandbox.link.idle:
            loop = asyncio.get_running_loop()
            sandbox.idle = loop.call_later(self._policy.idle, self._dismiss, sandbox)

    def _dismiss(self, sandbox: _Sandbox) -> None:
        if sandbox.link.idle and self._sandboxes.get(sandbox.place) is sandbox:
            self._left.append(self._sandboxes.pop(sandbox.place))
            self._named = {name: one for name, one in self._named.items() if one is not sandbox}
            sandbox.link.dismiss()


def _cancel(sandbox: _Sandbox) -> None:
    if sandbox.idle is not None:
        sandbox.idle.cancel()
        sandbox.idle = None


def _forgotten(sandbox: _Sandbox) -> bool:
    over = sandbox.link.idle and not sandbox.link.alive
    if over:
        sandbox.complaints.close()
    return over


@frozen
class _Program:
    """The keeper as it is started inside, and what of the outside it needs, by its name there."""

    argv: tuple[str, ...]
    kind: Kind
    needs: Mapping[str, str]


def _program(wanted: str | None) -> _Program:
    _, kind = choose(wanted)
    if kind is Kind.C:
        return _Program(("--", _KEEPER), kind, {_KEEPER: str(BINARY)})
    python, base = os.path.realpath(sys.executable), sys.base_prefix
    argv = ("--", python, "-I", "-S", _KEEPER)
    return _Program(argv, kind, {base: base, _KEEPER: str(SCRIPT)})


def _without_sockets(passed: contextlib.ExitStack) -> int | None:
    program = no_sockets(os.uname().machine)
    if program is None:
        return None
    reader, writer = os.pipe()
    passed.callback(os.close, reader)
    os.write(writer, program)  # a pipe holds much more
    os.close(writer)
    return reader


async def _answers(link: Link) -> bool:
    """Whether the keeper is there: it can say that a directory is no program."""
    words: list[Word] = []
    over = anyio.Event()

    def hear(word: Word) -> None:
        words.append(word)
        if isinstance(word, Gone | Lost):
            over.set()

    with open(os.devnull, "r+b") as null:  # noqa: PTH123, ASYNC230  it has no disk
        stdio = (null.fileno(), null.fileno(), null.fileno())
        try:
            link.spawn(("/",), {}, "/", stdio, tty=False, resources=Resources(), listen=hear)
        except CannotStart:  # it is dead already
            return False
    with anyio.move_on_after(_PATIENCE):
        await over.wait()
        return any(isinstance(word, Failed) for word in words)
    await link.close()
    return False
