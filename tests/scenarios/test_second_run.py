"""What CI does with tests that fail beside the others, in a checkout with a tiny suite."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from tests.second_run import LIST, MOST, OLDEST, PASSED_ALONE, problems

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
ONCE = """
def test_once():
    tried = os.path.exists("tried")
    open("tried", "w").close()
    assert tried, "the first time"
"""
EXTRAS = "[project.optional-dependencies]\nsome = []\n[project.scripts]\n"
GREEN = "def test_green(): pass\n@pytest.mark.alone\ndef test_green_alone(): pass\n"
RED = "def test_red(): assert False\n"
INI = """[pytest]
testpaths = tests
addopts = -p xdist -p no:cacheprovider
markers = alone: runs after the others
"""
BLOCK = "failed beside the others, passed alone"
ENTRY = '[[test]]\nid = "{}"\nsince = 2026-01-01\ncause = "Known, and looked into."\n'
LISTED = (
    *("tests/test_suite.py::test_flaky", "tests/test_suite.py::test_skipped_alone"),
    *("tests/test_suite.py::test_red", "user/test_suite.py::test_crashing"),
)


def _checkout(
    place: Path, suite: str, as_user: str = GREEN, listed: Sequence[str] = LISTED
) -> None:
    """The scripts that are tried, as they are, with a suite for each half of the run."""
    for name in (".ci/run", "scripts/test", "tests/second_run.py"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, place / name)
    (place / ".venv").symlink_to(sys.prefix)
    (place / "pytest.ini").write_text(INI, encoding="utf-8")
    (place / "tests" / "__init__.py").touch()
    entries = "".join(map(ENTRY.format, listed))
    (place / "tests" / "second_tries.toml").write_text(entries, encoding="utf-8")
    for name in ("src", "tests/programs", "user"):
        (place / name).mkdir()
    for name, text in {"tests/test_suite.py": suite, "user/test_suite.py": as_user}.items():
        (place / name).write_text(f"import os, pytest\n{text}", encoding="utf-8")
    names = ("packages", "check", "setup", "test-adapters", "test-places", "bench")
    others = dict.fromkeys(names, "true")
    for name, text in {**others, "test-as-user": "exec scripts/test user"}.items():
        script = place / "scripts" / name
        script.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        script.chmod(0o755)


def _run(place: Path, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    ours = ("PYTEST_", "COVERAGE_", "SECOND_RUN_DIR", "FAILURES_FILE")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    env.update(variables)
    env["TEST_WORKERS"] = "2"  # with one, xdist waits forever for a worker that crashed
    env["PATH"] = f"{place}/bin:{env['PATH']}"
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


def test_what_is_not_listed_is_a_failure_at_once_and_can_be_run_alone(tmp_path: Path) -> None:
    _checkout(tmp_path, GREEN + FLAKY, listed=())

    ci = _run(tmp_path, ".ci/run")

    assert ci.returncode == 1
    assert "not on tests/second_tries.toml" in ci.stdout
    how = ci.stdout.splitlines()[-1]
    assert how.endswith("-m pytest 'tests/test_suite.py::test_flaky'")
    assert "passed" not in ci.stdout.partition("not on tests/second_tries.toml")[2]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    alone = subprocess.run(how, shell=True, cwd=tmp_path, env=env, capture_output=True, check=False)
    assert alone.returncode == 0, alone


def test_one_that_is_not_listed_keeps_the_others_from_a_second_run(tmp_path: Path) -> None:
    _checkout(tmp_path, GREEN + FLAKY + FLAKY.replace("flaky", "unknown"))

    ci = _run(tmp_path, ".ci/run")

    assert ci.returncode == 1
    assert ci.stdout.endswith("-m pytest 'tests/test_suite.py::test_unknown'\n")


def test_a_test_of_an_adapter_has_a_second_run_if_it_is_listed(tmp_path: Path) -> None:
    _checkout(tmp_path, GREEN, listed=["tests/adapters/test_some.py::test_once"])
    _adapter(tmp_path, ONCE)

    run = _run(tmp_path, "scripts/test-adapters", SECOND_RUN_DIR=str(tmp_path), UV="uv")

    assert run.returncode == 0, run.stdout + run.stderr
    assert "AssertionError: the first time" in run.stdout
    (passed,) = tmp_path.glob(f"*{PASSED_ALONE}")
    assert passed.read_text(encoding="utf-8") == "tests/adapters/test_some.py::test_once\n"


def test_a_test_of_an_adapter_that_is_not_listed_is_a_failure(tmp_path: Path) -> None:
    _checkout(tmp_path, GREEN)
    _adapter(tmp_path, ONCE)

    run = _run(tmp_path, "scripts/test-adapters", SECOND_RUN_DIR=str(tmp_path), UV="uv")

    assert run.returncode != 0
    assert "-m pytest 'tests/adapters/test_some.py::test_once'" in run.stdout
    assert not [*tmp_path.glob(f"*{PASSED_ALONE}")]


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


def _adapter(place: Path, suite: str) -> None:
    """The script of the adapters as it is, for a framework that need not be installed."""
    shutil.copy2(ROOT / "scripts/test-adapters", place / "scripts/test-adapters")
    (place / "pyproject.toml").write_text(EXTRAS, encoding="utf-8")
    (place / "tests/adapters").mkdir()
    text = f"import os, pytest\n{suite}"
    (place / "tests/adapters/test_some.py").write_text(text, encoding="utf-8")
    python = place / ".venv-adapters/some/bin/python"
    uv = place / "bin/uv"
    for path, script in {python: f'exec {sys.executable} "$@"', uv: "true"}.items():
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)


# The list


TODAY = date(2026, 3, 1)
GOOD = {
    "id": '"tests/scenarios/test_second_run.py::test_a_good_list_has_no_problems"',
    "since": "2026-02-28",
    "cause": '"It asks for a port and loses it to another test."',
}


def _entry(**other: str) -> str:
    return "\n".join(["[[test]]", *(f"{key} = {text}" for key, text in (GOOD | other).items()), ""])


def test_our_list_is_short_new_and_about_tests_that_exist() -> None:
    assert list(problems(LIST.read_text(encoding="utf-8"), datetime.now(UTC).date())) == []


@pytest.mark.parametrize("text", ["", "# nothing\n", _entry()])
def test_a_good_list_has_no_problems(text: str) -> None:
    assert list(problems(text, TODAY)) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (_entry(since=str(TODAY - OLDEST - timedelta(days=1))), "of the last 60 days"),
        (_entry(since=str(TODAY + timedelta(days=1))), "of the last 60 days"),
        (_entry(since='"2026-02-28"'), "since is a date"),
        (_entry(since="2026-02-28T10:00:00"), "since is a date"),
        (_entry(cause='"flaky"'), "a sentence"),
        (_entry(cause="7"), "a sentence"),
        (_entry(id='"tests/scenarios/test_second_run.py::test_gone"'), "no such test"),
        (_entry(id='"tests/scenarios/test_gone.py::test_gone"'), "no such test"),
        (_entry(id='"tests/scenarios/test_second_run.py"'), "no such test"),
        (_entry(id=GOOD["id"][:-1] + '[a]"'), "for all of its cases"),
        (_entry(id="3"), "no such test"),
        (_entry(why='"?"'), "id, since and cause"),
        ("[[test]]\nid = 'x'\n", "id, since and cause"),
        ("tests = []\n", "[[test]] alone"),
        (_entry() * 2, "twice"),
        (_entry() * (MOST + 1), "more than 8"),
    ],
)
def test_a_list_that_grows_or_ages_is_refused(text: str, problem: str) -> None:
    assert problem in " ".join(problems(text, TODAY))
