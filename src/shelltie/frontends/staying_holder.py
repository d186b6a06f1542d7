"""Holds what stays and no server holds, while a person looks at it in `web` or `top` (resume).

It is held in a terminal of its own, in a thread, which has a control socket as any server has. Who
has not been looked at for a while is let go of, and a server whose session it is may take it.
"""

import os
import time
from collections.abc import Collection
from pathlib import Path
from threading import Lock
from typing import Any

from shelltie.basics import visible_text
from shelltie.basics.json_codec import as_json
from shelltie.environment.inherited import inherited
from shelltie.errors import TerminalError
from shelltie.frontends.api import Terminal
from shelltie.frontends.control import client
from shelltie.frontends.control.overview import overview_of
from shelltie.frontends.terminal_thread import TerminalThread
from shelltie.keeper.stay_folder import StayFolder, stay_folder, staying_runs
from shelltie.model import Caller
from shelltie.running.staying_note import StayingNote
from shelltie.running.staying_run import StayingRun
from shelltie.settings.config import Config

_IDLE = 6.0  # seconds; a page that follows one asks every two

Row = dict[str, Any]


class StayingHolder:
    """What stays, for one page; `client` is what the record calls whoever looks."""

    def __init__(self, config: Config, client: str) -> None:
        self.client = client
        self._config = config
        self._thread = TerminalThread(Terminal(config, caller=Caller(client=client)))
        self._asked: dict[str, float] = {}  # for what we hold, when
        self._turn = Lock()  # one is held after the other
        self._path: Path | None = None

    def rows(self, listed: Collection[str]) -> list[Row]:
        """What stays beside what is `listed` of servers: all that is known of it. It waits."""
        self._let_go_of_idle()
        ours = self._held() if self._asked else {}
        for run in [run for run in list(self._asked) if run not in ours]:
            self._asked.pop(run, None)  # it has ended, or was taken
        alone = [run for run in staying_runs(self._config) if run not in {*listed, *ours}]
        found = (_row(self._config, run) for run in sorted(alone))
        return [*ours.values(), *(row for row in found if row is not None)]

    def hold(self, run: str) -> Path:
        """Hold it from now on; the control socket by which it is reached. It waits.

        Raises: TerminalError if that cannot be.
        """
        with self._turn:
            if run not in self._asked:
                self._thread.call(lambda opened: opened.staying_runs.adopt(run, self.client))
            self._asked[run] = time.monotonic()
            self._path = self._path or self._own_socket()
            return self._path

    def _own_socket(self) -> Path:
        for server in client.servers(inherited()):
            if (server.pid, server.client) == (os.getpid(), self.client):
                return server.path
        raise TerminalError("there is no place for a socket to reach it: see `shelltie paths`")

    def close(self) -> None:
        """Let go of everything."""
        self._thread.close()

    def _held(self) -> dict[str, Row]:
        async def look(opened: Terminal) -> dict[str, Row]:
            runs = opened.supervisor.runs
            return {run: overview_of(runs[run], None) for run in sorted(runs)}

        return self._thread.call(look)

    def _let_go_of_idle(self) -> None:
        now = time.monotonic()
        idle = [run for run, asked in list(self._asked.items()) if now > asked + _IDLE]

        async def release(opened: Terminal) -> None:
            for run in list(opened.supervisor.runs.values()):
                if run.id not in idle:
                    continue
                if isinstance(run, StayingRun) and not run.leaves_on_its_own:
                    run.release("a person has looked at it")

        if idle:
            self._thread.call(release)
        for run in idle:
            self._asked.pop(run, None)


def _row(config: Config, run: str) -> Row | None:
    """Nothing of what has ended: the record has that, though its client may not have read it."""
    try:
        note = StayingNote.of_bytes(StayFolder(stay_folder(config)).about(run))
    except (OSError, ValueError):  # it begins or ends just now
        return {"runId": run, "command": "", "ended": False, "stays": True}
    if note.ended:
        return None
    return {
        "runId": run,
        "sessionId": note.session or None,
        "command": visible_text.inline(note.command),
        "cwd": visible_text.inline(note.cwd),
        "client": visible_text.inline(note.client),
        "startedAt": round(note.began, 1),
        "pty": None if note.size is None else as_json(note.size),
        "takesInput": True,
        "provider": "staying",
        "isolation": "none",
        "deadlines": [],
        "state": "running",
        "stays": True,
        "ended": False,
    }
