"""A second run, alone, of the few tests that failed in CI: a pytest plugin and a program.

The plugin lists the failures, the program repeats them. `scripts/test` uses both only where CI has
set SECOND_RUN_DIR.
"""

import os
import sys
from collections.abc import Collection
from pathlib import Path

import pytest

FAILED, PASSED_ALONE = ".failed", ".passed-alone"
MOST = 5  # of the whole run of CI; more than these say that something is broken


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write down what failed: its setup, the test, its teardown, or the worker that ran it."""
    if report.failed:
        _list_failure(_without_group(report.nodeid))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A file that cannot be imported is listed as well, and fails again."""
    if report.failed:
        _list_failure(report.nodeid)


def _list_failure(node_id: str) -> None:
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
    """Run once more what failed, and say whether all of it passes alone."""
    tests = _lines(failures)
    everywhere = sum(len(_lines(file)) for file in failures.parent.glob(f"*{FAILED}"))
    if not tests or everywhere > MOST:
        _say(f"\n{everywhere} tests failed: not run again, which is for 1 to {MOST}")
        return 1

    _say("\nrun once more, alone:", tests)
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
