"""Registry of interactive sessions: ids, ownership, quotas, expiry."""

import itertools
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import anyio

from shelltie.basics.lazy_regex import lazy
from shelltie.basics.visible_text import brief
from shelltie.errors import JournalBroken, ProcessError, TooManySessions, UnknownSession
from shelltie.events import SessionNamed
from shelltie.model import Command, PastSession, RunId, State
from shelltie.running.options import Requester, RunOptions
from shelltie.running.run import Run
from shelltie.running.staying_run import StayingRun
from shelltie.running.supervisor import Supervisor
from shelltie.sessions import typed_input
from shelltie.sessions.session import Session
from shelltie.settings.all_settings import SessionLimits, Waiting

_TASK_SESSION = lazy(r"term-.+-\d{13,}")
_REMEMBERED = 1000  # of those that are gone


class Sessions:
    """The registry. An id is never used twice, and is nobody's but its owner's.

    `numbers` says what the next id has: without one, they are unique in this process only.
    `on_changed` is told an owner whose sessions have become other ones.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        room: SessionLimits = SessionLimits(),  # noqa: B008  frozen
        numbers: Callable[[], int] | None = None,
    ) -> None:
        self._supervisor = supervisor
        self._room = room
        self._numbers = numbers or itertools.count(1).__next__
        self._sessions: dict[str, Session] = {}
        self._gone: dict[str, tuple[str, PastSession]] = {}  # whose it was, and how it ended
        self._opening: Counter[str] = Counter()
        self.on_changed: list[Callable[[str], None]] = []

    async def open(
        self, command: Command, wish: RunOptions, owner: str, waiting: Waiting
    ) -> Session:
        """Start a session.

        Raises: TooManySessions, InvalidParameters, CommandDenied; and then nothing was started.
        """
        self._make_room(owner)
        self._opening[owner] += 1  # a question may take long, and others come meanwhile
        try:
            run = await self._supervisor.start(command, wish)
        finally:
            self._opening[owner] -= 1
            self._opening += Counter()  # forgets those that have none
        session = self.adopt(run, owner, waiting)
        # It runs, and its start is on record. Who learns its id can ask the next server for it.
        with suppress(JournalBroken):
            await self._supervisor.flush_record()
        return session

    def adopt(
        self, run: Run, owner: str, waiting: Waiting, session_id: str | None = None
    ) -> Session:
        """Let a run that has begun already go on as a session, in another server perhaps as one
        with this id; it is not asked whether there is room, because it runs in any case.
        """
        session = Session(session_id or self._unused_id(), owner, run, waiting)
        self._sessions[session.id] = session
        if session_id is None:
            self._supervisor.bus.publish(SessionNamed(run.id, time.time(), session.id))
        self._tell(owner)
        return session

    def _unused_id(self) -> str:
        """The file of the numbers can be changed by others, so it is not taken at its word."""
        ids = (f"term-{self._numbers()}" for _ in itertools.repeat(None))
        return next(it for it in ids if it not in self._sessions and it not in self._gone)

    async def let_type(
        self, session: Session, data: bytes, requester: Requester, *, end: bool = False
    ) -> None:
        """Ask whether this may be typed for the session's program.

        Raises: CommandDenied.
        """
        command = session.run.command
        if not session.complete:
            await typed_input.admit(self._supervisor, session, command, data, requester, end=end)

    def get(self, session_id: str, owner: str) -> Session:
        """The session of that id.

        Raises: UnknownSession, which says what it may be instead.
        """
        self.sweep()
        session = self._sessions.get(session_id)
        if session is None or session.owner != owner:
            name, why = brief(session_id, 60), self._why(session_id, owner)
            raise UnknownSession(f"Session {name} not found{why}")
        return session

    async def explain(self, session_id: str, owner: str, client: str) -> UnknownSession:
        """Why there is no such session: what became of it, also in a server that is gone."""
        name, why = brief(session_id, 60), self._why(session_id, owner)
        record = self._supervisor.record
        if not why and record is not None:
            past = await record.past_session(session_id, client)
            why = "" if past is None else f": {fate(past)}"
        return UnknownSession(f"Session {name} not found{why}")

    def owned_by(self, owner: str) -> list[Session]:
        """Whose process runs, or whose last output nobody has read."""
        self.sweep()
        return [session for session in self._sessions.values() if session.owner == owner]

    def of_run(self, run: RunId) -> Session | None:
        """As which session a run goes on, if it does."""
        return next((one for one in self._sessions.values() if one.run.id == run), None)

    def all(self) -> list[Session]:
        """All of them, for a person."""
        self.sweep()
        return list(self._sessions.values())

    async def stop(self, session_id: str, owner: str, reason: str = "stopped") -> Session:
        """End its whole tree and forget it, also if it was to stay.

        Raises: UnknownSession; ProcessError when some of it could not be ended.
        """
        session = self.get(session_id, owner)
        if not session.complete:
            await session.run.kill(reason)
        self._forget(session)
        return session

    async def stop_all(self, owner: str, reason: str) -> None:
        """End every session of an owner, which left or begins anew; what stays goes on."""
        async with anyio.create_task_group() as tasks:
            for session in self.owned_by(owner):
                tasks.start_soon(self._stop_quietly, session, reason)

    async def _stop_quietly(self, session: Session, reason: str) -> None:
        if isinstance(session.run, StayingRun) and not session.run.leaves_on_its_own:
            session.run.release(reason)
            self.sweep()
            return
        with suppress(ProcessError, UnknownSession):
            await self.stop(session.id, session.owner, reason)

    def sweep(self) -> None:
        """Forget what has ended and was read, or was not read for long."""
        for session in tuple(self._sessions.values()):
            if session.run.released:  # somebody else has it now
                del self._sessions[session.id]
                self._tell(session.owner)
            elif session.complete and (session.delivered or session.idle > self._room.kept):
                self._forget(session)

    def _forget(self, session: Session) -> None:
        if self._sessions.pop(session.id, None) is not None:
            if isinstance(session.run, StayingRun):
                session.run.mark_read()
            run, outcome = session.run, session.run.outcome
            past = PastSession(State.KILLED, None, time.time())
            if outcome is not None:
                ended_at = run.started_at + outcome.duration
                past = PastSession(outcome.state, outcome.exit.number, ended_at)
            self._gone[session.id] = session.owner, past
            if len(self._gone) > _REMEMBERED:
                del self._gone[next(iter(self._gone))]
            self._tell(session.owner)

    def _tell(self, owner: str) -> None:
        for hear in self.on_changed:
            hear(owner)

    def _make_room(self, owner: str) -> None:
        """The oldest that has ended makes room, if nobody has read its output yet."""
        own, most = self.owned_by(owner), self._room.most
        active = self._without_oldest(own, most, self._opening[owner])
        if active >= most:
            raise TooManySessions(
                f"{active} of your sessions run or are being started, and {most} may: stop one with"
                " terminal_stop",
                active,
                most,
            )
        total = max(self._room.total, most)
        active = self._without_oldest(self.all(), total, self._opening.total())
        if active >= total:
            advice = "stop one of yours with terminal_stop" if own else "try again later"
            raise TooManySessions(
                f"the clients of this server have {active} sessions, and {total} may run: {advice},"
                " or ask the person who runs it for room (`shelltie ps`, `shelltie kill`)",
                active,
                total,
            )

    def _without_oldest(self, sessions: list[Session], most: int, opening: int) -> int:
        """How many there are, when as many as need be of those that have ended are forgotten."""
        ended = [one for one in sessions if one.complete]
        for one in ended[: max(0, len(sessions) + opening - most + 1)]:
            self._forget(one)
            sessions.remove(one)
        return len(sessions) + opening

    def _why(self, session_id: str, owner: str) -> str:
        if _TASK_SESSION.fullmatch(session_id):
            return ": this is the id of a task's session; use it with terminal_execute_command"
        whose, past = self._gone.get(session_id, ("", None))
        if past is not None and whose == owner:
            return f": {fate(past)}"
        taken = session_id in self._sessions or past is not None
        return ": it is not yours" if taken else ""


def fate(past: PastSession) -> str:
    """What became of a session, in words."""
    if past.ended is None:
        return "it runs in another server of yours, which alone can reach it"
    at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(past.ended))
    match past.state:
        case "lost":
            return f"it ended when its server died at {at}; terminal_output reads what it printed"
        case State.FINISHED:
            return f"it ended with exit code {past.exit_code} at {at}, and was read"
        case State.TIMED_OUT:
            return f"its time limit ended it at {at}"
        case _:
            return f"it was stopped at {at}"
