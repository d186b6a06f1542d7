"""TrialRun, OverlaidRun: providers of one command; and trials, imported when one is used.

What reads, shows and applies changes is much code: few processes need it.
"""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import Any, Protocol

import anyio

from shelltie.basics.frozen import frozen
from shelltie.keeper.protocol import Noted
from shelltie.model import Command, Isolation, Outcome, RunId
from shelltie.providers.provider import Provider
from shelltie.running.options import Requester
from shelltie.verdict import Verdict


@frozen
class TrialReport:
    """What a command on trial has changed, in lines. `status` is open until that is applied or
    discarded; `objections` are why a person must look at it first, `tried` what it wanted outside.
    """

    id: str
    status: str
    summary: str
    changes: tuple[str, ...]
    objections: tuple[str, ...]
    folder: str
    tried: str = ""


class TrialRun:
    """A provider for one command on trial; see `Provider`. `by_rule` says that its changes are
    applied by themselves where the rules allow it.
    """

    isolation = Isolation.SANDBOX

    def __init__(
        self, trial_id: str, place: Provider, requester: Requester, *, by_rule: bool
    ) -> None:
        self.id = trial_id
        self.name = place.name
        self.bars = place.bars
        self.spawn = place.spawn
        self.close = place.close
        self.requester = requester
        self.by_rule = by_rule
        self.report: TrialReport | None = None  # when it is over
        self.tried = ""  # outside, where nothing let it
        self.held = contextlib.ExitStack()  # its lock
        self.finishing = anyio.Lock()

    async def ready(self, workspace: str) -> None:
        """See `Provider`."""


class OverlaidRun:
    """A provider for one command in a sandbox, whose writes are applied when it has ended; see
    `Provider`. `settle` does that, given its exit code if it came to its end, and then calls what
    it is given with what there is to tell; `abandon` is for one that was never started.
    """

    isolation = Isolation.SANDBOX

    def __init__(
        self,
        place: Provider,
        *,
        settle: Callable[[int | None, Callable[[Sequence[Noted]], None]], None],
        abandon: Callable[[], Awaitable[None]],
    ) -> None:
        self.name = place.name
        self.bars = place.bars
        self.spawn = place.spawn
        self.close = place.close
        self.settle = settle
        self.abandon = abandon

    async def ready(self, workspace: str) -> None:
        """See `Provider`."""


class AskPerson(Protocol):
    """Asks a person about a command; raises CommandDenied where they do not say yes."""

    async def __call__(
        self, run: RunId, command: Command, verdict: Verdict, requester: Requester
    ) -> None: ...


class LazyTrials:
    """Stands for `Trials`, which `make` imports and makes with what asks a person."""

    def __init__(self, make: Callable[[AskPerson], Any]) -> None:
        self._make = make
        self.ask: AskPerson | None = None

    @cached_property
    def loaded(self) -> Any:  # noqa: ANN401  what it is, only its module knows
        """The trials themselves."""
        assert self.ask is not None  # whoever admits commands asks
        return self._make(self.ask)

    async def open(
        self, run: RunId, command: Command, workspace: str, requester: Requester, *, by_rule: bool
    ) -> TrialRun:
        """See `Trials`."""
        made: TrialRun = await self.loaded.open(run, command, workspace, requester, by_rule=by_rule)
        return made

    async def open_overlaid(self, run: RunId, command: Command, workspace: str) -> OverlaidRun:
        """See `SandboxWrites.open`."""
        made: OverlaidRun = await self.loaded.writes.open(run, command, workspace)
        return made

    def note_end(self, made: TrialRun, outcome: Outcome) -> None:
        """See `Trials`."""
        self.loaded.note_end(made, outcome)

    def settle(self, made: TrialRun) -> None:
        """See `Trials`."""
        self.loaded.settle(made)

    async def abandon(self, made: TrialRun) -> None:
        """See `Trials`."""
        await self.loaded.abandon(made)

    async def finish(self, made: TrialRun, outcome: Outcome) -> None:
        """See `Trials`."""
        await self.loaded.finish(made, outcome)

    async def close(self) -> None:
        """See `Trials`."""
        if "loaded" in self.__dict__:
            await self.loaded.close()
