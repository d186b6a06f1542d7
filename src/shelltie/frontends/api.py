"""Python API: `shelltie.run`, `run_sync`, and `Terminal` for many commands."""

import asyncio
import os
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

import anyio
import anyio.to_thread

from shelltie.approval.broker import Callback, CallbackChannel
from shelltie.assemble import assemble
from shelltie.assemble_parts import policy_file
from shelltie.basics.frozen import replace
from shelltie.basics.times import seconds
from shelltie.environment import child
from shelltie.errors import InvalidParameters
from shelltie.events import Publish
from shelltie.frontends.control.presence import Presence
from shelltie.frontends.files import Files, absolute_path, checked_path, encode_text
from shelltie.frontends.reports import terminal_events
from shelltie.frontends.reports.run_report import Result, report
from shelltie.limits.resolve import AskedLimits
from shelltie.model import (
    UNLIMITED,
    Caller,
    Command,
    Escalation,
    LimitNames,
    Resources,
    Survivors,
    TerminalSize,
)
from shelltie.providers.provider import Provider
from shelltie.running import retry
from shelltie.running.on_trial import TrialReport
from shelltie.running.options import Requester, RunOptions
from shelltie.running.run import Run
from shelltie.running.staying_note import StayingNote
from shelltie.running.staying_run import StayingRun
from shelltie.running.supervisor import Supervisor
from shelltie.settings.all_settings import StateSettings
from shelltie.settings.config import Config
from shelltie.settings.layers import load

PYTHON_NAMES = LimitNames("timeout", "silence")


class Options(TypedDict, total=False):
    """What may be said about a command; all of it may be left out.

    `timeout` and `silence` are seconds, and 0 or None leaves them to the policy, except that a
    silence of 0 switches that clock off. With a `timeout` alone the silence limit is the policy's,
    or a quarter of the timeout (60 s at most) if that is longer.
    `env` adds to the environment; None unsets a name. With `retry` (at most 2) a command that is
    proved to change nothing is run again after a timeout, with twice the time, and any that could
    not be started for reasons that may pass.
    `isolation` is none, sandbox, container, auto (the strongest that works) or outside (none, and
    a person is asked: for what isolation has blocked), `provider` a place by its name; an isolated
    command may write in `workspace`, or else in `cwd`. `at` is a place of the settings
    (`[places.NAME]`): another machine, where a relative `cwd` begins at the place's directory.
    On `trial` nothing real is written: `result.trial` says what was changed, and applies or
    discards it. With `one_output` errors go where the output goes, in the order in which they were
    printed; two pipes would lose that.
    """

    timeout: float | None
    silence: float | None
    cwd: str | os.PathLike[str] | None
    env: Mapping[str, str | None] | None
    stdin: str | bytes | None
    pty: bool | TerminalSize
    resources: Resources
    escalation: Escalation | None
    survivors: Survivors | None
    isolation: str | None
    provider: str | None
    at: str | None
    workspace: str | os.PathLike[str] | None
    retry: int
    trial: bool
    one_output: bool


