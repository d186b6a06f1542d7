"""Each example of docs/python.md is a program: it is run, and prints what its comments say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "python.md"
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_no_example_is_left_out() -> None:
    assert len(PROGRAMS) == PAGE.read_text(encoding="utf-8").count("```python") >= 6


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_an_example_does_what_it_says(program: str, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    said = [words.split(":")[0].split() for words in re.findall(r"print\(.*\)  +# (.+)", program)]

    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout
    printed = done.stdout.split()
    for words in said:
        if words[0] != "what":  # "what to try next" is no output
            assert words == [word for word in printed if word in words][: len(words)], done.stdout
