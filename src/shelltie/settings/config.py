"""Config: layered settings, merged into one frozen record that knows each value's origin.

Command line > SHELLTIE_* > project (.shelltie.toml) > user > system. The system file may lock keys.
A project's file is a stranger's text: until it is trusted it may only tighten.
"""

import difflib
import os
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from shelltie.basics.frozen import frozen
from shelltie.errors import ConfigWrong
from shelltie.events import ALERTS
from shelltie.model import Adaptive, Survivors
from shelltie.settings import trust
from shelltie.settings.checks import (
    absolute,
    as_given,
    both,
    count,
    cpus,
    days,
    displayed,
    few,
    flag,
    last_of,
    memory,
    milder,
    milliseconds,
    more,
    number,
    once_true,
    one_of,
    processes,
    room,
    share,
    size,
    some_of,
    text,
    texts,
)
from shelltie.settings.paths import (
    ONLY_RUNTIME,
    project_file,
    state_dir,
    system_file,
    trust_file,
    user_file,
)
from shelltie.verdict import Decision

_FILE_MAX = 1024 * 1024
# Seconds that another agent may be silent, and that it may take in all.
IDLE_MIN, IDLE_MAX, IDLE_DEFAULT = 60.0, 1800.0, 300.0
HARD_MIN, HARD_MAX, HARD_DEFAULT = 300.0, 3600.0, 1200.0


_DECISIONS = tuple(map(str, Decision))
_RATINGS = ("listed", "proven")
_ARGUMENTS = ("off", "default", "strict")
_LEVELS = ("none", "auto", "sandbox", "container")
_NETWORKS = ("on", "loopback", "off")
_UNASKED = ("isolate", "refuse")


def _setting(
    key: str,
    check: Callable[[object], object],
    default: object,
    *,
    project: Callable[[object, object], object] | None = None,
) -> Any:  # noqa: ANN401  a dataclass field is typed by its annotation
    meta = {"key": key, "check": check, "project": project}
    return field(default=cast(Any, default), metadata=meta)


def _decision(key: str, default: Decision) -> Any:  # noqa: ANN401  as above
    return _setting(key, one_of(*_DECISIONS), str(default), project=last_of(_DECISIONS))


def _level(key: str) -> Any:  # noqa: ANN401  as above
    return _setting(key, one_of(*_LEVELS), "none", project=last_of(_LEVELS))


