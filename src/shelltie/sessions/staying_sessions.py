"""Session persistence: the next server of a client adopts the sessions that outlived the last one.

They go on with their ids, their output by position, and the place up to which the client has read.
A server takes up what nobody holds and what a server in the same directory has started for the same
client: another window of an editor shall not take what this one has begun. Whoever names its id
gets it from any directory. What a person looks at with the command line is taken from there.
"""

from pathlib import Path
from typing import Any

import anyio

from shelltie.basics.frozen import frozen
from shelltie.errors import SessionBusy, TerminalError
from shelltie.running.staying_note import StayingNote
from shelltie.running.staying_run import StayingRun
from shelltie.running.supervisor import Supervisor
from shelltie.sessions.registry import Sessions
from shelltie.sessions.session import Session
from shelltie.settings.all_settings import Waiting

_OF_A_PERSON = "shelltie "  # holders of the command line, which only look for a while


@frozen
class SessionClient:
    """Whose a session is: `owner` in this server, `lasting` in the next one as well, and what the
    client calls itself.
    """

    owner: str
    lasting: str
    client: str


class StayingSessions:
    """What stays, for the clients of one server. `folder` is where its keepers are found."""

    def __init__(
        self, supervisor: Supervisor, sessions: Sessions, folder: Path, waiting: Waiting
    ) -> None:
        self._supervisor = supervisor
        self._sessions = sessions
        self._folder = folder
        self._waiting = waiting
        self._place = str(Path.cwd())
        self._met: set[SessionClient] = set()
        self._turn = anyio.Lock()

    def remember(self, session: Session, who: SessionClient) -> None:
        """Have the next server find it."""
        if isinstance(session.run, StayingRun):
            session.run.remember_session(session.id, who.lasting, self._place)

    async def meet(self, who: SessionClient) -> None:
        """Take up what is this client's and nobody holds, when it first comes."""
        if who not in self._met:
            await self.take_up(who)

    async def take_up(self, who: SessionClient) -> None:
        """Take up what is this client's and nobody holds by now. Never raises."""
        async with self._turn:
            self._met.add(who)
            mine = [one for one in self._notes(who) if one.place == self._place]
            async with anyio.create_task_group() as tasks:  # a keeper may take its time to answer
                for note in mine:
                    tasks.start_soon(self._try_to_hold, note, who)

    async def find(self, session_id: str, who: SessionClient) -> Session | None:
        """The session of that id, from wherever it was started; `None` if it does not stay.

        Raises: SessionBusy if another program holds it, or it cannot be held.
        """
        async with self._turn:
            note = next((one for one in self._notes(who) if one.session == session_id), None)
            if note is None:
                return None
            try:
                return await self._hold(note, who)
            except TerminalError as error:
                raise SessionBusy(
                    f"Session {session_id} stays, but {error}; held last by"
                    f" {note.holder or 'nobody'}. Use it there, or `shelltie kill {session_id}`"
                ) from error

    def _notes(self, who: SessionClient) -> list[StayingNote]:
        if not self._folder.is_dir():
            return []
        return [
            note
            for note in self._runs.notes()
            if note.session
            and note.owner == who.lasting
            and _program(note.client) == _program(who.client)
            and note.run not in self._supervisor.runs
        ]

    @property
    def _runs(self) -> Any:  # noqa: ANN401  `StayingRuns`, which is imported when it is used
        from shelltie.running.staying_runs import StayingRuns  # few servers have such

        return StayingRuns(self._supervisor)

    async def _try_to_hold(self, note: StayingNote, who: SessionClient) -> None:
        try:
            await self._hold(note, who)
        except (TerminalError, OSError):  # somebody holds it, or it has just ended
            return

    async def _hold(self, note: StayingNote, who: SessionClient) -> Session:
        take = note.holder.startswith(_OF_A_PERSON)
        run: StayingRun = await self._runs.adopt(note.run, who.client, take=take)
        session = self._sessions.adopt(run, who.owner, self._waiting, note.session)
        session.cursor = min(note.position, session.position)
        session.mark_delivered(0, session.cursor)
        return session


def _program(client: str) -> str:
    """What a client calls itself, without its version: it may have been upgraded."""
    name, _, version = client.rpartition(" ")
    return name if version.removeprefix("v")[:1].isdigit() else client
