"""Settings in sections. Each is the object that the part takes which obeys it. Pure.

A field is the setting with its name: `tmp_size` in the section `sandbox` is the key
`sandbox.tmp_size`. Its type says what it may be, unless a `setting` says more.
"""

import math
import signal
from collections.abc import Callable
from dataclasses import field
from typing import Any, Literal, TypeVar

from shelltie.basics.frozen import frozen
from shelltie.events import ALERTS
from shelltie.model import Adaptive, Escalation, EscalationStep, Survivors
from shelltie.settings import checks
from shelltie.verdict import Decision, Rating

_T = TypeVar("_T")
_MIB = 1024 * 1024
_DECISIONS = tuple(map(str, Decision))
_RATING_MODES = ("listed", "proven")
_ARGUMENT_LEVELS = ("off", "default", "strict")
_LEVELS = ("none", "auto", "sandbox", "container")
_NETWORKS = ("on", "loopback", "off")
_UNASKED = ("isolate", "refuse")

Check = Callable[[object], object]
Merge = Callable[[object, object], object]  # what holds, of what held and what a project says


def setting(
    default: object,
    check: Check | None = None,
    *,
    key: str | None = None,
    project: Merge | None = None,
) -> Any:  # noqa: ANN401  a dataclass field is typed by its annotation
    """A field with a `key` of another name, or a stricter check; `project` is what the file of a
    project may do to it before it is trusted.
    """
    meta = {"check": check, "project": project} | ({} if key is None else {"key": key})
    return field(default=default, metadata=meta)


def _ordered(default: str, words: tuple[str, ...]) -> Any:  # noqa: ANN401  as above
    """One of several words, from the mildest to the strictest."""
    return setting(default, checks.one_of(*words), project=checks.last_of(words))


def inline(section: _T) -> _T:
    """A part of a section with keys that stand in the section itself."""
    return field(default=section, metadata={"key": ""})


def no_setting(default: _T) -> _T:
    """A field for callers alone."""
    return field(default=default, metadata={"key": None})


@frozen
class PolicySettings:
    """Where the timeout policy is, unless it is looked for."""

    path: str | None = None


@frozen
class LimitSettings:
    """How a command is told of its limits, and ended."""

    grace: float = setting(5.0, project=checks.as_given)
    warn_lead: float | None = setting(None, project=checks.as_given)
    idle_evidence: str | None = setting(None, checks.one_of("any", "none"))

    @property
    def escalation(self) -> Escalation:
        """What is sent to a command that must end, and how long it may take each time."""
        return EscalationStep(signal.SIGTERM, self.grace), EscalationStep(signal.SIGKILL, 2.0)


@frozen
class RunSettings:
    """What becomes of processes that outlive their command."""

    background_survivors: Survivors = setting(Survivors.KILL, checks.member_of(Survivors))


@frozen
class OutputSettings:
    """How much of what a command prints is shown and kept; bytes."""

    shown: int = setting(40_000, project=checks.as_given)
    kept_head: int = 512 * 1024
    kept_tail: int = 512 * 1024
    keep: str = setting("long", checks.one_of("long", "all"))
    spool_cap: int = 64 * _MIB
    redact: bool = False


@frozen
class EnvironmentSettings:
    """Whose PATH commands have, and which secrets of ours."""

    path: str = setting("auto", checks.one_of("auto", "login", "inherit"))
    passed: tuple[str, ...] = setting((), key="pass")


def _decision(default: Decision) -> Any:  # noqa: ANN401  as above
    return setting(default, checks.member_of(Decision), project=checks.last_of(_DECISIONS))


@frozen
class SafetyProfile:
    """What follows from each rating; `irreversible` is the least that follows for a dangerous
    command which nothing could undo.
    """

    safe: Decision = no_setting(Decision.ALLOW)
    unknown: Decision = _decision(Decision.ALLOW)
    dangerous: Decision = _decision(Decision.ASK)
    irreversible: Decision = _decision(Decision.ALLOW)

    def for_rating(self, rating: Rating) -> Decision:
        """What follows from it, unless it is irreversible."""
        return {
            Rating.SAFE: self.safe,
            Rating.UNKNOWN: self.unknown,
            Rating.DANGEROUS: self.dangerous,
        }[rating]


@frozen
class SafetyProfiles:
    """For one-shot commands, for sessions, for the tool `bash`, for agents of editors."""

    run: SafetyProfile = SafetyProfile()
    session: SafetyProfile = SafetyProfile()
    bash: SafetyProfile = SafetyProfile()
    acp: SafetyProfile = SafetyProfile()


