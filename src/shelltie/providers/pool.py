"""Sandbox pool: one reusable sandbox or container for each workspace, until it is idle.

To open one is dear; each command in it then costs what one outside does. `ready` of a provider
reserves the one of a workspace; the spawn that follows takes it without another look. What is
reserved for a command that never comes is let go like any other, only later.
"""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from shelltie.basics.frozen import mutable
from shelltie.errors import CannotStart
from shelltie.keeper.link import Link
from shelltie.keeper.protocol import Exited, Failed, Gone, LeashWord, Lost, Noted
from shelltie.providers.port_forward import PortForwards
from shelltie.providers.provider import OTHER_DIRECTORY, Prepared
from shelltie.providers.proxy.server import PORT as PROXY_PORT
from shelltie.providers.proxy.server import NetworkProxy
from shelltie.providers.spawn import LeashedProcess
from shelltie.providers.workspace.boundaries import hard_linked
from shelltie.providers.workspace.guards import RememberedFiles
from shelltie.providers.workspace.inotify import DirectoryWatch
from shelltie.providers.workspace.new_repositories import NewRepositories
from shelltie.providers.workspace.watched_names import PutAside, WatchedNames
from shelltie.settings.files import file_identity

_RESERVED = 5.0  # seconds, from being ready to the spawn: until it is on record that it starts
_TOO_OFTEN = 5
_UNDONE = (
    "{} was made where git outside would have obeyed it, and was renamed to .blocked-…: look at it,"
    " and delete it"
)
_NOT_UNDONE = (
    "{} was made where git outside would obey it, and could not be renamed ({}): delete it before"
    " you run git"
)
_HARD_LINKED = (
    "{} is a hard link, as uv and pnpm make them to a cache that all projects share: a command that"
    " changes such a file in place changes it for them, too. Install with UV_LINK_MODE=copy, or"
    " package-import-method=copy"
)


@mutable
class Sandbox:
    """The place of one workspace. `visible` is where its commands may have their directory."""

    place: Path
    visible: tuple[str, ...]
    link: Link
    idle: asyncio.TimerHandle | None = None
    held: RememberedFiles = field(default_factory=RememberedFiles)
    watched: WatchedNames = field(default_factory=lambda: WatchedNames(()))
    reserved_until: float = 0.0
    arrivals: DirectoryWatch | None = None
    undone: list[PutAside] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # for whoever comes first
    made: NewRepositories | None = None
    closing: bool = False
    proxy: NetworkProxy | None = None
    visitors: int = 0  # commands in it that have a keeper of their own

    @property
    def empty(self) -> bool:
        """Whether nothing runs in it."""
        return self.link.idle and not self.visitors

    @property
    def current(self) -> bool:
        """Whether it still guards what it was made to. If not, no further command is let in."""
        return self.held.unchanged and (self.proxy is None or self.proxy.alive)

    def dismiss(self) -> None:
        """Let its keeper go, and with it everybody who is still there."""
        self.link.dismiss()
        if self.proxy is not None:
            self.proxy.close()

    def networked(
        self, listen: Callable[[LeashWord], None], *, forward: bool
    ) -> tuple[Callable[[LeashWord], None], Callable[[LeashedProcess], LeashedProcess]]:
        """For a command that is about to start: who listens to its leash, and who is to be given
        its process, so that its ports are forwarded and its refused hosts told.
        """
        ports = PortForwards(self.link, enabled=forward, ours=(PROXY_PORT,) if self.proxy else ())
        if self.proxy is None:
            return ports.closing(listen), ports.attached
        hear, noted = self.proxy.serving(ports.closing(listen))
        return hear, lambda process: noted(ports.attached(process))

    def undo_forbidden(self) -> None:
        """Undo what must not stay, and remember it."""
        self.undone += self.watched.put_aside()

    def free(self) -> None:
        """Give back what it needed; nobody is in it any more."""


R = TypeVar("R", bound=Sandbox)


