"""A second run, alone, of listed tests that failed in CI: a pytest plugin and a program.

The plugin writes down the failures. The program repeats those that `second_tries.toml` lists, and
fails at once for any other. Scripts use both only where CI has set SECOND_RUN_DIR.
"""

import ast
import os
import sys
import tomllib
from collections.abc import Collection, Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "second_tries.toml"
MOST, OLDEST = 8, timedelta(days=60)  # of the list: it is for what is being looked into
SHORTEST_CAUSE = 30  # letters
PASSED_ALONE = ".passed-alone"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write down what failed: its setup, the test, its teardown, or the worker that ran it."""
    if report.failed:
        _note_failure(_without_group(report.nodeid))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A file that cannot be imported is written down as well; no list can have it."""
    if report.failed:
        _note_failure(report.nodeid)


def _note_failure(node_id: str) -> None:
    # A worker of pytest-xdist sends its reports to the process that started it: that one writes.
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    with Path(os.environ["FAILURES_FILE"]).open("a", encoding="utf-8") as file:
        file.write(f"{node_id}\n")


def _without_group(node_id: str) -> str:
    """The id without the `@group` that `--dist loadgroup` adds to it."""
    group = node_id.rfind("@")
    return node_id[:group] if group > node_id.rfind("]") else node_id


class Results:
    """What became of the tests of a second run."""

    def __init__(self) -> None:
        self._passed: set[str] = set()
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that is skipped now has not passed."""
        if report.failed:
            self._failed.add(report.nodeid)
        elif report.passed and report.when == "call":
            self._passed.add(report.nodeid)

    @property
    def passed(self) -> set[str]:
        return self._passed - self._failed


def main(failures: Path) -> int:
    """Run once more what failed, if all of it is listed, and say whether it passes alone."""
    tests = _lines(failures)
    entries = tomllib.loads(LIST.read_text(encoding="utf-8")).get("test", [])
    listed = {entry["id"] for entry in entries}
    unlisted = [test for test in tests if test.partition("[")[0] not in listed]
    if unlisted or not tests:
        commands = [f"{sys.executable} -m pytest '{test}'" for test in unlisted]
        _say(f"\nfailed, and not on {LIST.relative_to(ROOT)}; to run it alone:", commands)
        return 1

    _say("\nlisted, and run once more, alone:", tests)
    results = Results()
    code = pytest.main([*tests], plugins=[results])
    if code != pytest.ExitCode.OK or results.passed != set(tests):
        _say("\nfailed beside the others, and did not pass alone:", set(tests) - results.passed)
        return 1
    text = "".join(f"{test}\n" for test in tests)
    failures.with_suffix(PASSED_ALONE).write_text(text, encoding="utf-8")
    return 0


def print_closing_block(directory: Path) -> None:
    """What passed only alone, at the end of the log."""
    tests = [test for file in directory.glob(f"*{PASSED_ALONE}") for test in _lines(file)]
    if tests:
        _say("\nfailed beside the others, passed alone (the first tracebacks are above):", tests)


def problems(text: str, today: date) -> Iterator[str]:
    """What is wrong with a list of second tries."""
    document = tomllib.loads(text)
    entries = document.get("test", [])
    if document.keys() - {"test"} or any(set(one) != {"id", "since", "cause"} for one in entries):
        yield "it has [[test]] alone, and each of them id, since and cause"
        return
    if len(entries) > MOST:
        yield f"there are {len(entries)}, which is more than {MOST}: mend one first"
    if len({entry["id"] for entry in entries}) < len(entries):
        yield "an id is there twice"
    for entry in entries:
        yield from (f"{entry['id']}: {problem}" for problem in _problems_of(entry, today))


def _problems_of(entry: dict[str, object], today: date) -> Iterator[str]:
    since, cause = entry["since"], entry["cause"]
    if type(since) is not date or not today - OLDEST <= since <= today:
        yield f"since is a date, like {today}, of the last {OLDEST.days} days: mend the test"
    if not isinstance(cause, str) or len(cause) < SHORTEST_CAUSE or not cause.endswith("."):
        yield "cause is a sentence that says why it fails beside others"
    file, _, name = str(entry["id"]).partition("::")
    if not (ROOT / file).is_file() or name not in _functions(ROOT / file):
        yield "there is no such test; an id is FILE::FUNCTION, for all of its cases"


def _functions(file: Path) -> set[str]:
    body = ast.parse(file.read_text(encoding="utf-8")).body
    return {one.name for one in body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}


def _lines(file: Path) -> list[str]:
    """The ids in a file, each once: a test and its teardown may both fail."""
    return list(dict.fromkeys(file.read_text(encoding="utf-8").splitlines()))


def _say(title: str, tests: Collection[str] = ()) -> None:
    sys.stdout.write("\n".join([title, *(f"  {test}" for test in sorted(tests)), ""]))
    sys.stdout.flush()


if __name__ == "__main__":
    place = Path(sys.argv[1])
    if place.is_dir():
        print_closing_block(place)
    else:
        sys.exit(main(place))
