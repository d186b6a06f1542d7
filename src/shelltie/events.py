"""What happened, as small facts, for everybody who watches. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shelltie.model import Decision, Limit, Limits, Outcome, RunId, Verdict


@dataclass(frozen=True, slots=True)
class CommandJudged:
    """A command was asked for, and this is what we think of it; nothing has started yet."""

    run: RunId
    at: float
    command: str
    verdict: Verdict
    decision: Decision


@dataclass(frozen=True, slots=True)
class CommandRefused:
    """The command will not run; `code` says which rule said so."""

    run: RunId
    at: float
    command: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """A person is asked; `question` is what they answer to."""

    run: RunId
    at: float
    question: str


@dataclass(frozen=True, slots=True)
class ApprovalAnswered:
    """Somebody said yes or no, or nobody did in time."""

    run: RunId
    at: float
    question: str
    allowed: bool
    by: str
    scope: str
    reason: str


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


@dataclass(frozen=True, slots=True)
class Asker:
    """Whose context it is: its own id, and the ids its caller gave."""

    session: str
    task: str
    agent: str


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """A context exists."""

    asker: Asker
    at: float
    cwd: str


@dataclass(frozen=True, slots=True)
class SessionClosed:
    """It is gone, and nothing runs in it; `reason` says why, `commands` how many it ran."""

    asker: Asker
    at: float
    reason: str
    commands: int


@dataclass(frozen=True, slots=True)
class SessionRan:
    """A command in it has come to its end, whatever that was.

    A program that was not there has no `run`. `printed` counts the bytes of both streams.
    """

    asker: Asker
    at: float
    command: str
    run: RunId | None
    limits: Limits
    outcome: Outcome
    printed: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class SessionRefused(CommandRefused):
    """A command that its context may not run; nothing was started, and `run` never will be."""

    asker: Asker
    details: Mapping[str, object]


SessionEvent = SessionOpened | SessionClosed | SessionRan | SessionRefused
Event = (
    CommandJudged
    | CommandRefused
    | ApprovalAsked
    | ApprovalAnswered
    | RunStarted
    | LimitNear
    | SilentButWorking
    | LimitReached
    | Escalated
    | Leaked
    | RunEnded
    | SessionEvent
)
Publish = Callable[[Event], None]