_TRUSTING = SafetyProfile(dangerous=Decision.ALLOW, irreversible=Decision.DENY)
_USUAL = SafetyProfile()
_CAREFUL = SafetyProfile(unknown=Decision.ASK)
# `safety.preset`: every decision of every profile. A key of its own overrides it.
PRESETS = {
    #                         run        session    bash       acp
    "relaxed": SafetyProfiles(_TRUSTING, _TRUSTING, _TRUSTING, _TRUSTING),
    "balanced": SafetyProfiles(_USUAL, _USUAL, _CAREFUL, _USUAL),
    "strict": SafetyProfiles(_CAREFUL, _CAREFUL, _CAREFUL, _CAREFUL),
}
PRESET = "balanced"


@frozen
class ApprovalTimeouts:
    """Seconds that an answer is waited for; `None` is as long as the caller waits, but ten for an
    unknown command of `bash`. Where no dialogue, terminal or watcher can show the question to a
    person, it waits `undelivered`.
    """

    unknown: float | None = setting(None, key="unknown_timeout")
    dangerous: float | None = setting(None, key="dangerous_timeout")
    undelivered: float = setting(2.0, key="undelivered_timeout")

    def for_rating(self, rating: Rating, profile: str | None) -> float | None:
        """The time for a command of that rating."""
        if rating is Rating.DANGEROUS:
            return self.dangerous
        return 10.0 if self.unknown is None and profile == "bash" else self.unknown


@frozen
class SafetySettings:
    """How commands are rated, and who is asked for how long."""

    preset: str = _ordered(PRESET, tuple(PRESETS))
    rating_mode: Literal["listed", "proven"] = _ordered("proven", _RATING_MODES)
    profiles: SafetyProfiles = PRESETS[PRESET]
    safe_commands: tuple[str, ...] = setting((), key="safeCommands")
    dangerous_commands: tuple[str, ...] = setting((), key="dangerousCommands", project=checks.more)
    patience: ApprovalTimeouts = inline(ApprovalTimeouts())
    ask_client: bool = setting(True, project=checks.both)
    on_timeout: str = setting("deny", checks.one_of("deny", "approve"))


@frozen
class IsolationProfile:
    """Where a command of each rating must run."""

    safe: str = _ordered("none", _LEVELS)
    unknown: str = _ordered("none", _LEVELS)
    dangerous: str = _ordered("none", _LEVELS)


@frozen
class IsolationProfiles:
    """For one-shot commands, for sessions, for the tool `bash`, for agents of editors."""

    run: IsolationProfile = IsolationProfile()
    session: IsolationProfile = IsolationProfile()
    bash: IsolationProfile = IsolationProfile()
    acp: IsolationProfile = IsolationProfile()


@frozen
class IsolationSettings:
    """What must be isolated, and what becomes of a command that nobody can be asked about."""

    profiles: IsolationProfiles = IsolationProfiles()
    tasks: str = _ordered("none", _LEVELS)
    unasked: str = _ordered("isolate", _UNASKED)


@frozen
class SandboxSettings:
    """What holds in every sandbox; `tmp_size`, `idle` and `forward` also in every container.

    `network` is `off`, `loopback` (a loopback of its own) or `on`. What is written to a private
    place is in memory, so each of them has a size. `bwrap` is the program, unless it is to be
    looked for. With `forward` what a session listens on can be reached at 127.0.0.1.
    """

    workspace: str | None = None
    network: str = _ordered("loopback", _NETWORKS)
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = setting((), checks.displayed)
    tmp_size: int = setting(1024 * _MIB, checks.room)
    bwrap: str | None = setting(None, checks.absolute)
    idle: float = 300.0
    forward: bool = setting(True, project=checks.both)


@frozen
class ContainerSettings:
    """What holds in every container. Nothing limits what is 0.

    `engine` is a socket, unless it is to be looked for. `network` is `loopback` (its own only) or
    `on`.
    """

    image: str | None = None
    engine: str | None = None
    user: str | None = None
    network: str = setting(
        "loopback", checks.one_of(*_NETWORKS[:2]), project=checks.last_of(_NETWORKS)
    )
    mounts: tuple[str, ...] = ()
    memory: int = setting(0, checks.memory)
    cpus: float = setting(0.0, checks.cpus)
    processes: int = setting(4096, checks.processes)


@frozen
class TaskLimits:
    """What holds for all task contexts: seconds, bytes of each stream, and how many there may be.

    A context that was not used for `ttl` is closed; 0 never closes one.
    """

    default: float = setting(60.0, checks.milliseconds, key="default_timeout")
    most: float = setting(300.0, checks.milliseconds, key="max_timeout")
    output: int = setting(_MIB, key="max_output")
    sessions: int = setting(50, key="max_sessions")
    ttl: float = setting(3600.0, key="idle_ttl")


@frozen
class AccessSettings:
    """What task contexts may run."""

    allowlist_path: str | None = None
    argument_level: str = _ordered("default", _ARGUMENT_LEVELS)
    allow_relative_paths: bool = False
    limits: TaskLimits = inline(TaskLimits())


