"""docs/requirements.md: every requirement with its text, and the tests that carry its id."""

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "requirements.md"
_ENTRY = re.compile(r"^\*\*((?:S\d-|T\d-|TX-|C-|D)\d+)\*\* (.+)\n→ (.+)$", re.MULTILINE)
_DASH = " — "  # behind it: what the tests leave to a decision or to a benchmark


class Requirement(NamedTuple):
    """What is required, and what shows it: tests, or the reason why there are none."""

    text: str
    shown: str


def read_page(text: str) -> dict[str, Requirement]:
    """Every requirement, resolution, scenario and decision, in the order of the page."""
    return {name: Requirement(wanted, shown) for name, wanted, shown in _ENTRY.findall(text)}


def proofs() -> dict[str, list[str]]:
    """Which tests carry which ids in `@pytest.mark.proves(...)`."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for name in _marked(node):
                    found[name].append(f"{path.relative_to(ROOT / 'tests')}::{node.name}")
    return found


def _marked(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    names: list[str] = []
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.proves":
            names += [str(ast.literal_eval(argument)) for argument in decorator.args]
    return names


def render(text: str) -> str:
    """The page with the tests of today; texts, reasons and remarks behind a dash stay."""
    proved = proofs()

    def entry(match: re.Match[str]) -> str:
        name, wanted, shown = match.groups()
        if name in proved:
            _, dash, remark = shown.partition(_DASH)
            shown = ", ".join(f"`{test}`" for test in proved[name]) + dash + remark
        elif shown.startswith("`"):
            shown = "not yet"
        return f"**{name}** {wanted}\n→ {shown}"

    return _ENTRY.sub(entry, text)
