"""`shelltie report`: what was run, how it ended and what is usual, as one page for a browser."""

from argparse import Namespace

from shelltie import config as settings
from shelltie import whereabouts
from shelltie.frontends.cli import report_page, stats
from shelltie.record import past
from shelltie.record.history import project_of

_SHAPES = 25


def main(args: Namespace) -> int:
    """Print it."""
    below = project_of(str(whereabouts.here())) if args.here else ""
    runs = past.latest(settings.load(whereabouts.here()).journal, args.n, below=below)
    learned = [(row.project, row.known, row.fitting) for row in stats.rows(_SHAPES, here=args.here)]
    where = f" in {below}" if below else ""
    print(report_page.report(runs, learned, f"shelltie: what was run{where}"), end="")
    return 0
