"""Layers of settings: command line > SHELLTIE_* > project (.shelltie.toml) > user > system.

The system file may lock keys. A project's file is a stranger's text: until it is trusted it may
only tighten.
"""

import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path

from shelltie.basics.frozen import mutable, replace
from shelltie.errors import ConfigWrong
from shelltie.settings import trust
from shelltie.settings.all_settings import StateSettings
from shelltie.settings.config import (
    PRESET_KEY,
    SETTINGS,
    Config,
    checked,
    nearest,
    preset_values,
)
from shelltie.settings.paths import (
    ONLY_RUNTIME,
    project_file,
    state_dir,
    system_file,
    trust_file,
    user_file,
)
from shelltie.settings.places import Place, read_places

_FILE_MAX = 1024 * 1024
PLACES = "places"  # their names are the user's, so they are no keys as others are

# Names that task contexts have had elsewhere.
OTHER_NAMES = {
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
    layers = _Layers(_with_parts(frozenset(map(str, locked))))
    layers.apply_file(system, str(system_file()), system=True)
    user = user_file(environ)
    layers.apply_file(_read(user), str(user))
    snapshot = trust.look(project)
    layers.apply_project(
        _parsed(snapshot.files.get(trust.SETTINGS, b""), project_file(project)),
        str(project_file(project)),
        trusted=trust.is_trusted(snapshot, trust_file(environ)),
    )
    for name, key, value in from_environment(environ):
        layers.apply({key: value}, name)
    layers.apply(overrides or {}, "command line")
    config = Config(state=StateSettings(str(state_dir(environ)))).changed_by(layers.values)
    origins, ignored = layers.every_origin(), tuple(layers.ignored)
    return replace(config, origins=origins, ignored=ignored, places=layers.places)


def _with_parts(locked: frozenset[str]) -> frozenset[str]:
    """A preset that nobody may change is one whose decisions nobody may."""
    whole = PRESET_KEY in locked
    return locked.union(preset_values(SETTINGS[PRESET_KEY].default) if whole else ())


def check_text(text: str, path: Path) -> None:
    """Whether a file with that text has nothing but known keys with values they may have.

    Raises: ConfigWrong.
    """
    tree = _parsed(text.encode("utf-8"), path)
    if path == system_file():
        tree.pop("locked", None)
    read_places(tree.pop(PLACES, {}), str(path))
    for key, value in _known(tree, str(path)).items():
        checked(key, value, str(path))


def variable(key: str) -> str:
    """The variable of the environment that sets a key."""
    return "SHELLTIE_" + key.upper().replace(".", "_")


@mutable
class _Layers:
    """The settings so far, each layer over the one below."""

    locked: frozenset[str]
    values: dict[str, object] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    places: dict[str, Place] = field(default_factory=dict)

    def apply_file(self, tree: dict[str, object], origin: str, *, system: bool = False) -> None:
        self._apply_places(tree.pop(PLACES, {}), origin, system=system)
        self.apply(_known(tree, origin), origin, system=system)

    def _apply_places(self, tree: object, origin: str, *, system: bool = False) -> None:
        found = read_places(tree, origin)
        if found and PLACES in self.locked and not system:
            self.ignored.append(f"{origin}: {PLACES} is locked by {system_file()}")
            return
        self.places |= found

    def apply(self, layer: Mapping[str, object], origin: str, *, system: bool = False) -> None:
        for key, value in layer.items():
            if key in self.locked and not system:
                self.ignored.append(f"{origin}: {key} is locked by {system_file()}")
            else:
                self.values[key] = checked(key, value, origin)
                self.origins[key] = origin

    def apply_project(self, given: dict[str, object], origin: str, *, trusted: bool) -> None:
        places = given.pop(PLACES, {})
        if trusted:
            self._apply_places(places, origin)
        elif read_places(places, origin):
            self.ignored.append(f"{origin}: {PLACES} count when you run `shelltie trust`; ignored")
        own = _known(given, origin)
        self.apply(own if trusted else dict(self._tightened(own, origin)), origin)

    def every_origin(self) -> dict[str, str]:
        """Where each value came from; what a preset sets, from there."""
        if PRESET_KEY not in self.values:
            return self.origins
        told = f"{PRESET_KEY} = {self.values[PRESET_KEY]}"
        return {**dict.fromkeys(preset_values(self.values[PRESET_KEY]), told), **self.origins}

    def _current(self, key: str) -> object:
        preset = self.values.get(PRESET_KEY, SETTINGS[PRESET_KEY].default)
        usual = {**preset_values(preset), PRESET_KEY: preset}
        return self.values.get(key, usual.get(key, SETTINGS[key].default))

    def _tightened(self, own: Mapping[str, object], origin: str) -> Iterator[tuple[str, object]]:
        parts = self._stricter_preset(own, origin)
        for key, value in {**parts, **own}.items():
            given, current = checked(key, value, origin), self._current(key)
            merged = _merged(key, current, given)
            if merged != current or key in parts:
                yield key, merged
            elif given != current and key in own:
                self.ignored.append(
                    f"{origin}: {key} may only tighten until you run `shelltie trust`; ignored"
                )

    def _stricter_preset(self, own: Mapping[str, object], origin: str) -> dict[str, object]:
        """The decisions of a stricter preset: each only tightens what holds now."""
        current = self._current(PRESET_KEY)
        given = checked(PRESET_KEY, own.get(PRESET_KEY, current), origin)
        return {} if _merged(PRESET_KEY, current, given) == current else preset_values(given)


def _merged(key: str, current: object, given: object) -> object:
    """What holds after a file that is not trusted has said something."""
    project = SETTINGS[key].project
    return current if project is None else project(current, given)


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
    if not content:  # most projects have none, and the parser is not loaded for that
        return {}
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
        if key not in SETTINGS:
            advice = nearest(key, (*SETTINGS, *_ALIASES))
            raise ConfigWrong(f"{origin}: unknown key {key}{advice}")
    return flat


def _flatten(tree: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Each variable that is set, with its key and its value.

    Raises: ConfigWrong.
    """
    known = {variable(key) for key in SETTINGS} | _OTHER_VARIABLES
    for unknown in sorted(environ.keys() - known):
        if unknown.startswith("SHELLTIE_"):
            raise ConfigWrong(f"unknown variable {unknown}{nearest(unknown, sorted(known))}")
    for key in SETTINGS:
        for name in (OTHER_NAMES.get(key), variable(key)):
            if name is not None and name in environ:
                yield name, key, environ[name]
