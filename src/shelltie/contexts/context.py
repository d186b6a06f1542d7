"""Task context: working directory, environment and command queue of one task."""

import math
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import PurePath

import anyio

from shelltie.basics.frozen import frozen
from shelltie.contexts.fields import OWN
from shelltie.errors import (
    CannotStart,
    ContextClosedEarly,
    ProcessError,
    SessionBusy,
)
from shelltie.events import Asker, ContextRan, Publish
from shelltie.model import Caller, Escalation, ExitStatus, Limits, Outcome, RunId, State, Stream
from shelltie.output.head_tail import Window
from shelltie.running.alarms import Alarm
from shelltie.running.run import Run

_QUEUE_MAX = 1000


@frozen
class StillRunning:
    """A command that its caller waits for no longer; it keeps its turn until its end."""

    run: Run
    stdout: Window
    stderr: Window


@frozen
class Executed:
    """A command that came to its end, with the first bytes of each stream.

    One whose program was not there has no `run`.
    """

    run: RunId | None
    command: str
    limits: Limits
    outcome: Outcome
    stdout: Window
    stderr: Window

    @property
    def printed(self) -> int:
        """How many bytes it printed."""
        return self.stdout.total + self.stderr.total

    @property
    def truncated(self) -> bool:
        """Some of what it printed is not here."""
        return any(stream.total > stream.head_end for stream in (self.stdout, self.stderr))


