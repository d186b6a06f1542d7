"""`shelltie monitor`: live events of every running server of this user."""

import json
import sys
from argparse import Namespace
from functools import partial
from typing import Any, cast

import anyio
import anyio.to_thread

from shelltie.basics import visible_text
from shelltie.environment import child
from shelltie.errors import NoServerAnswer
from shelltie.frontends.cli.terminal import Style, print_error, width
from shelltie.frontends.control import client
from shelltie.frontends.control.client import Server
from shelltie.frontends.control.run_row import WAIT_MAX

_LOOK = 1.0  # seconds between two looks for servers that have started
_ID = 12
_MARKS = {"limit:near": "yellow", "limit:reached": "red", "run:leaked": "red", "run:lost": "red"}
# What tells most about an event, the first of them that it has.
_TELLING = ("message", "command", "state", "signal", "reason", "exitCode", "pid", "question")


def main(args: Namespace) -> int:
    """Until somebody interrupts it, or nobody reads any more."""
    try:
        anyio.run(_Monitor(args).watch)
    except BaseExceptionGroup as group:
        if (pipe := group.subgroup(BrokenPipeError)) is not None:
            raise BrokenPipeError from pipe
        raise
    return 0


class _Monitor:
    """Watches each server in a task of its own."""

    def __init__(self, args: Namespace) -> None:
        self._json = args.json
        self._ink = Style(sys.stdout, args.color)
        self._watched: set[str] = set()

    async def watch(self) -> None:
        print_error("watching; leave with ctrl-c")
        async with anyio.create_task_group() as tasks:
            while True:
                for server in await _in_thread(partial(client.servers, child.inherited())):
                    if str(server.path) not in self._watched:
                        self._watched.add(str(server.path))
                        tasks.start_soon(self._follow, server)
                await anyio.sleep(_LOOK)

    async def _follow(self, server: Server) -> None:
        after: object = None
        try:
            while True:
                ask = partial(client.ask, server.path, "events", after=after, wait=WAIT_MAX)
                said = await _in_thread(ask)
                after = said["next"]
                if said["missed"]:
                    print_error(f"the server {server.pid}: {said['missed']} events were missed")
                for event in cast(list[dict[str, Any]], said["events"]):
                    self._show(server, event)
        except (NoServerAnswer, KeyError):
            self._watched.discard(str(server.path))  # it has left, or is too old to tell

    def _show(self, server: Server, event: dict[str, Any]) -> None:
        if self._json:
            line = {**event, "server": server.pid, "serverClient": server.client}
            print(json.dumps(line), flush=True)
            return
        moment, kind, run = str(event["at"])[11:19], str(event["type"]), str(event["runId"] or "")
        telling = next((event[name] for name in _TELLING if event.get(name) not in (None, "")), "")
        head = f"{moment}  {server.pid}  {run[:_ID]:<{_ID}}  {kind:<16}  "
        text = visible_text.brief(str(telling), max(20, width() - len(head)))
        colour = _MARKS.get(kind)
        print((self._ink(colour, head) if colour else head) + text, flush=True)


async def _in_thread(call: Any) -> Any:  # noqa: ANN401  whatever it returns
    return await anyio.to_thread.run_sync(call, abandon_on_cancel=True)
