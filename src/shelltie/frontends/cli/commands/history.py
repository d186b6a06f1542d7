"""`shelltie history`: past runs of all servers of this user, the newest first."""

import time
from argparse import Namespace

from shelltie.basics import visible_text
from shelltie.basics.times import human_duration
from shelltie.frontends.cli.terminal import print_json, table, width
from shelltie.record import queries
from shelltie.record.history import project_of
from shelltie.record.queries import PastRun
from shelltie.settings import paths
from shelltie.settings.layers import load

_ID = 12
_COMMAND_MIN = 20
_HEAD = ("ID", "WHEN", "END", "TOOK", "COMMAND")


def main(args: Namespace) -> int:
    """Print them."""
    below = project_of(str(paths.here())) if args.here else ""
    runs = queries.latest(load(paths.here()).journal, args.n, below=below, bad_only=args.bad)
    if args.json:
        print_json([run.to_json() for run in runs])
    elif not runs:
        print("Nothing was recorded.")
    else:
        rows = [_HEAD, *map(_row, runs)]
        taken = sum(max(map(len, column)) + 2 for column in list(zip(*rows, strict=True))[:-1])
        room = max(width() - taken, _COMMAND_MIN)
        table([_HEAD, *((*row[:-1], visible_text.brief(row[-1], room)) for row in rows[1:])])
    return 0


def _row(run: PastRun) -> tuple[str, ...]:
    when = time.strftime("%m-%d %H:%M:%S", time.localtime(run.began))
    took = "-" if run.duration is None else human_duration(run.duration)
    return run.id[:_ID], when, run.ending, took, run.command
