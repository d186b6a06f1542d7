"""Domain model: Command, Limits, Outcome, State, Isolation and their kin. Pure."""

import signal
from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import NewType

from shelltie.basics.frozen import frozen

RunId = NewType("RunId", str)
Directory = tuple[int, int]  # the directory itself, whatever its name: st_dev and st_ino


class Stream(StrEnum):
    """Where bytes came from. A terminal has one stream only: stdout."""

    STDOUT = "stdout"
    STDERR = "stderr"


class State(StrEnum):
    """Where a run is; `LEGAL_TRANSITIONS` says where it may go from there."""

    CREATED = "created"
    RUNNING = "running"
    FINISHED = "finished"
    TIMED_OUT = "timed_out"
    KILLED = "killed"
    SPAWN_FAILED = "spawn_failed"
    RELEASED = "released"


LEGAL_TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.CREATED: frozenset({State.RUNNING, State.SPAWN_FAILED, State.KILLED, State.RELEASED}),
    State.RUNNING: frozenset({State.FINISHED, State.TIMED_OUT, State.KILLED}),
    State.FINISHED: frozenset({State.RELEASED}),
    State.TIMED_OUT: frozenset({State.RELEASED}),
    State.KILLED: frozenset({State.RELEASED}),
    State.SPAWN_FAILED: frozenset({State.RELEASED}),
    State.RELEASED: frozenset(),
}


class Limit(StrEnum):
    """The two clocks."""

    TOTAL = "total"
    SILENCE = "silence"


class Ended(StrEnum):
    """How hard a run had to be ended: `SOFT` only if everybody left within the grace."""

    SOFT = "soft"
    HARD = "hard"


class Isolation(StrEnum):
    """How much keeps a command from the rest of the machine, from nothing to the most."""

    NONE = "none"
    SANDBOX = "sandbox"
    CONTAINER = "container"

    @property
    def rank(self) -> int:
        """0 for none, 2 for a container."""
        return tuple(Isolation).index(self)


AUTO = "auto"  # the strongest isolation that works
ISOLATION_LEVELS = (*map(str, Isolation), AUTO)
OUTSIDE = "outside"  # in no isolation, whatever it was in before: a person is asked


class Bar(StrEnum):
    """What a place may keep a command from."""

    WRITE = "write"
    NETWORK = "network"
    FILES = "files"
    HOSTS = "hosts"  # those that its network list does not have


class Survivors(StrEnum):
    """What happens to background processes that a one-shot command leaves behind."""

    KILL = "kill"
    KEEP = "keep"
    REPORT = "report"


class Adaptive(StrEnum):
    """What is made of how long commands have taken: nothing, advice, or longer limits."""

    OFF = "off"
    SUGGEST = "suggest"
    APPLY = "apply"


@frozen
class ForwardedPort:
    """A port that an isolated command listens on, `inside`, and where it is reached `outside`.

    Where there is no such place, `problem` says why.
    """

    inside: str
    outside: str | None
    problem: str | None = None


@frozen
class RefusedHost:
    """A `host:port` that a command was kept from, and what to add to its network list for it; no
    entry for what is private: nobody is talked into that.
    """

    host: str
    entry: str


@frozen
class TerminalSize:
    """Rows and columns of a pty."""

    rows: int = 24
    columns: int = 80


@frozen
class Resources:
    """What one process of the command may use; `None` leaves the limit as it is.

    The last three are for the whole tree: bytes of memory, processes and threads, and how many
    CPUs it may keep busy. They need a cgroup; where none can be made, the result says so.
    """

    open_files: int | None = None
    """How many files one process may have open. Not set: as it is."""
    core: int | None = None
    """Bytes of a core dump. Not set: as it is."""
    processes: int | None = None
    """How many processes the user may have (ulimit -u). Not set: as it is."""
    address_space: int | None = None
    """Bytes of address space of one process. Not set: as it is."""
    cpu_seconds: int | None = None
    """Seconds of CPU of one process. Not set: as it is."""
    memory: int | None = None
    """Bytes of memory of the whole process tree; needs a cgroup. Not set: no limit."""
    tasks: int | None = None
    """Processes and threads of the whole tree; needs a cgroup. Not set: no limit."""
    cpus: float | None = None
    """How many CPUs the whole tree may keep busy; needs a cgroup. Not set: no limit."""


UNLIMITED = Resources()


@frozen
class Caller:
    """Who wants something done: the program and, as far as they are known, the agent that speaks
    through it, its task and its session.
    """

    client: str = ""
    agent: str = ""
    task: str = ""
    session: str = ""


@frozen
class Command:
    """What was asked: either `text` for a shell, or `argv` when no shell is wanted.

    `env` holds the caller's changes only; `None` unsets a name. With `stays_open` its input does
    not end after `stdin`: more can be written while it runs.
    """

    text: str
    argv: tuple[str, ...] | None = None
    cwd: str = "."
    env: Mapping[str, str | None] = field(default_factory=dict)
    stdin: bytes | None = None
    stays_open: bool = False
    pty: TerminalSize | None = None
    resources: Resources = UNLIMITED


@frozen
class EscalationStep:
    """Send `signal` to everybody, then wait `pause` seconds for everybody to leave."""

    signal: int
    pause: float


Escalation = tuple[EscalationStep, ...]

