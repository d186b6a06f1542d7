"""Read-only view (bwrap): this machine as it is, where nothing can be written, sent or disclosed.

What is rated safe runs here, so that a wrong rating does no harm. One view lives for each set of
needs, with a keeper as its first process: to make one is dear, the next command in it is not.
"""

import asyncio
import contextlib
import os
import socket
import stat
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import BinaryIO

import anyio

from shelltie.basics.frozen import frozen, mutable, replace
from shelltie.environment.masked_places import IN_HOME, IN_SYSTEM
from shelltie.errors import CannotStart
from shelltie.keeper.binaries import choose
from shelltie.keeper.link import Link
from shelltie.keeper.protocol import Exited, Failed, Gone, LeashWord, Lost, Noted
from shelltie.model import Bar, Isolation
from shelltie.providers.bubblewrap import docker_socket
from shelltie.providers.bubblewrap.bwrap import explain, find_bwrap
from shelltie.providers.bubblewrap.find_project_secrets import is_tracked, places_around, secrets_in
from shelltie.providers.bubblewrap.mounts import OPTIONAL
from shelltie.providers.loopback_forward import LoopbackForward, LoopbackForwards
from shelltie.providers.policies import SandboxPolicy
from shelltie.providers.provider import DOCKER, LOOPBACK, Needs, Prepared
from shelltie.providers.spawn import LeashedProcess, answers, spawn
from shelltie.providers.workspace.guards import RememberedFiles

_ENDED = "the read-only view in which it ran, as what is rated safe does, ended meanwhile"
_ZEROED_MAX = 256  # files of projects
_ZEROS_MAX = 1024 * 1024  # bytes of one
_TRIES = 8  # an older bwrap names one option at a time; a file to mask may be replaced just then
_TRIED_AGAIN = 60.0  # seconds, where bwrap could make no view
_SCRATCH = "/dev/shm"  # noqa: S108  inside, where it belongs to nobody else
_INSTRUCTION = struct.Struct("=HBBI")
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_EACCES, _ENOSYS = 13, 38
_X32 = 0x40000000
_FAMILY = 16  # where the first argument of a call is, on machines that begin with the low bytes
_DOCKER_PORT = 2375  # inside, as usual
# What the user has configured is masked, as there are passwords in it.
_FOR_DOCKER = {
    "DOCKER_HOST": f"tcp://127.0.0.1:{_DOCKER_PORT}",
    "DOCKER_CONFIG": f"{_SCRATCH}/docker",
}
# The number of an architecture, and of socket, add_key, request_key, keyctl and io_uring_setup.
_CALLS = {
    "x86_64": (0xC000003E, (41, 248, 249, 250, 425)),
    "aarch64": (0xC00000B7, (198, 217, 218, 219, 425)),
}


@mutable
class _View:
    """One that lives, with what its masks were made for.

    `changed_at` are the directories in which something to mask could appear, with the time of
    their last change, and `names` what could: as long as that time is the same, it has not to be
    looked for.
    """

    link: Link
    held: RememberedFiles
    masked: tuple[str, ...]
    complaints: BinaryIO
    answered: bool = False
    forwards: LoopbackForwards = field(default_factory=LoopbackForwards)
    idle: asyncio.TimerHandle | None = None  # one for many commands
    free_since: float = 0.0
    changed_at: dict[str, int] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)

    @property
    def said(self) -> str:
        """What bwrap, or the keeper in it, complained of."""
        self.complaints.seek(0)
        return self.complaints.read().decode("utf-8", "replace").strip()

    def dismiss(self) -> None:
        """Nobody is in it, and nobody comes any more."""
        self.forwards.close()
        self.link.dismiss()

    @property
    def usable(self) -> bool:
        """Whether it masks everything that there is to mask now."""
        return self.link.serves and not self.link.doubtful and self._masks_all

    @property
    def _masks_all(self) -> bool:
        if not self.changed_at:
            return self._masks(self.held.known)
        now = dict(zip(self.changed_at, map(_changed, self.changed_at), strict=True))
        if now == self.changed_at:  # as it nearly always is, and each safe command asks
            return True
        changed = [it for it, at in now.items() if self.changed_at[it] != at]
        for it in changed:
            del self.changed_at[it]
        return self._masks([name for it in changed for name in self.names.pop(it)])

    def _masks(self, names: Iterable[str]) -> bool:
        """Whether these are as they were, which is remembered."""
        for name in names:
            parent = _parent(name)
            # Before the look: what changes while it lasts is noticed next time.
            if parent not in self.changed_at:
                self.changed_at[parent], self.names[parent] = _changed(parent), []
            self.names[parent].append(name)
        return self.held.unchanged_among(names)


