"""`shelltie history`: past commands of this user, the newest first; `show ID` tells all of one."""

import sys
import time
from argparse import Namespace

from shelltie.basics import visible_text
from shelltie.basics.times import human_duration, local_clock
from shelltie.errors import InvalidParameters
from shelltie.frontends.cli.console import Style, columns, failure_mark, list_table, print_json
from shelltie.frontends.cli.run_details import show
from shelltie.record.history import project_of
from shelltie.record.past_runs import HistoryFilter, PastRun, latest
from shelltie.settings import paths
from shelltie.settings.layers import load

_ID, _CLIENT_MAX = 12, 16
_WIDE = 100  # columns; below it there is no room for who it was
_HEAD = ("ID", "WHEN", "  END", "TOOK", "CLIENT", "COMMAND")
_CLIENT = _HEAD.index("CLIENT")


def main(args: Namespace) -> int:
    """Print them, or all about one."""
    match args.what:
        case []:
            return _list(args)
        case ["show", str(name)]:
            return show(name, Style(sys.stdout, args.color), json=args.json)
        case _:
            raise InvalidParameters("write `shelltie history` or `shelltie history show ID`")


def _list(args: Namespace) -> int:
    wanted = HistoryFilter(
        below=project_of(str(paths.here())) if args.here else "",
        client=args.client or "",
        text=args.text or "",
        since=args.since or 0.0,
        failed=args.failed,
        refused=args.refused,
    )
    runs = latest(load(paths.here()).journal, args.n, wanted)
    if args.json:
        print_json([run.to_json() for run in runs])
    elif not runs:
        print("Nothing was recorded." if wanted == HistoryFilter() else "Nothing matches.")
    else:
        ink = Style(sys.stdout, args.color)
        shown = [i for i in range(len(_HEAD)) if i != _CLIENT or columns() >= _WIDE]
        rows = [_row(run, ink) for run in runs]
        list_table(ink, [_HEAD[i] for i in shown], [[row[i] for i in shown] for row in rows])
    return 0


def _row(run: PastRun, ink: Style) -> tuple[str, ...]:
    bad = not run.well and not run.running
    took = "-" if run.duration is None else human_duration(run.duration)
    client = visible_text.brief(run.client or "-", _CLIENT_MAX)
    end = failure_mark(ink, run.ending, bad=bad)
    return run.id[:_ID], local_clock(run.began, time.time()), end, took, client, run.command
