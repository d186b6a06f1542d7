"""Converter for the older format of the timeout policy (`command_classification`). Pure.

`command_classification` gives substrings and one total limit for fast, medium and long;
`long_running_overrides` names single commands, words joined by `_`; one silence limit is for all.
"""

import re
from collections.abc import Mapping

from shelltie.basics.frozen import frozen

_KEYS = frozenset(("timeouts", "long_running_overrides", "command_classification"))
_COMMON = frozenset(("$schema", "version", "description"))
_CLASSES = {"long": "long", "medium": "medium", "fast": "quick"}


@frozen
class Translation:
    """A policy document in the first dialect, and what its places were called in the second."""

    document: dict[str, object]
    names: Mapping[str, str]
    ignored: tuple[str, ...]


def is_second_dialect(document: Mapping[str, object]) -> bool:
    """Whether the document has the keys of the second dialect and not those of the first."""
    return "categories" not in document and not _KEYS.isdisjoint(document)


def translate(document: Mapping[str, object]) -> Translation:
    """The same policy in the first dialect; values are passed on unchecked."""
    timeouts = _object(document.get("timeouts"))
    silence = timeouts.get("no_output_timeout_sec", 30)
    scribe = _Scribe(silence)
    for key, seconds in _object(document.get("long_running_overrides")).items():
        pattern = "[ _]".join(re.escape(word) for word in key.split("_"))
        scribe.category(key, seconds, [pattern], f"long_running_overrides.{key}")
    for name, category in _CLASSES.items():
        section = _object(_object(document.get("command_classification")).get(name))
        if section:
            path = f"command_classification.{name}"
            patterns = _escaped(section.get("patterns", []))
            scribe.category(category, section.get("max_timeout_sec"), patterns, path)
            scribe.names[f"categories.{category}.exec_timeout_sec"] = f"{path}.max_timeout_sec"
            scribe.names[f"command_patterns.{category}"] = f"{path}.patterns"
    order = list(scribe.categories)
    scribe.default_category(timeouts.get("default_exec_timeout_sec", 120))
    return Translation(
        {
            "categories": scribe.categories,
            "command_patterns": scribe.patterns,
            "default_category": scribe.default,
            # What names a single command says more than what names a kind.
            "match_strategy": "order",
            "match_order": order,
            **_settings(timeouts),
        },
        scribe.names,
        tuple(key for key in document if key not in _KEYS and key not in _COMMON),
    )


class _Scribe:
    def __init__(self, silence: object) -> None:
        self.silence = silence
        self.default = "medium"
        self.categories: dict[str, object] = {}
        self.patterns: dict[str, object] = {}
        self.names = {
            "max_exec_timeout_sec": "timeouts.max_exec_timeout_sec",
            "escalation": "timeouts.soft_kill_timeout_sec and hard_kill_timeout_sec",
        }

    def category(self, name: str, total: object, patterns: object, path: str) -> None:
        self.categories[name] = {
            "exec_timeout_sec": total,
            "no_output_timeout_sec": self.silence,
        }
        self.patterns[name] = patterns
        self.names[f"categories.{name}"] = path
        self.names[f"categories.{name}.no_output_timeout_sec"] = "timeouts.no_output_timeout_sec"

    def default_category(self, total: object) -> None:
        medium = {"exec_timeout_sec": total, "no_output_timeout_sec": self.silence}
        if self.categories.setdefault("medium", medium) != medium:
            self.default = "default"
            self.category("default", total, [], "timeouts")
        self.names[f"categories.{self.default}.exec_timeout_sec"] = (
            "timeouts.default_exec_timeout_sec"
        )


def _settings(timeouts: Mapping[str, object]) -> dict[str, object]:
    settings: dict[str, object] = {}
    if "max_exec_timeout_sec" in timeouts:
        settings["max_exec_timeout_sec"] = timeouts["max_exec_timeout_sec"]
    if "soft_kill_timeout_sec" in timeouts:
        hard = timeouts.get("hard_kill_timeout_sec", 2)
        settings["escalation"] = ["SIGTERM", timeouts["soft_kill_timeout_sec"], "SIGKILL", hard]
    return settings


def _escaped(patterns: object) -> object:
    if not isinstance(patterns, list):
        return patterns
    return [re.escape(item) if isinstance(item, str) else item for item in patterns]


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
