"""Supervisor: judges, starts, tracks and ends every run."""

import math
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Protocol, Self

import anyio

from shelltie.environment import child
from shelltie.errors import (
    CannotStart,
    InvalidParameters,
    JournalBroken,
    ProcessError,
    TerminalError,
)
from shelltie.events import CommandAsked, CommandRefused, Event, Publish, RunLost, RunReady
from shelltie.limits.experience import Experience
from shelltie.limits.policy import TimeoutPolicy
from shelltie.model import (
    Adaptive,
    Caller,
    Command,
    Escalation,
    EscalationStep,
    PastSession,
    RunId,
    Surroundings,
    human_duration,
)
from shelltie.output.store import Store
from shelltie.providers.provider import Prepared
from shelltie.running.admission import Entry, Gate, Party, Ticket
from shelltie.running.alarms import Alarms
from shelltie.running.login_path import LoginPath
from shelltie.running.messages import variables_withheld, withheld_of
from shelltie.running.options import (
    RunDefaults,
    RunOptions,
    check,
    merge_resources,
    new_run_id,
    terms_for,
)
from shelltie.running.placement import Asked as AskedPlace
from shelltie.running.placement import Place, Places
from shelltie.running.ports import Bus, Measures, Memory
from shelltie.running.retry import Breaker
from shelltie.running.run import Run
from shelltie.running.terms import RunTerms
from shelltie.running.unusual import Lookout
from shelltie.shell.shape import shape
from shelltie.verdict import Rating, Verdict

_LEAVING: Escalation = (EscalationStep(signal.SIGTERM, 1.0), EscalationStep(signal.SIGKILL, 1.0))


class OutputFactory(Protocol):
    """Where the output of a run is kept; of one that `stays`, so that it can be read later."""

    def __call__(self, run: RunId, *, stays: bool) -> Store: ...


class Record(Protocol):
    """Who writes down what the bus tells."""

    async def flush(self) -> str | None:
        """Wait until what was told so far is written; or say why it cannot be.

        Raises: JournalBroken if nothing may run without a record.
        """

    async def lost(self, client: str) -> list[RunLost]:
        """What ran for this client, lately, in servers that died; the newest first."""

    async def lost_one(self, name: str, client: str) -> RunLost | None:
        """The lost run or session of this client with that id, however old."""

    async def past_session(self, session: str, client: str) -> PastSession | None:
        """What became of the session of this client with that id."""

    async def close(self) -> None:
        """Write the rest, and leave."""


