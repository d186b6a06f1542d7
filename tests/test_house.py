"""The house itself: its public face, its sizes, its promises on paper."""

import ast
import re
from pathlib import Path

import pytest

import shelltie
from tests.requirements_table import CONTRACT, TABLE, contract_ids, proofs, render, rows

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def test_the_public_api_is_what_we_say_it_is() -> None:
    assert set(shelltie.__all__) == {
        name for name in vars(shelltie) if not name.startswith("_") and name[0] != "_"
    } - {"config", "errors", "events", "model", "frontends", "policy", "running"} - {
        "approval",
        "assemble",
        "keeper",
        "ledger",
        "output",
        "providers",
        "record",
        "shell",
        "trust",
    }


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_is_about_to_be_two_files(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 500


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def test_the_table_of_requirements_says_what_the_tests_say() -> None:
    text = TABLE.read_text(encoding="utf-8")

    assert text == render(list(rows(text)), rows(text)), "run scripts/requirements"


def test_every_mark_on_a_test_names_a_requirement() -> None:
    listed = rows(TABLE.read_text(encoding="utf-8"))

    assert set(proofs()) <= set(listed)


@pytest.mark.skipif(not CONTRACT.exists(), reason="the contract is not part of a user's checkout")
def test_every_requirement_is_in_the_table() -> None:
    assert list(rows(TABLE.read_text(encoding="utf-8"))) == contract_ids()


def test_every_requirement_has_a_test_or_a_reason() -> None:
    for name, says in rows(TABLE.read_text(encoding="utf-8")).items():
        assert says.startswith(("`", "not yet", "no test: ")), name


def test_the_changelog_names_this_version() -> None:
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)

    assert version is not None
    assert f"## {version[1]}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
