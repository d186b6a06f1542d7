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
from shelltie.basics.validate import member_of, one_of
from shelltie.events import ALERTS
from shelltie.model import ISOLATION_LEVELS, Adaptive, Escalation, EscalationStep, Survivors
from shelltie.settings import checks
from shelltie.verdict import Decision, Rating

_T = TypeVar("_T")
_MIB = 1024 * 1024
_DECISIONS = tuple(map(str, Decision))
_RATING_MODES = ("listed", "proven")
_ENFORCE = ("off", "auto", "required")
_ARGUMENT_LEVELS = ("off", "default", "strict")
_NETWORKS = ("on", "allow", "loopback", "off")
_WRITES = ("live", "auto", "trial")
_CACHES = ("shared", "private")
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
    return setting(default, one_of(*words), project=checks.StrictestOf(words))


def _level() -> Any:  # noqa: ANN401  as above
    """A level of isolation, or `auto`."""
    return setting("none", one_of(*ISOLATION_LEVELS), project=checks.stronger_level)


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
    """Timeout policy file to use. Not set: config/terminal_timeout_policy.json of the project,
    else the shipped one.
    """


@frozen
class LimitSettings:
    """How a command is told of its limits, and ended."""

    grace: float = setting(5.0, project=checks.shorter)
    """How long a command that must end has between SIGTERM and SIGKILL."""
    warn_lead: float | None = setting(None, project=checks.as_given)
    """How long before a limit the warning comes. Not set: what the timeout policy says."""
    idle_evidence: str | None = setting(None, one_of("any", "none"))
    """Whether a silent command that uses CPU or moves bytes is spared (any) or ended (none). Not
    set: what the timeout policy says.
    """

    @property
    def escalation(self) -> Escalation:
        """What is sent to a command that must end, and how long it may take each time."""
        return EscalationStep(signal.SIGTERM, self.grace), EscalationStep(signal.SIGKILL, 2.0)


@frozen
class RunSettings:
    """What becomes of processes that outlive their command."""

    background_survivors: Survivors = setting(Survivors.KILL, member_of(Survivors))
    """What happens to processes that outlive their command: they are ended (kill), or left running
    (keep, report). The result says how many there were.
    """


@frozen
class OutputSettings:
    """How much of what a command prints is shown and kept; bytes."""

    shown: int = setting(40_000, project=checks.as_given)
    """How many bytes of a run's output an agent is shown: beginning and end."""
    kept_head: int = 512 * 1024
    """How many bytes from the beginning of the output are kept in memory."""
    kept_tail: int = 512 * 1024
    """How many bytes from the end of the output are kept in memory."""
    keep: str = setting("recent", one_of("recent", "long", "all"))
    """Which output is kept as a file: of every run, of a short one when it ends (recent); only of
    sessions and what is longer than is shown (long); of every run, as it is printed (all).
    """
    spool_cap: int = 64 * _MIB
    """The most bytes that the output file of one run may have."""
    redact: bool = False
    """Hide what looks like a secret in output before an agent or a log sees it."""


@frozen
class EnvironmentSettings:
    """Whose PATH commands have, and which secrets of ours."""

    path: str = setting("auto", one_of("auto", "login", "inherit"))
    """Whose PATH commands get: the login shell's (login), that of shelltie itself (inherit), or the
    login shell's in a server and its own on the command line (auto).
    """
    passed: tuple[str, ...] = setting((), key="pass")
    """Names of variables that commands get though they look like secrets, such as ["GITHUB_TOKEN",
    "AWS_*"].
    """


def _decision(default: Decision) -> Any:  # noqa: ANN401  as above
    return setting(default, member_of(Decision), project=checks.StrictestOf(_DECISIONS))


