"""Live rows of `web` and `top`: servers, runs, questions of all processes, current by events.

A row has a key and a value, and only its latest value counts: who reads slowly misses nothing but
what was true for a moment. A server is asked again when an event of it arrives, and else once a
second. It is asked so seldom that this takes it a tenth of its time at most, and no more than
twenty times a second.
"""

import os
import socket
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from shelltie.basics import visible_text
from shelltie.basics.frozen import frozen
from shelltie.errors import NoServerAnswer, TerminalError
from shelltie.frontends.control import monitor_socket, socket_dirs
from shelltie.frontends.control.async_client import ask
from shelltie.frontends.control.question_card import card_of
from shelltie.record.past_runs import facts_of

Row = dict[str, Any]
Hear = Callable[[str], None]  # the key of a row that has changed

STAYS = "stays"  # the server of what no server holds
_SCAN = 1.0  # seconds from one look for servers to the next
_PAUSE_MIN, _PAUSE_MAX = 0.05, 0.25  # seconds between two questions to one server
_PAUSE_SHARE = 10  # times what its answer took
_ENDED_MAX = 150  # runs that are shown after their end
_CALLERS_MAX = 2000
_SILENT = 5.0  # seconds for which a socket that did not answer is left alone
# What an event of a run adds to what its server says, and what stays after the run.
_CALLER = (
    *("command", "cwd", "client", "agent", "task", "verdict", "provider", "isolation"),
    "trial",
)


@frozen
class ServerSeen:
    """A server that answers, and the name that the page knows it by."""

    name: str
    path: Path
    pid: int


class LoneRuns(Protocol):
    """Who holds what stays and no server holds, if a person looks at it; each call may wait."""

    client: str

    def rows(self, listed: Collection[str]) -> list[Row]:
        """What stays beside what is listed of servers."""

    def hold(self, run: str) -> Path:
        """The control socket by which it is reached from now on. Raises: TerminalError."""


