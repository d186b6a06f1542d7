"""Layers of settings, merged into one frozen Config in which each value knows its origin.

Command line > SHELLTIE_* > project (.shelltie.toml) > user > system. The system file may lock keys.
A project's file is somebody else's text: until it is trusted it may only tighten.
"""

import difflib
import os
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from shelltie import trust
from shelltie.errors import ConfigWrong
from shelltie.events import ALERTS
from shelltie.model import Adaptive, Decision, Survivors, seconds

_FILE_MAX = 1024 * 1024
# Seconds that another agent may be silent, and that it may take in all.
IDLE_MIN, IDLE_MAX, IDLE_DEFAULT = 60.0, 1800.0, 300.0
HARD_MIN, HARD_MAX, HARD_DEFAULT = 300.0, 3600.0, 1200.0


def _number(value: object) -> float:
    try:
        span = seconds(float(value) if isinstance(value, str) else value, "it")
    except ValueError:
        raise ValueError(f"it must be a number of seconds, 0 or more, not {value!r}") from None
    return 0.0 if span is None else span


def _days(value: object) -> float:
    try:
        return _number(value)
    except ValueError:
        raise ValueError(f"it must be a number of days, 0 or more, not {value!r}") from None


def _size(value: object) -> int:
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"it must be a whole number, 0 or more, not {value!r}")
    return number


def _count(value: object) -> int:
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ValueError(f"it must be a whole number, 1 or more, not {value!r}")
    return number


def _few(value: object) -> int:
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if number not in (0, 1, 2) or isinstance(number, bool):
        raise ValueError(f"it must be 0, 1 or 2, not {value!r}")
    return int(str(number))


def _text(value: object) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError(f"it must be a text, not {value!r}")
    return value