@frozen
class SafetyProfile:
    """What follows from each rating; `irreversible` is the least that follows for a dangerous
    command which nothing could undo.
    """

    safe: Decision = no_setting(Decision.ALLOW)
    unknown: Decision = _decision(Decision.ALLOW)
    """What follows for a command that is neither proved safe nor known to be dangerous."""
    dangerous: Decision = _decision(Decision.ASK)
    """What follows for a command that can destroy or disclose something."""
    irreversible: Decision = _decision(Decision.ALLOW)
    """The least that follows for a dangerous command which nothing could undo."""

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
    """How long an answer about an unknown command is waited for. Not set: as long as the caller
    waits, but 10 seconds for the tool bash.
    """
    dangerous: float | None = setting(None, key="dangerous_timeout")
    """How long an answer about a dangerous command is waited for. Not set: as long as the caller
    waits.
    """
    undelivered: float = setting(2.0, key="undelivered_timeout")
    """How long an answer is waited for where nothing can show the question to a person."""

    def unless_set(self, otherwise: float) -> "ApprovalTimeouts":
        """With this time wherever none is set; 0 is a time that was set."""
        unknown = otherwise if self.unknown is None else self.unknown
        dangerous = otherwise if self.dangerous is None else self.dangerous
        return ApprovalTimeouts(unknown, dangerous, self.undelivered)

    def for_rating(self, rating: Rating, profile: str | None) -> float | None:
        """The time for a command of that rating."""
        if rating is Rating.DANGEROUS:
            return self.dangerous
        return 10.0 if self.unknown is None and profile == "bash" else self.unknown


@frozen
class SafetySettings:
    """How commands are rated, and who is asked for how long."""

    preset: str = _ordered(PRESET, tuple(PRESETS))
    """What is allowed, asked about or refused: sets every key of safety.profiles that has no value
    of its own.
    """
    rating_mode: Literal["listed", "proven"] = _ordered("proven", _RATING_MODES)
    """How commands are judged: proven harmless by rules and two parsers, or trusted by a list of
    well-known names (listed).
    """
    profiles: SafetyProfiles = PRESETS[PRESET]
    safe_commands: tuple[str, ...] = setting((), key="safeCommands")
    """Words that commands of yours begin with and that you trust, unless something dangerous is
    found.
    """
    dangerous_commands: tuple[str, ...] = setting((), key="dangerousCommands", project=checks.more)
    """Regular expressions; a command in which one is found is dangerous, whatever else is known."""
    approval_timeouts: ApprovalTimeouts = inline(ApprovalTimeouts())
    ask_client: bool = setting(True, project=checks.both)
    """Whether a person is also asked in the MCP client's own dialogue."""
    on_timeout: str = setting("deny", one_of("deny", "approve"))
    """What follows when nobody answers about an unknown command. A dangerous one is always
    refused.
    """
    enforce: Literal["off", "auto", "required"] = _ordered("auto", _ENFORCE)
    """Whether what is rated safe runs in a read-only view, where it can do no harm: where that
    works (auto), or else not at all (required).
    """


@frozen
class IsolationProfile:
    """Where a command of each rating must run."""

    safe: str = _level()
    """The least isolation for commands that are rated safe."""
    unknown: str = _level()
    """The least isolation for commands that are rated unknown."""
    dangerous: str = _level()
    """The least isolation for commands that are rated dangerous."""


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
    tasks: str = _level()
    """The isolation of commands in task contexts."""
    unasked: str = _ordered("isolate", _UNASKED)
    """What becomes of an unknown command that nobody can be asked about: it runs in a sandbox
    (isolate), or not at all (refuse).
    """
    outside: bool = setting(False, project=checks.both)
    """Whether a person's yes may have a command run outside for which isolation.profiles demands
    isolation. Without such a demand it may.
    """


@frozen
class SandboxSettings:
    """What holds in every sandbox; `tmp_size`, `idle` and `forward` also in every container.

    `network` is `off`, `loopback` (a loopback of its own), `allow` (the same, with a proxy to the
    hosts in `network_allow`) or `on`. What is written to a private
    place is in memory, so each of them has a size. `bwrap` is the program, unless it is to be
    looked for. With `forward` what a session listens on can be reached at 127.0.0.1.
    """

    workspace: str | None = None
    """The directory that isolated commands may write to. Not set: where shelltie was started."""
    network: str = _ordered("loopback", _NETWORKS)
    """What a sandbox can reach: everything (on), the hosts in sandbox.network_allow (allow), its
    own loopback (loopback), or nothing (off).
    """
    network_allow: tuple[str, ...] = setting((), checks.hosts, project=checks.fewer)
    """Hosts that a sandbox or container whose network is "allow" can reach: groups such as pypi,
    npm, crates, debian, github; names as example.org or *.example.org; with a port, as
    mirror.lan:8080, or without one at 80 and 443.
    """
    writable: tuple[str, ...] = ()
    """More directories that a sandboxed command may write to."""
    readable: tuple[str, ...] = setting((), checks.sandbox_paths)
    """More directories that a sandboxed command may read."""
    tmp_size: int = setting(1024 * _MIB, checks.tmpfs_size)
    """How many bytes fit into each private directory of a sandbox or container, such as /tmp. They
    are in memory.
    """
    bwrap: str | None = setting(None, checks.absolute)
    """The bubblewrap program. Not set: it is looked for in PATH."""
    writes: str = _ordered("auto", _WRITES)
    """How a one-shot command in a sandbox writes: apart, and what it changed is applied when it has
    ended, but for what is guarded (auto); the same, and nothing runs where that is not possible
    (trial); or to the workspace itself, with what is guarded read-only (live). A session always
    writes live.
    """
    caches: str = _ordered("private", _CACHES)
    """What a sandbox sees of your package caches (pip, uv, npm, pnpm, cargo, Maven, Gradle…): none
    of it, and it has private ones in memory (private); or all of it, copy-on-write (shared). What
    it adds is then kept for the next sandbox of its workspace, up to 2 GiB and a day, until this
    shelltie ends.
    """
    idle: float = 300.0
    """Seconds after which a sandbox or container that is not used is removed."""
    forward: bool = setting(True, project=checks.both)
    """Whether ports that an isolated session listens on can be reached at 127.0.0.1."""
    processes: int = setting(4096, checks.processes)
    """How many processes and threads one sandbox of an ordinary user may have; 0: no limit."""


