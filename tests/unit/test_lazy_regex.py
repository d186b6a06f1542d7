import json
import re
import subprocess
import sys

import pytest

from shelltie.basics.lazy_regex import lazy

pytestmark = pytest.mark.xdist_group("patterns")  # all of them are compiled once

# Prints every pattern of ours, and whether a possessive quantifier in it stands behind a group.
_COMPILE_ALL = """
import importlib, json, pkgutil, re, shelltie, shelltie.basics.lazy_regex
from re import _compiler, _constants, _parser
compiled = {}
APART = ("shelltie.adapters.", "shelltie.providers.places.kubernetes.")  # others' packages
compile_one = re.compile
def compile_now(text, flags=0):
    pattern = compile_one(text, flags)
    compiled[repr(text)] = possessive_groups(_parser.parse(pattern.pattern, pattern.flags))
    return pattern
def possessive_groups(part):
    if isinstance(part, (list, tuple)):
        return any(map(possessive_groups, part))
    if not isinstance(part, _parser.SubPattern):
        return False
    return any(
        op is _constants.POSSESSIVE_REPEAT and not _compiler._simple(value[2])
        or possessive_groups(value)
        for op, value in part
    )
re.compile = shelltie.basics.lazy_regex.regex = compile_now
for module in pkgutil.walk_packages(shelltie.__path__, "shelltie."):
    if not module.name.endswith("__main__") and not module.name.startswith(APART):
        importlib.import_module(module.name)
from shelltie.safety.rule_set import PROGRAMS, read_family
for family in PROGRAMS.glob("*.toml"):
    for rule in read_family(family):
        for when in rule.whens:
            for text in [when.operand or "", *(text for _, text in when.value)]:
                re.compile(text)
print(json.dumps(compiled))
"""


@pytest.fixture(scope="module")
def compiled() -> dict[str, bool]:
    done = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "-c", _COMPILE_ALL],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    patterns: dict[str, bool] = json.loads(done.stdout)
    return patterns


def test_every_pattern_of_ours_can_be_compiled(compiled: dict[str, bool]) -> None:
    assert len(compiled) > 200


def test_no_pattern_of_ours_has_a_possessive_group(compiled: dict[str, bool]) -> None:
    """Debian 12's Python matches too much with one (gh-106052): write `(?>(?:…)*)` instead."""
    assert [text for text, possessive in compiled.items() if possessive] == []


def test_a_pattern_is_compiled_when_it_is_used() -> None:
    words, wrong = lazy(r"(?P<first>\w+) \w+", re.IGNORECASE), lazy("(")

    assert words.fullmatch("Ab cd") is not None
    assert words.sub(r"\g<first>", "Ab cd") == "Ab"
    assert words.pattern == r"(?P<first>\w+) \w+"
    with pytest.raises(re.error):
        wrong.search("a")
