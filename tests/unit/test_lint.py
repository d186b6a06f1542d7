import json
from pathlib import Path

import pytest

from shelltie.limits.lint import lint
from shelltie.limits.policy import parse
from shelltie.limits.policy_file import SHIPPED_FILE

SEED_FILE = Path(__file__).parent.parent / "corpus" / "terminal_timeout_policy.json"
SEED = json.loads(SEED_FILE.read_text(encoding="utf-8"))


def linted(**changes: object) -> str:
    return "\n".join(lint(parse(json.dumps(SEED | changes))[0]))


@pytest.mark.proves("T0-8", "C-11")
@pytest.mark.parametrize(
    "trap",
    [
        "|Get-ChildItem|Write-Host|Test-Path): also catches `lsof -i`, `dirname x`",
        "quick: ^(whoami|hostname|date): also catches `whoamix`, `hostnamex`, `datetime`",
        "`git status pull`: only the first word has .*; write (?!.*(?:push|pull|clone))",
        "catches `python x.py` but not `python3 x.py`",
        "catches `pip install` but not `pip3 install`",
        "extended: llamafactory-cli train: also catches `grep 'llamafactory-cli train' log`",
    ],
)
def test_the_traps_of_the_seeds_file_are_named(trap: str) -> None:
    assert trap in linted()


@pytest.mark.proves("C-11")
def test_the_policy_we_ship_has_no_traps() -> None:
    assert lint(parse(SHIPPED_FILE.read_text(encoding="utf-8"))[0]) == ()


@pytest.mark.proves("C-6")
def test_a_pattern_that_is_never_reached_is_named() -> None:
    shadowed = "`cargo build --release` is already caught by long: ^(npm|cargo|dotnet)"

    assert shadowed in linted(match_strategy="first")
    assert shadowed not in linted()


@pytest.mark.proves("C-17")
def test_categories_that_make_no_sense_are_named() -> None:
    report = linted(
        categories=SEED["categories"] | {
            "idle": {"exec_timeout_sec": 10, "no_output_timeout_sec": 10}
        }
    )  # fmt: skip

    assert "category idle has no patterns, so nothing belongs to it" in report
    assert "category idle allows 10 s of silence in 10 s, so silence never ends" in report


def test_a_look_ahead_that_says_what_it_means_is_left_alone() -> None:
    pattern = "^git log(?=\\s|$)(?!.* push|.* pull)"

    assert linted(command_patterns={"quick": [pattern]}).count("quick: ") == 0


def test_a_pattern_that_matches_everything_is_named() -> None:
    assert "quick: a*: matches every command" in linted(command_patterns={"quick": ["a*"]})


@pytest.mark.parametrize("pattern", ["^(a(b|c)){2}", "^[)(]+$", r"\(\?!.*a\|b\)"])
def test_a_pattern_without_simple_examples_is_left_alone(pattern: str) -> None:
    assert pattern not in linted(command_patterns={"quick": [pattern]})
