import json
import signal
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from shelltie.basics.safe_regex import compile_pattern
from shelltie.limits.policy import (
    Category,
    IdleEvidence,
    MatchStrategy,
    SilenceMode,
    TimeoutPolicy,
    parse,
)
from shelltie.limits.policy_file import SCHEMA_FILE, SHIPPED_FILE
from shelltie.limits.resolve import calculate_timeouts
from shelltie.model import EscalationStep

CORPUS = Path(__file__).parent.parent / "corpus"
SEED = (CORPUS / "terminal_timeout_policy.json").read_text(encoding="utf-8")
SECOND_DIALECT = (CORPUS / "legacy_timeout_policy.json").read_text(encoding="utf-8")
SHIPPED = SHIPPED_FILE.read_text(encoding="utf-8")


def seed(**changes: object) -> str:
    return json.dumps(json.loads(SEED) | changes)


def read(text: str) -> tuple[TimeoutPolicy, str]:
    policy, problems = parse(text)
    return policy, "\n".join(problems)


@pytest.mark.proves("S0-4", "S0-5", "S0-6", "S0-7", "S0-8", "S0-9", "S0-10", "S0-15")
def test_the_file_of_the_seed_is_read_as_it_is_written() -> None:
    policy, problems = read(SEED)
    document = json.loads(SEED)

    assert set(document) == {
        *("version", "description", "categories", "command_patterns", "default_category")
    }
    assert document["version"] == "1.0"
    limits = {name: (one.total, one.silence) for name, one in policy.categories.items()}
    assert limits == {
        "quick": (30, 10),
        "medium": (120, 30),
        "long": (600, 60),
        "extended": (900, 120),
    }
    assert [one.description for one in policy.categories.values()] == [
        one["description"] for one in document["categories"].values()
    ]
    assert [(entry.category, entry.pattern.text) for entry in policy.patterns] == [
        (name, text) for name, texts in document["command_patterns"].items() for text in texts
    ]
    assert policy.default_category == "medium"
    assert problems == ""


@pytest.mark.proves("C-4", "C-41")
def test_every_key_has_its_meaning() -> None:
    policy, problems = read(
        seed(
            match_strategy="order",
            match_order=["long", "quick"],
            explicit_silence={
                "fraction": 0.5,
                "max_sec": 90,
                "min_sec": 2,
                "mode": "fraction",
            },
            max_exec_timeout_sec=900,
            idle_evidence="none",
            escalation=["SIGINT", 2, "TERM", 5, "SIGKILL"],
            command_timeouts={"Cargo": 600, "tail": None},
            warn_lead_sec=10,
        )
    )

    assert problems == ""
    assert (policy.match_strategy, policy.match_order) == (MatchStrategy.ORDER, ("long", "quick"))
    assert [entry.category for entry in policy.ranked[::3]] == [
        "long",
        "quick",
        "medium",
        "extended",
    ]
    assert (policy.explicit_silence.fraction, policy.explicit_silence.longest) == (0.5, 90)
    assert policy.explicit_silence.mode is SilenceMode.FRACTION
    assert (policy.max_total, policy.warn_lead) == (900, 10)
    assert policy.idle_evidence is IdleEvidence.NONE
    assert policy.escalation == (
        EscalationStep(signal.SIGINT, 2),
        EscalationStep(signal.SIGTERM, 5),
        EscalationStep(signal.SIGKILL, 2),
    )
    assert policy.command_timeouts == {"cargo": 600, "tail": None}


@pytest.mark.proves("D10")
def test_silence_is_not_taken_for_a_hang_unless_the_file_says_so() -> None:
    assert read(SEED)[0].idle_evidence is IdleEvidence.ANY


