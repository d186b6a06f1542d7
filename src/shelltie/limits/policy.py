"""Timeout policy: categories with a total and a silence limit, and patterns for them. Pure."""

import json
import math
import signal
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum

from shelltie.basics.frozen import frozen
from shelltie.basics.safe_regex import Pattern, ShippedPattern, compile_pattern
from shelltie.basics.validate import (
    DocumentReader,
    InvalidValue,
    did_you_mean,
    duration,
    duration_or_none,
    json_list,
    json_object,
    json_text,
    member_of,
    number_up_to,
    without_comments,
)
from shelltie.limits.older_format import is_second_dialect, translate
from shelltie.model import DEFAULT_ESCALATION, Escalation, EscalationStep

_PATTERNS_MAX = 1000
_ReadPattern = Callable[[object], Pattern | ShippedPattern]


def or_endless(limit: float | None) -> float:
    """A limit that can be compared: none is longer than any."""
    return math.inf if limit is None else limit


class MatchStrategy(StrEnum):
    """Which category wins when patterns of several match one command."""

    LONGEST = "longest"
    FIRST = "first"
    ORDER = "order"


class IdleEvidence(StrEnum):
    """Whether a silence limit of the policy first looks for signs of work."""

    NONE = "none"
    ANY = "any"


class SilenceMode(StrEnum):
    """Which silence limit a command has whose caller gave a total limit only.

    At least what the policy gives it; a fraction of the total limit; the same by the oldest
    formula, which rounds down to 0.
    """

    PATIENT = "patient"
    FRACTION = "fraction"
    LITERAL = "literal"


@frozen
class Category:
    """A kind of command and its two limits; `None` is no limit."""

    name: str
    description: str
    total: float | None
    silence: float | None


@frozen
class CategoryPattern:
    """A command that the pattern is found in belongs to the category."""

    category: str
    pattern: Pattern | ShippedPattern


