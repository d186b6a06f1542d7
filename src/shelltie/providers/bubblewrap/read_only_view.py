"""Read-only view (bwrap): this machine as it is, where nothing can be written, sent or disclosed.

What is rated safe runs here, so that a wrong rating does no harm. One view lives for each set of
needs, with a keeper as its first process: to make one is dear, the next command in it is not.
"""

import asyncio
import contextlib
import os
import platform
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

from shelltie.environment.secret_places import HOME, SYSTEM
from shelltie.errors import CannotStart
from shelltie.keeper.binaries import choose
from shelltie.keeper.link import Link
from shelltie.keeper.protocol import Gone, LeashWord, Lost
from shelltie.model import Bar, Isolation
from shelltie.providers.bubblewrap.provider import explain, find_bwrap
from shelltie.providers.policies import SandboxPolicy
from shelltie.providers.pool import answers
from shelltie.providers.provider import Needs, Prepared
from shelltie.providers.spawn import LeashedProcess, spawn
from shelltie.providers.workspace.guards import RememberedFiles

_SCRATCH = "/dev/shm"  # noqa: S108  inside, where it belongs to nobody else
_INSTRUCTION = struct.Struct("=HBBI")
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_EACCES, _ENOSYS = 13, 38
_X32 = 0x40000000
# The number of an architecture, and of socket, add_key, request_key, keyctl and io_uring_setup.
_CALLS = {
    "x86_64": (0xC000003E, (41, 248, 249, 250, 425)),
    "aarch64": (0xC00000B7, (198, 217, 218, 219, 425)),
}


@dataclass(slots=True)
class _View:
    """One that lives, with what its masks were made for.

    `directories` are those in which something to mask could appear, with the time of their last
    change: as long as that is the same, nothing has to be looked for.
    """

    link: Link
    held: RememberedFiles
    complaints: BinaryIO
    answered: bool = False
    idle: asyncio.TimerHandle | None = None
    directories: dict[str, int] = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        """Whether it masks everything that there is to mask now."""
        return self.link.serves and not self.link.doubtful and self._masks_all

    @property
    def _masks_all(self) -> bool:
        if self.directories and all(_changed(it) == at for it, at in self.directories.items()):
            return True
        # Before the look: what changes while it lasts is noticed next time.
        self.directories = {it: _changed(it) for it in _parents(self.held.known)}
        return self.held.unchanged


