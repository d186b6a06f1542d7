"""Ports of the engine (what it wants of others), and the event bus (publish/subscribe)."""

import logging
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from shelltie.events import Event, Publish, RunLost
from shelltie.model import Command, PastSession, RunId, Sample
from shelltie.output.store import Store
from shelltie.verdict import Verdict


class CommandJudge(Protocol):
    """Who rates commands. `look` looks at the text alone; what it calls safe has to be confirmed
    by a second parser and a look at the disk; `judge` does both;
    `judge_elsewhere` is for another machine, where nothing can be looked at.
    """

    async def look(self, command: Command) -> Verdict: ...

    async def confirm(self, command: Command, verdict: Verdict) -> Verdict: ...

    async def judge(self, command: Command) -> Verdict: ...

    async def judge_elsewhere(self, command: Command) -> Verdict: ...

    async def close(self) -> None: ...


class OutputFactory(Protocol):
    """Where the output of a run is kept; of one that `stays` open, so that it can be read later;
    if it `outlives` us, so that whoever holds it next goes on there.

    `secrets` are values that may not be kept where the settings say so, by their names.
    """

    def __call__(
        self, run: RunId, *, stays: bool, outlives: bool, secrets: Mapping[str, str]
    ) -> Store: ...


class Record(Protocol):
    """Who writes down what the bus tells."""

    async def flush(self) -> str | None:
        """Wait until what was told so far is written; or say why it cannot be.

        Raises: JournalBroken if nothing may run without a record.
        """

    async def lost(self, client: str) -> list[RunLost]:
        """What ran for this client, lately, in servers that died; the newest first."""

    async def lost_one(self, name: str, client: str) -> RunLost | None:
        """The lost run or session of this client with that id, however old."""

    async def past_session(self, session: str, client: str) -> PastSession | None:
        """What became of the session of this client with that id."""

    async def close(self) -> None:
        """Write the rest, and leave."""


class Memory(Protocol):
    """Who remembers how long commands took."""

    async def recall(self, shape: str, cwd: str) -> tuple[str, Sequence[Sample]]:
        """The project of that directory, and runs of that shape in it, the last one last."""


class Measures(Protocol):
    """What is counted and measured, for whoever shows it."""

    def text(self) -> str:
        """In the words of Prometheus."""

    def to_json(self) -> list[dict[str, object]]:
        """The same, for another process that puts several together."""

    def health(self) -> list[dict[str, object]]:
        """Every figure that has a threshold, and whether it is well."""


_log = logging.getLogger(__name__)
Kinds = AbstractSet[type]  # of events


class Bus:
    """One for each supervisor, on its event loop. Who listens must be quick."""

    def __init__(self) -> None:
        self._listeners: tuple[tuple[Publish, Kinds], ...] = ()
        self._by_kind: dict[type, tuple[Publish, ...]] = {}

    def publish(self, event: Event) -> None:
        """Tell whoever wants to hear it. Who fails at it keeps it from nobody else."""
        kind = type(event)
        listeners = self._by_kind.get(kind)
        if listeners is None:
            of = {*kind.__mro__}
            listeners = tuple(it for it, kinds in self._listeners if not kinds or kinds & of)
            self._by_kind[kind] = listeners
        for listen in listeners:
            try:
                listen(event)
            except Exception:  # noqa: BLE001  anybody's code
                _log.exception("somebody who was told of %s failed", type(event).__name__)

    def subscribe(self, listen: Publish, kinds: Kinds = frozenset()) -> Callable[[], None]:
        """Tell this one, too, from now on, of these events or of all; what is returned ends it."""
        self._listeners = (*self._listeners, (listen, kinds))
        self._forget(kinds)

        def leave() -> None:
            self._listeners = tuple(it for it in self._listeners if it[0] is not listen)
            self._forget(kinds)

        return leave

    def _forget(self, kinds: Kinds) -> None:
        """Who hears these has changed; for the others it need not be found out again."""
        known = self._by_kind.items() if kinds else ()
        self._by_kind = {kind: who for kind, who in known if kinds.isdisjoint(kind.__mro__)}