class LiveRows:
    """Every row by its key: `server/S`, `run/S/ID`, `question/S/ID`. Of what stays and no server
    holds, S is `stays`.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        journal: Path | None,
        lone: LoneRuns | None = None,
    ) -> None:
        self.rows: dict[str, Row] = {}
        self.servers: dict[str, ServerSeen] = {}
        self.steered = False  # a page is open that may answer questions
        self._environ = environ
        self._journal = journal
        self._lone = lone
        self._hearers: list[Hear] = []
        self._callers: dict[str, Row] = {}
        self._pulse: dict[int, anyio.Event] = {}  # of each server by its pid: ask it again
        self._found = anyio.Event()
        self._quiet: dict[Path, float] = {}
        self._following: set[Path] = set()

    def subscribe(self, hear: Hear) -> Callable[[], None]:
        """Tell of every row that changes; the function returned ends that."""
        self._hearers.append(hear)
        return lambda: self._hearers.remove(hear)

    async def watch(self, listeners: Mapping[Path, socket.socket]) -> None:
        """Keep them current; it does not return."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(monitor_socket.hear_all, listeners, self._hear)
            while True:
                self._found = anyio.Event()
                self._scan(tasks, [*listeners])
                await self._take_lone()
                with anyio.move_on_after(_SCAN):
                    await self._found.wait()

    async def server_of(self, key: str) -> ServerSeen | None:
        """Who has a run or a question; what stays and nobody holds is held for it.

        Raises: NoServerAnswer if that cannot be.
        """
        _, _, rest = key.partition("/")
        name, _, run = rest.partition("/")
        if name != STAYS or self._lone is None:
            return self.servers.get(name)
        try:
            path = await anyio.to_thread.run_sync(self._lone.hold, run)
        except TerminalError as error:
            raise NoServerAnswer(str(error), error.code) from error
        return ServerSeen(STAYS, path, os.getpid())

    def look_again(self, server: ServerSeen) -> None:
        """Something was done there."""
        if (pulse := self._pulse.get(server.pid)) is not None:
            pulse.set()

    # Finding servers

    def _scan(self, tasks: TaskGroup, monitors: list[Path]) -> None:
        now = time.monotonic()
        for place in socket_dirs.existing(self._environ):
            for path in place.glob(f"*{socket_dirs.SOCKET}"):
                if path not in self._following and self._quiet.get(path, 0.0) < now:
                    self._following.add(path)
                    beside = [one for one in monitors if one.parent == place]
                    tasks.start_soon(self._follow, path, beside)

    async def _follow(self, path: Path, monitors: list[Path]) -> None:
        """One server, until it is gone."""
        try:
            said: dict[str, Any] = await ask(path, "hello")
            server = ServerSeen(path.stem, path, int(said["pid"]))
            own = None if self._lone is None else self._lone.client
            if (server.pid, said.get("client")) == (os.getpid(), own):  # see `_take_lone`
                return
        except (NoServerAnswer, KeyError, TypeError, ValueError):
            self._quiet[path] = time.monotonic() + _SILENT
            self._following.discard(path)
            return
        about = {"pid": server.pid, "client": visible_text.inline(str(said.get("client") or ""))}
        self.servers[server.name] = server
        self._put(f"server/{server.name}", {**about, "startedAt": said.get("started")})
        for monitor in monitors:
            with suppress(NoServerAnswer):  # it has no runs, or leaves
                await ask(path, "watch", monitor=str(monitor))
        with suppress(NoServerAnswer):
            await self._keep_asking(server)
        self._gone(server)

    async def _keep_asking(self, server: ServerSeen) -> None:
        """Raises: NoServerAnswer when it is gone."""
        while True:
            self._pulse[server.pid] = pulse = anyio.Event()
            began = time.monotonic()
            await self._take_runs(server)
            await self._take_questions(server)
            took = time.monotonic() - began
            await anyio.sleep(min(max(took * _PAUSE_SHARE, _PAUSE_MIN), _PAUSE_MAX))
            with anyio.move_on_after(_SCAN):
                await pulse.wait()

    def _gone(self, server: ServerSeen) -> None:
        """It left, or died: its questions are no more, and nobody knows of what still ran."""
        del self.servers[server.name]
        self._pulse.pop(server.pid, None)
        self._following.discard(server.path)
        self._quiet[server.path] = time.monotonic() + _SILENT
        self._drop(f"server/{server.name}")
        for key in [key for key in self.rows if key.startswith(f"question/{server.name}/")]:
            self._drop(key)
        for key, row in list(self.rows.items()):
            if key.startswith(f"run/{server.name}/") and not row.get("ended"):
                self._end(key, row, {"state": "lost", "stopReason": "its server has ended"})

    # What they say

    async def _take_runs(self, server: ServerSeen) -> None:
        try:
            said: dict[str, Any] = await ask(server.path, "overview")
        except NoServerAnswer as error:
            if error.reply == "UNKNOWN":  # it only asks questions, or is older than the page
                return
            raise
        there = set()
        for row in said.get("runs", ()):
            key = f"run/{server.name}/{row['runId']}"
            there.add(key)
            if row["runId"] not in self._callers:
                await self._remember_caller(row["runId"])
            caller = self._callers.get(row["runId"], {})
            self._put(key, {**_shown(caller), **_shown(row), "server": server.name})
        for key, row in list(self.rows.items()):
            if key.startswith(f"run/{server.name}/") and key not in there and not row.get("ended"):
                await self._find_end(key, row)

    async def _take_lone(self) -> None:
        """What stays and is in no server; what was there has a server by now, or has ended."""
        if self._lone is None:
            return
        mine = f"run/{STAYS}/"
        live = [row for key, row in self.rows.items() if key.startswith("run/")]
        listed = {row["runId"] for row in live if not row.get("ended") and row["server"] != STAYS}
        try:
            found = await anyio.to_thread.run_sync(self._lone.rows, listed)
        except TerminalError:  # it is looked for again soon
            return
        there = {f"{mine}{row['runId']}": row for row in found}
        for key, row in there.items():
            self._put(key, {**self._callers.get(row["runId"], {}), **_shown(row), "server": STAYS})
        for key, row in list(self.rows.items()):
            if not key.startswith(mine) or key in there or row.get("ended"):
                continue
            if row["runId"] in listed:
                self._drop(key)
            else:
                await self._find_end(key, row)

    async def _remember_caller(self, run: str) -> None:
        """Who asked for a run that began before we did; the journal has it."""
        self._callers[run] = {}
        for kind, _, body in await self._record(run):
            if kind == "ready":
                self._callers[run] = {name: body[name] for name in _CALLER if body.get(name)}

    async def _record(self, run: str) -> list[tuple[str, float, dict[str, Any]]]:
        if self._journal is None:
            return []
        try:
            return await anyio.to_thread.run_sync(facts_of, self._journal, run)
        except TerminalError:  # it says no more than that nothing is known
            return []

    async def _find_end(self, key: str, row: Row) -> None:
        """It is no longer there, and its end was not told, or was missed: the journal has it."""
        ends = [body for kind, _, body in await self._record(row["runId"]) if kind == "ended"]
        if not self.rows.get(key, {}).get("ended"):
            self._end(key, row, ends[-1] if ends else {"state": "finished"})

    async def _take_questions(self, server: ServerSeen) -> None:
        said: dict[str, Any] = await ask(server.path, "pending", watch=self.steered)
        there = set()
        for row in said.get("questions", ()):
            with suppress(KeyError, TypeError, ValueError):
                key = f"question/{server.name}/{row['id']}"
                there.add(key)
                if not _same(self.rows.get(key), row):
                    self._put(key, {**card_of(row), "server": server.name})
        for key in [key for key in self.rows if key.startswith(f"question/{server.name}/")]:
            if key not in there:
                self._drop(key)
        about = self.rows[f"server/{server.name}"]
        self._put(f"server/{server.name}", {**about, "problem": str(said.get("problem") or "")})

    # Events

    def _hear(self, event: dict[str, Any], about: dict[str, Any]) -> None:
        """Something happened; whoever is new is looked for at once."""
        pid, run = about.get("pid"), event.get("runId")
        if isinstance(run, str):
            self._note_caller(run, event)
            if event.get("type") == "run:ended":
                self._note_end(run, event, pid)
            elif event.get("trial"):
                self._note_trial(run, str(event["trial"]))
        if pid in self._pulse:
            self._pulse[pid].set()
        else:
            self._found.set()

    def _note_caller(self, run: str, event: Mapping[str, Any]) -> None:
        told = {name: event[name] for name in _CALLER if event.get(name)}
        if told:
            self._callers[run] = {**self._callers.get(run, {}), **told}
        if len(self._callers) > _CALLERS_MAX:
            del self._callers[next(iter(self._callers))]

    def _note_end(self, run: str, event: Mapping[str, Any], pid: object) -> None:
        name = next((one.name for one in self.servers.values() if one.pid == pid), f"{pid}-gone")
        if pid == os.getpid() and self._lone is not None:
            name = STAYS
        key = f"run/{name}/{run}"
        if run not in self._callers and key not in self.rows:
            return  # an errand of the server's own
        known = {**_shown(self._callers.get(run, {})), "runId": run, "server": name}
        self._end(key, {**known, **self.rows.get(key, {})}, event)

    def _note_trial(self, run: str, trial: str) -> None:
        """What it changed is known after its end."""
        for key, row in list(self.rows.items()):
            if row.get("runId") == run and row.get("trial") != trial:
                self._put(key, {**row, "trial": trial})

    def _end(self, key: str, row: Row, told: Mapping[str, Any]) -> None:
        now = time.time()
        duration = told.get("duration")
        began = row.get("startedAt") or round(now - float(duration or 0), 1)
        end = {name: told.get(name) for name in ("state", "exitCode", "signal", "limit")}
        why = told.get("stopReason") or row.get("stopReason")
        more = {"ended": True, "endedAt": round(now, 1), "startedAt": began, "stopReason": why}
        self._put(key, {**row, **end, **more, "duration": duration, "deadlines": []})
        ended = [name for name, one in self.rows.items() if one.get("ended")]
        for old in ended[: max(0, len(ended) - _ENDED_MAX)]:
            self._drop(old)

    # Rows

    def _put(self, key: str, row: Row) -> None:
        before = self.rows.get(key)
        if before == row:
            return
        if before is not None and before.get("ended"):
            row = {**row, "endedAt": before.get("endedAt")}
            if before == row or not row.get("ended"):  # it was asked before its end was told
                return
        self.rows[key] = row
        self._tell(key)

    def _drop(self, key: str) -> None:
        if self.rows.pop(key, None) is not None:
            self._tell(key)

    def _tell(self, key: str) -> None:
        for hear in tuple(self._hearers):
            hear(key)


def _same(before: Row | None, row: Mapping[str, Any]) -> bool:
    """Whether a question is as it was shown; the rule for "always" has the time in it."""
    names = ("digest", "late", "expiresAt")
    return before is not None and all(before[name] == row.get(name) for name in names)


def _shown(row: Mapping[str, Any]) -> Row:
    """The same with texts that show what is invisible in them."""
    return {
        name: visible_text.inline(value)
        if name in ("command", "cwd", "client", "agent", "task") and isinstance(value, str)
        else value
        for name, value in row.items()
    }
