"""What pyproject.toml declares is what the source imports, and what the locks hold."""

import ast
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.run_lock import DEV, PROJECT, ROOT, RUN, entries, normal, render

# They are run, not imported.
PROGRAMS = {"shfmt-py"}
# Imported by these modules alone, which say so where it is missing or already loaded by others.
OPTIONAL = {
    "acp": {"agent-client-protocol"},
    "otel": {"opentelemetry-sdk"},
    "ssh": {"asyncssh"},
    "top": {"textual"},
}
# Imported below `shelltie.providers.places` by one folder each, and tested elsewhere.
CLUSTERS = {"kubernetes": {"httpx2", "lightkube", "pyyaml"}, "ray": {"ray"}}
# Imported by one module of `shelltie.adapters` each, and tested in environments of their own.
FRAMEWORKS = {
    "claude-agent-sdk": {"claude-agent-sdk"},
    "google-adk": {"google-adk"},
    "inspect-ai": {"inspect-ai"},
    "langchain": {"langchain"},
    "mini-swe-agent": {"mini-swe-agent"},
    "openai-agents": {"openai-agents"},
    "pydantic-ai": {"pydantic-ai-slim"},
    "smolagents": {"smolagents"},
    "swe-rex": {"swe-rex"},
}


def imported_distributions() -> set[str]:
    known = metadata.packages_distributions()
    names: set[str] = set()
    apart = set((ROOT / "src/shelltie/adapters").glob("*.py"))
    for name in CLUSTERS:
        apart |= set((ROOT / "src/shelltie/providers/places" / name).glob("*.py"))
    for path in sorted(set((ROOT / "src").rglob("*.py")) - apart):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.partition(".")[0])
    # A keeper that stays is a program without its package: a module that lies beside it is ours.
    beside = {path.stem for path in (ROOT / "src/shelltie/keeper").glob("py*.py")}
    foreign = names - sys.stdlib_module_names - {"shelltie"} - beside
    # Several distributions share the package opentelemetry; it is the API that is imported.
    return {normal(known[name][0]) for name in foreign - {"opentelemetry"}} | {"opentelemetry-api"}


def declared(requirements: list[str]) -> set[str]:
    return {normal(Requirement(text).name) for text in requirements}


def test_what_is_declared_is_what_is_imported() -> None:
    required = declared(PROJECT["project"]["dependencies"])
    optional = {
        extra: declared(texts)
        for extra, texts in PROJECT["project"]["optional-dependencies"].items()
    }

    assert optional == OPTIONAL | CLUSTERS | FRAMEWORKS
    ours = required | OPTIONAL["acp"] | OPTIONAL["ssh"] | OPTIONAL["top"]
    assert ours == imported_distributions() | PROGRAMS


def test_of_opentelemetry_only_the_api_is_imported() -> None:
    found = {
        match
        for path in (ROOT / "src").rglob("*.py")
        for match in re.findall(r"(?m)^(?:from|import) (opentelemetry\.\w+)", path.read_text())
    }

    assert found == {"opentelemetry.trace"}


def test_the_lock_for_running_is_the_part_of_the_other_that_is_needed() -> None:
    assert RUN.read_text(encoding="utf-8") == render(), "run scripts/run-lock"
    assert entries(RUN).items() < entries(DEV).items()


@pytest.mark.parametrize("lock", [DEV, RUN], ids=lambda path: path.name)
def test_every_entry_of_a_lock_has_hashes(lock: Path) -> None:
    for name, lines in entries(lock).items():
        assert "--hash=sha256:" in lines, name


def test_the_readme_and_the_classifiers_name_no_system_that_was_not_tried() -> None:
    classifiers = PROJECT["project"]["classifiers"]

    assert [c for c in classifiers if c.startswith("Operating System")] == [
        "Operating System :: POSIX :: Linux"
    ]
