"""`python -m benchmarks [NAME…] [--json] [--enforce]`: measures everything, or what is named."""

import argparse
import json
import os
import platform
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from benchmarks.measuring import measure
from benchmarks.rows import Row, table

_NAMES = (
    *("spawn", "at_once", "growth", "mcp_call", "flood", "timers", "idle_sessions", "start_up"),
    *("judge", "judging", "task_contexts", "providers", "trial", "trial_runs", "change_sets"),
    *("journal", "learned_limits"),
    "web",
)


def main() -> int:
    """Print one table; the exit code. Goals are told, and enforced for who has a quiet machine."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(_NAMES)}")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--enforce", action="store_true", help="end with 1 if a goal is missed")
    args = parser.parse_args()
    if unknown := set(args.names) - set(_NAMES):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    rows = _measure(args.names or _NAMES)
    print(json.dumps([row.to_json() for row in rows], indent=2) if args.json else _page(rows))
    return int(args.enforce and any(row.met is False for row in rows))


def _measure(names: list[str] | tuple[str, ...]) -> list[Row]:
    """Each in a process of its own: memory that one has freed would hide the growth of another."""
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        return [row for name in names for row in pool.submit(measure, name).result()]


def _page(rows: list[Row]) -> str:
    load = os.getloadavg()[0]
    machine = f"{platform.system()} {platform.release()}, {os.cpu_count()} cores, load {load:.1f}"
    return f"Python {platform.python_version()}, {machine}\n\n{table(rows)}"


if __name__ == "__main__":
    sys.exit(main())