@frozen
class ToolSettings:
    """Which tools a server has."""

    run: bool = setting(True, key="run.enabled")
    bash: bool = setting(True, key="bash.enabled")
    sessions: bool = setting(True, key="sessions.enabled")
    agent_task: bool = setting(True, key="agent_task.enabled")
    access: bool = setting(False, key="access.enabled")


@frozen
class AgentTaskSettings:
    """Seconds that another agent may be silent, and take in all; and what keeps it alive."""

    idle: float = 300.0
    idle_min: float = 60.0
    idle_max: float = 1800.0
    hard: float = 1200.0
    hard_min: float = 300.0
    hard_max: float = 3600.0
    heartbeat_counts: bool = True
    heartbeat: str | None = None


@frozen
class McpSettings:
    """How long a client waits for an answer, if that is not to be found out."""

    patience: float | None = None


@frozen
class Pace:
    """Seconds to the first report, and from one to the next."""

    first: float = setting(5.0, key="first_progress", project=checks.as_given)
    interval: float = setting(30.0, key="progress_interval", project=checks.as_given)


@frozen
class BashSettings:
    """How `bash` behaves: the characters it shows, and its seconds."""

    crop_output: int = setting(10_000, key="cropOutput", project=checks.as_given)
    timeout: float = setting(60.0, key="timeoutSeconds", project=checks.as_given)


@frozen
class Waiting:
    """Seconds. A `most` of 0 answers at once, `None` waits without end; but no wait goes on after
    the moment `until`.
    """

    least: float = setting(1.0, key="minInterval", project=checks.as_given)
    settle: float = setting(2.0, key="settleInterval", project=checks.as_given)
    most: float | None = setting(30.0, key="maxInterval", project=checks.as_given)
    until: float = no_setting(math.inf)

    def ends(self, called: float) -> float:
        """When a wait that began at `called` is over."""
        return min(math.inf if self.most is None else called + self.most, self.until)


@frozen
class SessionLimits:
    """How many sessions each owner may have, and all of them together; and for how many seconds an
    ended one stays readable.
    """

    most: int = setting(50, key="max")
    kept: float = no_setting(600.0)
    total: int = 200


@frozen
class AcpSettings:
    """How we serve an editor and its agent."""

    timeout: float = setting(0.0, project=checks.as_given)
    command_timeouts: tuple[str, ...] = setting((), project=checks.as_given)
    empty_result: str = setting("object", checks.one_of("object", "null"))
    pty: str = setting("auto", checks.one_of("auto", "always", "never"))
    add_mcp: bool = False
    wrap_shell: bool = False
    agent_grace: float = 8.0


@frozen
class HttpSettings:
    """How long a server over HTTP waits for what, and for how many."""

    idle: float = 1800.0  # a client that makes no request for so long has left
    drain: float = 3.0  # what runs may take so long to end by itself when we leave
    connections: int = setting(512, checks.count)
    requests: int = setting(256, checks.count)  # of one token, at a time
    silence: float = 75.0  # longer than clients keep a connection that they do not use; 0: no limit


@frozen
class Retention:
    """The oldest may be so many days old, and all of them so large together; 0 is no limit."""

    days: float = setting(90.0, checks.days, key="keep_days")
    size: int = setting(512 * _MIB, key="keep_bytes")


@frozen
class AuditSettings:
    """Where the journal is, whether anything may run without it, and how much of it is kept.

    Heads go to `anchor`, a file that others cannot change.
    """

    enabled: bool = True
    path: str | None = None
    required: bool = setting(False, project=checks.once_true)
    retention: Retention = inline(Retention())
    anchor: str | None = None


@frozen
class AdaptiveSettings:
    """What follows from how long such commands usually take."""

    mode: Adaptive = setting(Adaptive.SUGGEST, checks.member_of(Adaptive), project=checks.milder)
    min_samples: int = setting(20, checks.count)


@frozen
class RetrySettings:
    """How often what failed is tried again."""

    attempts: int = setting(0, checks.few)


@frozen
class BreakerSettings:
    """How many starts may fail in a row before there is a pause; 0 is never."""

    failures: int = 0
    pause: float = 30.0


@frozen
class Thresholds:
    """What is still well. Rates are of the last hundred commands."""

    sessions: int = 50
    success: float = setting(0.95, checks.share)
    violations: float = setting(0.0, checks.share)
    duration: float = 5.0
    truncated: float = setting(0.01, checks.share)


@frozen
class AlertSettings:
    """Which alerts there are, and the command that is told of them."""

    on: tuple[str, ...] = setting(ALERTS, checks.some_of(*ALERTS))
    command: str | None = None
    thresholds: Thresholds = inline(Thresholds())


@frozen
class StateSettings:
    """Where output and records are kept; empty is the usual place."""

    dir: str = ""
