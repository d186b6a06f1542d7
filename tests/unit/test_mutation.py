"""The tools that say what the tests are worth: planted faults, and tables in docs/testing.md."""

from difflib import unified_diff
from pathlib import Path

import pytest

from benchmarks.mutate import NEAREST, ROOT, Score, mutants, shortfall
from tests import coverage_table, testing_page


@pytest.mark.parametrize("module", NEAREST)
def test_the_modules_and_tests_of_the_mutation_run_are_there(module: str) -> None:
    tests = [ROOT / "tests" / name for name in NEAREST[module].split()]

    assert (ROOT / "src" / "shelltie" / module).is_file()
    assert all(test.is_file() for test in tests)


def test_each_fault_is_one_change_of_a_source_that_still_compiles() -> None:
    sound = (ROOT / "src" / "shelltie" / "limits" / "resolve.py").read_text(encoding="utf-8")

    faults = mutants("limits/resolve.py")

    texts = {fault.text for fault in faults}
    kinds = {fault.what for fault in faults}
    assert len(texts) == len(faults)
    assert sound not in texts
    assert {"and -> or", "<= -> <", "> -> >=", "condition negated", "returns None"} <= kinds
    for fault in faults:
        compile(fault.text, fault.module, "exec")
        hunks = [line for line in _diff(sound, fault.text) if line.startswith("@@")]
        assert len(hunks) == 1


def _diff(old: str, new: str) -> list[str]:
    return list(unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm=""))


def test_a_table_takes_the_place_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "testing.md"
    page.write_text(
        "# T\n\n## A\n\nof a\n\n| old |\n\nold note\n\n## B\n\nof b\n", encoding="utf-8"
    )
    monkeypatch.setattr(testing_page, "PAGE", page)

    testing_page.write_section("A", "| new |", "note")
    once = page.read_text(encoding="utf-8")
    testing_page.write_section("A", "| new |", "note")
    testing_page.write_section("C", "| more |")

    assert once == "# T\n\n## A\n\nof a\n\n| new |\n\nnote\n\n## B\n\nof b\n"
    assert page.read_text(encoding="utf-8") == f"{once}\n## C\n\n| more |\n"


def test_coverage_is_added_up_by_package() -> None:
    summary = {"num_statements": 4, "covered_lines": 3, "num_branches": 2, "covered_branches": 1}
    files = {
        "src/shelltie/model.py": {"summary": summary},
        "src/shelltie/safety/arg.py": {"summary": summary},
        "src/shelltie/safety/inspection.py": {"summary": {**summary, "covered_lines": 4}},
    }

    rows = coverage_table.table(files).splitlines()[2:]

    assert rows == [
        "| `safety` | 8 | 87.5 % | 4 | 50.0 % |",
        "| `shelltie` | 4 | 75.0 % | 2 | 50.0 % |",
        "| `together` | 12 | 83.3 % | 6 | 50.0 % |",
    ]


@pytest.mark.proves("S4-60")
def test_a_coverage_below_the_target_is_told() -> None:
    counts = {"num_statements": 100, "covered_lines": 95, "num_branches": 10, "covered_branches": 9}

    enough = coverage_table.shortfall({"a.py": {"summary": counts}})
    less = coverage_table.shortfall({"a.py": {"summary": {**counts, "covered_branches": 8}}})

    assert enough is None
    assert less == "below 90 %: branches: 80.0 %"


@pytest.mark.proves("S4-60")
def test_a_score_below_the_target_is_told() -> None:
    fault = mutants("limits/resolve.py")[0]

    enough = shortfall([Score("a.py", 3, (fault,))])
    less = shortfall([Score("a.py", 2, (fault,))])

    assert enough is None
    assert less == "2 of 3 faults were noticed, which is below 75 %"
