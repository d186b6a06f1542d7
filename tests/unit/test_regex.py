import re
import subprocess
import sys

import pytest

from shelltie.regex import regex

_COMPILE_ALL = """
import importlib, pkgutil, re, shelltie, shelltie.regex
compiled = []
def compile_now(text, flags=0):
    compiled.append(re.compile(text, flags))
    return compiled[-1]
shelltie.regex.regex = compile_now
for module in pkgutil.walk_packages(shelltie.__path__, "shelltie."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(len(compiled))
"""


def test_every_pattern_of_ours_can_be_compiled() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "-c", _COMPILE_ALL],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 200


def test_a_pattern_is_compiled_when_it_is_used() -> None:
    words, wrong = regex(r"(?P<first>\w+) \w+", re.IGNORECASE), regex("(")

    assert words.fullmatch("Ab cd") is not None
    assert words.sub(r"\g<first>", "Ab cd") == "Ab"
    assert words.pattern == r"(?P<first>\w+) \w+"
    with pytest.raises(re.error):
        wrong.search("a")
