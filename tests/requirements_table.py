"""docs/requirements.md, made from the marks on the tests and the reasons written in it."""

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "requirements.md"
CONTRACT = ROOT.parent / "shared" / "REQUIREMENTS.md"
_ROW = re.compile(r"^\| (\S+) \| (.*) \|$", re.MULTILINE)
_ID = re.compile(r"(?:S\d|T\d|TX|C|D)-?\d+(?:-\d+)?")
_STARTS = re.compile(r"^(?:- |\*\*)((?:S\d-|T\d-|TX-|C-|D)\d+)\b", re.MULTILINE)


def contract_ids() -> list[str]:
    """Every requirement, resolution, scenario and decision, in the order of the contract."""
    return list(dict.fromkeys(_STARTS.findall(CONTRACT.read_text(encoding="utf-8"))))


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


def rows(text: str) -> dict[str, str]:
    """What the table says of each id."""
    return {name: says for name, says in _ROW.findall(text) if _ID.fullmatch(name)}


def render(ids: list[str], old: dict[str, str]) -> str:
    """The table as it should be: tests where there are some, the written reason otherwise."""
    proved = proofs()
    lines = [_PREAMBLE]
    section = ""
    for name in ids:
        if (start := name.rstrip("0123456789")) != section:
            section = start
            lines += ["", f"## {section.rstrip('-')}", "", "| id | shown by |", "| --- | --- |"]
        lines.append(f"| {name} | {_says(name, proved, old)} |")
    return "\n".join(lines) + "\n"


def _says(name: str, proved: dict[str, list[str]], old: dict[str, str]) -> str:
    if name in proved:
        return ", ".join(f"`{test}`" for test in proved[name])
    reason = old.get(name, "not yet")
    return "not yet" if reason.startswith("`") else reason


_PREAMBLE = """# Every requirement, and the test that shows it

An id has its tests here, or the reason why it has none. The tests carry the ids
(`@pytest.mark.proves`), `scripts/requirements` writes this page from them, and a test fails when
the page and the tests differ, or when an id of the contract is missing. "not yet" means that."""
