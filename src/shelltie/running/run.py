"""Run state machine: one command from spawn to Outcome; output, watchdog, signals."""

import os
import signal
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from shelltie.basics.pulse import Pulse
from shelltie.basics.times import human_duration
from shelltie.errors import (
    CannotStart,
    IllegalTransition,
    InvalidParameters,
    KillFailed,
    RunOver,
    SignalFailed,
)
from shelltie.events import (
    Escalated,
    Event,
    Leaked,
    LimitNear,
    LimitReached,
    LimitsExtended,
    Publish,
    RunEnded,
    RunStarted,
    SilentButWorking,
)
from shelltie.keeper import protocol
from shelltie.model import (
    LEGAL_TRANSITIONS,
    Bar,
    Command,
    Escalation,
    EscalationStep,
    ForwardedPort,
    Isolation,
    Limit,
    Outcome,
    ProcessRow,
    RefusedHost,
    RunId,
    Sighting,
    State,
    Stream,
    Surroundings,
    Survivors,
    TerminalSize,
)
from shelltie.output.reader import PipeReader
from shelltie.output.store import Store
from shelltie.providers.provider import ForwardingProcess, Prepared, Process, Provider
from shelltie.running import activity, messages
from shelltie.running.alarms import Alarm, Alarms
from shelltie.running.ending import Ending, EndTimes, exit_status
from shelltie.running.input_wait import LINE_END, shows_no_prompt
from shelltie.running.on_trial import OverlaidRun, TrialRun
from shelltie.running.stdin import StdinWriter
from shelltie.running.terms import (
    DRAIN_MAX,
    DRAIN_QUIET,
    FOR_SURVIVORS,
    HANG_UP,
    SHOT_WAIT,
    RunTerms,
)
from shelltie.running.watchdog import (
    Deadline,
    GiveUp,
    LookAtTree,
    Observe,
    Send,
    Step,
    TimeOut,
    Warn,
    Watchdog,
)
from shelltie.verdict import Verdict