DEFAULT_ESCALATION: Escalation = (
    EscalationStep(signal.SIGTERM, 5.0),
    EscalationStep(signal.SIGKILL, 2.0),
)


# How the policy's own words about where a limit came from begin; all others are somebody's wish.
_OF_SILENCE = "; silence: "  # in a source: where the silence limit comes from, if elsewhere
_POLICY_SOURCES = ("category ", "default category ", "built-in fallback ", "learned ")


@frozen
class LimitNames:
    """What a front-end calls the two limits, and how a value is passed there."""

    total: str = "timeout_sec"
    silence: str = "no_output_timeout_sec"
    form: str = "{name}={seconds}"

    def passed(self, limit: Limit, seconds: int) -> str:
        """What to write there for that limit: `timeout_sec=60`, `--total 60s`."""
        name = self.total if limit is Limit.TOTAL else self.silence
        return self.form.format(name=name, seconds=seconds)


@frozen
class Limits:
    """How long a command may take, and where each number came from.

    A `literal` silence limit is the caller's own: it kills without looking for evidence of work.
    Silence ends nothing before `silence_from`, in seconds from the start. `pattern` is the one that
    put the command into its category, and `names` are what its caller can give limits by.
    """

    total: float | None
    silence: float | None
    source: str
    category: str | None = None
    literal: bool = False
    clamped: bool = False
    notes: tuple[str, ...] = ()
    silence_from: float = 0.0
    pattern: str | None = None
    names: LimitNames = LimitNames()

    def with_silence(self, silence: float | None, source: str) -> "Limits":
        """The same with another silence limit, and where that one comes from."""
        total = self.source.partition(_OF_SILENCE)[0]
        return replace(self, silence=silence, source=f"{total}{_OF_SILENCE}{source}")

    @property
    def by_policy(self) -> bool:
        """Nobody has said how long this very command may take."""
        return not self.literal and self.source.startswith(_POLICY_SOURCES)


@frozen
class ExitStatus:
    """How the command's own process ended: with a code, or by a signal; never both."""

    code: int | None = None
    signal: int | None = None

    @property
    def signal_name(self) -> str | None:
        """`SIGKILL`, `SIGRTMIN+3`, …"""
        return None if self.signal is None else signal_name(self.signal)

    @property
    def number(self) -> int | None:
        """The code as a shell would report it: 128+n for a death by signal n."""
        return self.code if self.signal is None else 128 + self.signal


def signal_name(number: int) -> str:
    """The name of any signal, real-time ones included."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"


@frozen
class ProcessRow:
    """A process in a tree: its name, its state as the kernel writes it, its CPU in seconds."""

    pid: int
    parent: int
    name: str
    state: str
    cpu: float


@frozen
class Sighting:
    """What the process tree looked like at one moment; `None` where it could not be seen.

    How input is waited for: `polls` for several things at once, with line mode off; in the
    `first_thread`, or only in others. `foreground_cpu` is what those have used who may read.
    """

    processes: int
    cpu: float | None = None
    io: int | None = None
    disk_wait: bool = False
    waits_for_input: bool = False
    password: bool = False
    polls: bool = False
    first_thread: bool = False
    foreground_cpu: float | None = None


@frozen
class PastSession:
    """How an interactive session ended, and when; one that runs has no end."""

    state: str
    exit_code: int | None
    ended: float | None


@frozen
class Surroundings:
    """What a command was given without asking, and where its PATH came from.

    `withheld` are the names of variables it was not given, `secrets` the values never to repeat.
    """

    shell: str | None
    path_source: str
    cwd: str
    withheld: tuple[str, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@frozen
class Printed:
    """How much a run printed, and where the first `kept` bytes of it are.

    `digest` is the SHA-256 of all of it where it was short.
    """

    stdout: int = 0
    stderr: int = 0
    file: str | None = None
    kept: int = 0
    digest: str | None = None


@frozen
class Outcome:
    """How a run ended. A command that failed or took too long is an outcome, never an exception."""

    state: State
    exit: ExitStatus
    duration: float
    limit: Limit | None = None
    timed_out_after: float | None = None
    idle: float = 0.0
    longest_silence: float = 0.0
    longest_idle: float = 0.0
    ended: Ended | None = None
    stop_reason: str | None = None
    survivors: int = 0
    leaked: bool = False
    leaked_pids: tuple[int, ...] = ()
    refused_signals: int = 0
    cpu: float | None = None
    cpu_while_silent: float | None = None
    sighting: Sighting | None = None
    tree: tuple[ProcessRow, ...] = ()  # who was there when it was ended, parents first
    error: str | None = None
    may_pass: bool = False  # it could not be started now, but perhaps later
    warnings: tuple[str, ...] = ()
    exhausted: tuple[str, ...] = ()
    undone: str | None = None
    unwritten: tuple[str, ...] = ()
    refused_hosts: tuple[RefusedHost, ...] = ()

    @property
    def ok(self) -> bool:
        """The command ran to its own end and said 0."""
        return self.state is State.FINISHED and self.exit.code == 0


@frozen
class Sample:
    """A run as others of its kind remember it: how long it took, was silent, and did nothing.

    One that a limit ended tells nothing but that the limit may have been too short.
    """

    duration: float
    silence: float
    idle: float = 0.0
    by_limit: bool = False