@frozen
class _Refusal:
    """Why there is no view, which counts for a while: to find it out may take seconds."""

    why: str
    until: float


class ReadOnlyViews:
    """All views of a server. `enter` gives the one for these needs, as a provider that is ready."""

    def __init__(self, policy: SandboxPolicy, keeper: str | None = None) -> None:
        self._policy = policy
        self._argv, self._kind = choose(keeper)
        self._views: dict[Needs, _View] = {}
        self._left: list[_View] = []  # used no more, perhaps with leashes
        self._lacking: set[str] = set()  # options that this bwrap does not know
        self._refused: dict[Needs, _Refusal] = {}
        self._making = anyio.Lock()
        self._closing = False
        named = (
            *(f"{policy.home}/{name}" for name in IN_HOME),
            *IN_SYSTEM,
            *map(str, policy.private),
        )
        self._masks = tuple(dict.fromkeys(named))
        self._looked: tuple[tuple[str, ...], list[int]] = ((), [])  # where, and as of when
        self._zeroed: dict[str, bool] = {}  # what was seen in projects, and whether it is masked

    async def enter(self, needs: Needs, cwd: str) -> "ReadOnlyView | None":
        """The view for these needs; `None` where what it should lead to is not there.

        Raises: CannotStart, which says why there is none.
        """
        if needs and not await self._can_lead_out(needs):
            return None
        place = self._note_secrets(cwd)
        view = self._usable(needs)
        if view is None or not view.answered:
            view = await self._answering(needs)
        if f"{place}/".startswith(view.masked):
            raise CannotStart(f"{cwd} is masked in the read-only view, as credentials are")
        return ReadOnlyView(self, needs)

    async def _answering(self, needs: Needs) -> _View:
        """One that works: what was found out by one call counts for those that wait meanwhile."""
        async with self._making:
            refused, now = self._refused.get(needs), asyncio.get_running_loop().time()
            if refused is not None and now < refused.until:
                raise CannotStart(refused.why)
            said = ""
            for _ in range(_TRIES):
                view = self._usable(needs) or self._made(needs)
                if view.answered or await self._opened(view, needs):
                    view.answered = True
                    return view
                said, changed = view.said, not view.held.unchanged
                self._leave(needs)
                lacking = {one for one in OPTIONAL if f"Unknown option {one}" in said}
                if not changed and not lacking - self._lacking:
                    break
                self._lacking |= lacking
            why = f"bubblewrap cannot make a read-only view: {explain(said)}"
            self._refused[needs] = _Refusal(why, now + _TRIED_AGAIN)
            raise CannotStart(why)

    async def _opened(self, view: _View, needs: Needs) -> bool:
        """Whether it works, with the ports that lead out of it."""
        if not await answers(view.link):
            return False
        try:
            for forward in self._forwards(needs):
                await view.forwards.open(view.link, forward)
        except OSError as error:
            raise CannotStart(f"no port of a read-only view leads out: {error}") from error
        return True

    async def _can_lead_out(self, needs: Needs) -> bool:
        """Whether what is needed is there, and where programs look for it."""
        policy = self._policy
        if DOCKER in needs and docker_socket.is_elsewhere(policy.docker, policy.home):
            return False
        forwards = [*self._forwards(needs)]
        if forwards and "network" in needs:  # a port inside would be one of this machine
            return False
        return all([await forward.answers() for forward in forwards])

    def _forwards(self, needs: Needs) -> Iterator[LoopbackForward]:
        for need in needs:
            if need.startswith(LOOPBACK):
                yield LoopbackForward(int(need.removeprefix(LOOPBACK)))
        if DOCKER in needs:
            yield LoopbackForward(_DOCKER_PORT, self._policy.docker)

    def spawn(
        self, needs: Needs, prepared: Prepared, listen: Callable[[LeashWord], None]
    ) -> LeashedProcess:
        """See `Provider`; a view that ended since it was entered is made anew."""
        view = self._views.get(needs)
        if view is None or not view.link.serves:
            view = self._usable(needs) or self._made(needs)

        ended = False  # by itself, or because it was told to

        def hear(word: LeashWord) -> None:
            nonlocal ended
            ended = ended or self._closing or isinstance(word, Exited | Failed)
            if isinstance(word, Gone | Lost) and not ended and not view.link.serves:
                listen(Noted(_ENDED))
            listen(word)
            if isinstance(word, Gone | Lost):
                self._rest(needs, view)

        env = {**prepared.env, "TMPDIR": _SCRATCH, "GIT_OPTIONAL_LOCKS": "0"}
        env |= _FOR_DOCKER if DOCKER in needs else {}
        return spawn(view.link, replace(prepared, env=env), hear)

    async def close(self) -> None:
        """End everything in them, and prove it."""
        self._closing = True
        everything = [*self._views.values(), *self._left]
        self._views, self._left = {}, []
        for view in everything:
            if view.idle is not None:
                view.idle.cancel()
            view.forwards.close()
            await view.link.close()
            view.complaints.close()

    def _note_secrets(self, directory: str) -> str:
        """Mask the project's own from now on, in views that are yet to be made.

        What the directory is without links.
        """
        real = _without_links(directory)
        places = places_around(real)
        if self._looked == (looked := (places, [*map(_changed, places)])):
            return real
        self._looked = looked
        for path in secrets_in(places):
            if path not in self._zeroed:
                if len(self._zeroed) >= _ZEROED_MAX:
                    self._zeroed.pop(next(iter(self._zeroed)))
                self._zeroed[path] = not is_tracked(path)
                for needs in tuple(self._views) if self._zeroed[path] else ():
                    self._leave(needs)
        return real

    def _usable(self, needs: Needs) -> _View | None:
        view = self._views.get(needs)
        if view is None or view.usable:
            return view
        self._leave(needs)
        return None

    def _leave(self, needs: Needs) -> None:
        """Nobody comes in any more; who is in it stays to his end."""
        view = self._views.pop(needs)
        self._left.append(view)
        if view.link.idle:
            view.dismiss()

    def _rest(self, needs: Needs, view: _View) -> None:
        """Let it go when nobody has used it for long, or at once if nobody may come."""
        if not view.link.idle:
            return
        if self._views.get(needs) is not view:
            view.dismiss()
            return
        loop = asyncio.get_running_loop()
        view.free_since = loop.time()
        if view.idle is None:  # else it looks itself how long that was
            idle = self._policy.settings.idle
            view.idle = loop.call_later(idle, self._end_idle, needs, view)

    def _end_idle(self, needs: Needs, view: _View) -> None:
        view.idle = None
        if self._views.get(needs) is not view or not view.link.idle:
            return
        loop = asyncio.get_running_loop()
        left = view.free_since + self._policy.settings.idle - loop.time()
        if left > 0:
            view.idle = loop.call_later(left, self._end_idle, needs, view)
        else:
            self._leave(needs)

    def _made(self, needs: Needs) -> _View:
        over = [one for one in self._left if one.link.idle and not one.link.alive]
        self._left = [one for one in self._left if one not in over]
        for one in over:
            one.complaints.close()
        bwrap, held = find_bwrap(self._policy), RememberedFiles()
        with contextlib.closing(held), contextlib.ExitStack() as undo:
            masked = tuple(self._existing(held))
            complaints = undo.enter_context(os.fdopen(os.memfd_create("complaints"), "w+b"))
            link = Link(
                [bwrap, *self._options(needs, masked, held), "--", *self._argv],
                self._kind,
                contained=True,
                stderr=complaints.fileno(),
                passed=tuple(held.descriptors),
            )
            undo.pop_all()
        hidden = tuple(f"{place}/" for place in masked)
        view = self._views[needs] = _View(link, held, hidden, complaints)
        return view

    def _existing(self, held: RememberedFiles) -> Iterator[str]:
        """What there is to mask; what comes later is noticed by its name."""
        held.note(map(Path, self._masks))
        for place in self._masks:
            if held.known[place] is not None:
                real = os.path.realpath(place)
                held.note((Path(real),))
                yield real

    def _options(self, needs: Needs, masked: Iterable[str], held: RememberedFiles) -> list[str]:
        """For bwrap, without the program."""
        options = ["--unshare-pid", "--unshare-ipc", "--die-with-parent", "--as-pid-1"]
        # Root needs no namespace of users, and without one every owner keeps its name.
        options += () if os.geteuid() == 0 else ("--unshare-user",)
        options += ("--cap-drop", "ALL")
        if "network" not in needs:
            barred = refused_calls(os.uname().machine, ip=bool(needs))
            options += ("--unshare-net",)
            options += () if barred is None else ("--seccomp", str(held.content(barred)))
        options += ("--ro-bind", "/", "/", "--dev", "/dev")
        options += ("--proc", "/proc", "--remount-ro", "/proc")
        options += self._known("--size", str(self._policy.settings.tmp_size))
        options += (*self._known("--perms", "1777"), "--tmpfs", _SCRATCH, "--remount-ro", "/dev")
        for place in masked:
            options += self._mask(place, held)
        for place in (path for path, masks in self._zeroed.items() if masks):
            options += self._zero(place, held)
        return options

    def _mask(self, place: str, held: RememberedFiles) -> Iterator[str]:
        """In its stead there is something that cannot be opened."""
        closed = self._known("--perms", "0000")
        if os.path.isdir(place):  # noqa: PTH112  of a text
            yield from (*closed, "--tmpfs", place, "--remount-ro", place)
        elif closed:
            yield from (*closed, "--ro-bind-data", str(held.content(b"")), place)
        else:  # bwrap mounts it without the right to open devices
            yield from ("--ro-bind", os.devnull, place)

    def _zero(self, place: str, held: RememberedFiles) -> Iterator[str]:
        """As large as it is, and nothing but zeros: a search through the project goes on."""
        real = os.path.realpath(place)
        held.note((Path(place), Path(real)))
        with contextlib.suppress(OSError):
            status = os.stat(real)  # noqa: PTH116  of a text
            if not stat.S_ISREG(status.st_mode):
                return
            zeros = held.content(bytes(min(status.st_size, _ZEROS_MAX)))
            mode = f"{stat.S_IMODE(status.st_mode):04o}"
            yield from (*self._known("--perms", mode), "--ro-bind-data", str(zeros), real)

    def _known(self, option: str, value: str) -> tuple[str, ...]:
        return () if option in self._lacking else (option, value)