@frozen
class TrialSettings:
    """What of a trial is applied unasked, and how many are kept, with what they wrote."""

    keep: int = setting(50, checks.count)
    """How many trials are kept; the oldest is forgotten first, with changes that nobody applied."""
    days: float = setting(7.0, checks.days)
    """How many days a trial is kept."""
    size: int = 4096 * _MIB
    """How many bytes all trials may have on disk; beyond, the oldest are forgotten."""
    deletions: int = setting(10, checks.count, project=checks.shorter)
    """From how many deleted files on a person is asked before a trial is applied; without git, from
    how many changed files on. Fewer are applied unasked, where nothing else speaks against it.
    """


@frozen
class ContainerSettings:
    """What holds in every container. Nothing limits what is 0.

    `engine` is a socket, unless it is to be looked for. `network` is `loopback` (its own only),
    `allow` (the hosts in `sandbox.network_allow`) or `on`.
    """

    image: str | None = None
    """The image that containers are made from. Not set: there are none."""
    engine: str | None = None
    """Socket of Docker or Podman. Not set: it is looked for."""
    user: str | None = None
    """The user inside the container. Not set: you, as the engine counts users."""
    network: str = setting(
        "loopback", one_of(*_NETWORKS[:3]), project=checks.StrictestOf(_NETWORKS[:3])
    )
    """What a container can reach: everything (on), the hosts in sandbox.network_allow (allow), or
    its own loopback (loopback).
    """
    mounts: tuple[str, ...] = ()
    """More directories for containers, as "/host/dir", "/host/dir:/inside" or with ":ro"."""
    memory: int = setting(0, checks.memory)
    """Bytes of memory for a container; 0 is no limit."""
    cpus: float = setting(0.0, checks.cpus)
    """How many CPUs a container may keep busy; 0 is no limit."""
    processes: int = setting(4096, checks.processes)
    """How many processes a container may have; 0 is no limit."""


@frozen
class TaskLimits:
    """What holds for all task contexts: seconds, bytes of each stream, and how many there may be.

    A context that was not used for `ttl` is closed; 0 never closes one.
    """

    default: float = setting(60.0, checks.milliseconds, key="default_timeout")
    """Seconds a command of a task context may take, if the call does not say. The variables have
    milliseconds.
    """
    most: float = setting(300.0, checks.milliseconds, key="max_timeout")
    """The most seconds that a call may ask for. The variables have milliseconds."""
    output: int = setting(_MIB, key="max_output")
    """Bytes of each stream that a task context keeps."""
    sessions: int = setting(50, key="max_sessions")
    """How many task contexts there may be at a time."""
    ttl: float = setting(3600.0, key="idle_ttl")
    """Seconds after which a task context that is not used is closed; 0 is never."""


@frozen
class AccessSettings:
    """What task contexts may run."""

    allowlist_path: str | None = None
    """The list of programs that task contexts may run, or builtin. Not set:
    apps/tools/caws/tools-allow.json of the project.
    """
    argument_level: str = _ordered("default", _ARGUMENT_LEVELS)
    """How strictly arguments in task contexts are checked for shell characters."""
    allow_relative_paths: bool = False
    """Whether task contexts may run programs by a relative path."""
    limits: TaskLimits = inline(TaskLimits())


