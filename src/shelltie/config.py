"""Layers of settings, merged into one frozen Config in which each value knows its origin.

Command line > SHELLTIE_* > project (.shelltie.toml) > user > system. The system file may lock keys.
A project's file is somebody else's text, so it may set only what cannot loosen anything.
"""

import difflib
import os
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from shelltie.errors import ConfigWrong
from shelltie.model import Survivors, seconds

_FILE_MAX = 1024 * 1024


def _number(value: object) -> float:
    try:
        span = seconds(float(value) if isinstance(value, str) else value, "it")
    except ValueError:
        raise ValueError(f"it must be a number of seconds, 0 or more, not {value!r}") from None
    return 0.0 if span is None else span


def _size(value: object) -> int:
    number = int(value) if isinstance(value, str) else value
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"it must be a number of bytes, 0 or more, not {value!r}")
    return number


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


def _setting(
    key: str, check: Callable[[object], object], default: object, *, project: bool = False
) -> Any:  # noqa: ANN401  a dataclass field is typed by its annotation
    meta = {"key": key, "check": check, "project": project}
    return field(default=cast(Any, default), metadata=meta)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every setting there is; its key in a file stands beside it."""

    policy_path: str | None = _setting("policy.path", _text, None)
    grace: float = _setting("limits.grace", _number, 5.0, project=True)
    warn_lead: float | None = _setting("limits.warn_lead", _number, None, project=True)
    idle_evidence: str | None = _setting("limits.idle_evidence", _one_of("any", "none"), None)
    survivors: str = _setting("run.background_survivors", _one_of(*Survivors), "kill")
    shown: int = _setting("output.shown", _size, 40_000, project=True)
    kept_head: int = _setting("output.kept_head", _size, 512 * 1024)
    kept_tail: int = _setting("output.kept_tail", _size, 512 * 1024)
    spool_cap: int = _setting("output.spool_cap", _size, 64 * 1024 * 1024)
    shell: str | None = _setting("shell", _text, None)
    path: str = _setting("environment.path", _one_of("auto", "login", "inherit"), "auto")
    keeper: str = _setting("keeper", _one_of("auto", "c", "python"), "auto")
    state_dir: str = _setting("state.dir", _text, "")
    open_files: int | None = _setting("resources.open_files", _size, None)
    core: int | None = _setting("resources.core", _size, None)
    processes: int | None = _setting("resources.processes", _size, None)
    address_space: int | None = _setting("resources.address_space", _size, None)
    cpu_seconds: int | None = _setting("resources.cpu_seconds", _size, None)
    origins: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()

    def rows(self) -> Iterator[tuple[str, object, str]]:
        """Each key with its value and where that came from."""
        for key, (name, _, _) in _SETTINGS.items():
            yield key, getattr(self, name), self.origins.get(key, "default")


_SETTINGS: dict[str, tuple[str, Callable[[object], object], bool]] = {
    f.metadata["key"]: (f.name, f.metadata["check"], f.metadata["project"])
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
    values: dict[str, object] = {}
    origins: dict[str, str] = {}
    ignored: list[str] = []

    def apply(layer: Mapping[str, object], origin: str, *, system: bool = False) -> None:
        for key, value in layer.items():
            if key in locked and not system:
                ignored.append(f"{origin}: {key} is locked by {system_file()}")
            else:
                values[_SETTINGS[key][0]] = _checked(key, value, origin)
                origins[key] = origin

    apply(_known(system, str(system_file())), str(system_file()), system=True)
    apply(_known(_read(user_file(environ)), str(user_file(environ))), str(user_file(environ)))
    own = _known(_read(project_file(project)), str(project_file(project)))
    for key in [key for key in own if not _SETTINGS[key][2]]:
        ignored.append(f"{project_file(project)}: {key} may not be set by a project; ignored")
        del own[key]
    apply(own, str(project_file(project)))
    for key, value in _from_environment(environ).items():
        apply({key: value}, _variable(key))
    apply(overrides or {}, "command line")
    values["state_dir"] = str(values.get("state_dir") or state_dir(environ))
    return Config(**cast(Any, values), origins=origins, ignored=tuple(ignored))


def _read(path: Path) -> dict[str, object]:
    """A file's settings; one that is not there has none."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _FILE_MAX:
            raise ConfigWrong(f"{path}: no file, or larger than 1 MiB: this is no configuration")
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigWrong(f"{path}: cannot be read: {error}") from error


def _known(tree: Mapping[str, object], origin: str) -> dict[str, object]:
    """Dotted keys of nested tables, each of which must exist."""
    flat = dict(_flatten(tree, ""))
    for key in flat:
        if key not in _SETTINGS:
            close = difflib.get_close_matches(key, _SETTINGS, 1)
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


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {key: environ[name] for key in _SETTINGS if (name := _variable(key)) in environ}


def _checked(key: str, value: object, origin: str) -> object:
    try:
        return _SETTINGS[key][1](value)
    except ValueError as error:
        raise ConfigWrong(f"{origin}: {key}: {error}") from error
