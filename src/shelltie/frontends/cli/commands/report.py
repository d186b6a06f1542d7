"""`shelltie report`: statistics of past runs as one HTML page."""

from argparse import Namespace

from shelltie.frontends.cli import html_report
from shelltie.frontends.cli.commands import stats
from shelltie.record.history import project_of
from shelltie.record.past_runs import HistoryFilter, latest
from shelltie.settings import paths
from shelltie.settings.layers import load

_SHAPES = 25


def main(args: Namespace) -> int:
    """Print it."""
    below = project_of(str(paths.here())) if args.here else ""
    runs = latest(load(paths.here()).journal, args.n, HistoryFilter(below=below))
    learned = [(row.project, row.known, row.fitting) for row in stats.rows(_SHAPES, here=args.here)]
    where = f" in {below}" if below else ""
    print(html_report.report(runs, learned, f"shelltie: what was run{where}"), end="")
    return 0