class Supervisor:
    """The engine. Use it as `async with`: nothing it started outlives it."""

    def __init__(
        self,
        habits: RunDefaults,
        gate: Gate,
        places: Places,
        policy: Callable[[], TimeoutPolicy],
        new_output: OutputFactory,
        bus: Bus,
        login_path: LoginPath | None = None,
        record: Record | None = None,
        measures: Measures | None = None,
        memory: Memory | None = None,
    ) -> None:
        self.runs: dict[RunId, Run] = {}
        self.gate = gate
        self.places = places
        self.entry = Entry(gate, places, bus.publish)
        self._habits = habits
        self._policy = policy
        self._new_output = new_output
        self.bus = bus
        self.record = record
        self.measures = measures
        self._memory = memory
        self._login_path = login_path
        self._base = child.sift(child.inherited(), habits.passed)
        self._alarms = Alarms()
        self._closed = False
        self._breaker = Breaker(habits.failures, habits.pause)

    async def __aenter__(self) -> Self:
        if self._login_path is not None:
            self._login_path.ask(self._begin_unrecorded)
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            await self.close()

    async def start(self, command: Command, wish: RunOptions = RunOptions()) -> Run:  # noqa: B008  frozen
        """Start a command when it may run; what it then does is in the run's outcome.

        Raises: InvalidParameters, CommandDenied, CannotStart (IsolationUnavailable), JournalBroken;
            and then nothing was started.
        """
        check(command)
        self._check_breaker()
        if self._login_path is not None:
            await self._login_path.wait()
        run_id = new_run_id()
        ready = self._prepare(command, run_id, wish)
        command = replace(command, env=child.changed(command.env, self._base))
        self._tell_asked(run_id, command, wish, ready[1].secrets)
        verdict, place = await self._enter(run_id, command, wish, ready[1])
        experience = await self._experience(command, ready[1].cwd)
        rules = self._ready(run_id, command, wish, experience, place)
        problem = await self._recorded(run_id, command)
        if problem is not None:
            place = replace(place, notes=(*place.notes, problem))
        run = self._begin(run_id, command, rules, ready, verdict, place)
        if self._habits.adaptive is not Adaptive.OFF and not command.stays_open:
            Lookout(run, self._alarms, self.bus.publish)
        return run

    async def flush_record(self) -> str | None:
        """Wait until what was told so far is on record; or say why it is not.

        Raises: JournalBroken.
        """
        return None if self.record is None else await self.record.flush()

    def _check_breaker(self) -> None:
        if (left := self._breaker.left(self._alarms.now())) > 0:
            raise CannotStart(
                f"the last {self._habits.failures} commands could not be started: nothing is tried"
                f" for {human_duration(left)} (breaker.pause); look at `shelltie doctor`"
            )

    @property
    def max_total(self) -> float | None:
        """What the policy allows at most."""
        return self._policy().max_total

    async def _experience(self, command: Command, cwd: str) -> Experience:
        """What is known of such commands. One that stays open is as long as somebody wants."""
        if self._memory is None or command.stays_open:
            return Experience()
        kind = shape(command.text)
        if not kind:
            return Experience()
        project, samples = await self._memory.recall(kind, cwd)
        return Experience(kind, project, samples, self._habits.min_samples)

    async def _recorded(self, run: RunId, command: Command) -> str | None:
        """Wait until it is on record that this will start, or say why it is not."""
        why = "its caller left before it was started"
        try:
            problem = await self.flush_record()
            if self._closed:
                raise InvalidParameters("the supervisor is closed: it starts nothing any more")
        except TerminalError as error:
            why = str(error)
            raise
        else:
            why = ""
            return problem
        finally:
            if why:
                told = CommandRefused(run, time.time(), command.text, "NOT_STARTED", why)
                self.bus.publish(told)

    async def run(self, command: Command, wish: RunOptions = RunOptions()) -> Run:  # noqa: B008  frozen
        """Start a command and wait for its end. Whoever is cancelled here ends the command, too.

        Raises: InvalidParameters, CommandDenied, IsolationUnavailable; then nothing was started.
        """
        run = await self.start(command, wish)
        await self.attend(run)
        return run

    async def attend(self, run: Run, until: float = math.inf) -> None:
        """Wait for the end of a run, but no longer than `until`: then it goes on by itself.

        Whoever is cancelled here ends it.
        """
        try:
            with anyio.move_on_at(until):
                await self.confirm_safe(run)
                await run.wait()
                await self._tell_unrecorded(run)
        except BaseException:
            if run.outcome is None:
                with anyio.CancelScope(shield=True), suppress(ProcessError):
                    await run.kill("cancelled")
            raise

    async def _tell_unrecorded(self, run: Run) -> None:
        """What filled the disk may have been its own output; then its end is not on record."""
        if run.output.spool is None or run.output.spool.problem is None:
            return
        try:
            problem = await self.flush_record()
        except JournalBroken as error:
            problem = str(error)
        if problem is not None and problem not in run.warnings:
            run.warn(problem)

    async def _enter(
        self, run: RunId, command: Command, wish: RunOptions, surroundings: Surroundings
    ) -> tuple[Verdict | None, Place]:
        asked = self.asked_place(wish)
        if wish.profile is None:
            return None, await self.entry.unjudged(run, command, asked)
        withheld = withheld_of(command, surroundings.withheld)
        ticket = Ticket(wish.profile, asked, wish.party, tuple(withheld))
        return await self.entry.enter(run, command, ticket)

    async def admit_into_running(
        self, run: RunId, command: Command, party: Party, gate: Gate | None = None
    ) -> None:
        """Let a command be given to what runs here already, without isolation.

        Raises: CommandDenied.
        """
        self._tell_asked(run, command, RunOptions("session", party=party), {})
        ticket = Ticket("session", self.asked_place(RunOptions()), party)
        await self.entry.give(run, command, ticket, gate or self.gate, self.places.usual)

    async def let_type(
        self, run: Run, command: Command, readings: Sequence[bytes], party: Party
    ) -> None:
        """Let the input of the command that runs there be typed, whichever way it may be read.

        Raises: CommandDenied.
        """
        withheld = withheld_of(command, run.surroundings.withheld)
        ticket = Ticket("session", self.asked_place(RunOptions()), party, tuple(withheld))
        await self.entry.let_type(run, command, readings, ticket)

    def asked_place(self, wish: RunOptions) -> AskedPlace:
        """Where a call wants to run."""
        workspace = wish.workspace or self._habits.workspace
        return AskedPlace(wish.isolation, wish.provider, workspace)

    async def confirm_safe(self, run: Run) -> None:
        """Where nothing depended on it before the start: whether what looks safe is."""
        verdict = run.verdict
        if verdict is not None and verdict.rating is Rating.SAFE and not verdict.agreed:
            run.verdict = await self.gate.judge.confirm(run.command, verdict)

    def _begin_unrecorded(self, command: Command) -> Run:
        """Start what only we want to know: it is nobody's command, and in no history."""
        run_id = new_run_id()
        ready = self._prepare(command, run_id, RunOptions())
        rules = terms_for(command, RunOptions(), Experience(), self._policy(), self._habits)
        place = Place(self.places.usual)
        return self._begin(run_id, command, rules, ready, None, place, _tell_nobody)

    def start_internal(self, command: Command) -> Run:
        """Start what the user's settings name; nobody judges it."""
        run_id, wish = new_run_id(), RunOptions(party=Party(Caller(client="shelltie")))
        ready = self._prepare(command, run_id, wish)
        self._tell_asked(run_id, command, wish, {})
        place = Place(self.places.usual)
        rules = self._ready(run_id, command, wish, Experience(), place)
        return self._begin(run_id, command, rules, ready, None, place)

    def _tell_asked(
        self, run: RunId, command: Command, wish: RunOptions, secrets: Mapping[str, str]
    ) -> None:
        cwd = os.path.abspath(command.cwd)  # noqa: PTH100  resolve() would follow links
        caller, stays = wish.party.caller, command.stays_open
        told = CommandAsked(run, time.time(), command.text, cwd, caller, stays, secrets)
        self.bus.publish(told)

    def _ready(
        self, run: RunId, command: Command, wish: RunOptions, experience: Experience, place: Place
    ) -> RunTerms:
        rules = terms_for(command, wish, experience, self._policy(), self._habits)
        where = place.provider.name, str(place.provider.isolation)
        kind = experience.shape, experience.project
        self.bus.publish(RunReady(run, time.time(), *where, rules.limits, *kind))
        return rules

    def _begin(
        self,
        run_id: RunId,
        command: Command,
        rules: RunTerms,
        ready: tuple[Prepared, Surroundings],
        verdict: Verdict | None,
        place: Place,
        publish: Publish | None = None,
    ) -> Run:
        prepared, surroundings = ready
        prepared = replace(prepared, directory=place.directory)
        if verdict is not None and verdict.rating is Rating.SAFE:
            # Nobody was asked about it, so nothing that a repository configures shall run with it.
            prepared = replace(prepared, env={**prepared.env, **child.hardened_git()})
        run = Run(
            run_id,
            command,
            rules,
            surroundings,
            place.provider,
            self._new_output(run_id, stays=command.stays_open),
            self._alarms,
            publish or self.bus.publish,
            verdict,
        )
        self.runs[run_id] = run
        run.on_settled.append(partial(self._forget, run))
        run.on_lost.append(self._note_lost)
        run.on_ended.append(partial(self._note_end, run))
        for note in place.notes:
            run.warn(note)
        if names := withheld_of(command, surroundings.withheld):
            run.warn(variables_withheld(names))
        run.begin(prepared)
        return run

    async def close(self) -> None:
        """End every run, prove it, take back what is asked, and let the keeper go.

        Bounded: 3 seconds for the runs, 1 for the questions.
        """
        self._closed = True
        for run in tuple(self.runs.values()):
            run.stop("shelltie is leaving", _LEAVING)
        with anyio.move_on_after(1):
            await self.gate.broker.close()
        with anyio.move_on_after(3):
            for run in tuple(self.runs.values()):
                with suppress(ProcessError):
                    await run.kill("shelltie is leaving", _LEAVING)
        await self.places.close()
        if self.record is not None:
            await self.record.close()

    def _note_end(self, run: Run) -> None:
        assert run.outcome is not None
        self._breaker.note(run.outcome, self._alarms.now())

    def _note_lost(self) -> None:
        """Whoever is left is on no leash any more, and looks like a person."""
        self.gate.broker.unheld = True

    def _forget(self, run: Run) -> None:
        self.runs.pop(run.id, None)

    def _prepare(
        self, command: Command, run_id: RunId, wish: RunOptions
    ) -> tuple[Prepared, Surroundings]:
        login = self._login_path
        path, path_source = (None, "inherited") if login is None else (login.path, login.source)
        environ = child.build(
            self._base,
            command.env,
            path=path,
            pty=command.pty is not None,
            run=run_id,
            own=wish.own,
            interactive=command.stays_open and command.pty is not None,
        )
        if command.env.get("PATH") not in (None, self._base.kept.get("PATH")):
            path_source = "env of the call"
        argv = command.argv or (*self._habits.shell, "-c", command.text)
        cwd = os.path.abspath(command.cwd)  # noqa: PTH100  resolve() would follow links
        resources = merge_resources(command.resources, self._habits.resources)
        prepared = Prepared(
            argv,
            environ.env,
            cwd,
            command.stdin,
            command.pty,
            resources,
            command.stays_open,
            self.asked_place(wish).workspace,
            wish.one_output,
        )
        shell = None if command.argv else self._habits.shell[0]
        return prepared, Surroundings(shell, path_source, cwd, environ.withheld, environ.secrets)


def _tell_nobody(_: Event) -> None:
    pass