@frozen
class ToolSettings:
    """Which tools a server has."""

    run: bool = setting(True, key="run.enabled")
    """Whether MCP servers have the tool run."""
    bash: bool = setting(True, key="bash.enabled")
    """Whether MCP servers have the tool bash."""
    sessions: bool = setting(True, key="sessions.enabled")
    """Whether MCP servers have the tools for sessions (terminal_start and its kin)."""
    agent_task: bool = setting(True, key="agent_task.enabled")
    """Whether MCP servers have agent_task and agent_wait."""
    access: bool = setting(False, key="access.enabled")
    """Whether MCP servers have the tools for task contexts."""


@frozen
class AgentTaskSettings:
    """Seconds that another agent may be silent, and take in all; and what keeps it alive."""

    idle: float = 300.0
    """Seconds another agent may be silent, if the call says neither that nor a mode."""
    idle_min: float = 60.0
    """The least that a call may ask for as idleTimeoutMs, here in seconds."""
    idle_max: float = 1800.0
    """The most that a call may ask for as idleTimeoutMs, here in seconds."""
    hard: float = 1200.0
    """Seconds another agent may take in all, if the call says neither that nor a mode."""
    hard_min: float = 300.0
    """The least that a call may ask for as hardTimeoutMs, here in seconds."""
    hard_max: float = 3600.0
    """The most that a call may ask for as hardTimeoutMs, here in seconds."""
    heartbeat_counts: bool = True
    """Whether heartbeat lines of an agent keep it alive."""
    heartbeat: str | None = None
    """A regular expression for heartbeat lines, besides {"type": "heartbeat"}."""


@frozen
class McpSettings:
    """How long a client waits for an answer, if that is not to be found out."""

    patience: float | None = None
    """How long the client waits for an answer before a command goes on as a session. Not set: what
    is known of the client.
    """


@frozen
class Pace:
    """Seconds to the first report, and from one to the next."""

    first: float = setting(5.0, key="first_progress", project=checks.as_given)
    """Seconds until an MCP client is first told of progress."""
    interval: float = setting(30.0, key="progress_interval", project=checks.as_given)
    """Seconds from one report of progress to the next."""


@frozen
class NotifySettings:
    """How clients hear of progress, and a person of a command that waits for a yes or was ended: on
    the desktop, by the bell of `pending --watch`, and by a `command` that reads it as JSON.
    """

    waiting: bool = setting(True, project=checks.both)
    """Tell a person that a command waits for their yes."""
    ended: bool = setting(True, project=checks.both)
    """Tell a person that a limit ended a command, or that processes of one could not be ended."""
    command: str | None = None
    """Command that is run when something waits for a yes, or was ended; it reads that as JSON."""
    pace: Pace = inline(Pace())


@frozen
class BashSettings:
    """How `bash` behaves: the characters it shows, and its seconds."""

    crop_output: int = setting(10_000, key="cropOutput", project=checks.as_given)
    """How many characters of the output the tool bash shows."""
    timeout: float = setting(60.0, key="timeoutSeconds", project=checks.as_given)
    """Seconds a command of the tool bash may take, if the call does not say."""


@frozen
class Waiting:
    """Seconds. A `most` of 0 answers at once, `None` waits without end; but no wait goes on after
    the moment `until`.
    """

    least: float = setting(1.0, key="minInterval", project=checks.as_given)
    """The least time that a call of a session tool waits for output."""
    settle: float = setting(2.0, key="settleInterval", project=checks.as_given)
    """A call of a session tool answers when there was no output for so long."""
    most: float | None = setting(30.0, key="maxInterval", project=checks.as_given)
    """The most time that a call of a session tool waits; 0 answers at once."""
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
    """How many sessions each client may have at a time."""
    kept: float = no_setting(600.0)
    total: int = 200
    """How many sessions all clients of a server may have together."""


@frozen
class StaySettings:
    """Commands that outlive the program that started them, if it asks for that."""

    most: int = setting(8, checks.count, key="max", project=checks.shorter)
    """How many commands of yours may stay at a time, whoever started them."""
    lease: float = setting(8 * 3600.0, checks.lease, project=checks.shorter)
    """Seconds after which a command that stays and nobody holds is ended, with all it started."""
    output: int = setting(16 * _MIB, checks.stay_output, project=checks.shorter)
    """How many bytes of each stream of it are kept for whoever holds it next, 1 MiB at least; disk
    is taken for them at the start.
    """