@frozen
class Config:
    """Every setting there is; its key in a file stands beside it."""

    _: KW_ONLY
    policy_path: str | None = _setting("policy.path", text, None)
    grace: float = _setting("limits.grace", number, 5.0, project=as_given)
    warn_lead: float | None = _setting("limits.warn_lead", number, None, project=as_given)
    idle_evidence: str | None = _setting("limits.idle_evidence", one_of("any", "none"), None)
    survivors: str = _setting("run.background_survivors", one_of(*Survivors), "kill")
    shown: int = _setting("output.shown", size, 40_000, project=as_given)
    kept_head: int = _setting("output.kept_head", size, 512 * 1024)
    kept_tail: int = _setting("output.kept_tail", size, 512 * 1024)
    keep: str = _setting("output.keep", one_of("long", "all"), "long")
    spool_cap: int = _setting("output.spool_cap", size, 64 * 1024 * 1024)
    shell: str | None = _setting("shell", text, None)
    path: str = _setting("environment.path", one_of("auto", "login", "inherit"), "auto")
    passed: tuple[str, ...] = _setting("environment.pass", texts, ())
    redact: bool = _setting("output.redact", flag, False)
    rating: str = _setting(
        "safety.rating_mode", one_of(*_RATINGS), "proven", project=last_of(_RATINGS)
    )
    run_unknown: str = _decision("safety.profiles.run.unknown", Decision.ALLOW)
    run_dangerous: str = _decision("safety.profiles.run.dangerous", Decision.ASK)
    session_unknown: str = _decision("safety.profiles.session.unknown", Decision.ASK)
    session_dangerous: str = _decision("safety.profiles.session.dangerous", Decision.ASK)
    acp_unknown: str = _decision("safety.profiles.acp.unknown", Decision.ALLOW)
    acp_dangerous: str = _decision("safety.profiles.acp.dangerous", Decision.ASK)
    run_safe_in: str = _level("isolation.profiles.run.safe")
    run_unknown_in: str = _level("isolation.profiles.run.unknown")
    run_dangerous_in: str = _level("isolation.profiles.run.dangerous")
    session_safe_in: str = _level("isolation.profiles.session.safe")
    session_unknown_in: str = _level("isolation.profiles.session.unknown")
    session_dangerous_in: str = _level("isolation.profiles.session.dangerous")
    acp_safe_in: str = _level("isolation.profiles.acp.safe")
    acp_unknown_in: str = _level("isolation.profiles.acp.unknown")
    acp_dangerous_in: str = _level("isolation.profiles.acp.dangerous")
    tasks_in: str = _level("isolation.tasks")
    unasked: str = _setting(
        "isolation.unasked", one_of(*_UNASKED), "isolate", project=last_of(_UNASKED)
    )
    workspace: str | None = _setting("sandbox.workspace", text, None)
    sandbox_network: str = _setting(
        "sandbox.network", one_of(*_NETWORKS), "loopback", project=last_of(_NETWORKS)
    )
    sandbox_writable: tuple[str, ...] = _setting("sandbox.writable", texts, ())
    sandbox_readable: tuple[str, ...] = _setting("sandbox.readable", displayed, ())
    sandbox_tmp: int = _setting("sandbox.tmp_size", room, 1024 * 1024 * 1024)
    sandbox_bwrap: str | None = _setting("sandbox.bwrap", absolute, None)
    sandbox_idle: float = _setting("sandbox.idle", number, 300.0)
    container_image: str | None = _setting("container.image", text, None)
    container_engine: str | None = _setting("container.engine", text, None)
    container_user: str | None = _setting("container.user", text, None)
    container_network: str = _setting(
        "container.network", one_of(*_NETWORKS[:2]), "loopback", project=last_of(_NETWORKS)
    )
    container_mounts: tuple[str, ...] = _setting("container.mounts", texts, ())
    container_memory: int = _setting("container.memory", memory, 0)
    container_cpus: float = _setting("container.cpus", cpus, 0.0)
    container_processes: int = _setting("container.processes", processes, 4096)
    safe_commands: tuple[str, ...] = _setting("safety.safeCommands", texts, ())
    dangerous_commands: tuple[str, ...] = _setting(
        "safety.dangerousCommands", texts, (), project=more
    )
    allowlist: str | None = _setting("access.allowlist_path", text, None)
    arguments: str = _setting(
        "access.argument_level", one_of(*_ARGUMENTS), "default", project=last_of(_ARGUMENTS)
    )
    relative_paths: bool = _setting("access.allow_relative_paths", flag, False)
    access_enabled: bool = _setting("tools.access.enabled", flag, False)
    task_timeout: float = _setting("access.default_timeout", milliseconds, 60.0)
    task_timeout_max: float = _setting("access.max_timeout", milliseconds, 300.0)
    task_output: int = _setting("access.max_output", size, 1024 * 1024)
    tasks_max: int = _setting("access.max_sessions", size, 50)
    task_ttl: float = _setting("access.idle_ttl", number, 3600.0)
    run_enabled: bool = _setting("tools.run.enabled", flag, True)
    bash_enabled: bool = _setting("tools.bash.enabled", flag, True)
    sessions_enabled: bool = _setting("tools.sessions.enabled", flag, True)
    unknown_wait: float = _setting("safety.unknown_timeout", number, 10.0)
    dangerous_wait: float | None = _setting("safety.dangerous_timeout", number, None)
    ask_client: bool = _setting("safety.ask_client", flag, True, project=both)
    on_timeout: str = _setting("safety.on_timeout", one_of("deny", "approve"), "deny")
    agent_enabled: bool = _setting("tools.agent_task.enabled", flag, True)
    agent_idle: float = _setting("agent.idle", number, IDLE_DEFAULT)
    agent_idle_min: float = _setting("agent.idle_min", number, IDLE_MIN)
    agent_idle_max: float = _setting("agent.idle_max", number, IDLE_MAX)
    agent_hard: float = _setting("agent.hard", number, HARD_DEFAULT)
    agent_hard_min: float = _setting("agent.hard_min", number, HARD_MIN)
    agent_hard_max: float = _setting("agent.hard_max", number, HARD_MAX)
    heartbeat_counts: bool = _setting("agent.heartbeat_counts", flag, True)
    heartbeat: str | None = _setting("agent.heartbeat", text, None)
    patience: float | None = _setting("mcp.patience", number, None)
    first_progress: float = _setting("notify.first_progress", number, 5.0, project=as_given)
    progress_interval: float = _setting("notify.progress_interval", number, 30.0, project=as_given)
    crop_output: int = _setting("bash.cropOutput", size, 10_000, project=as_given)
    bash_timeout: float = _setting("bash.timeoutSeconds", number, 60.0, project=as_given)
    min_interval: float = _setting("persistent.minInterval", number, 1.0, project=as_given)
    settle_interval: float = _setting("persistent.settleInterval", number, 2.0, project=as_given)
    max_interval: float = _setting("persistent.maxInterval", number, 30.0, project=as_given)
    sessions_max: int = _setting("sessions.max", size, 50)
    sessions_total: int = _setting("sessions.total", size, 200)
    acp_timeout: float = _setting("acp.timeout", number, 0.0, project=as_given)
    acp_timeouts: tuple[str, ...] = _setting("acp.command_timeouts", texts, (), project=as_given)
    acp_empty: str = _setting("acp.empty_result", one_of("object", "null"), "object")
    acp_pty: str = _setting("acp.pty", one_of("auto", "always", "never"), "auto")
    acp_mcp: bool = _setting("acp.add_mcp", flag, False)
    acp_wrap: bool = _setting("acp.wrap_shell", flag, False)
    acp_leave: float = _setting("acp.agent_grace", number, 8.0)
    http_idle: float = _setting("http.idle", number, 1800.0)
    http_drain: float = _setting("http.drain", number, 3.0)
    http_connections: int = _setting("http.connections", count, 512)
    http_silence: float = _setting("http.silence", number, 75.0)
    audit_enabled: bool = _setting("audit.enabled", flag, True)
    audit_path: str | None = _setting("audit.path", text, None)
    audit_required: bool = _setting("audit.required", flag, False, project=once_true)
    audit_days: float = _setting("audit.keep_days", days, 90.0)
    audit_size: int = _setting("audit.keep_bytes", size, 512 * 1024 * 1024)
    audit_anchor: str | None = _setting("audit.anchor", text, None)
    adaptive: str = _setting("adaptive.mode", one_of(*Adaptive), "suggest", project=milder)
    min_samples: int = _setting("adaptive.min_samples", count, 20)
    retries: int = _setting("retry.attempts", few, 0)
    breaker_failures: int = _setting("breaker.failures", size, 0)
    breaker_pause: float = _setting("breaker.pause", number, 30.0)
    alerts: tuple[str, ...] = _setting("alerts.on", some_of(*ALERTS), ALERTS)
    alerts_command: str | None = _setting("alerts.command", text, None)
    alert_sessions: int = _setting("alerts.sessions", size, 50)
    alert_success: float = _setting("alerts.success", share, 0.95)
    alert_violations: float = _setting("alerts.violations", share, 0.0)
    alert_duration: float = _setting("alerts.duration", number, 5.0)
    alert_truncated: float = _setting("alerts.truncated", share, 0.01)
    keeper: str = _setting("keeper", one_of("auto", "c", "python"), "auto")
    state_dir: str = _setting("state.dir", text, "")
    open_files: int | None = _setting("resources.open_files", size, None)
    core: int | None = _setting("resources.core", size, None)
    processes: int | None = _setting("resources.processes", size, None)
    address_space: int | None = _setting("resources.address_space", size, None)
    cpu_seconds: int | None = _setting("resources.cpu_seconds", size, None)
    memory: int | None = _setting("resources.memory", size, None)
    tasks: int | None = _setting("resources.tasks", size, None)
    cpus: float | None = _setting("resources.cpus", number, None)
    origins: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()

    @property
    def journal(self) -> Path:
        """Where everything is recorded."""
        return Path(self.audit_path or Path(self.state_dir) / "journal.db")

    def __post_init__(self) -> None:
        if not self.state_dir:  # else everything would be kept wherever somebody just is
            object.__setattr__(self, "state_dir", str(state_dir()))

    def rows(self) -> Iterator[tuple[str, object, str]]:
        """Each key with its value and where that came from."""
        for key, setting in _SETTINGS.items():
            yield key, getattr(self, setting.name), self.origins.get(key, "default")


