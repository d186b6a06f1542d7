"""SIGSTOP recovery: a stopped keeper is continued, and replaced if it is stopped for good.

Every process of the same user may stop a keeper. Then no command would start any more, and what a
dead leash left would not be swept. The kernel tells a parent of it by SIGCHLD alone, which is not
ours to handle in a library; so we look, as long as the keeper owes an answer.
"""

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from shelltie.keeper.pid_namespace import is_first

_LOOK = 0.5  # seconds between two looks
_STOPS_MAX = 4  # looks in a row at which it was stopped; then it is ended
GIVEN_UP = (
    "its keeper, the process that starts commands, was stopped again and again (SIGSTOP) and had to"
    " be ended: find who stops it, and run this again; there is a new one"
)
_CONTINUED = "its keeper had been stopped (SIGSTOP), and was continued"


class StoppableProcess(Protocol):
    """The process of a keeper, or of the program that put it into its namespaces."""

    pid: int

    def send_signal(self, number: int, /) -> None:
        """Send it a signal. Raises: OSError."""
        ...


class Debt(Protocol):
    """A command for which the keeper still has to do something."""

    def note(self, message: str) -> None:
        """Have the user of the command know something."""
        ...


class Creditor(Protocol):
    """Who waits for the keeper: its link."""

    contained: bool

    @property
    def owed(self) -> Sequence[Debt]:
        """Commands that the keeper has yet to start, to shoot or to sweep after."""
        ...

    @property
    def answering(self) -> set[int]:
        """The pids of the leashes that need no keeper for now."""
        ...

    def give_up(self, *, swept: bool) -> None:
        """The keeper cannot be continued. `swept`: and nobody is left whom it alone could end."""
        ...


class KeeperWatch:
    """Looks after one keeper while it owes something."""

    def __init__(self, keeper: StoppableProcess, creditor: Creditor) -> None:
        self._keeper = keeper
        self._creditor = creditor
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._stops = 0  # looks in a row at which it was stopped
        self._over = False

    def expect(self) -> None:
        """Something was asked of it. Who runs does not notice SIGCONT; keepers block it."""
        if self._over:
            return
        with suppress(OSError):  # the keeper of a container may be another user's
            self._keeper.send_signal(signal.SIGCONT)
        if self._timer is None:
            self._timer = self._loop.call_later(_LOOK, self._look)

    def close(self) -> None:
        """The keeper is dead, or whether it is stopped does not matter any more."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        owed = self._creditor.owed
        stopped = self._stopped() if owed else []
        self._stops = self._stops + 1 if stopped else 0
        if self._stops == 1:
            for debt in owed:
                debt.note(_CONTINUED)
        if self._stops > _STOPS_MAX and self._ended():
            return
        for pid in stopped:
            if pid != self._keeper.pid:
                with suppress(OSError):
                    os.kill(pid, signal.SIGCONT)
        if owed:
            self.expect()

    def _stopped(self) -> list[int]:
        pids = [self._keeper.pid]
        if self._creditor.contained:  # the keeper may be a child of the program that put it there
            pids += filter(is_first, _living_children(self._keeper.pid) or ())
        return [pid for pid in pids if _state(pid) in (b"T", b"t")]

    def _ended(self) -> bool:
        """Whether the keeper could be ended; first come those whom it alone could have ended.

        These are its children that are no leashes which answer. A keeper that is stopped reaps
        nobody, so that their pids are not used again, and no stranger is hit. Of those who become
        its children by that we hear at the next look.
        """
        children = None if self._creditor.contained else _living_children(self._keeper.pid)
        orphans = set(children or ()) - self._creditor.answering
        for pid in orphans:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not orphans:
            self._creditor.give_up(swept=children is not None)
        return not orphans


def _living_children(pid: int) -> list[int] | None:
    """Of a process with one thread; `None` where the kernel does not tell, as on macOS."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:  # noqa: PTH123  no disk
            children = [int(word) for word in file.read().split()]
    except OSError:
        return None
    return [child for child in children if _state(child) not in (b"Z", b"X", b"")]


def _state(pid: int) -> bytes:
    """The letter of proc(5), nothing if it is gone or cannot be seen."""
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123  no disk
        return file.read().rpartition(b")")[2].split()[0]  # the name may contain anything
    return b""
