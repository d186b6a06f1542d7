"""`shelltie demo`: a silent command, the warning, the end of its process tree, the hint."""

import signal
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio

from shelltie.environment.child import RUN_MARK
from shelltie.events import Event, LimitNear, LimitReached
from shelltie.frontends.about import start_command
from shelltie.frontends.api import Terminal
from shelltie.frontends.cli.commands.run import explain
from shelltie.frontends.cli.console import Style, marked
from shelltie.frontends.reports.run_report import report
from shelltie.model import EscalationStep

# Three levels; nobody below the first heeds SIGTERM, and one leaves the session to hide.
_COMMAND = """\
echo 'compiling 1 of 3 ...'
sh -c 'trap "" TERM; (setsid sleep 600 || sleep 600) & sleep 600; wait'
echo never"""
_SILENCE = 6.0
_GRACE = EscalationStep(signal.SIGTERM, 1.0), EscalationStep(signal.SIGKILL, 2.0)
_NEXT = """\
Give it to your agent:
  {program} install claude    # or codex, gemini, cursor, vscode, zed, goose
Use it yourself:
  {program} run --total 10m --silence 1m -- make test"""


def main(args: Namespace) -> int:
    """Show it for real; 0 if nothing is left in the end."""
    code = anyio.run(_show, Style(sys.stdout, args.color))
    print("\n" + _NEXT.format(program=start_command()))
    return code


async def _show(ink: Style) -> int:
    print(f"A build hangs. It may be silent for {_SILENCE:g} s, and its processes hide:\n")
    for line in _COMMAND.splitlines():
        print(f"  {ink('cyan', line)}")
    print(flush=True)
    seen: list[int] = []
    async with Terminal(publish=_teller(ink, seen)) as terminal:
        run = await terminal.start(_COMMAND, silence=_SILENCE, escalation=_GRACE)
        run.on_output.append(lambda _, chunk: _print(f"  {bytes(chunk).decode(errors='replace')}"))
        outcome = await run.wait()
        left = _living(run.id)
        for mark, text in explain(outcome, report(run)):
            _print(marked(ink, mark, text) + "\n")
    _print(f"{ink('bold', f'{len(left)} of {len(seen)} processes left')}, by a look at them all.\n")
    return 1 if left else 0


def _teller(ink: Style, seen: list[int]) -> Callable[[Event], None]:
    def tell(event: Event) -> None:
        if isinstance(event, LimitNear):
            seen.extend(_living(event.run))
            _print(marked(ink, "⚠", event.message) + "\n")
        elif isinstance(event, LimitReached):
            _print(f"  Time is up: SIGTERM to all {len(seen)}, and SIGKILL 1 s later.\n")

    return tell


def _print(text: str) -> None:
    print(text, end="", flush=True)


def _living(run: str) -> list[int]:
    """Everybody who carries the mark of this run, wherever they hide."""
    mark = f"{RUN_MARK}={run}".encode()
    pids = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # gone by now, or another user's
            if mark in (place / "environ").read_bytes():
                pids.append(int(place.name))
    return pids