def _one_of(*words: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        if value not in words:
            raise ValueError(f"it must be one of {', '.join(words)}, not {value!r}")
        return str(value)

    return check


def _share(value: object) -> float:
    try:
        share = float(value) if isinstance(value, str) else value
    except ValueError:
        share = None
    if not isinstance(share, int | float) or isinstance(share, bool) or not 0 <= share <= 1:
        raise ValueError(f"it must be a number from 0 to 1, not {value!r}")
    return float(share)


def _some_of(*words: str) -> Callable[[object], tuple[str, ...]]:
    def check(value: object) -> tuple[str, ...]:
        return tuple(map(_one_of(*words), _texts(value)))

    return check


def _flag(value: object) -> bool:
    word = value.lower() if isinstance(value, str) else value
    if word in (True, "true", "yes", "1"):
        return True
    if word in (False, "false", "no", "0", ""):
        return False
    raise ValueError(f"it must be true or false, not {value!r}")


def _milliseconds(value: object) -> float:
    """Seconds; a variable of the environment has milliseconds."""
    if not isinstance(value, str):
        return _number(value)
    try:
        return _number(value) / 1000
    except ValueError:
        raise ValueError(f"it must be a number of milliseconds, not {value!r}") from None


def _texts(value: object) -> tuple[str, ...]:
    """A list; in a variable of the environment its items are separated by commas."""
    items = [item.strip() for item in value.split(",")] if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise ValueError(f"it must be a list of texts, not {value!r}")  # noqa: TRY004  as the others
    return tuple(_text(item) for item in items if item != "")


# What a file that nobody trusts may do to a value: never make it looser.


def _as_given(_: object, given: object) -> object:
    return given


def _more(current: object, given: object) -> object:
    return (*cast(tuple[str, ...], current), *cast(tuple[str, ...], given))


def _both(current: object, given: object) -> object:
    return bool(current) and bool(given)


def _last_of(words: tuple[str, ...]) -> Callable[[object, object], object]:
    def stricter(current: object, given: object) -> object:
        return max(str(current), str(given), key=words.index)

    return stricter


def _milder(current: object, given: object) -> object:
    """A file that nobody trusts may not have limits made longer."""
    return given if given != Adaptive.APPLY else current


def _once_true(current: object, given: object) -> object:
    return current or given


_DECISIONS = tuple(map(str, Decision))
_RATINGS = ("listed", "proven")
_ARGUMENTS = ("off", "default", "strict")


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
    return _setting(key, _one_of(*_DECISIONS), str(default), project=_last_of(_DECISIONS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every setting there is; its key in a file stands beside it."""

    policy_path: str | None = _setting("policy.path", _text, None)
    grace: float = _setting("limits.grace", _number, 5.0, project=_as_given)
    warn_lead: float | None = _setting("limits.warn_lead", _number, None, project=_as_given)
    idle_evidence: str | None = _setting("limits.idle_evidence", _one_of("any", "none"), None)
    survivors: str = _setting("run.background_survivors", _one_of(*Survivors), "kill")
    shown: int = _setting("output.shown", _size, 40_000, project=_as_given)
    kept_head: int = _setting("output.kept_head", _size, 512 * 1024)
    kept_tail: int = _setting("output.kept_tail", _size, 512 * 1024)
    keep: str = _setting("output.keep", _one_of("long", "all"), "long")
    spool_cap: int = _setting("output.spool_cap", _size, 64 * 1024 * 1024)
    shell: str | None = _setting("shell", _text, None)
    path: str = _setting("environment.path", _one_of("auto", "login", "inherit"), "auto")
    passed: tuple[str, ...] = _setting("environment.pass", _texts, ())
    redact: bool = _setting("output.redact", _flag, False)
    rating: str = _setting(
        "safety.rating_mode", _one_of(*_RATINGS), "proven", project=_last_of(_RATINGS)
    )
    run_unknown: str = _decision("safety.profiles.run.unknown", Decision.ALLOW)
    run_dangerous: str = _decision("safety.profiles.run.dangerous", Decision.ASK)
    session_unknown: str = _decision("safety.profiles.session.unknown", Decision.ASK)
    session_dangerous: str = _decision("safety.profiles.session.dangerous", Decision.ASK)
    acp_unknown: str = _decision("safety.profiles.acp.unknown", Decision.ALLOW)
    acp_dangerous: str = _decision("safety.profiles.acp.dangerous", Decision.ASK)
    safe_commands: tuple[str, ...] = _setting("safety.safeCommands", _texts, ())
    dangerous_commands: tuple[str, ...] = _setting(
        "safety.dangerousCommands", _texts, (), project=_more
    )
    allowlist: str | None = _setting("access.allowlist_path", _text, None)
    arguments: str = _setting(
        "access.argument_level", _one_of(*_ARGUMENTS), "default", project=_last_of(_ARGUMENTS)
    )
    relative_paths: bool = _setting("access.allow_relative_paths", _flag, False)
    access_enabled: bool = _setting("tools.access.enabled", _flag, False)
    task_timeout: float = _setting("access.default_timeout", _milliseconds, 60.0)
    task_timeout_max: float = _setting("access.max_timeout", _milliseconds, 300.0)
    task_output: int = _setting("access.max_output", _size, 1024 * 1024)
    tasks_max: int = _setting("access.max_sessions", _size, 50)
    task_ttl: float = _setting("access.idle_ttl", _number, 3600.0)
    run_enabled: bool = _setting("tools.run.enabled", _flag, True)
    bash_enabled: bool = _setting("tools.bash.enabled", _flag, True)
    sessions_enabled: bool = _setting("tools.sessions.enabled", _flag, True)
    unknown_wait: float = _setting("safety.unknown_timeout", _number, 10.0)
    dangerous_wait: float | None = _setting("safety.dangerous_timeout", _number, None)
    ask_client: bool = _setting("safety.ask_client", _flag, True, project=_both)
    on_timeout: str = _setting("safety.on_timeout", _one_of("deny", "approve"), "deny")
    agent_enabled: bool = _setting("tools.agent_task.enabled", _flag, True)
    agent_idle: float = _setting("agent.idle", _number, IDLE_DEFAULT)
    agent_idle_min: float = _setting("agent.idle_min", _number, IDLE_MIN)
    agent_idle_max: float = _setting("agent.idle_max", _number, IDLE_MAX)
    agent_hard: float = _setting("agent.hard", _number, HARD_DEFAULT)
    agent_hard_min: float = _setting("agent.hard_min", _number, HARD_MIN)
    agent_hard_max: float = _setting("agent.hard_max", _number, HARD_MAX)
    patience: float | None = _setting("mcp.patience", _number, None)
    first_progress: float = _setting("notify.first_progress", _number, 5.0, project=_as_given)
    progress_interval: float = _setting(
        "notify.progress_interval", _number, 30.0, project=_as_given
    )
    crop_output: int = _setting("bash.cropOutput", _size, 10_000, project=_as_given)
    bash_timeout: float = _setting("bash.timeoutSeconds", _number, 60.0, project=_as_given)
    min_interval: float = _setting("persistent.minInterval", _number, 1.0, project=_as_given)
    settle_interval: float = _setting("persistent.settleInterval", _number, 2.0, project=_as_given)
    max_interval: float = _setting("persistent.maxInterval", _number, 30.0, project=_as_given)
    sessions_max: int = _setting("sessions.max", _size, 50)
    acp_timeout: float = _setting("acp.timeout", _number, 0.0, project=_as_given)
    acp_timeouts: tuple[str, ...] = _setting("acp.command_timeouts", _texts, (), project=_as_given)
    acp_empty: str = _setting("acp.empty_result", _one_of("object", "null"), "object")
    http_idle: float = _setting("http.idle", _number, 1800.0)
    http_drain: float = _setting("http.drain", _number, 3.0)
    audit_enabled: bool = _setting("audit.enabled", _flag, True)
    audit_path: str | None = _setting("audit.path", _text, None)
    audit_required: bool = _setting("audit.required", _flag, False, project=_once_true)
    audit_days: float = _setting("audit.keep_days", _days, 90.0)
    audit_size: int = _setting("audit.keep_bytes", _size, 512 * 1024 * 1024)
    audit_anchor: str | None = _setting("audit.anchor", _text, None)
    adaptive: str = _setting("adaptive.mode", _one_of(*Adaptive), "suggest", project=_milder)
    min_samples: int = _setting("adaptive.min_samples", _count, 20)
    retries: int = _setting("retry.attempts", _few, 0)
    breaker_failures: int = _setting("breaker.failures", _size, 0)
    breaker_pause: float = _setting("breaker.pause", _number, 30.0)
    alerts: tuple[str, ...] = _setting("alerts.on", _some_of(*ALERTS), ALERTS)
    alerts_command: str | None = _setting("alerts.command", _text, None)
    alert_sessions: int = _setting("alerts.sessions", _size, 50)
    alert_success: float = _setting("alerts.success", _share, 0.95)
    alert_violations: float = _setting("alerts.violations", _share, 0.0)
    alert_duration: float = _setting("alerts.duration", _number, 5.0)
    alert_truncated: float = _setting("alerts.truncated", _share, 0.01)
    keeper: str = _setting("keeper", _one_of("auto", "c", "python"), "auto")
    state_dir: str = _setting("state.dir", _text, "")
    open_files: int | None = _setting("resources.open_files", _size, None)
    core: int | None = _setting("resources.core", _size, None)
    processes: int | None = _setting("resources.processes", _size, None)
    address_space: int | None = _setting("resources.address_space", _size, None)
    cpu_seconds: int | None = _setting("resources.cpu_seconds", _size, None)
    origins: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()

    @property
    def journal(self) -> Path:
        """Where everything is recorded."""
        return Path(self.audit_path or Path(self.state_dir) / "journal.db")

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


@dataclass(frozen=True, slots=True)
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


def system_file() -> Path:
    """The fleet's settings."""
    return Path("/etc/shelltie/config.toml")


def user_file(environ: Mapping[str, str] = os.environ) -> Path:
    """This person's settings."""
    return _xdg(environ, "XDG_CONFIG_HOME", ".config") / "config.toml"


def project_file(project: Path) -> Path:
    """The project's settings."""
    return project / ".shelltie.toml"


def trust_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Which projects this person trusts."""
    return user_file(environ).with_name("trusted.toml")


def approved_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Which commands this person has approved for good."""
    return user_file(environ).with_name("approved.toml")


def tokens_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Who may use an HTTP server of this person's."""
    return user_file(environ).with_name("http-tokens")


def rules_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """This person's own rules about programs."""
    return user_file(environ).with_name("rules")


def state_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Where output and records are kept, unless `state.dir` says otherwise."""
    return _xdg(environ, "XDG_STATE_HOME", ".local/state")


def _xdg(environ: Mapping[str, str], name: str, fallback: str) -> Path:
    home = environ.get("HOME") or "/"
    return Path(environ.get(name) or Path(home) / fallback) / "shelltie"


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
            close = difflib.get_close_matches(key, (*_SETTINGS, *_ALIASES), 1)
            advice = f"did you mean {close[0]}?" if close else f"known: {', '.join(_SETTINGS)}"
            raise ConfigWrong(f"{origin}: unknown key {key}; {advice}")
    return flat


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
    for key in _SETTINGS:
        for name in (_VARIABLES.get(key), _variable(key)):
            if name is not None and name in environ:
                yield name, key, environ[name]


def _checked(key: str, value: object, origin: str) -> object:
    try:
        return _SETTINGS[key].check(value)
    except ValueError as error:
        raise ConfigWrong(f"{origin}: {key}: {error}") from error