# Names that task contexts have had elsewhere.
_VARIABLES = {
    "tools.access.enabled": "ENABLE_TERMINAL_ACCESS",
    "access.allowlist_path": "TERMINAL_ALLOWLIST_PATH",
    "access.default_timeout": "TERMINAL_DEFAULT_TIMEOUT",
    "access.max_timeout": "TERMINAL_MAX_TIMEOUT",
    "access.max_output": "TERMINAL_MAX_OUTPUT_SIZE",
    "access.max_sessions": "TERMINAL_MAX_SESSIONS",
}


# Variables with our name that are no settings.
_OTHER_VARIABLES = {
    ONLY_RUNTIME,
    "SHELLTIE_RUN",  # what a command of ours has; it may start another shelltie
    "SHELLTIE_PYKEEPER_PORTABLE",  # for the keeper
    "SHELLTIE_TOKEN",  # where docs/mcp.md has clients over HTTP keep theirs
}


# The section of TerminalService, for those who keep one file for both.
_ALIASES = {
    "terminal.safeCommands": "safety.safeCommands",
    "terminal.dangerousCommands": "safety.dangerousCommands",
    "terminal.agentDefaults.bash.cropOutput": "bash.cropOutput",
    "terminal.agentDefaults.bash.timeoutSeconds": "bash.timeoutSeconds",
    "terminal.agentDefaults.persistent.minInterval": "persistent.minInterval",
    "terminal.agentDefaults.persistent.settleInterval": "persistent.settleInterval",
    "terminal.agentDefaults.persistent.maxInterval": "persistent.maxInterval",
}


