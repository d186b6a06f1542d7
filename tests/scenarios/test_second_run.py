"""What CI does with the few tests that fail beside the others, in a checkout with a tiny suite."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(360)  # up to seven runs of pytest, one after the other
ROOT = Path(__file__).parents[2]
BESIDE = "'PYTEST_XDIST_WORKER' in os.environ"
FLAKY = f"def test_flaky(): assert not {BESIDE}, 'not alone'\n"
CRASHING = f"""
@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("name", ["a@b c"])
def test_crashing(name):
    if {BESIDE}: os._exit(9)
"""
SKIPPED_ALONE = f"""
def test_skipped_alone():
    if not {BESIDE}: pytest.skip("now")
    assert False
"""
READS_THE_OTHER_HALF = """
from pathlib import Path
def test_reads():
    files = [*Path(os.environ["SECOND_RUN_DIR"]).glob("*.failed")]
    assert len(files) == 2
    assert all(file.stat().st_mode & 0o004 for file in files)
"""
GREEN = "def test_green(): pass\n@pytest.mark.alone\ndef test_green_alone(): pass\n"
RED = "def test_red(): assert False\n"
INI = """[pytest]
testpaths = tests
addopts = -p xdist -p no:cacheprovider
markers = alone: runs after the others
"""
BLOCK = "failed beside the others, passed alone"


def _checkout(place: Path, suite: str, as_user: str = GREEN) -> None:
    """The scripts that are tried, as they are, with a suite for each half of the run."""
    for name in (".ci/run", "scripts/test", "tests/second_run.py"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, place / name)
    (place / ".venv").symlink_to(sys.prefix)
    (place / "pytest.ini").write_text(INI, encoding="utf-8")
    (place / "tests" / "__init__.py").touch()
    for name in ("src", "tests/programs", "user"):
        (place / name).mkdir()
    for name, text in {"tests/test_suite.py": suite, "user/test_suite.py": as_user}.items():
        (place / name).write_text(f"import os, pytest\n{text}", encoding="utf-8")
    second_half = "exec scripts/test user"
    for name in ("scripts/packages", "scripts/check", "scripts/setup", "scripts/test-as-user"):
        text = second_half if name == "scripts/test-as-user" else "true"
        (place / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (place / name).chmod(0o755)


def _run(place: Path, command: str) -> subprocess.CompletedProcess[str]:
    ours = ("PYTEST_", "COVERAGE_", "SECOND_RUN_DIR", "FAILURES_FILE")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    env["TEST_WORKERS"] = "2"  # with one, xdist waits forever for a worker that crashed
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # the plugins of our own tests are not tried here
    return subprocess.run([place / command], env=env, capture_output=True, text=True, check=False)


def test_what_fails_beside_the_others_and_passes_alone_is_named_and_green(tmp_path: Path) -> None:
    _checkout(tmp_path, GREEN + FLAKY, as_user=CRASHING + GREEN)

    ci = _run(tmp_path, ".ci/run")

    assert ci.returncode == 0, ci.stdout + ci.stderr
    beginning, block, names = ci.stdout.partition(BLOCK)
    assert block
    assert names.splitlines()[1:] == [
        "  tests/test_suite.py::test_flaky",
        "  user/test_suite.py::test_crashing[a@b c]",
    ]
    assert "AssertionError: not alone" in beginning
    assert "crashed while running" in beginning


@pytest.mark.parametrize("suite", [RED, SKIPPED_ALONE])
def test_what_does_not_pass_alone_is_a_failure(tmp_path: Path, suite: str) -> None:
    _checkout(tmp_path, GREEN + FLAKY + suite)

    ci = _run(tmp_path, ".ci/run")

    assert ci.returncode == 1
    _, title, names = ci.stdout.partition("failed beside the others, and did not pass alone:\n")
    assert title
    assert names.splitlines() == [
        f"  tests/test_suite.py::{suite.split('def ')[1].partition('(')[0]}"
    ]
    assert BLOCK not in ci.stdout


def test_six_failures_are_not_run_again(tmp_path: Path) -> None:
    _checkout(tmp_path, GREEN + f"@pytest.mark.parametrize('n', range(6))\n{_flaky('n')}")

    ci = _run(tmp_path, ".ci/run")

    assert ci.returncode == 1
    assert "6 tests failed: not run again" in ci.stdout
    assert BLOCK not in ci.stdout


def test_failures_of_both_halves_are_counted_together(tmp_path: Path) -> None:
    three = f"@pytest.mark.parametrize('n', range(3))\n{_flaky('n')}"
    _checkout(tmp_path, three, as_user=three + READS_THE_OTHER_HALF)

    ci = _run(tmp_path, ".ci/run")

    assert ci.returncode == 1
    assert "6 tests failed: not run again" in ci.stdout


def test_a_suite_that_cannot_be_imported_is_not_run_again(tmp_path: Path) -> None:
    _checkout(tmp_path, f"import nothing_of_this_name\n{GREEN}")

    ci = _run(tmp_path, ".ci/run")

    assert ci.returncode != 0
    assert BLOCK not in ci.stdout


def test_a_developers_run_is_strict(tmp_path: Path) -> None:
    _checkout(tmp_path, GREEN + FLAKY)

    run = _run(tmp_path, "scripts/test")

    assert run.returncode == 1
    assert "alone" not in run.stdout.rpartition("short test summary")[2].replace("not alone", "")


def _flaky(argument: str) -> str:
    return FLAKY.replace("()", f"({argument})")
