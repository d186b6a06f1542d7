"""What may stand on the command line behind `metrics`, `history` and `stats`."""

import argparse
from collections.abc import Callable
from typing import TypeVar

C = TypeVar("C")

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


def _count(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return int(text)