@frozen
class _Setting:
    name: str
    default: object
    check: Callable[[object], object]
    project: Callable[[object, object], object] | None


_SETTINGS = {
    f.metadata["key"]: _Setting(f.name, f.default, f.metadata["check"], f.metadata["project"])
    for f in fields(Config)
    if f.metadata
}


def load(
    project: Path,
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Config:
    """Everything merged.

    Raises: ConfigWrong, which names the file or variable, the key and what it may be.
    """
    system = _read(system_file())
    locked = system.pop("locked", [])
    if not isinstance(locked, list):
        raise ConfigWrong(f"{system_file()}: locked must be a list of keys")
    layers = _Layers(frozenset(map(str, locked)))
    layers.apply(_known(system, str(system_file())), str(system_file()), system=True)
    user = user_file(environ)
    layers.apply(_known(_read(user), str(user)), str(user))
    snapshot = trust.look(project)
    layers.apply_project(
        _parsed(snapshot.files.get(trust.SETTINGS, b""), project_file(project)),
        str(project_file(project)),
        trusted=trust.is_trusted(snapshot, trust_file(environ)),
    )
    for name, key, value in _from_environment(environ):
        layers.apply({key: value}, name)
    layers.apply(overrides or {}, "command line")
    values = {_SETTINGS[key].name: value for key, value in layers.values.items()}
    values["state_dir"] = str(values.get("state_dir") or state_dir(environ))
    return Config(**cast(Any, values), origins=layers.origins, ignored=tuple(layers.ignored))


@dataclass(slots=True)
class _Layers:
    """The settings so far, each layer over the one below."""

    locked: frozenset[str]
    values: dict[str, object] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)

    def apply(self, layer: Mapping[str, object], origin: str, *, system: bool = False) -> None:
        for key, value in layer.items():
            if key in self.locked and not system:
                self.ignored.append(f"{origin}: {key} is locked by {system_file()}")
            else:
                self.values[key] = _checked(key, value, origin)
                self.origins[key] = origin

    def apply_project(self, given: Mapping[str, object], origin: str, *, trusted: bool) -> None:
        own = _known(given, origin)
        self.apply(own if trusted else dict(self._tightened(own, origin)), origin)

    def _tightened(self, own: Mapping[str, object], origin: str) -> Iterator[tuple[str, object]]:
        for key, value in own.items():
            given, setting = _checked(key, value, origin), _SETTINGS[key]
            current = self.values.get(key, setting.default)
            merged = current if setting.project is None else setting.project(current, given)
            if merged != current:
                yield key, merged
            elif given != current:
                self.ignored.append(
                    f"{origin}: {key} may only tighten until you run `shelltie trust`; ignored"
                )


def _read(path: Path) -> dict[str, object]:
    """A file's settings; one that is not there has none."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _FILE_MAX:
            raise ConfigWrong(f"{path}: no file, or larger than 1 MiB: this is no configuration")
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigWrong(f"{path}: cannot be read: {error}") from error
    return _parsed(content, path)


def _parsed(content: bytes, path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigWrong(f"{path}: cannot be read: {error}") from error


def _known(tree: Mapping[str, object], origin: str) -> dict[str, object]:
    """Dotted keys of nested tables, each of which must exist."""
    flat: dict[str, object] = {}
    for written, value in _flatten(tree, ""):
        key = _ALIASES.get(written, written)
        if key in flat:
            raise ConfigWrong(f"{origin}: {written} and {key} are the same setting: keep one")
        flat[key] = value
        if key not in _SETTINGS:
            advice = _nearest(key, (*_SETTINGS, *_ALIASES))
            raise ConfigWrong(f"{origin}: unknown key {key}; {advice}")
    return flat


def _nearest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"


def _flatten(tree: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _variable(key: str) -> str:
    return "SHELLTIE_" + key.upper().replace(".", "_")


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Each variable that is set, with its key and its value."""
    known = {_variable(key) for key in _SETTINGS} | _OTHER_VARIABLES
    for unknown in sorted(environ.keys() - known):
        if unknown.startswith("SHELLTIE_"):
            raise ConfigWrong(f"unknown variable {unknown}; {_nearest(unknown, sorted(known))}")
    for key in _SETTINGS:
        for name in (_VARIABLES.get(key), _variable(key)):
            if name is not None and name in environ:
                yield name, key, environ[name]


def _checked(key: str, value: object, origin: str) -> object:
    try:
        return _SETTINGS[key].check(value)
    except ValueError as error:
        raise ConfigWrong(f"{origin}: {key}: {error}") from error