class SandboxPool(Generic[R]):
    """Every room of a provider. `kind` is what people call one; `more` is how to show it more."""

    def __init__(self, kind: str, more: str, idle: float) -> None:
        self._kind = kind
        self._more = more
        self._idle = idle
        self._rooms: dict[Path, R] = {}
        self._named: dict[str, R] = {}  # the same, as calls have named them
        self._left: list[R] = []  # dead or dismissed, perhaps with leashes

    def by_name(self, workspace: str) -> R | None:
        """The one that was made for this name. What a link means was settled then."""
        return self._usable(self._named.get(workspace))

    def by_path(self, place: Path, workspace: str) -> R | None:
        """The one of that directory, which goes by this name, too, from now on."""
        room = self._usable(self._rooms.get(place))
        if room is not None:
            self._named[workspace] = room
        return room

    def _usable(self, room: R | None) -> R | None:
        if room is None or not room.link.serves:
            return None
        if not room.current or room.link.doubtful:
            self._stop_admitting(room)
            return None
        return room

    def reserve(self, room: R) -> None:
        """Keep it for a command that is about to come, though others in it end."""
        room.reserved_until = asyncio.get_running_loop().time() + _RESERVED
        self.release(room)

    def reserved(self, workspace: str) -> R | None:
        """The one that was made ready for this name, if it is still there.

        What changes in the workspace from then on could as well change after the start.
        """
        room = self._named.get(workspace)
        if room is None or asyncio.get_running_loop().time() >= room.reserved_until:
            return self._usable(room)
        return room if room.link.serves else None

    def replace(self, place: Path) -> None:
        """Another is to be made there; what is over is forgotten."""
        if place in self._rooms:
            self._left.append(self._rooms.pop(place))
        over = [one for one in self._left if one.empty and not one.link.alive]
        self._left = [one for one in self._left if one not in over]
        for room in over:
            _leave(room)

    @property
    def stopping(self) -> tuple[R, ...]:
        """Those that let nobody in any more, and are still there."""
        return tuple(one for one in self._left if one.link.alive)

    def add(self, room: R, workspace: str) -> R:
        """It is the one of its place now."""
        self._rooms[room.place] = self._named[workspace] = room
        linked = hard_linked(room.place)
        room.notes += [] if linked is None else [_HARD_LINKED.format(linked)]
        if room.watched.directories:
            room.arrivals = DirectoryWatch(room.watched.directories, partial(self._look, room))
        return room

    def add_single(self, room: R) -> R:
        """One that nobody else finds: it is let go as soon as nothing runs in it."""
        self._left.append(room)
        return room

    async def close_single(self, room: R) -> None:
        """End everything in one that nobody else finds, and prove it."""
        if room in self._left:
            self._left.remove(room)
            await _close(room)

    @contextmanager
    def entered(
        self,
        room: R,
        prepared: Prepared,
        env: Mapping[str, str],
        listen: Callable[[LeashWord], None],
    ) -> Iterator[tuple[Prepared, Callable[[LeashWord], None]]]:
        """Within this it is spawned: what to spawn there, with the variables that make sense there,
        and who listens.

        Raises: CannotStart, and then nothing was started.
        """
        cwd = os.path.realpath(prepared.cwd)
        if not any(f"{cwd}/".startswith(f"{root}/") for root in room.visible):
            raise CannotStart(
                f"{cwd} is not to be seen in the {self._kind}, whose workspace is {room.place}:"
                f" run it there, or {self._more}"
            )
        if prepared.directory is not None and file_identity(cwd) != prepared.directory:
            raise CannotStart(f"{cwd} {OTHER_DIRECTORY}")
        # Inside, its numbers need not be those it has here.
        inside = replace(prepared, cwd=cwd, env=env, directory=None)
        try:
            yield inside, self._hearing(room, listen)
        except CannotStart as error:
            if room.link.serves:
                raise
            raise CannotStart(f"its {self._kind} ended just then: run it again") from error
        _cancel(room)
        notes, room.notes = room.notes, []
        for note in notes:
            listen(Noted(note))

    def _hearing(self, room: R, listen: Callable[[LeashWord], None]) -> Callable[[LeashWord], None]:
        open_end, since = True, len(room.undone)

        def hear(word: LeashWord) -> None:
            nonlocal open_end
            by_itself = isinstance(word, Exited) and not os.WIFSIGNALED(word.wait_status)
            open_end = open_end and not isinstance(word, Failed) and not by_itself
            over = open_end and isinstance(word, Gone | Lost) and not room.closing
            if over and not room.link.serves:
                listen(Noted(f"its {self._kind} ended while it ran"))
            if isinstance(word, Gone | Lost):
                room.undo_forbidden()
                for note in _notes(room.undone[since:]):
                    listen(Noted(note, undone=True))
                for note in room.made.look() if room.made is not None else ():
                    listen(Noted(note))
            listen(word)
            if isinstance(word, Gone | Lost):
                self.release(room)

        return hear

    def release(self, room: R) -> None:
        """Nobody needs it now; before long it is let go, and at once if nobody may come."""
        _cancel(room)
        if not room.link.alive or not room.empty:
            return
        if self._rooms.get(room.place) is room:
            loop = asyncio.get_running_loop()
            wait = max(self._idle, room.reserved_until - loop.time())
            room.idle = loop.call_later(wait, self._dismiss, room)
        else:
            room.dismiss()

    def _look(self, room: R) -> None:
        """Something has come, perhaps what must not stay. Who does not give up is stopped."""
        room.undo_forbidden()
        if len(room.undone) >= _TOO_OFTEN:
            self.expel(room)

    def expel(self, room: R) -> None:
        """End everybody in it; whoever comes next gets another, also while it is about to end."""
        if self._rooms.get(room.place) is room:
            self._stop_admitting(room)
        room.dismiss()

    def _dismiss(self, room: R) -> None:
        if room.empty and self._rooms.get(room.place) is room:
            self._stop_admitting(room)

    def _stop_admitting(self, room: R) -> None:
        """Let nobody in any more; who is in it may stay to his end."""
        _cancel(room)
        self._left.append(self._rooms.pop(room.place))
        self._named = {name: one for name, one in self._named.items() if one is not room}
        if room.empty:
            room.undo_forbidden()
            room.dismiss()

    async def close(self) -> None:
        """End everything in them, and prove it."""
        everything = [*self._rooms.values(), *self._left]
        self._rooms, self._named, self._left = {}, {}, []
        for room in everything:
            await _close(room)


async def _close(room: Sandbox) -> None:
    room.closing = True
    _cancel(room)
    await room.link.close()
    _leave(room)


def _notes(undone: list[PutAside]) -> Iterator[str]:
    renamed = dict.fromkeys(str(one.path) for one in undone if not one.problem)
    if renamed:
        yield _UNDONE.format(", ".join(renamed))
    for path, problem in dict.fromkeys((one.path, one.problem) for one in undone if one.problem):
        yield _NOT_UNDONE.format(path, problem)


def _leave(room: Sandbox) -> None:
    room.undo_forbidden()
    room.watched.close()
    if room.arrivals is not None:
        room.arrivals.close()
    if room.proxy is not None:
        room.proxy.close()
    room.free()


def _cancel(room: Sandbox) -> None:
    if room.idle is not None:
        room.idle.cancel()
        room.idle = None
