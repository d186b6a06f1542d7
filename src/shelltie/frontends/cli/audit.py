"""`shelltie audit verify | tail | export`: the journal, for people and programs."""

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path

from shelltie import config as settings
from shelltie.approval import shown
from shelltie.frontends.cli.words import Ink, marked, print_json, table
from shelltie.model import State
from shelltie.record import reading
from shelltie.record.reading import Line

_DAMAGED = 1
_ID = 12
_HEAD = ("SEQ", "WHEN (UTC)", "WHAT", "RUN", "")
# What tells most about an entry, the first of them that it has.
_TELLING = ("command", "message", "reason", "state", "pids", "pid", "facts", "through")


def main(args: Namespace) -> int:
    """Do it; the exit code."""
    config = settings.load(Path.cwd())
    return _ACTIONS[args.action](args, config)


def _verify(args: Namespace, config: settings.Config) -> int:
    heads = list(args.head or ())
    if config.audit_anchor is not None:
        heads += reading.anchored(Path(config.audit_anchor))
    found = reading.verify(config.journal, heads)
    good = not found.problems
    if args.json:
        print_json(
            {
                "ok": good,
                "path": str(config.journal),
                "entries": found.entries,
                "first": found.first,
                "head": None if found.head is None else str(found.head),
                "headsCompared": len(heads),
                "problems": list(found.problems),
            }
        )
        return 0 if good else _DAMAGED
    ink = Ink(sys.stdout, args.color)
    for problem in found.problems:
        print(marked(ink, "✗", shown.inline(problem)))
    if good:
        print(marked(ink, "✓", f"{found.entries} entries are as they were written"))
        if found.first > 1:
            print(marked(ink, "·", f"entries before {found.first} were removed by age or size"))
    if found.head is not None:
        print(f"head {found.head}")
    if not heads:
        told = "no head to compare with: a cut end would not show. Keep this one elsewhere."
        print(told, file=sys.stderr)
    return 0 if good else _DAMAGED


def _tail(args: Namespace, config: settings.Config) -> int:
    lines = reading.tail(config.journal, args.n)
    if args.json:
        _print_lines(lines)
    elif lines:
        table([_HEAD, *map(_row, lines)])
    else:
        print("Nothing is recorded.")
    return 0


def _export(args: Namespace, config: settings.Config) -> int:
    for line in reading.entries(config.journal, args.after):
        _print_lines([line])
    return 0


_ACTIONS: dict[str, Callable[[Namespace, settings.Config], int]] = {
    "verify": _verify,
    "tail": _tail,
    "export": _export,
}


def _print_lines(lines: list[Line]) -> None:
    for line in lines:
        print(json.dumps(line.to_json()))


def _row(line: Line) -> tuple[str, ...]:
    known = line.to_json()
    moment = str(known["at"]).replace("T", " ")[:19]
    run = line.entry.run[:_ID]
    return str(line.entry.seq), moment, line.entry.kind, run, shown.inline(_telling(known))


def _telling(known: Mapping[str, object]) -> str:
    if known.get("state") == State.FINISHED and not known.get("command"):
        return f"exit {known.get('exitCode')}"
    return str(next((known[name] for name in _TELLING if known.get(name) not in (None, "")), ""))
