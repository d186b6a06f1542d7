"""Run commands of the control socket: ps, logs, send, extend, kill. Only a person may steer."""

import base64
import binascii
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType

import anyio
import anyio.lowlevel

from shelltie.basics.json_codec import as_json
from shelltie.basics.pulse import Pulse
from shelltie.basics.validate import count_of, number_up_to, of_kind, texts
from shelltie.errors import InvalidParameters, RunOver, UnknownRun, parameter
from shelltie.frontends.control import hook_requests, questions, watch
from shelltie.frontends.control.event_push import EventPush
from shelltie.frontends.control.line_format import MessageFields
from shelltie.frontends.control.overview import overview_of
from shelltie.frontends.control.peer import Peer
from shelltie.frontends.control.run_row import CHUNK, WAIT_MAX, RunRow
from shelltie.frontends.control.server import (
    Control,
    Perform,
    behalf_of,
    must_be_a_person,
)
from shelltie.frontends.control.socket_dirs import watch_sockets
from shelltie.frontends.reports.verdict_report import limits_report
from shelltie.model import Escalation, EscalationStep, RunId
from shelltie.running.run import Run
from shelltie.running.supervisor import Supervisor
from shelltie.sessions.registry import Sessions
from shelltie.sessions.session import Session, checked_size

ListSessions = Callable[[], Sequence[Session]]
ENDED_BY = "a person ended it with shelltie kill"
_ENDED_KEPT = 32  # ended runs that somebody followed, and may read to their end
_ENDED_KEPT_FOR = 30.0
_ID = of_kind(str, "the id of a run")
_BYTES = count_of("bytes")
_LONGER = number_up_to(86400, "a number of seconds above 0, a day at most")
_SIGKILL_ONLY: Escalation = (EscalationStep(signal.SIGKILL, 2.0),)
_AT_ONCE = 16  # runs to look at before others have a turn


@asynccontextmanager
async def steerable(
    supervisor: Supervisor,
    sessions: Sessions,
    environ: Mapping[str, str],
    about: MessageFields = MappingProxyType({}),
) -> AsyncIterator[Control]:
    """A server's socket: a person answers questions there, and steers what runs; hooks ask it."""
    broker = supervisor.admission.broker
    hooks = hook_requests.commands(supervisor)
    async with answering(supervisor, sessions.all, environ, about, more=hooks) as control:
        broker.reachable = control.path is not None
        try:
            yield control
        finally:
            broker.reachable = False


@asynccontextmanager
async def answering(
    supervisor: Supervisor,
    list_sessions: ListSessions,
    environ: Mapping[str, str],
    about: MessageFields = MappingProxyType({}),
    *,
    listens: socket.socket | None = None,
    push: EventPush | None = None,
    more: Mapping[str, Perform] = MappingProxyType({}),
) -> AsyncIterator[Control]:
    """A socket that can do all that there is to do about runs, and what only a server does."""
    pushing = push or new_push(supervisor, environ, lambda: control.client)
    offered = {
        **questions.commands(supervisor.admission.broker),
        **more,
        **commands(supervisor, list_sessions),
        **watch.watch_commands(supervisor.bus, environ, pushing),
        **watch.figure_commands(supervisor.measures),
    }
    control = Control(offered, environ, about, listens)
    async with control:
        for monitor in () if control.path is None else watch_sockets(control.path.parent):
            pushing.connect(monitor)
        try:
            yield control
        finally:
            pushing.close()


def new_push(
    supervisor: Supervisor, environ: Mapping[str, str], client: Callable[[], str]
) -> EventPush:
    """Whoever watches this process; it is told who is served."""
    began = time.time()

    def about() -> MessageFields:
        return {"pid": os.getpid(), "client": client(), "started": began}

    return EventPush(supervisor.bus, environ, about)


def commands(supervisor: Supervisor, list_sessions: ListSessions) -> dict[str, Perform]:
    """What the socket can do about runs."""
    runs = _Runs(supervisor, list_sessions)
    return {
        "ps": runs.ps,
        "overview": runs.overview,
        "tree": runs.tree,
        "logs": runs.logs,
        "send": runs.send,
        "resize": runs.resize,
        "extend": runs.extend,
        "kill": runs.kill,
    }


