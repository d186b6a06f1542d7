"""A run that outlives its server (detach, resume): held by one server after the other."""

import json
import time

from shelltie.basics.frozen import frozen, replace
from shelltie.basics.json_codec import as_json, from_json
from shelltie.errors import RunOver
from shelltie.events import Event, RunHeld, RunReleased, RunStarted
from shelltie.keeper import protocol
from shelltie.model import Caller, Command, Escalation, Limits, Outcome, TerminalSize
from shelltie.providers.provider import OutlivingProcess, Prepared, Process
from shelltie.running.run import Run
from shelltie.running.watchdog import Watchdog

_LATER = 3.0  # seconds after which its keeper ends what its server should have ended


@frozen
class StayingNote:
    """What whoever holds a run next must know of it; it lies beside its keeper."""

    run: str
    command: str
    cwd: str
    client: str
    agent: str
    shell: str | None
    path_source: str
    rows: int
    columns: int
    terminal: bool
    one_output: bool
    began: float
    total: float | None
    silence: float | None
    source: str
    started: bool
    """That it runs is on record; its server may be gone before it heard so."""

    def to_bytes(self) -> bytes:
        """As it is written."""
        return json.dumps(as_json(self)).encode()

    @classmethod
    def of_bytes(cls, data: bytes) -> "StayingNote":
        """Raises: ValueError if it is none."""
        try:
            return from_json(cls, json.loads(data))
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is no note of a session: {error}") from error

    @property
    def size(self) -> TerminalSize | None:
        """Of its terminal, at the start."""
        return TerminalSize(self.rows, self.columns) if self.terminal else None

    def to_command(self) -> Command:
        """What was asked, as far as it matters while it runs."""
        return Command(self.command, cwd=self.cwd, stays_open=True, pty=self.size)

    def to_limits(self) -> Limits:
        """How long it may take."""
        return Limits(self.total, self.silence, self.source)


class StayingRun(Run):
    """A run on a keeper of its own. `release` leaves it to whoever holds it next."""

    released = False
    note: StayingNote | None = None
    _on_record = False

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
        )
        self._write_note()

    def resume(self, process: Process, prepared: Prepared, note: StayingNote, client: str) -> None:
        """Hold what another server has started: what it printed comes again from its beginning."""
        now = self._alarms.now()
        age = max(0.0, time.time() - note.began)
        self.started_at, self._on_record = note.began, note.started
        self.note = note
        self._watchdog = Watchdog(
            self.rules.limits,
            now - age,
            warn_lead=self.rules.warn_lead,
            evidence=self.rules.evidence,
        )
        self._watchdog.last = now
        self._own(process, prepared)
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
            super().stop(reason, escalation)

    def _check_held(self) -> None:
        if self.released:
            raise RunOver(f"{self.id} goes on without this program: hold it with adopt")

    def extend(self, by: float) -> None:
        """See `Run`. Its keeper knows, too."""
        super().extend(by)
        self._limit_keeper()
        if self.note is not None:
            limits = self.rules.limits
            self.note = replace(self.note, total=limits.total, silence=limits.silence)
            self._write_note()

    def hear(self, word: protocol.LeashWord) -> None:
        """Its leash has said this."""
        self._hear(word)

    def _hear(self, word: protocol.LeashWord) -> None:
        if isinstance(word, protocol.Started) and isinstance(self._process, OutlivingProcess):
            if self._terminal is not None:
                self._terminal = self._process.terminal
            self._limit_keeper()
        super()._hear(word)
        if isinstance(word, protocol.Started) and self.note is not None and not self._on_record:
            self.note = replace(self.note, started=True)
            self._write_note()

    def _settle(self) -> None:
        if self.outcome is not None and isinstance(self._process, OutlivingProcess):
            self._process.forget()
        super()._settle()

    def _taken(self) -> None:
        self._leave("another server has taken it over")

    def _leave(self, reason: str) -> None:
        self.released = True
        self._alarms.set(self._alarm, None)
        self._publish(RunReleased(self.id, time.time(), reason))
        self._turn.beat()
        self._settle()

    def _tell(self, event: Event) -> None:
        """That it runs is on record once."""
        if not (self._on_record and isinstance(event, RunStarted)):
            super()._tell(event)

    def _write_note(self) -> None:
        if self.note is not None and isinstance(self._process, OutlivingProcess):
            self._process.note(self.note.to_bytes())

    def _limit_keeper(self) -> None:
        """What a server should have ended is ended, though there is none."""
        total = self.rules.limits.total
        if total is not None and isinstance(self._process, OutlivingProcess):
            grace = sum(step.pause for step in self.rules.escalation)
            self._process.limit(max(0.001, total - self.elapsed) + grace + _LATER)
