"""A sandbox of bubblewrap for each workspace, with a keeper in it that lives as long as it is used.

To start it costs some milliseconds; each command in it then costs what one outside does.
"""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from shelltie.errors import CannotStart
from shelltie.frozen import frozen
from shelltie.keeper.link import Link
from shelltie.keeper.programs import BINARY, SCRIPT, Kind, choose
from shelltie.keeper.protocol import Word
from shelltie.model import Bar, Isolation
from shelltie.providers.leashed import LeashedProcess
from shelltie.providers.living import Room, Rooms, answers
from shelltie.providers.provider import Prepared
from shelltie.providers.refused import explain
from shelltie.providers.sandbox_view import OPTIONAL, SandboxPolicy, options, visible
from shelltie.providers.seccomp import no_sockets
from shelltie.providers.workspace import checked

_KEEPER = "/run/shelltie-keeper"
_MORE = "add the directory to sandbox.readable or sandbox.writable"
# They lead to sockets and directories that are not there.
_USELESS = ("XDG_RUNTIME_DIR", "TMPDIR", "TEMP", "TMP")


@dataclass(slots=True)
class _Sandbox(Room):
    complaints: BinaryIO = field(kw_only=True)
    answered: bool = False

    @property
    def said(self) -> str:
        """What bwrap, or the keeper in it, complained of."""
        self.complaints.seek(0)
        return self.complaints.read().decode("utf-8", "replace").strip()

    def shut(self) -> None:
        """See `Room`."""
        self.complaints.close()


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
        self._rooms: Rooms[_Sandbox] = Rooms("sandbox", _MORE, policy.idle)

    async def ready(self, workspace: str) -> None:
        """See `Provider`."""
        sandbox = self._open(workspace)
        if sandbox.answered:
            return
        while not await answers(sandbox.link):
            said = sandbox.said
            lacking = {one for one in OPTIONAL if f"Unknown option {one}" in said} - self._lacking
            if not lacking:
                raise CannotStart(f"bubblewrap cannot make a sandbox: {explain(said)}")
            self._lacking |= lacking
            sandbox = self._open(workspace)
        sandbox.answered = True
        self._rooms.rest(sandbox)

    def spawn(self, prepared: Prepared, listen: Callable[[Word], None]) -> LeashedProcess:
        """See `Provider`."""
        sandbox = self._open(prepared.workspace)
        env = {name: value for name, value in prepared.env.items() if name not in _USELESS}
        try:
            return self._rooms.spawn(sandbox, prepared, env, listen)
        except CannotStart:
            if sandbox.link.alive:
                raise
        again = self._open(prepared.workspace)  # it had just died
        return self._rooms.spawn(again, prepared, env, listen)

    async def close(self) -> None:
        """See `Provider`."""
        await self._rooms.close()

    def _checked(self, workspace: str) -> Path:
        policy = self._policy
        for place in policy.writable:
            checked(str(place), policy.home, policy.hidden)
        return checked(workspace, policy.home, policy.hidden)

    def _open(self, workspace: str) -> _Sandbox:
        """The sandbox of that directory; there may be one, under this or another name."""
        living = self._rooms.named(workspace)
        if living is not None:
            return living
        place = self._checked(workspace)
        return self._rooms.at(place, workspace) or self._rooms.add(self._made(place), workspace)

    def _made(self, place: Path) -> _Sandbox:
        self._rooms.make_way(place)
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
        return _Sandbox(place, visible(self._policy, place), link, complaints=complaints)


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