class ReadOnlyView:
    """A provider: commands run as they do without isolation, but nothing can be changed."""

    name = "local"
    isolation = Isolation.NONE

    def __init__(self, views: ReadOnlyViews, needs: Needs) -> None:
        self.bars = frozenset({Bar.WRITE, *(() if "network" in needs else (Bar.NETWORK,))})
        self.spawn = partial(views.spawn, needs)  # see `Provider`

    async def ready(self, workspace: str) -> None:
        """See `Provider`."""

    async def close(self) -> None:
        """See `Provider`. The views are closed together."""


def _parent(path: str) -> str:
    """The directory of a name, or the nearest above that is there."""
    place = os.path.dirname(path)  # noqa: PTH120  of a text
    while not os.path.isdir(place):  # noqa: PTH112
        place = os.path.dirname(place)  # noqa: PTH120
    return place


def _without_links(directory: str) -> str:
    """As `os.path.realpath`, which looks at every part of it, in three system calls."""
    try:
        place = os.open(directory, os.O_PATH | os.O_DIRECTORY)
        try:
            return os.readlink(f"/proc/self/fd/{place}")  # noqa: PTH115  of a text
        finally:
            os.close(place)
    except OSError:
        return os.path.realpath(directory)


def _changed(directory: str) -> int:
    try:
        return os.stat(directory).st_mtime_ns  # noqa: PTH116  of a text
    except OSError:
        return -1


def refused_calls(machine: str, *, ip: bool = False) -> bytes | None:
    """A seccomp filter that refuses the kernel's keys, io_uring, and sockets of every kind; with
    `ip` all but those of IP, which are in a network of their own.

    `None` for a machine we do not know: there only the network itself is missing.
    """
    if machine not in _CALLS:
        return None
    architecture, (sockets, *others) = _CALLS[machine]
    calls = others if ip else [sockets, *others]
    of_sockets = [
        (_EQUAL, 0, 4, sockets),
        (_LOAD, 0, 0, _FAMILY),
        (_EQUAL, len(calls) + 2, 0, socket.AF_INET),
        (_EQUAL, len(calls) + 1, 0, socket.AF_INET6),
        (_RETURN, 0, 0, _REFUSE | _EACCES),
    ]
    program = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _REFUSE | _ENOSYS),
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _REFUSE | _ENOSYS),
        *(of_sockets if ip else ()),
        *((_EQUAL, len(calls) - at, 0, call) for at, call in enumerate(calls)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE | _EACCES),
    ]
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in program)
