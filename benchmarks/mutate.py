"""Mutation testing: plants one fault at a time in a copy of the tree, and runs the nearest tests.

`python -m benchmarks.mutate [MODULE…] [--jobs N] [--most N] [--seed N] [--write]`
"""

import argparse
import ast
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.testing_page import write_section

ROOT = Path(__file__).resolve().parent.parent
_COPIED = ("src", "tests", "benchmarks", "docs", "examples", "scripts", "pyproject.toml")
_PATIENCE = 3.0  # times what the tests take without a fault
TARGET = 75  # percent of the faults that some test must notice
_RATING = "unit/test_rating.py unit/test_rating_effects.py unit/test_rules.py"
# The modules that must not be wrong, and the tests that are nearest to each.
NEAREST = {
    "limits/resolve.py": "unit/test_resolve.py unit/test_agent_limits.py",
    "environment/variable_kinds.py": "unit/test_variable_kinds.py unit/test_child_environment.py",
    "safety/judge.py": "unit/test_judge.py scenarios/test_second_look.py",
    "safety/protected_names.py": _RATING,
    "safety/rating.py": _RATING,
    "safety/wrappers.py": _RATING,
    "running/watchdog.py": "unit/test_watchdog.py",
    "sessions/wait_rule.py": "unit/test_wait_rule.py",
    "approval/broker.py": "unit/test_approval_broker.py",
    "approval/ancestry.py": "scenarios/test_control.py scenarios/test_approval.py",
    "record/chain.py": "unit/test_chain.py",
    "keeper/protocol.py": "unit/test_keeper_protocol.py",
    "output/head_tail.py": "unit/test_head_tail.py",
    "output/text.py": "unit/test_text.py",
}
_SWAPPED = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module with one fault, and what is wrong in it."""

    module: str
    line: int
    what: str
    text: str


@dataclass(frozen=True, slots=True)
class Score:
    """How many faults of a module some test has noticed."""

    module: str
    killed: int
    survivors: tuple[Mutant, ...]

    @property
    def tried(self) -> int:
        return self.killed + len(self.survivors)


class _Planter(ast.NodeVisitor):
    """Collects every single change of a source that may matter."""

    def __init__(self, source: str) -> None:
        self.found: list[tuple[int, int, int, str, str]] = []
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line.encode()))
        self._source = source.encode()

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._lines[node.lineno - 1] + node.col_offset
        return start, self._lines[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self._span(node)
        return self._source[start:end].decode()

    def _replace(self, node: ast.expr | ast.stmt, text: str, what: str) -> None:
        self.found.append((node.lineno, *self._span(node), text, what))

    def _between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        start, end = self._span(left)[1], self._span(right)[0]
        gap = self._source[start:end].decode()
        pattern = r"\b" + old.replace(" ", r"\s+") + r"\b" if old[0].isalpha() else re.escape(old)
        text = re.sub(pattern, new, gap, count=1)
        if text != gap:
            line = left.end_lineno or left.lineno
            self.found.append((line, start, end, text, f"{old} -> {new}"))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for statement in node.body:  # neither decorators nor annotations
            self.visit(statement)
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        """They state what must hold anyway."""

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, operator, right in zip(
            [node.left, *node.comparators], node.ops, node.comparators, strict=False
        ):
            self._between(left, right, *_SWAPPED[type(operator)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        self._between(node.values[0], node.values[1], old, new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._replace(node, f"({self._text(node.operand)})", "not dropped")
        self.generic_visit(node)

    def _negate(self, test: ast.expr) -> None:
        if not isinstance(test, (ast.Compare, ast.UnaryOp, ast.BoolOp)):
            self._replace(test, f"not ({self._text(test)})", "condition negated")

    def visit_If(self, node: ast.If) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not isinstance(node.value, ast.Constant):
            self._replace(node, "return None", "returns None")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace(node, str(not node.value), f"{node.value} -> {not node.value}")
        elif isinstance(node.value, int):
            self._replace(node, str(node.value + 1), f"{node.value} -> {node.value + 1}")

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Call):
            self._replace(node, "pass", "call dropped")
        self.generic_visit(node)


def mutants(module: str) -> list[Mutant]:
    """Every fault that we know how to plant in a module, in the order of its text."""
    source = (ROOT / "src" / "shelltie" / module).read_text(encoding="utf-8")
    planter = _Planter(source)
    planter.visit(ast.parse(source))
    data = source.encode()
    made = [
        Mutant(module, line, what, (data[:start] + new.encode() + data[end:]).decode())
        for line, start, end, new, what in sorted(set(planter.found))
    ]
    return [mutant for mutant in made if _compiles(mutant.text)]


def _compiles(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


class _Copies:
    """Trees to plant faults in, one for each that works."""

    def __init__(self, where: Path, count: int) -> None:
        self._free: queue.Queue[Path] = queue.Queue()
        for number in range(count):
            copy = where / str(number)
            copy.mkdir()
            for name in _COPIED:
                source = ROOT / name
                ignored = shutil.ignore_patterns("__pycache__", "node_modules")
                if source.is_dir():
                    shutil.copytree(source, copy / name, ignore=ignored, symlinks=True)
                else:
                    shutil.copy(source, copy / name)
            self._free.put(copy)

    def is_noticed(self, mutant: Mutant, patience: float) -> bool:
        copy = self._free.get()
        file = copy / "src" / "shelltie" / mutant.module
        sound = file.read_text(encoding="utf-8")
        file.write_text(mutant.text, encoding="utf-8")
        try:
            return _test(copy, mutant.module, patience) != 0
        finally:
            file.write_text(sound, encoding="utf-8")
            self._free.put(copy)

    def seconds(self, module: str) -> float:
        """How long the tests of a module take; they must pass."""
        copy = self._free.get()
        begun = time.monotonic()
        try:
            if _test(copy, module, 600) != 0:
                sys.exit(f"{module}: its tests fail without a fault: {NEAREST[module]}")
        finally:
            self._free.put(copy)
        return time.monotonic() - begun


def _test(copy: Path, module: str, patience: float) -> int | None:
    """The exit code; `None` when it took too long."""
    paths = [f"tests/{name}" for name in NEAREST[module].split()]
    # -B: a cached module may be as old, to the second, and as long as the one with a fault.
    argv = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "--no-header", *paths]
    env = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        argv,
        cwd=copy,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(patience)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def _score(module: str, copies: _Copies, chosen: Sequence[Mutant], jobs: int) -> Score:
    patience = 10 + _PATIENCE * copies.seconds(module)
    with ThreadPoolExecutor(jobs) as pool:
        noticed = list(pool.map(lambda mutant: copies.is_noticed(mutant, patience), chosen))
    survivors = [mutant for mutant, seen in zip(chosen, noticed, strict=True) if not seen]
    return Score(module, sum(noticed), tuple(survivors))


def _shown(mutant: Mutant) -> Iterator[str]:
    yield f"survived: src/shelltie/{mutant.module}:{mutant.line}: {mutant.what}"
    sound = (ROOT / "src" / "shelltie" / mutant.module).read_text(encoding="utf-8")
    diff = unified_diff(sound.splitlines(), mutant.text.splitlines(), n=0, lineterm="")
    yield from (f"    {line}" for line in list(diff)[3:])


def _table(scores: Sequence[Score]) -> str:
    rows = [_row(f"`{it.module}`", it.killed, it.tried) for it in scores]
    rows.append(_row("together", sum(it.killed for it in scores), sum(it.tried for it in scores)))
    return "\n".join(("| module | faults | noticed | |", "| --- | --- | --- | --- |", *rows))


def _row(name: str, killed: int, tried: int) -> str:
    return f"| {name} | {tried} | {killed} | {100 * killed // max(tried, 1)} % |"


def shortfall(scores: Sequence[Score]) -> str | None:
    """What to say if too few faults were noticed."""
    killed, tried = sum(it.killed for it in scores), sum(it.tried for it in scores)
    if 100 * killed >= TARGET * tried:
        return None
    return f"{killed} of {tried} faults were noticed, which is below {TARGET} %"


def main() -> None:
    """Print what survived, and a score for each module."""
    parser = argparse.ArgumentParser(prog="scripts/mutate", description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="such as limits/resolve.py")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time (1)")
    parser.add_argument("--most", type=int, help="so many of each module, chosen by chance")
    parser.add_argument("--seed", type=int, default=20261116, help="which ones these are")
    parser.add_argument("--write", action="store_true", help="put the table into docs/testing.md")
    args = parser.parse_args()
    if unknown := set(args.modules) - set(NEAREST):
        parser.error(f"no tests are named for {', '.join(sorted(unknown))}: add them to NEAREST")
    scores = []
    with TemporaryDirectory() as where:
        copies = _Copies(Path(where), args.jobs)
        for module in args.modules or NEAREST:
            chosen = mutants(module)
            if args.most is not None and args.most < len(chosen):
                dice = random.Random(f"{args.seed} {module}")
                chosen = sorted(dice.sample(chosen, args.most), key=lambda mutant: mutant.line)
            score = _score(module, copies, chosen, args.jobs)
            for mutant in score.survivors:
                print("\n".join(_shown(mutant)))
            print(f"{module}: {score.killed} of {score.tried} noticed", flush=True)
            scores.append(score)
    print(_table(scores))
    if args.write:
        write_section("Mutation", _table(scores))
    sys.exit(shortfall(scores))


if __name__ == "__main__":
    main()
