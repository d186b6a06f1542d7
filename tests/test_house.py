"""The house itself: its public face, its sizes, its promises on paper."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path

import pytest

import shelltie
from shelltie import Config
from tests.conftest import SECOND_TRIES
from tests.requirements_table import PAGE, proofs, read_page, render

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
STATE_AT_IMPORT = Config().state_dir


def test_the_public_api_is_what_we_say_it_is() -> None:
    stub = ast.parse((ROOT / "src" / "shelltie" / "__init__.pyi").read_text(encoding="utf-8"))
    imported = {
        alias.name: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert sorted(shelltie.__all__) == sorted(imported) == dir(shelltie)
    for name, module in imported.items():
        assert getattr(shelltie, name) is getattr(importlib.import_module(str(module)), name)
    with pytest.raises(AttributeError):
        shelltie.nothing_of_this_name  # type: ignore[attr-defined]  # noqa: B018  that is the test


def test_a_name_costs_nothing_until_it_is_used() -> None:
    look = (
        "import sys, shelltie; sys.exit(any(name.startswith('shelltie.') for name in sys.modules))"
    )

    assert subprocess.run([sys.executable, "-c", look], check=False).returncode == 0


def test_the_tests_leave_nothing_in_the_home_of_whoever_runs_them() -> None:
    """Neither what a test opens, nor what is described before any test begins."""
    for place in (STATE_AT_IMPORT, Config().state_dir):
        assert not Path(place).is_relative_to(Path.home() / ".local")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_is_about_to_be_two_files(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 700


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def test_the_page_of_requirements_says_what_the_tests_say() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert text == render(text), "run scripts/requirements"


def test_no_line_of_the_page_is_read_as_prose_by_mistake() -> None:
    """An id that is misspelt, or that has lost its arrow, would be proved by nobody."""
    text = PAGE.read_text(encoding="utf-8")

    assert len(read_page(text)) == text.count("\n**") == text.count("\n→ ")
    assert len(read_page(text)) >= 617


def test_every_mark_on_a_test_names_a_requirement() -> None:
    assert set(proofs()) <= set(read_page(PAGE.read_text(encoding="utf-8")))


def test_every_requirement_has_a_test_or_a_reason() -> None:
    for name, requirement in read_page(PAGE.read_text(encoding="utf-8")).items():
        assert requirement.shown.startswith(("`", "not yet", "no test: ")), name


def test_what_may_be_tried_again_is_a_short_list_of_tests_with_a_date_and_a_cause() -> None:
    page = tomllib.loads(SECOND_TRIES.read_text(encoding="utf-8"))["test"]

    assert len(page) <= 8
    for test in page:
        file, _, name = test["id"].partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")
        assert isinstance(test["since"], date)
        assert test["cause"]


def test_the_changelog_names_this_version() -> None:
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)

    assert version is not None
    assert f"## {version[1]}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
