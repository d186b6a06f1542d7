"""What happened, as small facts, for everybody who watches. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from shelltie.model import Limit, Limits, Outcome, RunId


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The command's process exists."""

    run: RunId
    at: float
    pid: int
    limits: Limits


@dataclass(frozen=True, slots=True)
class LimitNear:
    """A limit ends the run in `left` seconds unless something changes; `message` is for people."""

    run: RunId
    at: float
    limit: Limit
    idle: float
    left: float
    message: str


@dataclass(frozen=True, slots=True)
class SilentButWorking:
    """The silence limit passed, but the tree works: it is not ended."""

    run: RunId
    at: float
    idle: float
    message: str


@dataclass(frozen=True, slots=True)
class LimitReached:
    """The decision that the run timed out; the first signal follows."""

    run: RunId
    at: float
    limit: Limit
    idle: float
    message: str


@dataclass(frozen=True, slots=True)
class Escalated:
    """A signal went to the whole tree."""

    run: RunId
    at: float
    signal: int


@dataclass(frozen=True, slots=True)
class Leaked:
    """Somebody is left although everything was tried; the reaper goes on."""

    run: RunId
    at: float
    pids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run has its outcome."""

    run: RunId
    at: float
    outcome: Outcome


Event = RunStarted | LimitNear | SilentButWorking | LimitReached | Escalated | Leaked | RunEnded
Publish = Callable[[Event], None]