class Terminal:
    """Runs commands on leashes. Use it as `async with`: nothing it started outlives it, but what
    was started to stay.

    `approve` is asked about commands that need a yes; without it they are refused. `caller` is for
    whom they run: the record and `shelltie ps` say so. `providers` are places to run beside our
    own, for calls that name them. `limit_names` are what hints and sources call the two limits.
    """

    def __init__(
        self,
        config: Config | None = None,
        publish: Publish | None = None,
        approve: Callback | None = None,
        caller: Caller | None = None,
        providers: Sequence[Provider] = (),
        limit_names: LimitNames = PYTHON_NAMES,
    ) -> None:
        project = Path.cwd()
        self._config = config or load(project)
        self._policy = policy_file(self._config, project)
        self._publish = publish
        self._approve = approve
        self._providers = providers
        self._requester = Requester(caller or Caller())
        self._limit_names = limit_names
        self._supervisor: Supervisor | None = None
        self._opened: tuple[int, asyncio.AbstractEventLoop] | None = None
        self._closing = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            asyncio.get_running_loop()
        except RuntimeError as error:
            raise InvalidParameters(
                "a Terminal runs on asyncio: elsewhere, as with trio, call a SyncTerminal in a"
                " thread (trio.to_thread.run_sync)"
            ) from error
        if self._is_open:
            raise InvalidParameters(
                "this terminal is open already: make another one for another `async with`"
            )
        self._opened = os.getpid(), asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            stack.callback(self._forget)
            supervisor = self._supervisor = assemble(
                self._config, self._policy, self._publish, providers=self._providers
            )
            if self._approve is not None:
                supervisor.admission.broker.add(CallbackChannel(self._approve))
            presence = Presence(supervisor, child.inherited(), self._requester.caller.client)
            stack.push_async_exit(presence)
            stack.push_async_exit(supervisor)  # which is left first
            await supervisor.__aenter__()
            await presence.__aenter__()
            self._closing = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._closing.aclose()

    @property
    def _is_open(self) -> bool:
        """In this process, and not in an event loop that ended without closing it."""
        if self._opened is None:
            return False
        pid, loop = self._opened
        return pid == os.getpid() and not loop.is_closed()

    def _forget(self) -> None:
        self._opened = None

    @property
    def supervisor(self) -> Supervisor:
        """The engine itself."""
        if self._supervisor is None:
            raise InvalidParameters("open the terminal first: async with Terminal() as terminal")
        return self._supervisor

    @property
    def trials(self) -> Any:  # noqa: ANN401  `Trials`, which is imported when it is used
        """What was run on trial, by whomever: look at its changes, apply, discard or undo them."""
        trials = self.supervisor.trials
        assert trials is not None  # else nobody assembled it
        return trials.loaded

    @property
    def files(self) -> Files:
        """The files where its commands run: those of the current directory. `files.at(…)` has those
        of another workspace, as an isolated command sees them.
        """
        return Files(self.supervisor, self._requester.caller, str(Path.cwd()))

    def subscribe(self, listen: Callable[[Any], None], *names: str) -> Callable[[], None]:
        """Tell `listen` of everything that happens, until what is returned is called.

        With names of terminal events (`terminal:command:failed`, or short `command:failed`), only
        of those, as JSON objects. It is called on the event loop and must be quick.
        Raises: InvalidParameters for a name that there is not.
        """
        heard = terminal_events.listener(names, listen) if names else listen
        return self.supervisor.bus.subscribe(heard)

    async def run(self, command: str | Sequence[str], **options: Unpack[Options]) -> Result:
        """Run a command to its end: a text goes to a shell, a list does not.

        Raises: InvalidParameters, CommandDenied, IsolationUnavailable; then nothing was started.
        """
        made, first = self._understood(command, options)
        again = retry.checked(options.get("retry", self._config.retry.attempts))
        attempts = retry.Attempts(first, again, self.supervisor.max_total)
        while (chosen := await attempts.next()) is not None:
            attempts.runs.append(await self.supervisor.run(made, chosen))
        runs, notes = attempts.runs, attempts.notes()
        result = report(runs[-1], redact=self._config.output.redact, attempts=runs, notes=notes)
        if result.trial is None:
            return result
        told = (getattr(result.trial, f.name) for f in fields(result.trial))
        return replace(result, trial=FinishedTrial(*told))

    async def start(
        self, command: str | Sequence[str], *, stays: bool = False, **options: Unpack[Options]
    ) -> Run:
        """Start a command and go on; wait with `run.wait()`, then `report(run)` is the result.

        What `stays` outlives this program, however that ends, until its total limit or
        `stay.lease`; its input stays open (`run.input`), and `adopt(run.id)` holds it again.
        Raises: InvalidParameters, CommandDenied, IsolationUnavailable; then nothing was started.
        """
        made, chosen = self._understood(command, options)
        if stays:
            made, chosen = _to_stay(made, chosen)
        return await self.supervisor.start(made, chosen)

    def staying(self) -> tuple[StayingNote, ...]:
        """What stays of this user, whoever started or holds it: `adopt(note.run)` holds it."""
        return tuple(self.staying_runs.notes())

    async def adopt(self, run: str, *, take: bool = False) -> Run:
        """Hold what stays, by its id: its output from the first byte that is kept, its input, its
        end, and `kill`. With `take` another program that holds it lets go.

        Raises: UnknownRun; CannotStart if another program holds it.
        """
        client = self._requester.caller.client
        adopted: Run = await self.staying_runs.adopt(run, client, take=take)
        if isinstance(adopted, StayingRun):
            adopted.mark_read()
        return adopted

    @property
    def staying_runs(self) -> Any:  # noqa: ANN401  `StayingRuns`, which is imported when it is used
        """What stays, to be ended whoever holds it."""
        from shelltie.running.staying_runs import StayingRuns  # few programs have such

        return StayingRuns(self.supervisor)

    def _understood(self, command: object, options: Options) -> tuple[Command, RunOptions]:
        if unknown := options.keys() - Options.__annotations__.keys():
            names = " or ".join(sorted(unknown))
            raise InvalidParameters(f"no option {names}: `shelltie.Options` has those there are")
        return parse_options(command, _own(options), self._requester, self._limit_names)