@frozen
class ExplicitSilence:
    """The silence limit of a command whose total limit was given, but not its silence limit."""

    fraction: float = 0.25
    longest: float = 60.0
    shortest: float = 1.0
    mode: SilenceMode = SilenceMode.PATIENT

    def of(self, total: float) -> float:
        """`min(total // 4, 60)`, without its 0 for short totals unless that is asked for."""
        if self.mode is SilenceMode.LITERAL:
            return min(total // 4, 60.0)
        return min(total, max(self.shortest, min(total * self.fraction, self.longest)))


MEDIUM = Category("medium", "Scripts, tests, small compilations", 120.0, 30.0)


@frozen
class TimeoutPolicy:
    """What a policy file says, checked. With `fallback_reason` there was no usable file.

    Each is equal to itself only: what it says about a text can then be remembered.
    """

    categories: Mapping[str, Category] = field(default_factory=lambda: {MEDIUM.name: MEDIUM})
    patterns: tuple[CategoryPattern, ...] = ()
    default_category: str = MEDIUM.name
    match_strategy: MatchStrategy = MatchStrategy.LONGEST
    match_order: tuple[str, ...] = ()
    explicit_silence: ExplicitSilence = ExplicitSilence()
    max_total: float | None = None
    idle_evidence: IdleEvidence = IdleEvidence.ANY
    escalation: Escalation | None = None
    command_timeouts: Mapping[str, float | None] = field(default_factory=dict)
    warn_lead: float = 30.0
    fallback_reason: str | None = None
    ranked: tuple[CategoryPattern, ...] = field(init=False, repr=False, compare=False)

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __post_init__(self) -> None:
        """Put the patterns in the order in which the first that matches wins."""
        object.__setattr__(self, "ranked", tuple(sorted(self.patterns, key=self._rank)))

    def _rank(self, entry: CategoryPattern) -> tuple[float, float]:
        category = self.categories[entry.category]
        if self.match_strategy is MatchStrategy.LONGEST:
            return -or_endless(category.total), -or_endless(category.silence)
        if self.match_strategy is MatchStrategy.ORDER and entry.category in self.match_order:
            return self.match_order.index(entry.category), 0
        return math.inf, 0  # in the order of the file, because sorting is stable


def fallback(reason: str) -> TimeoutPolicy:
    """What holds without a usable file: medium, 120 s and 30 s of silence, for everything."""
    return TimeoutPolicy(fallback_reason=reason)


def parse(text: str, *, shipped: bool = False) -> tuple[TimeoutPolicy, tuple[str, ...]]:
    """The policy of a file, and what is wrong with the file, item by item.

    Of one that is `shipped` with us the patterns are known to be good.

    Never raises: a bad item is left out, and a file without a usable category is the fallback.
    """
    reader = DocumentReader()
    try:
        document = json.loads(without_comments(text), object_pairs_hook=reader.pairs)
    except (ValueError, RecursionError) as error:
        return _unusable(reader, f"not valid JSON: {error}")
    if not isinstance(document, dict):
        return _unusable(reader, "the file must hold one JSON object")
    if is_second_dialect(document):
        translation = translate(document)
        document, reader.names = translation.document, translation.names
        for key in translation.ignored:
            reader.say(key, "has no meaning here and is ignored")
    return _read(reader, document, _shipped_pattern if shipped else _pattern)


def _unusable(reader: DocumentReader, reason: str) -> tuple[TimeoutPolicy, tuple[str, ...]]:
    return fallback(reason), (f"{reason}; medium 120/30 is used for everything", *reader.problems)


def _read(
    reader: DocumentReader, document: dict[str, object], pattern: _ReadPattern
) -> tuple[TimeoutPolicy, tuple[str, ...]]:
    reader.unknown_keys("", document, _KEYS)
    for key in ("version", "description"):
        reader.option(document, key, json_text, "")
    silence = _explicit_silence(reader, document)
    categories = _categories(reader, document, silence)
    if not categories:
        return _unusable(reader, "no usable category")
    default = _default_category(reader, document, categories)
    policy = TimeoutPolicy(
        categories=categories,
        patterns=_patterns(reader, document, categories, pattern),
        default_category=default,
        match_strategy=reader.option(
            document, "match_strategy", member_of(MatchStrategy), MatchStrategy.LONGEST
        ),
        match_order=_match_order(reader, document, categories),
        explicit_silence=silence,
        max_total=reader.option(document, "max_exec_timeout_sec", duration_or_none, None),
        idle_evidence=reader.option(
            document, "idle_evidence", member_of(IdleEvidence), IdleEvidence.ANY
        ),
        escalation=reader.option(document, "escalation", _escalation, None),
        command_timeouts=_command_timeouts(reader, document),
        warn_lead=reader.option(document, "warn_lead_sec", duration, 30.0),
    )
    return policy, reader.problems


def _categories(
    reader: DocumentReader, document: Mapping[str, object], rule: ExplicitSilence
) -> dict[str, Category]:
    categories = {}
    for name, value in reader.items("categories", document.get("categories")).items():
        path = f"categories.{name}"
        given = reader.take(path, value, json_object, None)
        if given is not None and (category := _category(reader, path, name, given, rule)):
            categories[name] = category
    return categories


def _category(
    reader: DocumentReader, path: str, name: str, given: Mapping[str, object], rule: ExplicitSilence
) -> Category | None:
    reader.unknown_keys(f"{path}.", given, _CATEGORY_KEYS)
    limits = []
    for key in ("exec_timeout_sec", "no_output_timeout_sec"):
        if key not in given:
            reader.say(f"{path}.{key}", "is missing; give a number of seconds, or null")
        limits.append(reader.option(given, key, duration_or_none, math.nan, within=f"{path}."))
    total, silence = limits
    if total is not None and math.isnan(total):
        reader.say(path, "is skipped, because it has no total limit")
        return None
    if silence is not None and math.isnan(silence):
        silence = None if total is None else rule.of(total)
    if total is not None and silence is not None and silence > total:
        reader.say(path, "allows more silence than time, so silence never ends a command")
    description = reader.option(given, "description", json_text, "", within=f"{path}.")
    return Category(name, description, total, silence)


def _default_category(
    reader: DocumentReader, document: Mapping[str, object], categories: dict[str, Category]
) -> str:
    name = reader.option(document, "default_category", json_text, MEDIUM.name)
    if name in categories and "default_category" in document:
        return name
    categories.setdefault(MEDIUM.name, MEDIUM)
    reason = "is missing" if "default_category" not in document else f"{name!r} is not a category"
    hint = did_you_mean(name, categories)
    reader.say("default_category", f"{reason}; {_brief(categories[MEDIUM.name])} is used{hint}")
    return MEDIUM.name


def _brief(category: Category) -> str:
    limits = (
        "no limit" if limit is None else f"{limit:g}"
        for limit in (category.total, category.silence)
    )
    return f"{category.name} {'/'.join(limits)}"


def _patterns(
    reader: DocumentReader,
    document: Mapping[str, object],
    categories: Mapping[str, Category],
    read: _ReadPattern,
) -> tuple[CategoryPattern, ...]:
    if "command_patterns" not in document:
        reader.say("command_patterns", "is missing, so every command has the default category")
        return ()
    patterns = []
    for name, value in reader.items("command_patterns", document["command_patterns"]).items():
        path = f"command_patterns.{name}"
        if name not in categories:
            reader.say(path, "is not a usable category" + did_you_mean(name, categories))
            continue
        for index, text in enumerate(reader.take(path, value, json_list, [])):
            pattern = reader.take(f"{path}[{index}]", text, read, None)
            if pattern is not None:
                patterns.append(CategoryPattern(name, pattern))
    if (count := len(patterns)) > _PATTERNS_MAX:
        reader.say("command_patterns", f"only the first {_PATTERNS_MAX} of {count} are used")
    return tuple(patterns[:_PATTERNS_MAX])


def _pattern(value: object) -> Pattern:
    text = json_text(value)
    try:
        return compile_pattern(text)
    except ValueError as error:
        raise InvalidValue(f"{text[:80]!r} {error}") from error


def _shipped_pattern(value: object) -> ShippedPattern:
    return ShippedPattern(json_text(value))


def _match_order(
    reader: DocumentReader, document: Mapping[str, object], categories: Mapping[str, Category]
) -> tuple[str, ...]:
    names = []
    for index, value in enumerate(reader.option(document, "match_order", json_list, [])):
        if isinstance(value, str) and value in categories:
            names.append(value)
        else:
            hint = did_you_mean(str(value), categories)
            reader.say(f"match_order[{index}]", f"{value!r} is not a usable category{hint}")
    if document.get("match_strategy") == MatchStrategy.ORDER and not names:
        reader.say("match_order", "is needed by match_strategy order; the file's order is used")
    return tuple(names)


def _explicit_silence(reader: DocumentReader, document: Mapping[str, object]) -> ExplicitSilence:
    path = "explicit_silence"
    given = reader.items(path, document.get(path, {}))
    reader.unknown_keys(f"{path}.", given, _SILENCE_KEYS)
    plain = ExplicitSilence()
    within = f"{path}."
    fraction = number_up_to(1, "a number above 0 and at most 1")
    longest = reader.option(given, "max_sec", duration, plain.longest, within=within)
    shortest = reader.option(given, "min_sec", duration, plain.shortest, within=within)
    if shortest > longest:
        reader.say(path, f"min_sec {shortest:g} is above max_sec {longest:g}; 1 and 60 are used")
        longest, shortest = plain.longest, plain.shortest
    return ExplicitSilence(
        fraction=reader.option(given, "fraction", fraction, plain.fraction, within=within),
        longest=longest,
        shortest=shortest,
        mode=reader.option(given, "mode", member_of(SilenceMode), plain.mode, within=within),
    )


def _command_timeouts(
    reader: DocumentReader, document: Mapping[str, object]
) -> dict[str, float | None]:
    totals = {}
    for name, value in reader.items(
        "command_timeouts", document.get("command_timeouts", {})
    ).items():
        total = reader.take(f"command_timeouts.{name}", value, duration_or_none, math.nan)
        if total is None or not math.isnan(total):
            totals[name.lower()] = total
    return totals


def _escalation(value: object) -> Escalation:
    """`["SIGTERM", 5, "SIGKILL"]`: signals, each with the seconds to wait after it."""
    items = json_list(value)
    last_pause = DEFAULT_ESCALATION[-1].pause
    if len(items) % 2:
        items = [*items, last_pause]
    steps = [
        EscalationStep(_signal(name), _pause(pause))
        for name, pause in zip(items[::2], items[1::2], strict=True)
    ]
    if not steps or steps[-1].signal != signal.SIGKILL:
        raise InvalidValue('must end with "SIGKILL", or a command may survive its limit')
    return tuple(steps)


_pause = number_up_to(300, "a number of seconds above 0 and at most 300 after each signal")


def _signal(value: object) -> int:
    name = json_text(value).upper()
    try:
        return signal.Signals["SIG" + name.removeprefix("SIG")]
    except KeyError:
        raise InvalidValue(f"{value!r} is not the name of a signal, such as SIGTERM") from None


_KEYS = (
    "$schema",
    "version",
    "description",
    "categories",
    "command_patterns",
    "default_category",
    "match_strategy",
    "match_order",
    "explicit_silence",
    "max_exec_timeout_sec",
    "idle_evidence",
    "escalation",
    "command_timeouts",
    "warn_lead_sec",
)
_CATEGORY_KEYS = ("description", "exec_timeout_sec", "no_output_timeout_sec")
_SILENCE_KEYS = ("mode", "fraction", "max_sec", "min_sec")