@pytest.mark.proves("C-10", "T0-10")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not valid JSON"),
        ("", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('{"categories": 1' + "0" * 5000 + "}", "not valid JSON"),
        ("[1, 2]", "must hold one JSON object"),
        ("{}", "no usable category"),
        ('{"categories": []}', "no usable category"),
        ('{"categories": {"quick": {"exec_timeout_sec": -1}}}', "no usable category"),
    ],
)
def test_a_bad_file_gives_medium_for_everything_and_says_why(text: str, reason: str) -> None:
    policy, problems = read(text)

    assert reason in str(policy.fallback_reason)
    assert reason in problems
    limits = calculate_timeouts(policy, "npm install")
    assert (limits.total, limits.silence) == (120, 30)


@pytest.mark.proves("C-10", "T0-10", "S0-4", "S0-10")
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"command_patterns": {"quick": ["^(ls"]}}, "quick[0]: '^(ls' is not a regular"),
        ({"command_patterns": {"quick": [5]}}, "command_patterns.quick[0]: must be a text"),
        ({"command_patterns": {"quick": "^ls"}}, "command_patterns.quick: must be a list"),
        (
            {"command_patterns": {"qick": ["^ls"]}},
            "_patterns.qick: is not a usable category; did you mean quick?",
        ),
        ({"command_patterns": ["^ls"]}, "command_patterns: must be an object"),
        ({"command_patterns": {"quick": ["x" * 1001]}}, "longer than 1000"),
        (
            {"default_category": "meduim"},
            "'meduim' is not a category; medium 120/30 is used; did you mean medium?",
        ),
        ({"default_category": None}, "default_category: must be a text"),
        (
            {"default_categroy": "long"},
            "default_categroy: is not known and is ignored; did you mean",
        ),
        ({"match_strategy": "best"}, "match_strategy: must be one of longest, first, order"),
        ({"match_strategy": "order"}, "match_order: is needed"),
        ({"match_order": ["lnog"]}, "match_order[0]: 'lnog' is not a usable category; did"),
        ({"idle_evidence": True}, "idle_evidence: must be one of none, any"),
        ({"max_exec_timeout_sec": 0}, "max_exec_timeout_sec: must be a number of seconds above 0"),
        (
            {"explicit_silence": {"fraction": 2}},
            "explicit_silence.fraction: must be a number above 0",
        ),
        ({"explicit_silence": {"min_sec": 99}}, "min_sec 99 is above max_sec 60"),
        ({"explicit_silence": {"max": 9}}, "explicit_silence.max: is not known"),
        ({"explicit_silence": {"mode": "seed"}}, "explicit_silence.mode"),
        ({"escalation": ["SIGTERM", 5]}, 'escalation: must end with "SIGKILL"'),
        ({"escalation": ["SIGTREM", 5, "SIGKILL"]}, "escalation: 'SIGTREM' is not the name"),
        ({"escalation": ["SIGTERM", "SIGKILL"]}, "escalation: must be a number of seconds"),
        ({"escalation": []}, "escalation: must end with"),
        ({"command_timeouts": {"cargo": "10m"}}, "command_timeouts.cargo: must be a number"),
        ({"version": 1}, "version: must be a text"),
        ({"description": 1}, "description: must be a text"),
    ],
)
def test_a_bad_item_is_left_out_and_named_and_the_rest_stays(
    changes: dict[str, object], problem: str
) -> None:
    policy, problems = read(seed(**changes))

    assert problem in problems
    assert policy.fallback_reason is None
    assert set(policy.categories) == {"quick", "medium", "long", "extended"}
    assert policy.default_category == "medium"


@pytest.mark.proves("C-10", "C-3", "S0-5")
@pytest.mark.parametrize(
    "value", ["true", "NaN", "Infinity", '"30"', "-1", "0", "[]", "1" + "0" * 400]
)
def test_what_is_no_number_of_seconds_is_a_bad_limit(value: str) -> None:
    text = SEED.replace('"exec_timeout_sec": 600', f'"exec_timeout_sec": {value}')

    policy, problems = read(text)

    assert set(policy.categories) == {"quick", "medium", "extended"}
    assert "categories.long.exec_timeout_sec: must be a number of seconds above 0" in problems
    assert "command_patterns.long: is not a usable category" in problems