@frozen
class AcpSettings:
    """How we serve an editor and its agent."""

    timeout: float = setting(0.0, project=checks.as_given)
    """Seconds for every command of an editor's agent; 0 is no limit."""
    command_timeouts: tuple[str, ...] = setting((), project=checks.as_given)
    """Seconds by program, such as ["cargo=600", "npm=900"]."""
    empty_result: str = setting("object", one_of("object", "null"))
    """Whether terminal/kill and terminal/release answer {} (object) or null."""
    pty: str = setting("auto", one_of("auto", "always", "never"))
    """Whether commands get a terminal: where the editor draws one (auto), always, or never."""
    add_mcp: bool = False
    """Give every session of the agent our MCP tools, too; as --mcp."""
    wrap_shell: bool = False
    """Run the own shell commands of Claude Code through shelltie run; as --wrap-shell."""
    agent_grace: float = 8.0
    """Seconds the agent has to leave by itself when the editor has left."""


@frozen
class HttpSettings:
    """How long a server over HTTP waits for what, and for how many."""

    idle: float = 1800.0  # a client that makes no request for so long has left
    """Seconds without a request after which a client is taken for gone."""
    drain: float = 3.0  # what runs may take so long to end by itself when we leave
    """Seconds that running commands have to end by themselves when the server leaves."""
    connections: int = setting(512, checks.count)
    """How many connections may be open at a time."""
    requests: int = setting(256, checks.count)  # of one token, at a time
    """How many requests of one token may be open at a time."""
    silence: float = 75.0  # longer than clients keep a connection that they do not use; 0: no limit
    """Seconds after which a connection that is not used is closed; 0 is never."""


@frozen
class Retention:
    """The oldest may be so many days old, and all of them so large together; 0 is no limit."""

    days: float = setting(90.0, checks.days, key="keep_days")
    """Days after which entries of the journal are removed; 0 is never."""
    size: int = setting(512 * _MIB, key="keep_bytes")
    """Bytes that the journal may have; the oldest entries are removed. 0 is no limit."""


@frozen
class AuditSettings:
    """Where the journal is, whether anything may run without it, and how much of it is kept.

    Heads go to `anchor`, a file that others cannot change.
    """

    enabled: bool = True
    """Whether everything is recorded in the journal."""
    path: str | None = None
    """The journal's file. Not set: journal.db in the state directory."""
    required: bool = setting(False, project=checks.once_true)
    """Refuse to run what cannot be recorded."""
    retention: Retention = inline(Retention())
    anchor: str | None = None
    """A file, best on another machine's disk, that gets the hash of the journal's end from time to
    time.
    """


@frozen
class AdaptiveSettings:
    """What follows from how long such commands usually take."""

    mode: Adaptive = setting(Adaptive.SUGGEST, member_of(Adaptive), project=checks.milder)
    """Whether the usual duration of a command is ignored (off), told (suggest), or makes the
    policy's limits longer (apply).
    """
    min_samples: int = setting(20, checks.count)
    """How many runs it takes to say what is usual."""


@frozen
class RetrySettings:
    """How often what failed is tried again."""

    attempts: int = setting(0, checks.zero_to_two)
    """How often a harmless command that timed out is tried again."""


@frozen
class BreakerSettings:
    """How many starts may fail in a row before there is a pause; 0 is never."""

    failures: int = 0
    """How many commands in a row may fail to start before there is a pause; 0 is never a pause."""
    pause: float = 30.0
    """How long that pause is."""


@frozen
class Thresholds:
    """What is still well. Rates are of the last hundred commands."""

    sessions: int = 50
    """More open sessions than this are an alert."""
    success: float = setting(0.95, checks.share)
    """A share of successful commands of this or less is an alert; of the last hundred."""
    violations: float = setting(0.0, checks.share)
    """A share of refused commands above this is an alert; of the last hundred."""
    duration: float = 5.0
    """An average duration of this many seconds or more is an alert."""
    truncated: float = setting(0.01, checks.share)
    """A share of runs that print more than is shown of this or more is an alert."""


@frozen
class AlertSettings:
    """Which alerts there are, and the command that is told of them."""

    on: tuple[str, ...] = setting(ALERTS, checks.some_of(*ALERTS))
    """Which alerts are told."""
    command: str | None = None
    """A shell command that gets each alert as a JSON object on its stdin."""
    thresholds: Thresholds = inline(Thresholds())


@frozen
class StateSettings:
    """Where output and records are kept; empty is the usual place."""

    dir: str = ""
    """Where output and records are kept. Not set: $XDG_STATE_HOME/shelltie, or
    ~/.local/state/shelltie.
    """
