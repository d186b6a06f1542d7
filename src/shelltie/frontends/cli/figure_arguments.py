"""What may stand on the command line behind `metrics`."""

import argparse
from collections.abc import Callable
from typing import TypeVar

C = TypeVar("C")


def add_figures(commands: C, plain: Callable[[C, str, str], argparse.ArgumentParser]) -> None:
    """Add the commands, each made by `plain` from its name and what it does."""
    metrics = plain(commands, "metrics", "what every server has counted, as Prometheus reads it")
    metrics.add_argument("--json", action="store_true", help="print JSON")
    metrics.add_argument(
        "--health", action="store_true", help="figures with thresholds; 1 if one has passed its own"
    )
