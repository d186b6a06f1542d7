"""A run that outlives its server (detach, resume): held by one server after the other."""

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from shelltie.basics.frozen import replace
from shelltie.errors import RunOver
from shelltie.events import Event, RunEnded, RunHeld, RunReleased, RunStarted
from shelltie.keeper import protocol
from shelltie.keeper.protocol import Missing
from shelltie.model import Caller, Escalation, Outcome, Stream, TerminalSize
from shelltie.providers.provider import OutlivingProcess, Prepared, Process
from shelltie.running.run import Run
from shelltie.running.staying_note import StayingNote
from shelltie.running.watchdog import Watchdog

_LATER = 3.0  # seconds after which its keeper ends what its server should have ended


class StayingRun(Run):
    """A run on a keeper of its own. `release` leaves it to whoever holds it next.

    The end of a session stays there, too, until its client has read it: a server may be killed
    before that.
    """

    stays = True

    def __init__(self, *args: Any, **named: Any) -> None:  # noqa: ANN401  those of a run
        super().__init__(*args, **named)
        self.note: StayingNote | None = None
        self._on_record = False
        self._ends: dict[Stream, int] = dict.fromkeys(Stream, 0)  # how far each stream was taken
        self._gaps: dict[Stream, deque[Missing]] = {stream: deque() for stream in Stream}
        self.filter_output = self._keep
        self._unread = self._end_on_record = False
        self._tell_all, self._publish = self._publish, self._publish_once

    @property
    def leaves_on_its_own(self) -> bool:
        """It has ended, or its end has begun."""
        return self.outcome is not None or self._watchdog.ending

    def remember(self, caller: Caller, prepared: Prepared) -> None:
        """Leave beside its keeper what the next server must know."""
        size, limits = self.size or TerminalSize(), self.rules.limits
        self.note = StayingNote(
            run=self.id,
            command=self.command.text,
            cwd=self.surroundings.cwd,
            client=caller.client,
            agent=caller.agent,
            shell=self.surroundings.shell,
            path_source=self.surroundings.path_source,
            rows=size.rows,
            columns=size.columns,
            terminal=prepared.pty is not None,
            one_output=prepared.one_output,
            began=self.started_at,
            total=limits.total,
            silence=limits.silence,
            source=limits.source,
            started=False,
            holder=caller.client,
            session="",
            owner="",
            place="",
            position=0,
            ended=0.0,
        )
        self._write_note()

    def remember_session(self, session: str, owner: str, place: str) -> None:
        """Have the next server know as whose session it went on here."""
        if not self.settled:  # else its keeper has left already
            self._unread = True
            self._change_note(session=session, owner=owner, place=place)

    def remember_position(self, position: int) -> None:
        """Have the next server know how far its usual reader has come."""
        if self.note is not None and self.note.position != position:
            self._change_note(position=position)

    def mark_read(self) -> None:
        """Whoever is to know of its end knows it, or will hear of it from us."""
        self._unread = False
        if self.settled and isinstance(self._process, OutlivingProcess):
            self._forget_keeper(self._process)

    def resume(
        self,
        process: Process,
        prepared: Prepared,
        note: StayingNote,
        client: str,
        ends: Mapping[Stream, int],
        *,
        end_on_record: bool,
    ) -> None:
        """Hold what another server has started. What it printed comes from these `ends` on: so far
        each stream is on record, and perhaps its end.
        """
        now = self._alarms.now()
        age = max(0.0, (note.ended or time.time()) - note.began)
        self._unread = bool(note.session)
        self.started_at, self._on_record = note.began, note.started
        self.note = note
        self._ends = dict(ends)
        self._watchdog = Watchdog(
            self.rules.limits,
            now - age,
            warn_lead=self.rules.warn_lead,
            evidence=self.rules.evidence,
        )
        self._watchdog.last = now
        self._own(process, prepared)
        self._end_on_record = end_on_record
        if end_on_record:
            return
        self._change_note(holder=client)
        self._publish(RunHeld(self.id, time.time(), client))

    def release(self, reason: str) -> None:
        """Let go of it: it goes on, and the next server finds it."""
        process = self._process
        assert isinstance(process, OutlivingProcess)
        process.release()
        self._leave(reason)

    async def wait(self) -> Outcome:
        """See `Run`. Raises: RunOver if it is not ours any more; it goes on."""
        while self.outcome is None:
            self._check_held()
            await self._turn.wait()
        return self.outcome

    async def kill(self, reason: str, escalation: Escalation | None = None) -> Outcome:
        """See `Run`. Raises: as that; RunOver if it is not ours any more."""
        self._check_held()
        return await super().kill(reason, escalation)

    def stop(self, reason: str, escalation: Escalation | None = None) -> None:
        """See `Run`; what is not ours any more is left alone."""
        if not self.released:
            self._unread = self._unread and self.leaves_on_its_own  # whoever stops it knows its end
            super().stop(reason, escalation)

    def _check_held(self) -> None:
        if self.released:
            raise RunOver(f"{self.id} goes on without this program: hold it with adopt")

    def extend(self, by: float) -> None:
        """See `Run`. Its keeper knows, too."""
        super().extend(by)
        self._limit_keeper()
        limits = self.rules.limits
        self._change_note(total=limits.total, silence=limits.silence)

    def hear(self, word: protocol.LeashWord) -> None:
        """Its leash has said this."""
        self._hear(word)

    def _hear(self, word: protocol.LeashWord) -> None:
        if isinstance(word, protocol.Started) and isinstance(self._process, OutlivingProcess):
            if self._terminal is not None:
                self._terminal = self._process.terminal
            self._limit_keeper()
        super()._hear(word)
        if isinstance(word, Missing):
            stream = Stream.STDOUT if word.stream == 1 else Stream.STDERR
            self._gaps[stream].append(word)
            self._pass_gaps(stream)
        if isinstance(word, protocol.Started) and not self._on_record:
            self._change_note(started=True)

    def _keep(self, stream: Stream, chunk: memoryview) -> None:
        """Keep what it printed; where some of it is lost, say so there."""
        while self._gaps[stream] and chunk:
            size = min(len(chunk), self._gaps[stream][0].at - self._ends[stream])
            self._take(stream, chunk[:size])
            chunk = chunk[size:]
            self._pass_gaps(stream)
        self._take(stream, chunk)

    def _take(self, stream: Stream, chunk: memoryview) -> None:
        self.output.add(stream, chunk)
        self._ends[stream] += len(chunk)

    def _pass_gaps(self, stream: Stream) -> None:
        gaps = self._gaps[stream]
        while gaps and gaps[0].at <= self._ends[stream]:
            size = gaps.popleft().size
            end = "\n" if self._terminal is None else "\r\n"
            words = f"{end}[{size} bytes are missing here: nobody held it]{end}"
            self.output.skip(stream, size, words.encode("ascii"))
            self._ends[stream] += size

    def _settle(self) -> None:
        if self.outcome is not None and isinstance(self._process, OutlivingProcess):
            if not self._unread:
                self._forget_keeper(self._process)
            elif self.note is not None and not self.note.ended:
                self._change_note(ended=time.time())
        super()._settle()

    def _forget_keeper(self, process: OutlivingProcess) -> None:
        process.forget()
        if self.output.spool is not None:
            self.output.spool.forget_origins()

    def _taken(self) -> None:
        self._leave("another server has taken it over")

    def _leave(self, reason: str) -> None:
        self.released = True
        self._alarms.set(self._alarm, None)
        self._publish(RunReleased(self.id, time.time(), reason))
        self._turn.beat()
        self._settle()

    def _publish_once(self, event: Event) -> None:
        """An end that its client was not told is on record once."""
        if not (isinstance(event, RunEnded) and self._end_on_record):
            self._tell_all(event)

    def _tell(self, event: Event) -> None:
        """That it runs is on record once."""
        if not (self._on_record and isinstance(event, RunStarted)):
            super()._tell(event)

    def _change_note(self, **changes: object) -> None:
        # Once its keeper is to leave, its directory goes as well.
        if self.note is not None and (self.outcome is None or self._unread):
            self.note = replace(self.note, **changes)
            self._write_note()

    def _write_note(self) -> None:
        if self.note is not None and isinstance(self._process, OutlivingProcess):
            self._process.note(self.note.to_bytes())

    def _limit_keeper(self) -> None:
        """What a server should have ended is ended, though there is none."""
        total = self.rules.limits.total
        if total is not None and isinstance(self._process, OutlivingProcess):
            grace = sum(step.pause for step in self.rules.escalation)
            self._process.limit(max(0.001, total - self.elapsed) + grace + _LATER)
