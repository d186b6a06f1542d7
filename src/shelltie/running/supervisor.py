"""Supervisor: judges, starts, tracks and ends every run."""

import math
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Self

import anyio

from shelltie.basics.frozen import replace
from shelltie.basics.times import human_duration
from shelltie.environment import child
from shelltie.errors import (
    CannotStart,
    InvalidParameters,
    JournalBroken,
    ProcessError,
    TerminalError,
)
from shelltie.events import CommandRefused, Publish, RunReady
from shelltie.limits.experience import Experience
from shelltie.limits.policy import TimeoutPolicy
from shelltie.model import (
    Adaptive,
    Caller,
    Command,
    Escalation,
    EscalationStep,
    Isolation,
    Limits,
    Outcome,
    RunId,
    Surroundings,
)
from shelltie.output.store import Store
from shelltie.output.text import clean
from shelltie.providers.provider import (
    STAYING,
    FarProvider,
    FarSurroundings,
    Prepared,
    Provider,
)
from shelltie.running.admission import Admission, Admitted
from shelltie.running.alarms import Alarms
from shelltie.running.command_check import check_command
from shelltie.running.hints import blocked_by_place, stopped_by_view
from shelltie.running.interfaces import Bus, Measures, Memory, OutputFactory, Record
from shelltie.running.login_path import LoginPath
from shelltie.running.messages import variables_withheld, withheld_of
from shelltie.running.on_trial import OverlaidRun, TrialRun
from shelltie.running.options import (
    RunDefaults,
    RunOptions,
    merge_resources,
    new_run_id,
    terms_for,
)
from shelltie.running.place_run import PlaceRun
from shelltie.running.retry import CircuitBreaker
from shelltie.running.run import Run
from shelltie.running.staying_run import StayingRun
from shelltie.running.terms import RunTerms
from shelltie.running.tried_outside import tried_outside
from shelltie.running.unusual import Lookout
from shelltie.shell.shape import shape
from shelltie.verdict import Rating

_TAIL = 4096  # of what it printed
_LEAVING: Escalation = (EscalationStep(signal.SIGTERM, 1.0), EscalationStep(signal.SIGKILL, 1.0))