def test_a_bad_silence_limit_is_replaced_by_a_quarter_of_the_total() -> None:
    policy, problems = read(SEED.replace('"no_output_timeout_sec": 60', '"no_output": 60'))

    assert policy.categories["long"].silence == 60
    assert "categories.long.no_output_timeout_sec: is missing" in problems
    assert "categories.long.no_output: is not known" in problems


@pytest.mark.proves("C-10", "T0-10")
def test_a_missing_key_is_told_and_replaced() -> None:
    document = json.loads(SEED)
    del document["command_patterns"], document["default_category"], document["categories"]["medium"]

    policy, problems = read(json.dumps(document))

    assert "command_patterns: is missing" in problems
    assert "default_category: is missing; medium 120/30 is used" in problems
    assert policy.categories["medium"] == Category(
        "medium", policy.categories["medium"].description, 120, 30
    )


@pytest.mark.proves("C-17")
def test_more_silence_than_time_is_legal_and_told() -> None:
    policy, problems = read(
        SEED.replace('"no_output_timeout_sec": 10', '"no_output_timeout_sec": 99')
    )

    assert policy.categories["quick"].silence == 99
    assert "categories.quick: allows more silence than time" in problems


@pytest.mark.proves("C-10")
def test_a_byte_order_mark_and_comments_are_tolerated() -> None:
    text = "\ufeff// about\n" + SEED.replace(
        '"description": "Terminal timeout policy"',
        '/* a "quoted" // comment\n over lines */ "description": "see http://x /* not one */"',
    )

    policy, problems = read(text + "// the end")

    assert problems == ""
    assert len(policy.patterns) == 12
    assert parse("/*" * 200_000)[0].fallback_reason is not None


def test_a_key_that_is_given_twice_is_told() -> None:
    _, problems = read(SEED.replace('"version": "1.0"', '"version": "0.9", "version": "1.0"'))

    assert "version: is given twice" in problems


def test_a_thousand_problems_are_not_listed_one_by_one() -> None:
    _, problems = parse(seed(**{f"key{number}": 1 for number in range(1000)}))

    assert len(problems) == 101
    assert problems[-1] == "900 more problems are not listed"


def test_there_is_an_end_to_the_patterns_we_try() -> None:
    policy, problems = read(seed(command_patterns={"quick": ["^ls"] * 1001}))

    assert len(policy.patterns) == 1000
    assert "command_patterns: only the first 1000 of 1001 are used" in problems


@pytest.mark.proves("C-10")
@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(.*)*x",
        "(a|ab)*$",
        "(aa?)*$",
        r"(\s+)*x",
        "(?:(?:a|b){2,30})",
        "a?" * 40 + "a" * 40,
        ".*a.*b.*c.*d.*e",
    ],
)
def test_a_pattern_that_could_run_away_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"for ever|very long"):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"^git(?:\s++-\S++)*\s+status\b",
        "(?:ab)*c",
        "(?:a|b)*+c",
        "(?>a|ab)+c",
        "^(?:a{2}|b{1,3}|c{,2}){2}$",
        r"[]a*+(]+\(?x",
        "(?P<n>a)(?P=n)(?#comment+)+(?i:b)",
        r"(?<=a)(?<!b)(?!c|d)e{}",
    ],
)
def test_a_pattern_that_repeats_with_care_is_accepted(pattern: str) -> None:
    assert compile_pattern(pattern).head >= 250


