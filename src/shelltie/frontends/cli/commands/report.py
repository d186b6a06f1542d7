"""`shelltie report`: past commands and statistics as one HTML page."""

import os
import sys
import webbrowser
from argparse import Namespace
from pathlib import Path

from shelltie.errors import CannotStart
from shelltie.frontends.cli import html_report
from shelltie.frontends.cli.commands import stats
from shelltie.record.history import project_of
from shelltie.record.past_runs import HistoryFilter, count_answers, latest
from shelltie.settings import paths
from shelltie.settings.config import Config
from shelltie.settings.layers import load

_SHAPES = 25


def main(args: Namespace) -> int:
    """Print it into a pipe, or write it to a file."""
    config = load(paths.here())
    page = _page(config, args)
    at_terminal = sys.stdout is not None and sys.stdout.isatty()
    if args.output is None and not args.open and not at_terminal:
        print(page, end="")
        return 0
    file = Path(args.output) if args.output else Path(config.state.dir) / "report.html"
    # Commands are nobody else's business.
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as stream:
        stream.write(page)
    print(f"wrote {file}" + ("" if args.open else "; --open shows it in a browser"))
    if args.open and not webbrowser.open(file.absolute().as_uri()):
        raise CannotStart(f"no browser was found: open {file} yourself")
    return 0


def _page(config: Config, args: Namespace) -> str:
    below = project_of(str(paths.here())) if args.here else ""
    runs = latest(config.journal, args.n, HistoryFilter(below=below))
    learned = [(row.project, row.known, row.fitting) for row in stats.rows(_SHAPES, here=args.here)]
    where = f" in {below}" if below else ""
    since = min((run.began for run in runs), default=0.0)
    answers = count_answers(config.journal, since)
    return html_report.report(runs, learned, f"shelltie: what was run{where}", answers)