class _Watched:
    """A run that somebody looks at: tells when it printed something or came nearer to its end."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.asked = time.monotonic()
        self.changed = Pulse()
        run.on_output.append(lambda _, __: self.changed.beat())
        run.on_ended.append(self.changed.beat)
        run.on_settled.append(self.changed.beat)


class _Runs:
    """The commands. Nobody's place is moved by them: every reader brings its own position."""

    def __init__(self, supervisor: Supervisor, list_sessions: ListSessions) -> None:
        self._supervisor = supervisor
        self._list_sessions = list_sessions
        self._watched: dict[str, _Watched] = {}

    # Reading

    async def ps(self, _: Peer, fields: MessageFields) -> MessageFields:
        """All of them, the oldest first; only with `look` whether they wait for input."""
        look = fields.get("look") is True
        rows: list[MessageFields] = []
        async for run, session in self._everything():
            listed = _listed(run, session, look=look)
            rows.append({"id": listed.id, **as_json(listed)})
        return {"runs": rows}

    async def overview(self, _: Peer, __: MessageFields) -> MessageFields:
        """The same with deadlines, limits, verdicts and ends, for the page."""
        return {
            "runs": [overview_of(run, session) async for run, session in self._everything()],
            "held": not self._supervisor.admission.broker.unheld,
        }

    async def _everything(self) -> AsyncIterator[tuple[Run, str | None]]:
        """Every run with the id of its session, if it has one; others have a turn in between."""
        self._sweep()
        sessions = {session.run.id: session for session in self._list_sessions()}
        runs = {run_id: session.run for run_id, session in sessions.items()}
        runs |= self._supervisor.runs
        for number, run_id in enumerate(sorted(runs), 1):
            session = sessions.get(run_id)
            yield runs[run_id], None if session is None else session.id
            if number % _AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()

    async def tree(self, _: Peer, fields: MessageFields) -> MessageFields:
        """The processes of a run, and whether they wait for input."""
        run = self._watch(_id(fields)).run
        seen = run.look() if run.outcome is None else None
        return {
            "processes": [as_json(one) for one in run.processes()],
            "waitingForInput": seen is not None and seen.waits_for_input,
            "password": seen is not None and seen.waits_for_input and seen.password,
        }

    async def logs(self, _: Peer, fields: MessageFields) -> MessageFields:
        """Output from a position on; where there is none yet, what comes within `wait` seconds."""
        start, end = _number(fields, "from", 0), _number(fields, "to", None)
        wait = watch.wait_of(fields)
        watched = self._watch(_id(fields))
        run = watched.run
        assert start is not None
        if start > run.output.total:
            raise InvalidParameters(f"from must be at most {run.output.total}, not {start}")
        if end is None:
            with anyio.move_on_after(wait):
                while run.output.total == start and run.outcome is None and not run.released:
                    await watched.changed.wait()
        piece = run.output.read(start, min(start + CHUNK, run.output.total if end is None else end))
        return {
            "start": piece.start,
            "data": base64.b64encode(piece.data).decode("ascii"),
            "skipped": piece.skipped,
            "total": run.output.total,
            **_ending(run),
        }

    # Steering

    async def send(self, peer: Peer, fields: MessageFields) -> MessageFields:
        """Type something."""
        run, data = self._watch(_id(fields)).run, _bytes(fields)
        await self._must_be_a_person(peer, fields)
        if not run.command.stays_open:
            raise RunOver("its input is closed: it takes none")
        run.input.write(data)
        return {"sent": len(data)}

    async def resize(self, peer: Peer, fields: MessageFields) -> MessageFields:
        """Give its terminal the size of a person's."""
        run = self._watch(_id(fields)).run
        size = checked_size(fields.get("rows"), fields.get("columns"))
        await self._must_be_a_person(peer, fields, believed=True)
        session = next((one for one in self._list_sessions() if one.run is run), None)
        (session or run).resize(size)  # a session draws its screen in the size that it knows
        return {}

    async def extend(self, peer: Peer, fields: MessageFields) -> MessageFields:
        """Make its limits longer by so many `seconds`."""
        run = self._watch(_id(fields)).run
        by = parameter("seconds", fields.get("seconds"), _LONGER)
        await self._must_be_a_person(peer, fields)
        run.extend(by)
        return {"limits": as_json(limits_report(run.rules.limits))}

    async def kill(self, peer: Peer, fields: MessageFields) -> MessageFields:
        """End runs, and say of each whether anybody is left; with `again` only wait on.

        With `hard` nobody is asked to leave first.
        """
        if not (names := parameter("ids", fields.get("ids"), texts)):
            raise InvalidParameters("ids must be the ids of runs, and here is none")
        await self._must_be_a_person(peer, fields, believed=True)
        meant = [watched for watched in map(self._known, names) if watched is not None]
        if fields.get("again") is not True:
            for watched in meant:
                watched.run.stop(ENDED_BY, _SIGKILL_ONLY if fields.get("hard") is True else None)
        with anyio.move_on_after(WAIT_MAX):
            for watched in meant:
                while not watched.run.settled:
                    await watched.changed.wait()
        runs = [watched.run for watched in meant]
        return {"runs": [{"runId": run.id, **_ending(run)} for run in runs]}

    async def _must_be_a_person(
        self, peer: Peer, fields: MessageFields, *, believed: bool = False
    ) -> None:
        """`believed`: even after a command got rid of what held it, which only ends things."""
        broker = self._supervisor.admission.broker
        await must_be_a_person(
            peer, lambda: broker.unheld and not believed, behalf=behalf_of(fields)
        )

    # Finding

    def _watch(self, name: str) -> _Watched:
        """Raises: UnknownRun."""
        watched = self._known(name)
        if watched is None:
            raise UnknownRun(f"there is no run {name} here, or none any more")
        return watched

    def _known(self, name: str) -> _Watched | None:
        self._sweep()
        sessions = self._list_sessions()
        run = self._supervisor.runs.get(RunId(name)) or next(
            (session.run for session in sessions if name in (session.id, session.run.id)), None
        )
        if run is not None and run.id not in self._watched:
            self._watched[run.id] = _Watched(run)
        watched = self._watched.get(name if run is None else run.id)
        if watched is not None:
            watched.asked = time.monotonic()
        return watched

    def _sweep(self) -> None:
        """Without it a run that was followed would be forgotten before its end is read."""
        now = time.monotonic()
        for name in [name for name, watched in self._watched.items() if watched.run.released]:
            del self._watched[name]
        ended = [name for name, watched in self._watched.items() if watched.run.settled]
        late = {name for name in ended if now - self._watched[name].asked > _ENDED_KEPT_FOR}
        for name in late.union(ended[:-_ENDED_KEPT]):
            del self._watched[name]


