"""The house itself: its public face, its sizes, its promises on paper."""

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest

import shelltie
import shelltie.acp
from shelltie import Config
from shelltie.settings.config import SETTINGS
from shelltie.settings.describe import describe
from tests import as_user, settings_page
from tests.requirements_table import PAGE, proofs, read_page, render

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "shelltie"
SOURCES = sorted((ROOT / "src").rglob("*.py"))
FOLDERS = sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)
TOP_FOLDERS = [path.name for path in FOLDERS if path.parent == PACKAGE]
# What a person reads. CHANGELOG.md tells of paths that were, the requirements of other programs'.
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
PAGES += sorted(set((ROOT / "docs").glob("*.md")) - {PAGE})
# Names that say what happened to a value, or nothing, and so are used for several things.
FORBIDDEN_MODULES = {
    *("words", "lines", "told", "shown", "said", "made", "known", "given", "listed", "views"),
    *("base", "common", "data", "handlers", "helpers", "impl", "info", "manager", "misc"),
    *("types", "util", "utils"),
}
PROGRAMS_OF_THEIR_OWN = {  # they run without the package around them
    PACKAGE / "keeper" / f"{name}.py" for name in ("pykeeper", "pystay", "pystream", "pybundle")
}
STATE_AT_IMPORT = Config().state.dir


@pytest.mark.parametrize(
    ("module", "stub"), [(shelltie, "__init__.pyi"), (shelltie.acp, "acp.pyi")]
)
def test_the_public_api_is_what_we_say_it_is(module: ModuleType, stub: str) -> None:
    types = ast.parse((PACKAGE / stub).read_text(encoding="utf-8"))
    imported = {
        alias.name: node.module
        for node in types.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert sorted(module.__all__) == sorted(imported) == dir(module)
    for name, home in imported.items():
        assert getattr(module, name) is getattr(importlib.import_module(str(home)), name)
    with pytest.raises(AttributeError):
        module.nothing_of_this_name  # noqa: B018  that is the test


@pytest.mark.parametrize("module", ["shelltie", "shelltie.acp"])
def test_a_name_costs_nothing_until_it_is_used(module: str) -> None:
    look = (
        f"import sys, {module}; loaded = {{name for name in sys.modules if 'shelltie.' in name}};"
        f" sys.exit(bool(loaded - {{{module!r}}}))"
    )

    assert subprocess.run([sys.executable, "-c", look], check=False).returncode == 0


def test_without_the_sdk_of_acp_the_error_says_what_to_install() -> None:
    look = "import sys; sys.modules['acp'] = None; from shelltie.acp import {}"

    without = subprocess.run(
        [sys.executable, "-c", look.format("HostedTerminals")],
        check=False,
        capture_output=True,
        text=True,
    )
    other = subprocess.run([sys.executable, "-c", look.format("TerminalHost")], check=False)

    assert "pip install 'shelltie[acp]'" in without.stderr
    assert other.returncode == 0


def test_the_tests_leave_nothing_in_the_home_of_whoever_runs_them() -> None:
    """Neither what a test opens, nor what is described before any test begins."""
    for place in (STATE_AT_IMPORT, Config().state.dir):
        assert not Path(place).is_relative_to(Path.home() / ".local")


def test_no_file_is_about_to_be_two_files() -> None:
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}

    assert not {path: size for path, size in sizes.items() if size > 700}


def test_a_public_class_has_a_name_that_exists_once() -> None:
    homes = defaultdict(list)
    for path in set(SOURCES) - PROGRAMS_OF_THEIR_OWN:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(PACKAGE)))

    assert not {name: paths for name, paths in homes.items() if len(paths) > 1}


def test_a_module_is_named_after_what_is_in_it() -> None:
    checks = {path for path in SOURCES if path.stem == "checks"}

    assert not FORBIDDEN_MODULES & {path.stem for path in SOURCES}
    assert checks <= {PACKAGE / "settings" / "checks.py"}


def test_a_module_says_what_it_is_in_words_that_can_be_searched_for() -> None:
    """Its first line is a sentence about a thing, not a riddle about persons."""
    for path in SOURCES:
        first, *rest = first_lines(path)

        assert first.rstrip(".").count(" ") >= 2, path
        assert not re.search(r"(?i)\b(some|any|every|no)body\b|\bwhoever\b", first), path
        assert not rest or rest[0] == "", f"{path}: the first line is a whole sentence"


def test_no_module_speaks_of_the_numbers_of_requirements() -> None:
    for path in SOURCES:
        assert not re.search(r"\bS[0-4]\b", path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_folder_lists_its_files_in_reading_order(folder: Path) -> None:
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    flow, listing = text.split("\n\nFiles, in reading order:\n")
    listed = [line.split()[0] for line in listing.splitlines()]
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    packages = {f"{path.parent.name}/" for path in folder.glob("*/__init__.py")}
    programs = {path.name for path in folder.glob("*.c")}
    data = {path.name for path in folder.iterdir() if path.suffix in (".toml", ".json")}

    assert sorted(set(listed) - data) == sorted(modules | packages | programs)
    assert all(name in text for name in data)
    assert "\n\nResponsibilities: " in text
    assert len(flow.split("\n\nFlow at a glance:")[1].splitlines()) <= 6
    assert all(len(line.split(maxsplit=1)) == 2 for line in listing.splitlines())


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_path_on_a_page_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    tops = ["src", "tests", "docs", "scripts", "examples", *TOP_FOLDERS]
    paths = re.findall(rf"`((?:{'|'.join(tops)})/[\w./*-]*)`", text)
    files = re.findall(r"`(\w+\.(?:py|c))`", text)
    modules = re.findall(r"(?<![\w./])(shelltie(?:\.[a-z_]+)+)\b(?<!\.prom)(?<!\.tmp)", text)

    assert not [path for path in paths if not named_in(path, ROOT, PACKAGE)]
    assert not [file for file in files if not named_in(f"**/{file}", ROOT / "src")]
    assert not [name for name in modules if not is_ours(name)]


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


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


def test_every_setting_is_described_below_its_field() -> None:
    bare = [key for key in SETTINGS if not describe(key).meaning]

    assert not bare, "write a docstring below the field in settings/all_settings.py"
    assert all(describe(key).meaning.endswith(".") for key in SETTINGS)


def test_the_page_of_settings_says_what_the_source_says() -> None:
    text = settings_page.PAGE.read_text(encoding="utf-8")

    assert text == settings_page.render(text), "run scripts/settings"


def test_the_changelog_names_this_version() -> None:
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)

    assert version is not None
    assert f"## {version[1]}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_what_asks_who_runs_it_is_run_by_an_ordinary_user_as_well() -> None:
    missing = []
    for file in sorted((ROOT / "tests").glob("*/test_*.py")):
        choice = as_user.choose(file)
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            names = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
            name = getattr(node, "name", "")
            if names & {"geteuid", "getuid"} and not choice.whole and name not in choice.asking:
                missing.append(f"{file.name}: {name or node.lineno}")

    assert missing == []


def first_lines(path: Path) -> list[str]:
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").splitlines()


def named_in(path: str, *roots: Path) -> bool:
    """Whether a path, which may have stars in it, leads to something below one of them."""
    return any(any(root.glob(path.rstrip("/"))) for root in roots)


def is_ours(name: str) -> bool:
    """Whether it is a module, or what a module has."""
    module, _, attribute = name.rpartition(".")
    with suppress(ModuleNotFoundError):
        if importlib.util.find_spec(name) is not None:
            return True
    with suppress(ModuleNotFoundError):
        return hasattr(importlib.import_module(module), attribute)
    return False