@pytest.mark.parametrize(
    ("pattern", "found", "missed"),
    [
        ("^(?:a|xy?m)++yd", "axymyd", "axyd"),
        ("^(?:(?:a|xy*+m)++,?)*+yd", "a,axymyd", "a,axyd"),
        (r"^(?P<some>[abc]++|\)y*+m){1,9}+y", "abc)ymy", "abc)y"),
    ],
)
def test_a_possessive_group_matches_no_more_than_it_should(
    pattern: str, found: str, missed: str
) -> None:
    """Before 3.11.5 Python goes on in the middle of what did not match (gh-106052)."""
    compiled = compile_pattern(pattern)

    assert compiled.found_in(found)
    assert not compiled.found_in(missed)


@pytest.mark.parametrize("pattern", ["(?x) a b", "(?x:a b)", "a{99999999999}"])
def test_a_pattern_we_cannot_read_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"flag x|regular expression"):
        compile_pattern(pattern)


@pytest.mark.proves("C-10")
def test_a_pattern_sees_only_the_head_of_a_long_command() -> None:
    pattern = compile_pattern("^a.*b.*c")

    assert pattern.found_in("a b c")
    assert not pattern.found_in("a b " + "x" * 4000 + " c")


@pytest.mark.proves("T0-33")
@pytest.mark.parametrize(
    ("command", "category", "total"),
    [
        ("ls -la", "quick", 60),
        ("GIT STATUS", "quick", 60),
        ("node tools/build.js", "medium", 120),
        ("npm install", "npm_install", 600),
        ("npm run build", "npm_run_build", 300),
        ("pwsh ./start_all.ps1", "start_all", 300),
        ("train_agent --epochs 3", "train_agent", 900),
        ("unknown", "medium", 120),
    ],
)
def test_the_second_dialect_is_understood(command: str, category: str, total: float) -> None:
    policy, problems = read(SECOND_DIALECT)

    limits = calculate_timeouts(policy, command)
    assert (limits.category, limits.total, limits.silence) == (category, total, 60)
    assert policy.max_total == 900
    assert policy.escalation == (
        EscalationStep(signal.SIGTERM, 10),
        EscalationStep(signal.SIGKILL, 5),
    )
    assert "breaker: has no meaning here" in problems


@pytest.mark.proves("T0-33")
def test_problems_of_the_second_dialect_carry_its_own_names() -> None:
    document: dict[str, Any] = json.loads(SECOND_DIALECT)
    document["timeouts"] |= {"no_output_timeout_sec": "x", "default_exec_timeout_sec": 90}
    document["long_running_overrides"]["npm_install"] = -5
    document["command_classification"]["fast"] = {"max_timeout_sec": 0, "patterns": 5}
    document["command_classification"]["long"]["patterns"] = ["ok", 7]

    policy, problems = read(json.dumps(document))

    assert "timeouts.no_output_timeout_sec: must be a number" in problems
    assert "long_running_overrides.npm_install.exec_timeout_sec: must be a number" in problems
    assert "command_classification.fast.max_timeout_sec: must be a number" in problems
    assert "command_classification.long.patterns[1]: must be a text" in problems
    assert calculate_timeouts(policy, "unknown").total == 90


@pytest.mark.parametrize("text", [SHIPPED, SEED])
def test_the_schema_accepts_good_files(text: str) -> None:
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))

    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(text), schema, cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    "changes",
    [
        {"categories": {"quick": {"exec_timeout_sec": -1, "no_output_timeout_sec": 1}}},
        {"categories": {"quick": {"exec_timeout_sec": 30}}},
        {"categories": {}},
        {"command_patterns": {"quick": "^ls"}},
        {"match_strategy": "best"},
        {"escalation": []},
        {"command_timeouts": {"cargo": "10m"}},
        {"unknown": 1},
    ],
)
def test_the_schema_refuses_what_we_leave_out(changes: dict[str, object]) -> None:
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(seed(**changes)), schema)
    assert parse(seed(**changes))[1]


def test_the_schema_knows_every_key_that_we_read() -> None:
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    unread = dict.fromkeys(schema["properties"], 1)

    assert "is not known" not in "\n".join(parse(seed(**unread))[1])
