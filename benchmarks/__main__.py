"""`python -m benchmarks [NAME…]`: measures everything, or what is named."""

import argparse
import json
import os
import platform
import sys
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from benchmarks.measuring import limit_rounds, measure
from benchmarks.rows import Row, table

_PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
_BEGIN, _END = "<!-- written by scripts/bench --write -->", "<!-- end of what is written -->"
_QUICK = 1  # rounds

_NAMES = (
    *("spawn", "at_once", "growth", "mcp_call", "flood", "timers", "idle_sessions", "start_up"),
    *("judge", "judging", "task_contexts", "providers", "trial", "trial_runs", "change_sets"),
    *("journal", "learned_limits"),
    *("web", "hook"),
)
_ON_DEMAND = ("peers", "places")  # need others' packages: peers takes them from their registries


def main() -> int:
    """Print one table; the exit code. Goals are told, and enforced for who has a quiet machine."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join((*_NAMES, *_ON_DEMAND))}"
    )
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--enforce", action="store_true", help="end with 1 if a goal is missed")
    parser.add_argument("--quick", action="store_true", help="only to see that everything runs")
    parser.add_argument("--write", action="store_true", help="put the figures into the page, too")
    args = parser.parse_args()
    if unknown := set(args.names) - {*_NAMES, *_ON_DEMAND}:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    rows, failed = _measure(
        args.names or _NAMES, partial(limit_rounds, _QUICK) if args.quick else None
    )
    print(json.dumps([row.to_json() for row in rows], indent=2) if args.json else _page(rows))
    if args.write:
        _write(_page(rows))
    if failed:
        print(f"could not be measured: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed) or (args.enforce and any(row.met is False for row in rows)))


def _measure(
    names: Sequence[str], prepare: Callable[[], None] | None
) -> tuple[list[Row], list[str]]:
    """The rows, and the names of those that failed.

    Each in a process of its own: memory that one has freed would hide the growth of another.
    """
    rows, failed = list[Row](), list[str]()
    for name in names:
        with ProcessPoolExecutor(1, get_context("spawn"), initializer=prepare) as pool:
            try:
                rows += pool.submit(measure, name).result()
            except Exception:  # noqa: BLE001  the others took minutes
                traceback.print_exc()
                failed.append(name)
    return rows, failed


def _write(figures: str) -> None:
    before, _, rest = _PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    _, _, after = rest.partition(_END)
    page = f"{before}{_BEGIN}\n\n{figures}\n\n{_END}{after}"
    _PAGE.write_text(page, encoding="utf-8")


def _page(rows: list[Row]) -> str:
    load = os.getloadavg()[0]
    machine = f"{platform.system()} {platform.release()}, {os.cpu_count()} cores, load {load:.1f}"
    return f"Python {platform.python_version()}, {machine}\n\n{table(rows)}"


if __name__ == "__main__":
    sys.exit(main())