class Run:
    """A command on its leash. It has begun when it is made, and `wait` gives its Outcome."""

    at: str | None = None  # the place on another machine where it is
    reachable = True  # whether we hear of it now
    stays = False  # it may outlive us
    released = False  # and goes on without us by now

    def __init__(
        self,
        run_id: RunId,
        command: Command,
        rules: RunTerms,
        surroundings: Surroundings,
        provider: Provider,
        output: Store,
        alarms: Alarms,
        publish: Publish,
        verdict: Verdict | None = None,
    ) -> None:
        self.id = run_id
        self.command = command
        self.rules = rules
        self.surroundings = surroundings
        self.provider = provider.name
        self.isolation = provider.isolation
        self.bars = provider.bars
        self.stopped: tuple[Bar, ...] = ()  # by which a read-only view kept it from what it wanted
        self.kept_inside: str | None = None  # the isolation that it may not leave, yes or no
        self.output = output
        self.verdict = verdict
        self.state = State.CREATED
        self.pid: int | None = None
        self.outcome: Outcome | None = None
        self.started_at = time.time()
        self.ended_survivors = False  # who was left when it exited did not leave by themselves
        self.longest_idle = 0.0  # seconds without output or work, as far as somebody has looked
        # If set, it takes what was printed, and gives the store what is to be kept of it.
        self.filter_output: Callable[[Stream, memoryview], None] | None = None
        self.on_output: list[Callable[[Stream, memoryview], None]] = []
        self.is_silence: Callable[[Stream], bool] | None = None  # of what `on_output` just heard
        self.on_ended: list[Callable[[], None]] = []
        self.on_settled: list[Callable[[], None]] = []
        self.on_lost: list[Callable[[], None]] = []  # nobody can say what is left of it
        self.trial = provider if isinstance(provider, TrialRun) else None
        self._overlaid = provider if isinstance(provider, OverlaidRun) else None
        self._applying = False  # what it wrote, now that it has ended
        self._provider = provider
        self._publish = publish
        self._alarms = alarms
        self._alarm = Alarm(self._wake)
        self._watchdog = Watchdog(
            rules.limits, alarms.now(), warn_lead=rules.warn_lead, evidence=rules.evidence
        )
        self._turn = Pulse()  # set at the end, and whenever an attempt to end it failed
        self._process: Process | None = None
        self._readers: dict[Stream, PipeReader] = {}
        self._hung_up: list[PipeReader] = []
        self._terminal: int | None = None
        self.size = command.pty  # of its terminal, by now
        self._feeder: StdinWriter | None = None
        self._drain_since: float | None = None
        self._ending = Ending()
        self._shot = False
        self._observer: activity.Observer | None = None

    # What others may ask

    @property
    def in_view(self) -> bool:
        """It runs in a read-only view, as what is rated safe does."""
        return self.isolation is Isolation.NONE and bool(self.bars)

    @property
    def settled(self) -> bool:
        """It has its outcome, and nobody of it is left."""
        return self.outcome is not None and (self._ending.gone or self._process is None)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._alarms.now() - self._watchdog.started

    @property
    def idle(self) -> float:
        """Seconds since the last byte."""
        return self._alarms.now() - self._watchdog.last

    async def wait(self) -> Outcome:
        """How it ended. Any number may wait, at any time; to give up waiting ends nothing."""
        while self.outcome is None:
            await self._turn.wait()
        return self.outcome

    @property
    def input(self) -> StdinWriter:
        """Where to write what it shall read.

        Raises: RunOver.
        """
        if self.outcome is not None or self._feeder is None or not self._feeder.open:
            ended = self.outcome is not None or self._ending.exit is not None
            raise RunOver("it has ended" if ended else "its input is closed: it takes none")
        return self._feeder

    def forget_input(self) -> None:
        """Drop what was typed and nobody has read."""
        if self._feeder is not None:
            self._feeder.forget()

    @property
    def echoes(self) -> bool:
        """Whether its terminal prints what is typed."""
        with suppress(OSError, termios.error):
            if self._terminal is not None and self.outcome is None:
                return bool(termios.tcgetattr(self._terminal)[3] & termios.ECHO)
        return False

    @property
    def foreground_group(self) -> int | None:
        """The process group that its terminal is for, by our own count of pids."""
        with suppress(OSError):
            if self._terminal is not None and self.outcome is None:
                return os.tcgetpgrp(self._terminal) or None  # 0: of another place, without a number
        return None

    @property
    def foreground_directory(self) -> str | None:
        """Where the process is that its terminal is for; `None` if only another place knows."""
        if self.isolation is not Isolation.NONE or self.outcome is not None:
            return None
        # The leader of a group may have ended before the others; then the shell is as near.
        for pid in (self.foreground_group, self.pid):
            with suppress(OSError):
                if pid:
                    return str(Path(f"/proc/{pid}/cwd").readlink())
        return None

    def look(self) -> Sighting | None:
        """What its tree is doing now."""
        seen = None if self._observer is None else self._observer.look()
        if seen is None or not seen.waits_for_input:
            return seen
        typed = self._feeder is not None and self._feeder.pending
        end = self.output.total
        tail = self.output.read(max(0, end - LINE_END), end).data
        if typed or (seen.polls and shows_no_prompt(tail)):
            return replace(seen, waits_for_input=False, password=False)
        return seen

    @property
    def deadlines(self) -> tuple[Deadline, ...]:
        """When each limit would end it, the nearest first, on the clock of `now`."""
        decided = self.outcome is not None or self._ending.exit is not None
        return () if decided else self._watchdog.deadlines

    @property
    def now(self) -> float:
        """The clock that deadlines are on."""
        return self._alarms.now()

    def extend(self, by: float) -> None:
        """Have both limits end it so many seconds later.

        Raises: RunOver if it has ended, or its end has begun; InvalidParameters without limits.
        """
        if self.outcome is not None or self._ending.exit is not None or self._watchdog.ending:
            raise RunOver("it has ended, or is being ended: its limits hold no longer")
        if not self._watchdog.deadlines:
            raise InvalidParameters("no limit ends it: there is nothing to extend")
        note = f"a person made its limits longer by {human_duration(by)}"
        limits = self._watchdog.lengthen(by)
        self.rules = replace(
            self.rules, limits=replace(limits, notes=(*self.rules.limits.notes, note))
        )
        self._arm()
        self._publish(LimitsExtended(self.id, time.time(), by, self.rules.limits))

    def processes(self) -> list[ProcessRow]:
        """Everybody of it whom /proc shows here, parents before their children."""
        if self._observer is None or self.outcome is not None:
            return []
        return self._observer.processes()

    def resize(self, size: TerminalSize) -> None:
        """Give its terminal another size.

        Raises: RunOver if it has ended or has no terminal.
        """
        if self.outcome is not None or self._terminal is None or self._process is None:
            raise RunOver("it has ended" if self.outcome else "it has no terminal to resize")
        self._process.resize(size)
        self.size = size

    def watch_ports(self) -> None:
        """Have what it listens on in its sandbox be reachable from outside, until it ends."""
        process = self._process
        if isinstance(process, ForwardingProcess) and process.ports is not None:
            process.ports.watch()

    @property
    def ports(self) -> tuple[ForwardedPort, ...] | None:
        """What it listens on now, if ports are watched; `None` where none can be reached."""
        process = self._process
        if self.isolation is Isolation.NONE or self.outcome is not None or process is None:
            return ()
        if not isinstance(process, ForwardingProcess):
            return None
        return () if process.ports is None else process.ports.look()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What there was to be warned of so far."""
        return tuple(self._ending.warnings)

    @property
    def refused_hosts(self) -> tuple[RefusedHost, ...]:
        """What its network list has kept it from so far."""
        return tuple(self._ending.refused_hosts)

    def warn(self, message: str) -> None:
        """Have the outcome say this."""
        self._ending.warnings.append(message)

    def stop(self, reason: str, escalation: Escalation | None = None) -> None:
        """Begin to end it, without waiting; a finished run stays as it is."""
        if self.settled:
            return
        if self.outcome is not None:  # what it left behind, on purpose or not
            self._send(signal.SIGKILL)
            return
        if not self._ending.decided:
            self._ending.stop_reason = reason
            self._conclude()
        self._end(self._hang_up_first(escalation or self.rules.escalation))

    def _hang_up_first(self, escalation: Escalation) -> Escalation:
        """An interactive shell ignores SIGTERM; what ends it is that its terminal closes."""
        if self._terminal is None or self._observer is None:
            return escalation
        if escalation[0].signal != signal.SIGTERM or not self._observer.ignores(signal.SIGTERM):
            return escalation
        return (HANG_UP, *escalation)

    async def kill(self, reason: str, escalation: Escalation | None = None) -> Outcome:
        """Stop it and wait until it is gone.

        Raises: SignalFailed or KillFailed when some are left; the run then still goes on.
        """
        self.stop(reason, escalation)
        return await self._proved_gone()

    async def time_out(self) -> Outcome:
        """End it as timed out: a clock of its caller's ran out. Else it is like `kill`."""
        if self._process is not None and self._ending.exit is None and self.outcome is None:
            now = self._alarms.now()
            self._follow(self._watchdog.time_out(Limit.TOTAL, now), now)
            self._arm()
        return await self._proved_gone()

    async def _proved_gone(self) -> Outcome:
        if self.outcome is None:
            await self._turn.wait()
        if self.outcome is not None:
            return self.outcome
        if self._ending.refused:
            raise SignalFailed(f"the kernel does not let us signal {list(self._ending.stuck)}")
        raise KillFailed(messages.kill_failure(self._ending.stuck), self._ending.stuck)

    def move(self, state: State) -> None:
        """Go to another state.

        Raises: IllegalTransition where table 6.2 has no such way.
        """
        if state not in LEGAL_TRANSITIONS[self.state]:
            raise IllegalTransition(f"run {self.id} is {self.state} and cannot become {state}")
        self.state = state

    # Start

    def begin(self, prepared: Prepared) -> None:
        """Spawn the command. Whatever goes wrong becomes the outcome."""
        try:
            process = self._provider.spawn(prepared, self._hear)
        except CannotStart as error:
            self._ending.error = (str(error), error.exit_code, True)
            self._finish()
            return
        self._own(process, prepared)

    def _own(self, process: Process, prepared: Prepared) -> None:
        self._process = process
        self._terminal = process.stdout if prepared.pty is not None else None
        self._read(process.stdout, Stream.STDOUT)
        if process.stderr is not None:
            self._read(process.stderr, Stream.STDERR)
        self._open_input(process, prepared)
        self._arm()

    def _open_input(self, process: Process, prepared: Prepared) -> None:
        given = prepared.stdin or b""
        if process.stdin is not None:
            self._feeder = StdinWriter(process.stdin, given, terminal=False)
        elif prepared.one_output:
            return
        elif prepared.pty is not None and (prepared.stays_open or prepared.stdin is not None):
            self._feeder = StdinWriter(process.stdout, given, terminal=True)
            if not prepared.stays_open:
                self._feeder.end()

    def _read(self, fd: int, stream: Stream) -> None:
        def data(chunk: memoryview) -> None:
            now = self._alarms.now()
            (self.filter_output or self.output.add)(stream, chunk)
            for hear in self.on_output:
                hear(stream, chunk)
            if self.is_silence is None or not self.is_silence(stream):
                self._watchdog.heard(now)

        def end() -> None:
            self._hung_up.append(self._readers.pop(stream))
            self._stop_feeding()
            if self._ending.gone and not self._readers:
                self._finish()

        self._readers[stream] = PipeReader(fd, data, end, hold=fd == self._terminal)

    # What the leash says

    def _hear(self, word: protocol.LeashWord) -> None:
        match word:
            case protocol.Started():
                self.pid = word.pid or None  # it may have ended before its number was looked up
                self._observer = self._new_observer(word.leash)
                self.move(State.RUNNING)
                self._tell(RunStarted(self.id, time.time(), word.pid, self.rules.limits))
            case protocol.Failed():
                failure = messages.start_failure(word.step, word.errno, self.command, word.reason)
                self._ending.error = failure
            case protocol.Signalled():
                self._ending.refused += word.refused
            case protocol.Stuck():
                self._ending.stuck = word.pids
            case protocol.Noted():
                self._ending.note(word)
            case protocol.Unreachable() | protocol.Reachable():
                self._note_reach(word)
            case _:
                self._hear_end(word)

    def _new_observer(self, leash: int) -> activity.Observer | None:
        """Who looks at what it does: at processes of this machine."""
        return activity.Observer(leash, self._terminal)

    def _note_reach(self, word: protocol.Unreachable | protocol.Reachable) -> None:
        """Only what runs on another machine can be out of reach."""

    def _tell(self, event: Event) -> None:
        self._publish(event)

    def _hear_end(
        self,
        word: protocol.Exited | protocol.Expired | protocol.Gone | protocol.Lost | protocol.Taken,
    ) -> None:
        match word:
            case protocol.Exited():
                self._exited(word)
            case protocol.Expired():
                self._expire()
            case protocol.Taken():
                self._taken()
            case protocol.Gone() | protocol.Lost():
                self._nobody_left(word)

    def _taken(self) -> None:
        """Only what stays can be taken over by another server."""

    def _expire(self) -> None:
        """Its keeper has begun to end it: its time was over while no server watched it."""
        if self._ending.exit is None and self.outcome is None and not self._watchdog.ending:
            now = self._alarms.now()
            self._follow(self._watchdog.time_out(Limit.TOTAL, now), now)
            self._arm()

    def _exited(self, word: protocol.Exited) -> None:
        self._ending.left = word.left
        self._ending.exit = exit_status(word.wait_status)
        if not self._watchdog.ending:
            self._drain()

    def _nobody_left(self, word: protocol.Gone | protocol.Lost) -> None:
        self._ending.gone = True
        self._ending.lost = isinstance(word, protocol.Lost)
        for hear in self.on_lost if self._ending.lost else ():
            hear()
        self._ending.cpu = word.cpu if isinstance(word, protocol.Gone) else None
        if self.outcome is not None:
            self._settle()
            return
        for reader in tuple(self._readers.values()):
            reader.drain()
        if not self._readers:
            self._finish()
        elif self.outcome is None:
            self._drain()

    def _drain(self) -> None:
        """The command has ended, but its pipe may have not: read on, though not for ever."""
        self._drain_since = self._alarms.now()
        self._arm()

    # Time

    def _arm(self) -> None:
        if self.outcome is not None or self._applying:
            self._alarms.set(self._alarm, None)
        elif self._drain_since is not None:
            self._alarms.set(self._alarm, self._drain_ends)
        else:
            self._alarms.set(self._alarm, self._watchdog.next_at)

    @property
    def _drain_ends(self) -> float:
        assert self._drain_since is not None
        quiet = max(self._drain_since, self._watchdog.last) + DRAIN_QUIET
        return min(quiet, self._drain_since + DRAIN_MAX)

    def _wake(self, now: float) -> None:
        if self._process is not None:
            self._process.poll()  # a command that has just ended is not late
        if self.outcome is not None or self._applying:
            return
        if self._drain_since is not None:
            if now >= self._drain_ends:
                self._drained()
        else:
            self._follow(self._watchdog.due(now), now)
        self._arm()

    def _drained(self) -> None:
        self._drain_since = None
        if self._ending.gone or self.rules.survivors is not Survivors.KILL:
            self._finish()
        else:
            self.ended_survivors = True
            self._end(FOR_SURVIVORS)

    def _end(self, escalation: Escalation) -> None:
        now = self._alarms.now()
        self._drain_since = None
        self._follow(self._watchdog.end(escalation, now), now)
        self._alarms.set(self._alarm, None)
        self._arm()

    def _follow(self, steps: list[Step], now: float) -> None:
        for step in steps:
            match step:
                case Warn():
                    self._warn_near(step, now)
                case Observe():
                    self._observe(now)
                case LookAtTree():
                    self._judge(step, now)
                case TimeOut():
                    self._time_out(step, now)
                case Send():
                    self._send(step.signal)
                case GiveUp():
                    self._give_up()

    def _observe(self, now: float) -> None:
        if self._observer is not None:  # a leash that was stopped at once has not said who it is
            self._observer.observe(now)

    def _warn_near(self, step: Warn, now: float) -> None:
        message = messages.warning_before_limit(
            step, now - self._watchdog.started, self.rules.limits
        )
        self._ending.warnings.append(message)
        self._publish(LimitNear(self.id, time.time(), step.limit, step.idle, step.left, message))

    def _judge(self, step: LookAtTree, now: float) -> None:
        work = self._observer.works(now) if self._observer else None
        if work is None or self._observer is None:
            self._follow(self._watchdog.time_out(Limit.SILENCE, now), now)
            return
        message = messages.silent_but_working(step.idle, work)
        self._ending.warnings.append(message)
        self._observer.observe(now)
        self._watchdog.extend_silence(now)
        self._publish(SilentButWorking(self.id, time.time(), step.idle, message))

    def _time_out(self, step: TimeOut, now: float) -> None:
        """Decided once, before the first signal; how the command then ends changes nothing."""
        self._ending.timed_out = step
        self._conclude()
        message = messages.limit_reached(step.limit, self.rules.limits)
        self._publish(LimitReached(self.id, time.time(), step.limit, step.idle, message))
        self._follow(self._watchdog.end(self.rules.escalation, now), now)

    def _conclude(self) -> None:
        if self._observer is not None:
            self._observer.conclude()

    def _send(self, number: int) -> None:
        assert self._process is not None
        self._ending.killed = self._ending.killed or number == signal.SIGKILL
        self._publish(Escalated(self.id, time.time(), number))
        self._process.signal(number)

    def _give_up(self) -> None:
        """SIGKILL went out long ago. A leash that does not even say who is stuck is shot itself."""
        assert self._process is not None
        if self._ending.stuck or self._shot:
            self._publish(Leaked(self.id, time.time(), self._ending.stuck))
            self._left_behind()
            return
        self._shot = True
        self._process.shoot()
        self._watchdog.end((EscalationStep(signal.SIGKILL, SHOT_WAIT),), self._alarms.now())

    def _left_behind(self) -> None:
        """The leash goes on trying to end them. A stop that failed is no end of the run."""
        if self._ending.timed_out is not None or self._ending.exit is not None:
            self._finish()
            return
        self.warn(f"somebody tried to end it: {messages.kill_failure(self._ending.stuck)}")
        self._ending.stop_reason = None
        self._turn.beat()

    # The end

    def _finish(self) -> None:
        if self.outcome is not None or self._applying:
            return
        state = self._ending.settle_on()
        if self._overlaid is not None:
            self._apply_writes(self._overlaid, state)
            return
        longest = max(self._watchdog.longest, self.idle)
        times = EndTimes(self.elapsed, self.idle, longest, self.longest_idle)
        started = self._process is not None
        self.outcome = self._ending.outcome(state, times, self._observer, started=started)
        if self.state is State.CREATED and state in LEGAL_TRANSITIONS[State.RUNNING]:
            self.move(State.RUNNING)  # its leash was shot before it could say so
        self.move(state)
        self._arm()
        if self._ending.gone or self.rules.survivors is Survivors.KILL or self._process is None:
            self._close_streams()
        if self.settled:
            self.output.keep()
        self._publish(RunEnded(self.id, time.time(), self.outcome, self.output.printed))
        self._turn.beat()
        for hear in self.on_ended:
            hear()
        if self.settled:
            self._settle()

    def _apply_writes(self, overlaid: OverlaidRun, state: State) -> None:
        """It is over when what it wrote is in place; no clock runs meanwhile."""
        self._overlaid, self._applying = None, True
        self._alarms.set(self._alarm, None)

        def applied(notes: Sequence[protocol.Noted]) -> None:
            self._applying = False
            for note in notes:
                self._ending.note(note)
            self._finish()

        exit_code = self._ending.exit.number if self._ending.exit is not None else 0
        overlaid.settle(exit_code if state is State.FINISHED else None, applied)

    def _settle(self) -> None:
        self._close_streams()
        self.output.close()
        for hear in self.on_settled:
            hear()

    def _close_streams(self) -> None:
        self._stop_feeding()
        for reader in (*self._readers.values(), *self._hung_up):
            reader.close()
        self._readers = {}

    def _stop_feeding(self) -> None:
        if self._feeder is not None:
            self._feeder.close()
            self._feeder = None
