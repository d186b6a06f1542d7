"""`shelltie ps`: every live run and session of this user: of servers, `run` and Python programs."""

import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from typing import NoReturn

import anyio

from shelltie.basics import visible_text
from shelltie.basics.times import human_duration, human_size
from shelltie.frontends.cli import past_output
from shelltie.frontends.cli.console import (
    Style,
    columns,
    failure_mark,
    list_table,
    print_error,
    print_json,
)
from shelltie.frontends.cli.find_run import FoundRun, as_json, list_runs, names
from shelltie.frontends.cli.find_staying import LoneRun, lone_runs
from shelltie.model import State
from shelltie.record.past_runs import end_of

_CLIENT_MAX = 14
_ID = 12  # characters of a run's
_WIDE = 100  # columns; below it there is no room for what few need
_EVERY = 1.0  # seconds between two looks of --watch
_HEAD = ("ID", "SERVER", "CLIENT", "  STATE", "TIME", "IDLE", "OUTPUT", "COMMAND")
_ONLY_WIDE = ("SERVER", "OUTPUT")


def main(args: Namespace) -> int:
    """Print them, once or again and again."""
    if args.watch:
        anyio.run(_watch, args)
    return _print(args)


def _print(args: Namespace) -> int:
    servers, found, told = list_runs(look=True)
    gone, lone = past_output.lost(), lone_runs(found)
    for problem in told:
        print_error(problem)
    if args.json:
        staying = [one.as_json() for one in lone]
        print_json([*map(as_json, found), *staying, *map(past_output.as_json, gone)])
        return 0
    if found or lone:
        show(found, Style(sys.stdout, args.color), lone)
        # Where what sandboxed sessions listen on can be reached.
        ports = [(name, one.listed.ports) for one, name in zip(found, names(found), strict=True)]
        lines = [f"{name}: {visible_text.inline(port)}" for name, here in ports for port in here]
        if lines:
            print("\n".join(["\nPorts, inside → outside:", *lines]))
        if lone:
            print("\nstays: goes on, and no server holds it.", file=sys.stderr)
        if any(one.listed.waiting_for_input for one in found):
            print("\nwaiting: for input; answer with shelltie send ID TEXT.", file=sys.stderr)
    else:
        count = f"{len(servers)} server{'s' * (len(servers) != 1)}" if servers else "no server"
        print(f"Nothing runs; {count} running.")
    past_output.tell(gone)
    return 0


async def _watch(args: Namespace) -> NoReturn:
    """Until interrupted; at a terminal each list takes the place of the one before."""
    clear = "\033[H\033[2J" if sys.stdout.isatty() and not args.json else ""
    while True:
        print(clear, end="")
        _print(args)
        sys.stdout.flush()
        await anyio.sleep(_EVERY)


def show(found: list[FoundRun], ink: Style, lone: Sequence[LoneRun] = ()) -> None:
    """Print them as a table, and what stays and is in no server."""
    left_out = {name for name in _ONLY_WIDE if columns() < _WIDE}
    if not lone and not any(one.server.client for one in found):
        left_out.add("CLIENT")
    shown = [place for place, name in enumerate(_HEAD) if name not in left_out]
    rows = [_row(one, name, ink) for one, name in zip(found, names(found), strict=True)]
    rows += [_lone_row(one, ink) for one in lone]
    list_table(ink, [_HEAD[i] for i in shown], [[row[i] for i in shown] for row in rows])


def _row(found: FoundRun, name: str, ink: Style) -> tuple[str, ...]:
    one = found.listed
    return (
        name,
        str(found.server.pid),
        visible_text.brief(found.server.client or "-", _CLIENT_MAX),
        _state(found, ink),
        human_duration(one.elapsed_seconds).split()[0],
        "-" if one.ended else human_duration(one.idle_seconds).split()[0],
        human_size(one.output_bytes).replace(" ", ""),
        one.command,
    )


def _lone_row(one: LoneRun, ink: Style) -> tuple[str, ...]:
    note = one.note
    took = "-" if note is None else human_duration(max(0.0, time.time() - note.began)).split()[0]
    client = visible_text.brief(note.client if note else "-", _CLIENT_MAX)
    state = failure_mark(ink, "ended, unread" if one.ended else "stays", bad=False)
    name = one.id if one.id != one.run else one.run[:_ID]
    return name, "-", client, state, took, "-", "-", one.command


def _state(found: FoundRun, ink: Style) -> str:
    one = found.listed
    if one.left:
        return failure_mark(ink, "leaving", bad=True)
    if one.waiting_for_input:
        return ink("yellow", "? password" if one.password else "? waiting")
    said = end_of(one.state, one.exit_code, None) + (", stays" if one.stays else "")
    return failure_mark(ink, said, bad=one.ended and (one.state, one.exit_code) != _WELL)


_WELL = (State.FINISHED, 0)
