"""Config: every setting there is, in sections; the table of keys, checks and defaults."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import KW_ONLY, field
from operator import attrgetter
from pathlib import Path
from typing import Any

from shelltie.basics.frozen import fields, frozen, is_record, replace
from shelltie.basics.validate import known_instead, one_of
from shelltie.errors import ConfigWrong
from shelltie.model import Resources
from shelltie.settings import all_settings as sections
from shelltie.settings.all_settings import Check, Merge, StateSettings, no_setting, setting
from shelltie.settings.checks import cpus, for_field
from shelltie.settings.paths import state_dir
from shelltie.settings.places import Place, PlaceRules

_LISTED_MAX = 40  # names in an error; more than a screen of them helps nobody


@frozen
class Config:
    """The sections, by their names in a file, and the settings that are in none."""

    _: KW_ONLY
    policy: sections.PolicySettings = sections.PolicySettings()
    limits: sections.LimitSettings = sections.LimitSettings()
    run: sections.RunSettings = sections.RunSettings()
    output: sections.OutputSettings = sections.OutputSettings()
    shell: str | None = None
    """The shell that runs commands. Not set: bash, or sh where there is none."""
    environment: sections.EnvironmentSettings = sections.EnvironmentSettings()
    safety: sections.SafetySettings = sections.SafetySettings()
    isolation: sections.IsolationSettings = sections.IsolationSettings()
    sandbox: sections.SandboxSettings = sections.SandboxSettings()
    container: sections.ContainerSettings = sections.ContainerSettings()
    access: sections.AccessSettings = sections.AccessSettings()
    tools: sections.ToolSettings = sections.ToolSettings()
    agent: sections.AgentTaskSettings = sections.AgentTaskSettings()
    trial: sections.TrialSettings = sections.TrialSettings()
    mcp: sections.McpSettings = sections.McpSettings()
    notify: sections.NotifySettings = sections.NotifySettings()
    bash: sections.BashSettings = sections.BashSettings()
    persistent: sections.Waiting = sections.Waiting()
    sessions: sections.SessionLimits = sections.SessionLimits()
    stay: sections.StaySettings = sections.StaySettings()
    place: PlaceRules = PlaceRules()
    acp: sections.AcpSettings = sections.AcpSettings()
    http: sections.HttpSettings = sections.HttpSettings()
    audit: sections.AuditSettings = sections.AuditSettings()
    adaptive: sections.AdaptiveSettings = sections.AdaptiveSettings()
    retry: sections.RetrySettings = sections.RetrySettings()
    breaker: sections.BreakerSettings = sections.BreakerSettings()
    alerts: sections.AlertSettings = sections.AlertSettings()
    keeper: str = setting("auto", one_of("auto", "c", "python"))
    """Which keeper ends process trees: the C program if it runs here (auto), or this one."""
    state: sections.StateSettings = sections.StateSettings()
    resources: Resources = Resources()
    places: Mapping[str, Place] = field(default_factory=dict, metadata={"key": None})
    origins: Mapping[str, str] = field(default_factory=dict, metadata={"key": None})
    ignored: tuple[str, ...] = no_setting(())

    @classmethod
    def of(cls, **values: object) -> "Config":
        """The defaults but for these: a key with `_` for its dots, as in `sandbox_network="off"`.

        Raises: ConfigWrong.
        """
        keys = {key.replace(".", "_"): key for key in SETTINGS}
        given = dict[str, object]()
        for name, value in values.items():
            if name not in keys:
                raise ConfigWrong(f"unknown setting {name}{nearest(name, keys)}")
            if value is not None:
                given[keys[name]] = checked(keys[name], value, "Config.of")
        return cls().changed_by(given)

    def changed(self, key: str, value: object) -> "Config":
        """The same with another value of one setting; a preset brings all of its decisions."""
        config: Config = _changed(self, SETTINGS[key].path, value)
        if key == PRESET_KEY:
            profiles = sections.PRESETS[config.safety.preset]
            return replace(config, safety=replace(config.safety, profiles=profiles))
        return config

    def changed_by(self, values: Mapping[str, object]) -> "Config":
        """The same with other values of these; a key of its own overrides the preset."""
        config = self
        for key in sorted(values, key=lambda key: key != PRESET_KEY):
            config = config.changed(key, values[key])
        return config

    @property
    def journal(self) -> Path:
        """Where everything is recorded."""
        return Path(self.audit.path or Path(self.state.dir) / "journal.db")

    def __post_init__(self) -> None:
        if not self.state.dir:  # else everything would be kept wherever somebody just is
            object.__setattr__(self, "state", StateSettings(str(state_dir())))

    def rows(self) -> Iterator[tuple[str, object, str]]:
        """Each key with its value and where that came from."""
        for key, known in SETTINGS.items():
            yield key, attrgetter(known.path)(self), self.origins.get(key, "default")


@frozen
class Setting:
    """Where in a Config it is, and what it may be; what an untrusted project may do to it."""

    path: str
    default: object
    check: Check
    project: Merge | None


_CHECKS_BY_KEY: dict[str, Check] = {"resources.cpus": cpus}  # its class is below this layer


def _settings(section: Any, prefix: str = "", path: str = "") -> Iterator[tuple[str, Setting]]:  # noqa: ANN401  any section, or all
    for f in fields(section):
        key = f.metadata.get("key", f.name)
        if key is None:
            continue
        default = f.default if section is Config else getattr(section, f.name)
        if is_record(default):
            yield from _settings(default, f"{prefix}{key}." if key else prefix, f"{path}{f.name}.")
        else:
            check = _CHECKS_BY_KEY.get(prefix + key) or for_field(f)
            project = f.metadata.get("project")
            yield prefix + key, Setting(path + f.name, default, check, project)


SETTINGS = dict(_settings(Config))  # by key
PRESET_KEY = "safety.preset"


def preset_values(preset: object) -> dict[str, object]:
    """What a preset sets, by key."""
    safety = sections.SafetySettings(profiles=sections.PRESETS[str(preset)])
    profiles = dict(_settings(safety.profiles, "safety.profiles."))
    return {key: setting.default for key, setting in profiles.items()}


def checked(key: str, value: object, origin: str) -> object:
    """A value as it is in a Config.

    Raises: ConfigWrong, which says where it came from and what it may be.
    """
    try:
        return SETTINGS[key].check(value)
    except ValueError as error:
        raise ConfigWrong(f"{origin}: {key}: {error}") from error


def nearest(name: str, known: Collection[str]) -> str:
    """What may have been meant by a name that is not known; it ends a message."""
    many = len(known) > _LISTED_MAX
    return known_instead(name, known, "`shelltie config list` has them all" if many else "")


def _changed(section: Any, path: str, value: object) -> Any:  # noqa: ANN401  as above
    name, _, rest = path.partition(".")
    return replace(
        section, **{name: _changed(getattr(section, name), rest, value) if rest else value}
    )
