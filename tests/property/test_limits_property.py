import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shelltie.limits.lint import lint
from shelltie.limits.policy import TimeoutPolicy, or_endless, parse
from shelltie.limits.policy_file import SCHEMA_FILE
from shelltie.limits.resolve import AskedLimits, resolve
from shelltie.model import Limits
from shelltie.running.watchdog import LookAtTree, TimeOut, Watchdog
from shelltie.shell.split import segments, strip_prefixes

SECOND_DIALECT = ("timeouts", "long_running_overrides", "command_classification")
NAMES = st.sampled_from(["quick", "medium", "long", "odd"])
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(NAMES | st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
LIMIT = st.none() | st.floats(0.01, 10_000)
GOOD_POLICY = st.fixed_dictionaries(
    {
        "categories": st.dictionaries(
            NAMES,
            st.fixed_dictionaries({"exec_timeout_sec": LIMIT, "no_output_timeout_sec": LIMIT}),
            min_size=1,
        ),
        "command_patterns": st.dictionaries(
            NAMES, st.lists(st.sampled_from(["^ls", "npm (ci|i)", ".*", "make"]), max_size=3)
        ),
    },
    optional={
        "default_category": NAMES,
        "match_strategy": st.sampled_from(["longest", "first", "order"]),
        "match_order": st.lists(NAMES),
        "max_exec_timeout_sec": LIMIT,
        "command_timeouts": st.dictionaries(st.sampled_from(["ls", "npm"]), LIMIT),
    },
)
ANY_POLICY = st.dictionaries(
    st.sampled_from(
        [*json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))["properties"], *SECOND_DIALECT]
    ),
    JSON,
)
SHELL_TEXT = st.text() | st.lists(
    st.sampled_from([*"\\'\"`$();&|<>\n#{} a", "ls", "npm i", "<<E", "E", "$(", "((", "case", "&&"])
).map("".join)


def policy_of(document: dict[str, Any]) -> TimeoutPolicy:
    return parse(json.dumps(document))[0]


@pytest.mark.proves("C-8")
@given(SHELL_TEXT)
@settings(deadline=None)
def test_any_text_has_its_commands(text: str) -> None:
    for segment in segments(text):
        assert segment
        assert segment in text
        assert strip_prefixes(segment) in segment


@pytest.mark.proves("C-10")
@given(st.text() | ANY_POLICY.map(json.dumps), SHELL_TEXT)
@settings(deadline=None)
def test_any_file_gives_limits_for_any_command(file: str, command: str) -> None:
    policy, problems = parse(file)

    limits = resolve(policy, command, AskedLimits())

    assert or_endless(limits.total) > 0
    assert or_endless(limits.silence) > 0
    assert limits.source
    assert problems or policy.fallback_reason is None
    lint(policy)


@pytest.mark.proves("C-10")
@given(
    st.text(alphabet="ab|()*+?{}[]\\^$.=!:<>,1-s", max_size=30),
    st.text(alphabet="ab ", max_size=60),
)
@settings(deadline=None)
def test_any_pattern_is_refused_or_quick(pattern: str, command: str) -> None:
    document = {
        "categories": {"quick": {"exec_timeout_sec": 1, "no_output_timeout_sec": 1}},
        "command_patterns": {"quick": [pattern]},
    }

    policy = policy_of(document)

    resolve(policy, command * 100, AskedLimits())
    lint(policy)


@pytest.mark.proves("C-4", "D5")
@given(GOOD_POLICY, SHELL_TEXT, st.floats(0.01, 20_000), st.floats(0.01, 20_000))
@settings(deadline=None)
def test_more_time_never_means_less_patience(
    document: dict[str, Any], command: str, one: float, other: float
) -> None:
    policy = policy_of(document)

    less, more = (
        resolve(policy, command, AskedLimits(total=total)) for total in sorted((one, other))
    )

    assert or_endless(less.silence) <= or_endless(more.silence)
    assert or_endless(less.total) <= or_endless(more.total)
    assert not more.literal


def end_of(limits: Limits, printed: list[float]) -> float:
    """When a watchdog ends a run that prints at these times and never works in between."""
    watchdog = Watchdog(limits, 0.0)
    for at in [*sorted(printed), math.inf]:
        while (soon := watchdog.next_at) is not None and soon <= at:
            steps = watchdog.due(soon)
            if any(isinstance(step, LookAtTree | TimeOut) for step in steps):
                return soon
        watchdog.heard(at)
    return math.inf


@pytest.mark.proves("D11")
@given(GOOD_POLICY, SHELL_TEXT, st.floats(0.01, 20_000), st.lists(st.floats(0, 20_000), max_size=8))
@settings(deadline=None)
def test_a_total_limit_of_the_caller_never_ends_a_command_sooner(
    document: dict[str, Any], command: str, total: float, printed: list[float]
) -> None:
    policy = policy_of(document)

    without = resolve(policy, command, AskedLimits())
    given = resolve(policy, command, AskedLimits(total=total))

    # Of what the caller gave only the number itself may end it, where that was not lowered.
    assert end_of(given, printed) >= min(given.total or 0, end_of(without, printed))
    assert or_endless(given.total) == min(total, or_endless(policy.max_total))


@pytest.mark.proves("C-21")
@given(GOOD_POLICY, SHELL_TEXT, st.none() | st.floats(0.01, 20_000))
@settings(deadline=None)
def test_nothing_exceeds_the_maximum(
    document: dict[str, Any], command: str, total: float | None
) -> None:
    policy = policy_of(document)

    limits = resolve(policy, command, AskedLimits(total=total))

    assert or_endless(limits.total) <= or_endless(policy.max_total)
    assert limits.clamped == any("allows" in note for note in limits.notes)


@pytest.mark.proves("C-8")
@given(GOOD_POLICY, st.sampled_from(["ls", "npm ci", "make", "unknown"]), SHELL_TEXT)
@settings(deadline=None)
def test_a_command_more_never_makes_the_limits_shorter(
    document: dict[str, Any], command: str, other: str
) -> None:
    policy = policy_of(document)

    alone = resolve(policy, command, AskedLimits())
    beside = resolve(policy, f"{command}\n{other}", AskedLimits())

    assert or_endless(alone.total) <= or_endless(beside.total)
    assert or_endless(alone.silence) <= or_endless(beside.silence)
