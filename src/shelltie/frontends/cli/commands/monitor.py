"""`shelltie monitor`: live events of everything that runs for this user."""

import json
import socket
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from shelltie.environment.inherited import inherited
from shelltie.frontends.cli.console import Style, print_error
from shelltie.frontends.cli.monitor_rows import MonitorRows
from shelltie.frontends.control import monitor_socket


def main(args: Namespace) -> int:
    """Until somebody interrupts it, or nobody reads any more."""
    try:
        with monitor_socket.listening(inherited()) as listeners:
            anyio.run(_Monitor(args).watch, listeners)
    except BaseExceptionGroup as group:
        if (pipe := group.subgroup(BrokenPipeError)) is not None:
            raise BrokenPipeError from pipe
        raise
    return 0


class _Monitor:
    """Prints what it hears."""

    def __init__(self, args: Namespace) -> None:
        self._json = args.json
        self._lines = MonitorRows(Style(sys.stdout, args.color))

    async def watch(self, listeners: dict[Path, socket.socket]) -> None:
        """Everything, from now on."""
        print_error("watching; leave with ctrl-c")
        if not self._json:
            print(self._lines.head(), flush=True)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(monitor_socket.hear_all, listeners, self._show)
            await anyio.to_thread.run_sync(
                monitor_socket.call_all, inherited(), list(listeners), abandon_on_cancel=True
            )

    def _show(self, event: dict[str, Any], about: dict[str, Any]) -> None:
        pid, name = about.get("pid"), str(about.get("client") or "")
        if missed := event.get("missed"):
            print_error(f"{name or pid}: {missed} events were missed")
        elif self._json:
            print(json.dumps({**event, "server": pid, "serverClient": name}), flush=True)
        elif (line := self._lines.line(event, name or str(pid))) is not None:
            print(line, flush=True)