class Supervisor:
    """The engine. Use it as `async with`: nothing it started outlives it."""

    def __init__(
        self,
        *,
        defaults: RunDefaults,
        admission: Admission,
        policy: Callable[[], TimeoutPolicy],
        new_output: OutputFactory,
        bus: Bus,
        login_path: LoginPath | None = None,
        record: Record | None = None,
        measures: Measures | None = None,
        memory: Memory | None = None,
    ) -> None:
        self.runs: dict[RunId, Run] = {}
        self.admission = admission
        self.placement = admission.placement
        self.trials = admission.trials
        self.bus = bus
        self.record = record
        self.measures = measures
        self._defaults = defaults
        self._policy = policy
        self._new_output = new_output
        self._memory = memory
        self._login_path = login_path
        self._base = child.sift(child.inherited(), defaults.passed)
        self._alarms = Alarms()
        self.closed = False
        self._breaker = CircuitBreaker(defaults.breaker.failures, defaults.breaker.pause)

    async def __aenter__(self) -> Self:
        if self._login_path is not None:
            self._login_path.ask(self._start_unrecorded)
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            await self.close()

    async def start(self, command: Command, options: RunOptions = RunOptions()) -> Run:  # noqa: B008  frozen
        """Start a command when it may run; what it then does is in the run's outcome.

        Raises: InvalidParameters, CommandDenied, CannotStart (IsolationUnavailable), JournalBroken;
            and then nothing was started.
        """
        check_command(command)
        self._check_breaker()
        if self._login_path is not None:
            await self._login_path.wait()
        run_id, base = new_run_id(), self._base
        place = self.placement.place_for(options)
        if place is None:
            prepared, surroundings = self._prepare(run_id, command, options)
        else:
            there = await place.made.look_there()
            options, base = replace(options, at=place.name), there.base
            prepared, surroundings = self._prepare_at(place.name, there, run_id, command, options)
        env = child.changed(command.env, base)
        command = replace(command, env=env, cwd=surroundings.cwd)
        admitted = await self.admission.decide(run_id, command, options, surroundings)
        try:
            if options.stays and admitted.provider.name != STAYING:
                self._refuse_to_stay(run_id, command)
            experience = await self._experience(command, surroundings.cwd)
            terms = self._settle_terms(run_id, command, options, experience, admitted.provider)
            problem = await self._flush_before_start(run_id, command)
        except BaseException:
            await self._abandon_trial(admitted.provider)
            raise
        if problem is not None:
            admitted = replace(admitted, notes=(*admitted.notes, problem))
        run = self._new_run(run_id, command, terms, surroundings, admitted)
        admitted_as = _as_admitted(prepared, admitted)
        run.begin(admitted_as)
        if isinstance(run, StayingRun):
            run.remember(options.requester.caller, admitted_as)
        if self._defaults.adaptive.mode is not Adaptive.OFF and not command.stays_open:
            Lookout(run, self._alarms, self.bus.publish)
        return run

    def _refuse_to_stay(self, run: RunId, command: Command) -> None:
        why = (
            "what stays runs without isolation, and this command may only run isolated or on trial:"
            " start it without `stays`"
        )
        told = CommandRefused(run, time.time(), command.text, "NOT_STARTED", why)
        self.bus.publish(told)
        raise CannotStart(why)

    async def _abandon_trial(self, provider: Provider) -> None:
        """Where nothing starts after all, nothing is left of its place."""
        with anyio.CancelScope(shield=True):
            if isinstance(provider, TrialRun) and self.trials is not None:
                await self.trials.abandon(provider)
            if isinstance(provider, OverlaidRun):
                await provider.abandon()

    async def finish_trial(self, run: Run) -> None:
        """What a run on trial has changed is known after this, and by rule applied."""
        if run.trial is not None and run.outcome is not None and self.trials is not None:
            await self.trials.finish(run.trial, run.outcome)

    async def flush_record(self) -> str | None:
        """Wait until what was told so far is on record; or say why it is not.

        Raises: JournalBroken.
        """
        return None if self.record is None else await self.record.flush()

    def _check_breaker(self) -> None:
        if (left := self._breaker.left(self._alarms.now())) > 0:
            raise CannotStart(
                f"the last {self._defaults.breaker.failures} commands could not be started: nothing"
                f" is tried for {human_duration(left)} (breaker.pause); look at `shelltie doctor`"
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
        return Experience(kind, project, samples, self._defaults.adaptive.min_samples)

    async def _flush_before_start(self, run: RunId, command: Command) -> str | None:
        """Wait until it is on record that this will start, or say why it is not."""
        why = "its caller left before it was started"
        try:
            problem = await self.flush_record()
            if self.closed:
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

    async def run(self, command: Command, options: RunOptions = RunOptions()) -> Run:  # noqa: B008  frozen
        """Start a command and wait for its end. Whoever is cancelled here ends the command, too.

        Raises: what `start` raises; then nothing was started.
        """
        run = await self.start(command, options)
        await self.attend(run)
        return run

    async def attend(self, run: Run, until: float = math.inf) -> None:
        """Wait for the end of a run, but no longer than `until`: then it goes on by itself.

        Whoever is cancelled here ends it.
        """
        try:
            if until == math.inf:  # most wait for the end
                await self._attend(run)
            else:
                with anyio.move_on_at(until):
                    await self._attend(run)
        except BaseException:
            if run.outcome is None:
                with anyio.CancelScope(shield=True), suppress(ProcessError):
                    await run.kill("cancelled")
            raise

    async def _attend(self, run: Run) -> None:
        await self.confirm_safe(run)
        await run.wait()
        await self.finish_trial(run)
        await self._tell_unrecorded(run)

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

    async def confirm_safe(self, run: Run) -> None:
        """Where nothing depended on it before the start: whether what looks safe is."""
        verdict = run.verdict
        if verdict is not None and verdict.rating is Rating.SAFE and not verdict.agreed:
            run.verdict = await self.admission.judge.confirm(run.command, verdict)

    def start_internal(self, command: Command) -> Run:
        """Start what the user's settings name; nobody judges it."""
        run_id, caller = new_run_id(), Caller(client="shelltie")
        prepared, surroundings = self._prepare(run_id, command, RunOptions())
        self.admission.publish_asked(run_id, command, caller, {})
        admitted = Admitted(None, self.placement.default)
        terms = self._settle_terms(run_id, command, RunOptions(), Experience(), admitted.provider)
        run = self._new_run(run_id, command, terms, surroundings, admitted)
        run.begin(prepared)
        return run

    def _start_unrecorded(self, command: Command) -> Run:
        """Start what only we want to know: it is nobody's command, and in no history."""
        run_id, options = new_run_id(), RunOptions()
        prepared, surroundings = self._prepare(run_id, command, options)
        admitted = Admitted(None, self.placement.default)
        terms = terms_for(command, options, Experience(), self._policy(), self._defaults)
        run = self._new_run(run_id, command, terms, surroundings, admitted, lambda _: None)
        run.begin(prepared)
        return run

    def _settle_terms(
        self,
        run: RunId,
        command: Command,
        options: RunOptions,
        experience: Experience,
        provider: Provider,
    ) -> RunTerms:
        """By which terms it runs; they are told."""
        terms = terms_for(command, options, experience, self._policy(), self._defaults)
        where = provider.name, str(provider.isolation)
        kind = experience.shape, experience.project
        self.bus.publish(RunReady(run, time.time(), *where, terms.limits, *kind, command.pty))
        return terms

    def _new_run(
        self,
        run_id: RunId,
        command: Command,
        terms: RunTerms,
        surroundings: Surroundings,
        admitted: Admitted,
        publish: Publish | None = None,
    ) -> Run:
        if publish is None:
            stays, secrets = command.stays_open, surroundings.secrets
            outlives = admitted.provider.name == STAYING
            output = self._new_output(run_id, stays=stays, outlives=outlives, secrets=secrets)
        else:
            output = Store()  # of what is not recorded nothing is kept
        kind: type[Run] = Run
        if admitted.provider.name == STAYING:
            kind = StayingRun
        elif admitted.provider.name in self.placement.places:
            kind = PlaceRun
        run = kind(
            run_id=run_id,
            command=command,
            rules=terms,
            surroundings=surroundings,
            provider=admitted.provider,
            output=output,
            alarms=self._alarms,
            publish=publish or self.bus.publish,
            verdict=admitted.verdict,
        )
        self.runs[run_id] = run
        run.on_settled.append(partial(self._forget, run))
        run.on_lost.append(self._note_lost)
        run.on_ended.append(partial(self._note_end, run))
        run.kept_inside = admitted.kept_inside
        for note in admitted.notes:
            run.warn(note)
        if names := withheld_of(command, surroundings.withheld):
            run.warn(variables_withheld(names))
        return run

    def hold(
        self,
        run_id: RunId,
        command: Command,
        limits: Limits,
        surroundings: Surroundings,
        provider: Provider,
    ) -> Run:
        """Make the run of a command that stays, which another server has started."""
        options = RunOptions(limits=limits)
        terms = terms_for(command, options, Experience(), self._policy(), self._defaults)
        surroundings = replace(surroundings, secrets=self._base.secrets)  # those of then are gone
        return self._new_run(run_id, command, terms, surroundings, Admitted(None, provider))

    async def close(self) -> None:
        """End every run but those that stay, prove it, take back questions, and let the keeper go.

        Bounded: 3 seconds for the runs, 1 for the questions.
        """
        self.closed = True
        for run in tuple(self.runs.values()):
            if isinstance(run, StayingRun) and not run.leaves_on_its_own:
                run.release("its server left")
            else:
                run.stop("shelltie is leaving", _LEAVING)
        with anyio.move_on_after(1):
            await self.admission.broker.close()
        with anyio.move_on_after(3):
            for run in tuple(self.runs.values()):
                with suppress(ProcessError):
                    await run.kill("shelltie is leaving", _LEAVING)
        await self.placement.close()
        await self.admission.judge.close()
        if self.trials is not None:
            await self.trials.close()
        if self.record is not None:
            await self.record.close()

    def _note_end(self, run: Run) -> None:
        assert run.outcome is not None
        self._breaker.note(run.outcome, self._alarms.now())
        if run.trial is not None and self.trials is not None:
            self.trials.note_end(run.trial, run.outcome)
        if run.in_view and not run.outcome.ok:
            tail = run.output.view(None, 0, _TAIL).tail
            home = self._base.kept.get("HOME", "")
            needs = frozenset[str]() if run.verdict is None else run.verdict.needs
            run.stopped = stopped_by_view(clean(tail), run.bars, home, needs)
            if run.stopped:
                self.admission.correct(run, run.stopped)
        if run.isolation is not Isolation.NONE and run.bars and not run.command.stays_open:
            self._note_blocked(run, run.outcome)

    def _note_blocked(self, run: Run, outcome: Outcome) -> None:
        """What isolation kept it from is told to a person who may let it run outside."""
        said, cwd = clean(run.output.view(None, 0, _TAIL).tail), run.surroundings.cwd
        found = blocked_by_place(outcome, said, run.bars, cwd, run.command.text)
        tried = tried_outside(said, found, outcome.refused_hosts, cwd)
        if found:
            self.admission.note_blocked(run.command, found, tried)
        if run.trial is not None and tried is not None:
            run.trial.tried = tried.told

    def _note_lost(self) -> None:
        """Whoever is left is on no leash any more, and looks like a person."""
        self.admission.broker.unheld = True

    def _forget(self, run: Run) -> None:
        if run.trial is not None and self.trials is not None:
            self.trials.settle(run.trial)
        self.runs.pop(run.id, None)

    def _prepare(
        self, run_id: RunId, command: Command, options: RunOptions
    ) -> tuple[Prepared, Surroundings]:
        login = self._login_path
        path, path_source = (None, "inherited") if login is None else (login.path, login.source)
        environ = child.build(
            self._base,
            command.env,
            path=path,
            pty=command.pty is not None,
            run=run_id,
            own=options.own,
            interactive=command.stays_open and command.pty is not None,
        )
        if command.env.get("PATH") not in (None, self._base.kept.get("PATH")):
            path_source = "env of the call"
        argv = command.argv or (*self._defaults.shell, "-c", command.text)
        cwd = os.path.abspath(command.cwd)  # noqa: PTH100  resolve() would follow links
        resources = merge_resources(command.resources, self._defaults.resources)
        prepared = Prepared(
            argv,
            environ.env,
            cwd,
            stdin=command.stdin,
            pty=command.pty,
            resources=resources,
            stays_open=command.stays_open,
            workspace=self.placement.workspace_for(options),
            one_output=options.one_output,
            commands=options.commands,
            stdin_from=options.stdin_from,
        )
        shell = None if command.argv else self._defaults.shell[0]
        return prepared, Surroundings(shell, path_source, cwd, environ.withheld, environ.secrets)

    def _prepare_at(
        self,
        place: str,
        there: FarSurroundings,
        run_id: RunId,
        command: Command,
        options: RunOptions,
    ) -> tuple[Prepared, Surroundings]:
        """For another machine: its variables, its shell, its directories, and none of ours but
        those that the settings pass.
        """
        environ = child.build(
            there.base,
            command.env,
            path=None,
            pty=command.pty is not None,
            run=run_id,
            own=options.own,
            interactive=command.stays_open and command.pty is not None,
        )
        cwd = there.resolve(command.cwd)
        # How many files may be open here says nothing of there.
        usual = replace(self._defaults.resources, open_files=None)
        prepared = Prepared(
            command.argv or (*there.shell, "-c", command.text),
            environ.env,
            cwd,
            stdin=command.stdin,
            pty=command.pty,
            resources=merge_resources(command.resources, usual),
            stays_open=command.stays_open,
            one_output=options.one_output,
            commands=options.commands,
            stdin_from=options.stdin_from,
        )
        shell = None if command.argv else there.shell[0]
        return prepared, Surroundings(shell, place, cwd, environ.withheld, environ.secrets)


def _as_admitted(prepared: Prepared, admitted: Admitted) -> Prepared:
    """In the directory that a yes was for. What was safe was asked of nobody, so nothing that a
    repository configures shall run with it.
    """
    env = prepared.env
    if admitted.verdict is not None and admitted.verdict.rating is Rating.SAFE:
        env = {**env, **child.hardened_git()}
    directory = admitted.directory
    if directory is not None and isinstance(admitted.provider, FarProvider):
        directory = None  # it is one of this machine, if there is one of that name
    return replace(prepared, directory=directory, env=env)
