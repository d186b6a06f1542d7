"""What may stand on the command line behind `metrics`, and what is about the past."""

import argparse
from collections.abc import Callable
from typing import TypeVar

C = TypeVar("C")

_ID = "as `shelltie history` shows it"
_STATS = """\
SUGGESTED are limits that would have been enough; with adaptive.mode = "apply"
they hold by themselves. A limit of your own always wins."""


def add_figures(commands: C, plain: Callable[[C, str, str], argparse.ArgumentParser]) -> None:
    """Add the commands, each made by `plain` from its name and what it does."""
    metrics = plain(commands, "metrics", "what every server has counted, as Prometheus reads it")
    metrics.add_argument("--json", action="store_true", help="print JSON")
    metrics.add_argument(
        "--health", action="store_true", help="figures with thresholds; 1 if one has passed its own"
    )
    history = plain(commands, "history", "list what was run, the newest first")
    history.add_argument("--bad", action="store_true", help="only what did not end well")
    stats = plain(commands, "stats", "how long commands take here, by their shape")
    stats.epilog = _STATS
    for parser in (history, stats):
        parser.add_argument("-n", type=_count, default=20, metavar="N", help="how many (20)")
        parser.add_argument("--here", action="store_true", help="only in this project")
        parser.add_argument("--json", action="store_true", help="print JSON")
    _add_report(plain(commands, "report", "what was run, as one page for a browser"))
    _add_export(plain(commands, "export", "what a run printed: text, a page, or for asciinema"))
    replay = plain(commands, "replay", "what a run printed, as fast as it did")
    replay.add_argument("id", metavar="ID", help=_ID)
    replay.add_argument("--speed", type=_factor, default=1.0, metavar="X", help="times faster (1)")
    replay.add_argument(
        "--idle", type=_factor, default=2.0, metavar="S", help="no pause longer than this (2)"
    )


def _add_report(report: argparse.ArgumentParser) -> None:
    report.add_argument("--html", action="store_true", help="HTML, as always")
    report.add_argument("-n", type=_count, default=500, metavar="N", help="runs (500)")
    report.add_argument("--here", action="store_true", help="only in this project")


def _add_export(export: argparse.ArgumentParser) -> None:
    export.add_argument("id", metavar="ID", help=_ID)
    how = export.add_mutually_exclusive_group()
    how.add_argument("--txt", action="store_true", help="text without escapes, as always")
    how.add_argument("--html", action="store_true", help="one page that needs nothing else")
    how.add_argument("--cast", action="store_true", help="a recording that asciinema plays")
    export.add_argument("--columns", type=_size, default=80, metavar="N", help="of --cast (80)")
    export.add_argument("--rows", type=_size, default=24, metavar="N", help="of --cast (24)")


def _factor(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.01 <= value <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0.01 to 10000")
    return value


def _size(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or not 1 <= int(text[:6]) <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 1000")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return int(text)
