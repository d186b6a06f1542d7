"""A table of what the tests cover, by package, from the report that coverage.py writes as JSON."""

import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from tests.testing_page import write_section

_COUNTS = ("num_statements", "covered_lines", "num_branches", "covered_branches")
TARGET = 90
WHOLE = "the whole suite"  # a part of it need not reach the target

Files = Mapping[str, Mapping[str, Mapping[str, int]]]


def table(files: Files) -> str:
    """Lines and branches of each package, and of all together."""
    packages: dict[str, list[int]] = defaultdict(lambda: [0] * len(_COUNTS))
    for file, report in files.items():
        below = Path(file).parts[Path(file).parts.index("shelltie") + 1 : -1]
        for name in ("/".join(below[:2]) or "shelltie", "together"):
            counts = packages[name]
            for place, key in enumerate(_COUNTS):
                counts[place] += report["summary"][key]
    names = sorted(packages, key=lambda name: (name == "together", name))
    rows = [_row(name, packages[name]) for name in names]
    head = ("| package | lines | covered | branches | covered |", "| --- | --- | --- | --- | --- |")
    return "\n".join((*head, *rows))


def _row(name: str, counts: list[int]) -> str:
    lines, covered, branches, taken = counts
    shares = _share(covered, lines), _share(taken, branches)
    return f"| `{name}` | {lines} | {shares[0]} | {branches} | {shares[1]} |"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""


def shortfall(files: Files) -> str | None:
    """What is below the target, of all that was counted together."""
    lines, covered, branches, taken = (
        sum(report["summary"][key] for report in files.values()) for key in _COUNTS
    )
    shares = {"lines": _share(covered, lines), "branches": _share(taken, branches)}
    low = [f"{kind}: {share}" for kind, share in shares.items() if float(share[:-2]) < TARGET]
    return f"below {TARGET} %: {', '.join(low)}" if low else None


if __name__ == "__main__":
    found = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["files"]
    note = f"Measured with `scripts/coverage`: {sys.argv[2]}."
    write_section("Coverage", table(found), note)
    sys.stdout.write(table(found) + "\n")
    sys.exit(shortfall(found) if sys.argv[2] == WHOLE else None)