class Context:
    """One task's context. Its commands share nothing but the directory and the environment."""

    def __init__(
        self,
        asker: Asker,
        owner: str,
        cwd: str,
        environment: Mapping[str, str],
        publish: Publish,
    ) -> None:
        self.asker = asker
        self.owner = owner
        self.cwd = cwd
        self.environment = environment
        self.warnings: tuple[str, ...] = ()
        self.created = time.time()
        self.used = anyio.current_time()
        self.commands = 0
        self.last_command: float | None = None
        self.last: Outcome | None = None  # how the last command ended
        self.closed: str | None = None  # why
        self.alarm: Alarm | None = None  # rings when nobody has used it for long
        self._publish = publish
        self._run: Run | None = None
        self._attending: anyio.CancelScope | None = None
        self._turn = anyio.Semaphore(1)  # no lock: the end of a run may give it back
        self._going: StillRunning | None = None
        self._waiting: set[anyio.CancelScope] = set()

    @property
    def id(self) -> str:
        """Its id."""
        return self.asker.session

    @property
    def own(self) -> dict[str, str]:
        """Variables by which a command knows for whom it runs; no caller can change them."""
        values = (self.asker.task, self.asker.agent, self.asker.session)
        return dict(zip(OWN, values, strict=True))

    @property
    def caller(self) -> Caller:
        """For whom its commands run, as every record says it."""
        return Caller(self.owner, self.asker.agent, self.asker.task, self.asker.session)

    @property
    def running(self) -> bool:
        """A command runs in it now."""
        return self._run is not None

    @property
    def busy(self) -> bool:
        """A command has its turn, whether it runs yet or not."""
        return self._turn.value == 0

    # Turns

    @asynccontextmanager
    async def turn(self, *, queue: bool, until: float = math.inf) -> AsyncIterator[None]:
        """First come, first served: wait until all earlier commands have ended, or `until`.

        Raises: SessionBusy if the caller does not want to wait, or too many do; ContextClosedEarly.
        """
        if self.busy and not queue:
            raise SessionBusy(f"session busy: a command runs in {self.id}, and queue is false")
        if len(self._waiting) >= _QUEUE_MAX:
            raise SessionBusy(f"session busy: {_QUEUE_MAX} commands wait in {self.id} already")
        await self._wait(until)
        try:
            if self.closed is not None:
                raise self._over()
            yield
        finally:
            if self._going is None:
                self._give_back()

    def _give_back(self) -> None:
        self.used = anyio.current_time()
        self._turn.release()

    async def _wait(self, until: float) -> None:
        with anyio.CancelScope(deadline=until) as waiting:
            self._waiting.add(waiting)
            try:
                await self._turn.acquire()
            finally:
                self._waiting.discard(waiting)
        if waiting.cancelled_caught and self.closed is None:
            raise SessionBusy(
                f"session busy: the command was not run, because those before it in {self.id} take"
                " longer than you wait; call again"
            )
        if waiting.cancelled_caught:
            raise self._over()

    def _over(self) -> ContextClosedEarly:
        return ContextClosedEarly(
            f"the command was not run: session {self.id} was closed while it waited"
        )

    # The command whose turn it is

    async def attend(
        self, run: Run, output: int, until: float = math.inf
    ) -> Executed | StillRunning:
        """Wait for the end of a run until then; whoever is cancelled here ends it, too.

        Raises: ContextClosedEarly when the context was closed, and not all of the run ended.
        """
        self._begin()
        self._run = run
        stdout, stderr = Window(output, 0), Window(output, 0)
        heads = {Stream.STDOUT: stdout, Stream.STDERR: stderr}
        run.on_output.append(lambda stream, chunk: heads[stream].append(chunk))
        if self.closed is not None:  # while the run was being started
            run.stop(self.closed)
        going = StillRunning(run, stdout, stderr)
        try:
            await self._end_of(run, until)
        except BaseException:
            self._conclude(going)
            raise
        if run.outcome is None and self.closed is None:
            self._going = going
            run.on_ended.append(self._let_go)
            return going
        ended = self._conclude(going)
        if run.outcome is None:
            raise ContextClosedEarly(
                f"session {self.id} was closed, but not all of its command ended"
            )
        return ended

    async def _end_of(self, run: Run, until: float) -> None:
        try:
            with anyio.CancelScope() as self._attending:
                with anyio.move_on_at(until):
                    await run.wait()
                if self.closed is not None:
                    await run.wait()
        except BaseException:
            if run.outcome is None and self.closed is None:
                with anyio.CancelScope(shield=True), suppress(ProcessError):
                    await run.kill("cancelled")
            raise

    def _let_go(self) -> None:
        """What went on has ended, or cannot be ended: the next one may have its turn."""
        going, self._going = self._going, None
        if going is not None:
            self._conclude(going)
            self._give_back()

    def _conclude(self, going: StillRunning) -> Executed:
        run, self._run = going.run, None
        limits, outcome = run.rules.limits, _outcome(run)
        ended = Executed(run.id, run.command.text, limits, outcome, going.stdout, going.stderr)
        self._record(ended)
        return ended

    def missing(self, command: str, limits: Limits, error: CannotStart) -> None:
        """The program is allowed, but not there: this counts as a command that failed."""
        exit_status = ExitStatus(code=error.exit_code)
        outcome = Outcome(State.SPAWN_FAILED, exit_status, 0.0, error=str(error))
        self._begin()
        self._record(Executed(None, command, limits, outcome, Window(0, 0), Window(0, 0)))

    def _begin(self) -> None:
        self.commands += 1
        self.last_command = time.time()

    def _record(self, ended: Executed) -> None:
        self.last = ended.outcome
        self._publish(
            ContextRan(
                self.asker,
                time.time(),
                ended.command,
                ended.run,
                ended.limits,
                ended.outcome,
                ended.printed,
                ended.truncated,
            )
        )

    # The end

    def shut(self, reason: str) -> None:
        """Take no more commands; those that wait are told at once."""
        self.closed = reason
        for waiting in tuple(self._waiting):
            waiting.cancel()

    async def end(self, reason: str, escalation: Escalation | None) -> None:
        """End what runs in it, once it is shut, and wait until whoever asked for it was told.

        Raises: ProcessError when some of it could not be ended.
        """
        try:
            if self._run is not None:
                await self._run.kill(reason, escalation)
        except ProcessError:
            self._let_go()
            if self._attending is not None:
                self._attending.cancel()
            raise
        finally:
            async with self._turn:
                pass


def _outcome(run: Run) -> Outcome:
    """How it ended, with the program's name instead of its path, which the caller did not give."""
    outcome = run.outcome or Outcome(State.KILLED, ExitStatus(), run.elapsed, leaked=True)
    if outcome.error is None or not run.command.argv:
        return outcome
    program = run.command.argv[0]
    return replace(outcome, error=outcome.error.replace(program, PurePath(program).name))
