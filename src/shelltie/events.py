"""Event types: what happened to runs, sessions and contexts, as small frozen records. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import field

from shelltie.basics.frozen import frozen
from shelltie.model import Caller, Limit, Limits, Outcome, Printed, RunId, TerminalSize
from shelltie.verdict import Decision, Verdict


@frozen
class CommandAsked:
    """Somebody wants a command to run. Whoever tells of it may not repeat the `secrets`."""

    run: RunId
    at: float
    command: str
    cwd: str
    caller: Caller
    stays_open: bool = False
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@frozen
class CommandJudged:
    """This is what we think of a command; nothing has started yet."""

    run: RunId
    at: float
    command: str
    verdict: Verdict
    decision: Decision


@frozen
class CommandRefused:
    """The command will not run; `code` says which rule said so."""

    run: RunId
    at: float
    command: str
    code: str
    message: str


@frozen
class HookAnswered:
    """An agent's hook asked about a command of its own shell; `answer` is what it was told: allow,
    ask, deny, or nothing. Whether it then ran is not known here.
    """

    run: RunId
    at: float
    command: str
    answer: str


@frozen
class SafeCorrected:
    """A read-only view has stopped what was rated safe: a rule is wrong about it."""

    run: RunId
    at: float
    command: str
    message: str


@frozen
class TrialChanged:
    """What became of a trial: `open`, `applied`, `discarded` or `undone`, and by whom.

    `run` is the command that ran on trial, `summary` says in a line what it changed.
    """

    run: RunId
    at: float
    trial: str
    status: str
    summary: str
    workspace: str
    by: str = ""
    paths: tuple[str, ...] = ()  # that alone were applied


@frozen
class FilesUsed:
    """A program read or changed files of a workspace, in the place of that provider.

    What is in them is never told. `action` is read, write, list, stat, make_directory, remove,
    upload or download; `local` is the other end of the last two. If it failed, `problem` is the
    code of its error.
    """

    at: float
    action: str
    path: str
    workspace: str
    provider: str
    caller: Caller
    size: int = 0
    entries: int = 0
    local: str = ""
    problem: str = ""


@frozen
class ApprovalAsked:
    """A person is asked; `question` is what they answer to."""

    run: RunId
    at: float
    question: str


@frozen
class ApprovalAnswered:
    """Somebody said yes or no, or nobody did in time."""

    run: RunId
    at: float
    question: str
    allowed: bool
    by: str
    scope: str
    reason: str


@frozen
class RunReady:
    """It may run and is about to be started: where, and how long it may take.

    Its `shape` in its `project` is what makes it comparable with others; nothing is learned from a
    run without one.
    """

    run: RunId
    at: float
    provider: str
    isolation: str
    limits: Limits
    shape: str = ""
    project: str = ""
    size: TerminalSize | None = None  # of its terminal


@frozen
class RunStarted:
    """The command's process exists."""

    run: RunId
    at: float
    pid: int
    limits: Limits


@frozen
class LimitNear:
    """A limit ends the run in `left` seconds unless something changes; `message` is for people."""

    run: RunId
    at: float
    limit: Limit
    idle: float
    left: float
    message: str


@frozen
class SilentButWorking:
    """The silence limit passed, but the tree works: it is not ended."""

    run: RunId
    at: float
    idle: float
    message: str


@frozen
class Unusual:
    """It is not as such commands are; `why` is `input`, `idle`, `silent` or `slow`. It runs on."""

    run: RunId
    at: float
    why: str
    message: str


@frozen
class LimitsExtended:
    """A person made both limits longer by so many seconds; these are the limits now."""

    run: RunId
    at: float
    by: float
    limits: Limits


@frozen
class LimitReached:
    """The decision that the run timed out; the first signal follows."""

    run: RunId
    at: float
    limit: Limit
    idle: float
    message: str


@frozen
class Escalated:
    """A signal went to the whole tree."""

    run: RunId
    at: float
    signal: int


@frozen
class Leaked:
    """Somebody is left although everything was tried; the reaper goes on."""

    run: RunId
    at: float
    pids: tuple[int, ...]


@frozen
class RunEnded:
    """The run has its outcome."""

    run: RunId
    at: float
    outcome: Outcome
    printed: Printed = field(default_factory=Printed)


@frozen
class RunLost:
    """A server died while this ran. `ended` are processes of it that were still there.

    `size` bytes of what it printed are in `file`; nobody knows how it would have ended.
    """

    run: RunId
    at: float
    command: str
    cwd: str
    client: str
    began: float
    stays_open: bool
    ended: tuple[int, ...]
    file: str | None
    size: int
    session: str = ""


@frozen
class RunHeld:
    """A run that outlived its server is held by this one from now on."""

    run: RunId
    at: float
    client: str


@frozen
class RunReleased:
    """This server let go of a run that stays, and it goes on."""

    run: RunId
    at: float
    reason: str


@frozen
class ReachChanged:
    """The connection to the place where a run is was lost, or is back; it goes on there."""

    run: RunId
    at: float
    place: str
    message: str
    reachable: bool = True


@frozen
class SessionNamed:
    """A run is an interactive session from now on, and this is its id."""

    run: RunId
    at: float
    session: str


@frozen
class ShellCommandBegan:
    """A shell that stays was given a command; `number` counts those of this shell."""

    run: RunId
    at: float
    number: int
    command: str


@frozen
class ShellCommandEnded:
    """The shell is back, or gone: then nobody knows the exit code."""

    run: RunId
    at: float
    number: int
    exit_code: int | None


# About a run, and about figures that have thresholds.
ALERTS = (
    "timeout",
    "sigkill",
    "leak",
    "sessions",
    "success",
    "violations",
    "duration",
    "truncated",
)


@frozen
class Alerted:
    """Something that a person may want to know at once; with `over` it is as it should be again.

    `run` is what it is about, if it is about one; otherwise `value` has passed `threshold`.
    """

    run: RunId | None
    at: float
    alert: str
    message: str
    value: float | None = None
    threshold: float | None = None
    over: bool = False


@frozen
class Asker:
    """Whose context it is: its own id, and the ids its caller gave."""

    session: str
    task: str
    agent: str


@frozen
class ContextOpened:
    """A context exists."""

    asker: Asker
    at: float
    cwd: str


@frozen
class ContextClosed:
    """It is gone, and nothing runs in it; `reason` says why, `commands` how many it ran."""

    asker: Asker
    at: float
    reason: str
    commands: int


@frozen
class ContextRan:
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


@frozen
class ContextRefused(CommandRefused):
    """A command that its context may not run; nothing was started, and `run` never will be."""

    asker: Asker
    details: Mapping[str, object]


ContextEvent = ContextOpened | ContextClosed | ContextRan | ContextRefused
Event = (
    CommandAsked
    | CommandJudged
    | CommandRefused
    | HookAnswered
    | SafeCorrected
    | TrialChanged
    | FilesUsed
    | ApprovalAsked
    | ApprovalAnswered
    | RunReady
    | RunStarted
    | LimitNear
    | SilentButWorking
    | Unusual
    | LimitsExtended
    | LimitReached
    | Escalated
    | Leaked
    | RunEnded
    | RunLost
    | RunHeld
    | RunReleased
    | ReachChanged
    | SessionNamed
    | ShellCommandBegan
    | ShellCommandEnded
    | Alerted
    | ContextEvent
)
Publish = Callable[[Event], None]