def _listed(run: Run, session: str | None, *, look: bool) -> RunRow:
    """What is known about it; a `look` at its processes tells whether it waits for input."""
    command, outcome = run.command, run.outcome
    seen = run.look() if look and outcome is None else None
    return RunRow(
        run_id=run.id,
        session_id=session,
        command=command.text,
        cwd=run.surroundings.cwd,
        pid=run.pid,
        state=run.state,
        exit_code=None if outcome is None else outcome.exit.number,
        signal=None if outcome is None else outcome.exit.signal_name,
        elapsed_seconds=round(run.elapsed if outcome is None else outcome.duration, 3),
        idle_seconds=round(run.idle, 3),
        output_bytes=run.output.total,
        pty=command.pty is not None,
        waiting_for_input=seen is not None and seen.waits_for_input,
        password=seen is not None and seen.waits_for_input and seen.password,
        left=outcome is not None and not run.settled,
        ports=tuple(f"{one.inside} → {one.outside or one.problem}" for one in run.ports or ()),
        stays=run.stays and outcome is None,
    )


def _ending(run: Run) -> dict[str, object]:
    outcome = run.outcome
    return {
        "ended": outcome is not None,
        "settled": run.settled,
        "state": run.state,
        "exitCode": None if outcome is None else outcome.exit.number,
        "signal": None if outcome is None else outcome.exit.signal_name,
        "left": [] if outcome is None or run.settled else list(outcome.leaked_pids),
    }


# What was asked for


def _id(fields: MessageFields) -> str:
    return parameter("id", fields.get("id"), _ID)


def _number(fields: MessageFields, name: str, default: int | None) -> int | None:
    value = fields.get(name, default)
    return None if value is None else parameter(name, value, _BYTES)


def _bytes(fields: MessageFields) -> bytes:
    try:
        return base64.b64decode(str(fields["data"]), validate=True)
    except (KeyError, binascii.Error, ValueError):
        raise InvalidParameters("data must be the bytes to type, in base64") from None