class ReadOnlyViews:
    """All views of a server. `enter` gives the one for these needs, as a provider that is ready."""

    def __init__(self, policy: SandboxPolicy, keeper: str | None = None) -> None:
        self._policy = policy
        self._argv, self._kind = choose(keeper)
        self._views: dict[Needs, _View] = {}
        self._left: list[_View] = []  # used no more, perhaps with leashes
        named = (*(policy.home / name for name in HOME), *map(Path, SYSTEM), *policy.private)
        self._masks = tuple(dict.fromkeys(named))
        self._masked = tuple(f"{os.path.realpath(mask)}/" for mask in self._masks)

    async def enter(self, needs: Needs, cwd: str) -> "ReadOnlyView":
        """The view for these needs.

        Raises: CannotStart, which says why there is none.
        """
        if self._hides(cwd):
            raise CannotStart(f"{cwd} is masked in the read-only view, as credentials are")
        view = self._usable(needs) or self._made(needs)
        if not view.answered and not await answers(view.link):
            view.complaints.seek(0)
            said = view.complaints.read().decode("utf-8", "replace").strip()
            if self._views.get(needs) is view:
                self._leave(needs)
            raise CannotStart(f"bubblewrap cannot make a read-only view: {explain(said)}")
        view.answered = True
        return ReadOnlyView(self, needs)

    def spawn(
        self, needs: Needs, prepared: Prepared, listen: Callable[[LeashWord], None]
    ) -> LeashedProcess:
        """See `Provider`; a view that ended since it was entered is made anew."""
        view = self._views.get(needs)
        if view is None or not view.link.serves:
            view = self._usable(needs) or self._made(needs)
        if view.idle is not None:
            view.idle.cancel()

        def hear(word: LeashWord) -> None:
            listen(word)
            if isinstance(word, Gone | Lost):
                self._rest(view)

        env = {**prepared.env, "TMPDIR": _SCRATCH, "GIT_OPTIONAL_LOCKS": "0"}
        return spawn(view.link, replace(prepared, env=env), hear)

    async def close(self) -> None:
        """End everything in them, and prove it."""
        everything = [*self._views.values(), *self._left]
        self._views, self._left = {}, []
        for view in everything:
            if view.idle is not None:
                view.idle.cancel()
            await view.link.close()
            view.complaints.close()

    def _hides(self, directory: str) -> bool:
        return f"{os.path.realpath(directory)}/".startswith(self._masked)

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
            view.link.dismiss()

    def _rest(self, view: _View) -> None:
        """Let it go when nobody has used it for long, or at once if nobody may come."""
        if not view.link.idle:
            return
        needs = next((needs for needs, one in self._views.items() if one is view), None)
        if needs is None:
            view.link.dismiss()
            return
        if view.idle is not None:
            view.idle.cancel()
        loop = asyncio.get_running_loop()
        view.idle = loop.call_later(self._policy.settings.idle, self._end_idle, needs, view)

    def _end_idle(self, needs: Needs, view: _View) -> None:
        if self._views.get(needs) is view and view.link.idle:
            self._leave(needs)

    def _made(self, needs: Needs) -> _View:
        over = [one for one in self._left if one.link.idle and not one.link.alive]
        self._left = [one for one in self._left if one not in over]
        for one in over:
            one.complaints.close()
        bwrap, held = find_bwrap(self._policy), RememberedFiles()
        with contextlib.closing(held), contextlib.ExitStack() as undo:
            complaints = undo.enter_context(tempfile.TemporaryFile())
            link = Link(
                [bwrap, *self._options(needs, held), "--", *self._argv],
                self._kind,
                contained=True,
                stderr=complaints.fileno(),
                passed=tuple(held.descriptors),
            )
            undo.pop_all()
        view = self._views[needs] = _View(link, held, complaints)
        return view

    def _options(self, needs: Needs, held: RememberedFiles) -> list[str]:
        """For bwrap, without the program."""
        options = ["--unshare-pid", "--unshare-ipc", "--die-with-parent", "--as-pid-1"]
        # Root needs no namespace of users, and without one every owner keeps its name.
        options += () if os.geteuid() == 0 else ("--unshare-user",)
        options += ("--cap-drop", "ALL")
        if "network" not in needs:
            barred = refused_calls(platform.machine())
            options += ("--unshare-net",)
            options += () if barred is None else ("--seccomp", str(held.content(barred)))
        options += ("--ro-bind", "/", "/", "--dev", "/dev")
        options += ("--proc", "/proc", "--remount-ro", "/proc")
        size = str(self._policy.settings.tmp_size)
        options += ("--size", size, "--perms", "1777", "--tmpfs", _SCRATCH, "--remount-ro", "/dev")
        for place in self._masks:
            options += _masked(place, held)
        return options


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


def _parents(paths: Iterable[str]) -> Iterator[str]:
    """The directory of each, or the nearest above that is there."""
    for place in dict.fromkeys(map(os.path.dirname, paths)):
        while not os.path.isdir(place):  # noqa: PTH112  of a text
            place = os.path.dirname(place)  # noqa: PTH120, PLW2901
        yield place


def _changed(directory: str) -> int:
    try:
        return os.stat(directory).st_mtime_ns  # noqa: PTH116  of a text
    except OSError:
        return -1


def _masked(place: Path, held: RememberedFiles) -> Iterator[str]:
    """In its stead there is something that nobody may open."""
    real = Path(os.path.realpath(place))
    held.note((place, real))
    with contextlib.suppress(OSError):
        if real.is_dir():
            yield from ("--perms", "0000", "--tmpfs", str(real), "--remount-ro", str(real))
        elif real.exists():
            empty = str(held.content(b""))
            yield from ("--perms", "0000", "--ro-bind-data", empty, str(real))


def refused_calls(machine: str) -> bytes | None:
    """A seccomp filter that refuses sockets of every kind, the kernel's keys, and io_uring.

    `None` for a machine we do not know: there only the network itself is missing.
    """
    if machine not in _CALLS:
        return None
    architecture, calls = _CALLS[machine]
    program = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _REFUSE | _ENOSYS),
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _REFUSE | _ENOSYS),
        *((_EQUAL, len(calls) - at, 0, call) for at, call in enumerate(calls)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE | _EACCES),
    ]
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in program)
