"""Configuration of TerminalService (section `terminal`): strict, with defaults."""

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, TypeVar

from shelltie.basics import validate
from shelltie.basics.frozen import frozen
from shelltie.errors import ConfigWrong
from shelltie.settings.all_settings import Waiting

_Value = TypeVar("_Value")
_Checks = Mapping[str, Callable[[object], object]]


@frozen
class AgentSettings:
    """What holds for one agent. Times are seconds, `crop_output` counts characters."""

    provider: str
    crop_output: int = 10_000
    timeout: float = 60.0
    waiting: Waiting = field(default_factory=Waiting)

    def overridden(self, given: Mapping[str, object], where: str = "agent") -> "AgentSettings":
        """With what `given` names, and nothing else changed.

        Raises: ConfigWrong.
        """
        found = _known(given, _AGENT, where)
        bash = _known(_table(found, "bash"), _BASH, f"{where}.bash")
        times = _known(_table(found, "persistent"), _PERSISTENT, f"{where}.persistent")
        waiting = Waiting(
            _first(times.get("minInterval"), self.waiting.least),
            _first(times.get("settleInterval"), self.waiting.settle),
            _first(times.get("maxInterval"), self.waiting.most),
        )
        return replace(
            self,
            provider=_first(found.get("provider"), self.provider),
            crop_output=_first(bash.get("cropOutput"), self.crop_output),
            timeout=_first(bash.get("timeoutSeconds"), self.timeout),
            waiting=waiting,
        )


@frozen
class ServiceConfig:
    """Everything a service is told."""

    defaults: AgentSettings
    providers: Mapping[str, Mapping[str, object]]
    safe_commands: tuple[str, ...] = ()
    dangerous_commands: tuple[str, ...] = ()


def service_config(given: Mapping[str, object]) -> ServiceConfig:
    """The section `terminal`, understood.

    Raises: ConfigWrong, which names the key.
    """
    found = _known(given, _SERVICE, "terminal")
    defaults = _table(found, "agentDefaults")
    if not defaults.get("provider"):
        raise ConfigWrong("terminal.agentDefaults.provider is missing: name the provider to use")
    providers = {
        name: _known(
            _checked(name, _mapping, options), {"type": validate.text}, f"terminal.providers.{name}"
        )
        for name, options in _table(found, "providers").items()
    }
    settings = AgentSettings(provider="").overridden(defaults, "terminal.agentDefaults")
    return ServiceConfig(
        settings,
        providers,
        _first(found.get("safeCommands"), ()),
        _first(found.get("dangerousCommands"), ()),
    )


def _first(value: object, otherwise: object) -> Any:  # noqa: ANN401  checked by its key
    return otherwise if value is None else value


def _known(given: Mapping[str, object], checks: _Checks, where: str) -> dict[str, object]:
    for key in given:
        if key not in checks:
            instead = validate.known_instead(str(key), checks)
            raise ConfigWrong(f"{where}: unknown key {key}{instead}")
    return {
        key: _checked(f"{where}.{key}", checks[key], value)
        for key, value in given.items()
        if value is not None
    }


def _checked(where: str, check: Callable[[object], _Value], value: object) -> _Value:
    try:
        return check(value)
    except validate.InvalidValue as error:
        raise ConfigWrong(f"{where} {error}") from error


def _table(found: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = found.get(key)
    return value if isinstance(value, Mapping) else {}


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise validate.invalid("a table", value)
    return value


def _commands(value: object) -> tuple[str, ...]:
    return tuple(map(validate.text, validate.texts(value)))


_SERVICE: _Checks = {
    "agentDefaults": _mapping,
    "providers": _mapping,
    "safeCommands": _commands,
    "dangerousCommands": _commands,
}
_SPAN = validate.number_of("seconds")
_AGENT: _Checks = {"provider": validate.text, "bash": _mapping, "persistent": _mapping}
_BASH: _Checks = {"cropOutput": validate.count_of("characters"), "timeoutSeconds": _SPAN}
_PERSISTENT: _Checks = {"minInterval": _SPAN, "settleInterval": _SPAN, "maxInterval": _SPAN}
_SECONDS = {"type": "number", "minimum": 0}
_AGENT_PROPERTIES: dict[str, object] = {
    "provider": {"type": "string", "minLength": 1},
    "bash": {
        "type": "object",
        "properties": {"cropOutput": {"type": "integer", "minimum": 0}, "timeoutSeconds": _SECONDS},
        "additionalProperties": False,
    },
    "persistent": {
        "type": "object",
        "properties": dict.fromkeys(_PERSISTENT, _SECONDS),
        "additionalProperties": False,
    },
}
_TEXTS = {"type": "array", "items": {"type": "string", "minLength": 1}}
# What `service_config` takes, for those who check it before.
SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "agentDefaults": {
            "type": "object",
            "properties": _AGENT_PROPERTIES,
            "required": ["provider"],
            "additionalProperties": False,
        },
        "providers": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {"type": {"type": "string", "minLength": 1}},
                "additionalProperties": False,
            },
        },
        "safeCommands": _TEXTS,
        "dangerousCommands": _TEXTS,
    },
    "required": ["agentDefaults"],
    "additionalProperties": False,
}