class FinishedTrial(TrialReport):
    """A trial that is over, and what can be done with it. A program decides here: no rule does."""

    async def diff(self) -> str:
        """What it changed, as a unified diff."""
        async with self._trials() as trials:
            end = await trials.look(self.id)
            diff: str = await anyio.to_thread.run_sync(end.changes.diff)
            return diff

    async def apply(self, *paths: str) -> None:
        """Make its changes real: those of these paths, or all.

        Raises: TrialError if it cannot be done, and then nothing was; NoSuchTrial, TrialOver.
        """
        async with self._trials() as trials:
            await trials.apply(self.id, paths or None, None)

    async def discard(self) -> None:
        """Forget its changes.

        Raises: NoSuchTrial, TrialOver.
        """
        async with self._trials() as trials:
            await trials.discard(self.id)

    async def undo(self) -> None:
        """Have everything as it was before `apply`.

        Raises: TrialError if that cannot be done, and then nothing was; NoSuchTrial, TrialOver.
        """
        async with self._trials() as trials:
            await trials.undo(self.id)

    @asynccontextmanager
    async def _trials(self) -> AsyncIterator[Any]:
        # What it became is recorded where the command is: beside its trial.
        state = StateSettings(str(Path(self.folder).parent.parent))
        async with Terminal(replace(load(Path.cwd()), state=state)) as terminal:
            yield terminal.trials


async def run(command: str | Sequence[str], **options: Unpack[Options]) -> Result:
    """Run one command to its end, in a terminal of its own; see `Terminal.run`."""
    async with Terminal() as terminal:
        return await terminal.run(command, **options)


def run_sync(command: str | Sequence[str], **options: Unpack[Options]) -> Result:
    """`run` for programs without an event loop.

    Raises: as that; InvalidParameters where an event loop runs, as it would wait for itself.
    """

    async def once() -> Result:
        return await run(command, **options)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return anyio.run(once)
    raise InvalidParameters("run_sync would block the event loop that runs here: await run(…)")


def _to_stay(command: Command, options: RunOptions) -> tuple[Command, RunOptions]:
    """Raises: InvalidParameters for what cannot be kept for a program that comes later."""
    if command.stdin is not None or options.trial or options.survivors is not None:
        raise InvalidParameters(
            "what stays takes no stdin (write to `run.input`), no trial and no survivors"
        )
    return replace(command, stays_open=True), replace(options, stays=True)


def _own(options: Options) -> Options:
    """A program may write where it says its command runs, while an agent may only say where."""
    if options.get("workspace") is None and options.get("cwd") is not None:
        return {**options, "workspace": options["cwd"]}
    return options


def parse_options(
    command: object,
    options: Options,
    requester: Requester = Requester(),  # noqa: B008  frozen
    limit_names: LimitNames = PYTHON_NAMES,
) -> tuple[Command, RunOptions]:
    """What a caller gave, in our words.

    Raises: InvalidParameters.
    """
    text, argv = _words(command)
    pty, stdin, cwd = options.get("pty"), options.get("stdin"), options.get("cwd")
    workspace = options.get("workspace")
    made = Command(
        text=text,
        argv=argv,
        cwd="." if cwd is None else checked_path("cwd", cwd),
        env=dict(options.get("env") or {}),
        stdin=encode_text("stdin", stdin) if isinstance(stdin, str) else stdin,
        pty=pty if isinstance(pty, TerminalSize) else TerminalSize() if pty else None,
        resources=options.get("resources") or UNLIMITED,
    )
    limits = asked(options.get("timeout"), options.get("silence"), limit_names)
    return made, RunOptions(
        limits=limits,
        escalation=options.get("escalation"),
        survivors=options.get("survivors"),
        requester=requester,
        isolation=options.get("isolation"),
        provider=options.get("provider"),
        at=options.get("at"),
        trial=bool(options.get("trial")),
        one_output=bool(options.get("one_output")),
        workspace=None if workspace is None else absolute_path("workspace", workspace),
    )


def asked(timeout: object, silence: object, names: LimitNames) -> AskedLimits:
    """The limits a caller gave, by these names.

    Raises: InvalidParameters.
    """
    try:
        return AskedLimits(
            total=seconds(timeout, names.total),
            silence=seconds(silence, names.silence),
            silence_off=silence == 0,
            names=names,
        )
    except ValueError as error:
        raise InvalidParameters(str(error)) from error


def _words(command: object) -> tuple[str, tuple[str, ...] | None]:
    if isinstance(command, str):
        return command, None
    if isinstance(command, Sequence) and command and all(isinstance(w, str) for w in command):
        argv = tuple(map(str, command))
        return shlex.join(argv), argv
    raise InvalidParameters(
        f"command must be a text or a list of texts, not {type(command).__name__}"
    )
