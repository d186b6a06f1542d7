"""Hiding a command does not make it safe: quoting, encodings, wrappers, options, environment."""

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from shelltie.safety.rating import rate
from shelltie.safety.rule_set import RuleSet
from shelltie.shell.parse import parse
from shelltie.verdict import Rating
from tests.run_lock import ROOT

CORPUS = Path(__file__).parent.parent / "corpus" / "evasions.jsonl"
RULES = RuleSet()


def rating(text: str) -> Rating:
    return rate(parse(text), RULES).rating


def evasions() -> Iterator[tuple[str, Rating, str]]:
    for line in CORPUS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield row["command"], Rating(row["min"]), row["why"]


def test_the_corpus_has_each_evasion_once_and_says_why_it_is_one() -> None:
    rows = list(evasions())

    assert len(rows) >= 200
    assert len({command for command, _, _ in rows}) == len(rows)
    assert all(why and least is not Rating.SAFE for _, least, why in rows)


def test_no_evasion_is_rated_safe() -> None:
    safe = [(command, why) for command, _, why in evasions() if rating(command) is Rating.SAFE]

    assert safe == []


def test_every_evasion_gets_at_least_the_rating_it_must_get() -> None:
    milder = [
        (command, why) for command, least, why in evasions() if rating(command).rank < least.rank
    ]

    assert milder == []


@pytest.mark.proves("T2-5")
@pytest.mark.parametrize(
    "command",
    [
        "echo $(rm -rf /)",
        "echo `rm -rf /`",
        "/bin/rm -rf x",
        "\\rm -rf x",
        "env rm -rf x",
        "xargs rm -rf",
        'bash -c "rm -rf /"',
        "(rm -rf x)",
    ],
)
def test_a_deletion_is_dangerous_however_it_is_reached(command: str) -> None:
    assert rating(command) is Rating.DANGEROUS


@pytest.mark.proves("T2-5")
@pytest.mark.parametrize(
    "command",
    [
        "echo $(curl x)",
        "ls & curl x",
        "ls\ncurl x",
        "psql",
        "idle",
        'bash -c "x"',
        "",
        "  ",
        "&&",
    ],
)
def test_a_hole_of_prefix_lists_is_closed(command: str) -> None:
    assert rating(command) is not Rating.SAFE


@pytest.mark.needs("setpriv")
@pytest.mark.parametrize(
    "text",
    ["cat /proc/1/root/../x", "cd /proc/1/root && git status", "git -C /proc/1/cwd log"],
)
def test_a_path_that_only_root_may_follow_is_unknown_to_others(
    text: str, public_path: Path
) -> None:
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3"]
    python = become if os.geteuid() == 0 else [sys.executable]
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(public_path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": f"{ROOT / 'src'}:{sysconfig.get_path('purelib')}",
    }
    done = subprocess.run(
        [*python, "-m", "shelltie", "check", text],
        cwd=public_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "verdict   unknown" in done.stdout, done.stderr
