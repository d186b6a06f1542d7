"""TerminalHost: create, output, wait_for_exit, kill and release on a supervisor."""

import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Self

import anyio
import anyio.to_thread

from shelltie.approval.broker import Channel
from shelltie.basics import validate
from shelltie.basics.frozen import frozen, mutable
from shelltie.basics.lazy_regex import lazy
from shelltie.errors import (
    CannotStart,
    ForeignTerminal,
    InvalidParameters,
    NoCapability,
    NoSuchTrial,
    ProcessError,
    TooManyTerminals,
    UnknownAcpSession,
    UnknownTerminal,
    parameter,
)
from shelltie.events import Event, RunEnded, RunStarted
from shelltie.frontends.acp.protocol import (
    OUTPUT_LIMIT,
    OUTPUT_LIMIT_MAX,
    CreatedTerminal,
    Meta,
    TerminalExit,
    TerminalOutput,
    span,
    variables,
)
from shelltie.frontends.acp.terminal import HostedTerminal, chosen, signal_number, without_folder
from shelltie.frontends.acp.timeouts import TerminalPolicy, limits_of
from shelltie.frontends.reports.run_report import rating_of
from shelltie.model import ISOLATION_LEVELS, OUTSIDE, Caller, Command, RunId, State, TerminalSize
from shelltie.running.options import Requester, RunOptions
from shelltie.running.run import Run
from shelltie.running.supervisor import Supervisor

_TERMINALS_MAX = 200  # terminals that were not released
_DECISIONS = ("apply", "discard", "undo")
_SHELL = lazy(r"[\s;&|<>()$`'\"*?#~]")  # what only a shell text has


@mutable
class _AcpSession:
    """A conversation of an agent: where its commands run, and by which rule they end."""

    cwd: str
    policy: TerminalPolicy | None
    terminals: dict[str, HostedTerminal] = field(default_factory=dict)
    trials: set[str] = field(default_factory=set)


@frozen
class HostSettings:
    """How a host behaves: `policy` is for every session that has none of its own."""

    policy: TerminalPolicy = field(default_factory=TerminalPolicy)
    profile: str = "acp"
    most: int = _TERMINALS_MAX
    redact: bool = False


class TerminalHost:
    """The terminals of one agent connection. Use it as `async with`: nothing of it is left then.

    `offered` is the capability `clientCapabilities.terminal`: while it is off, all is refused.
    With `pty` commands write to a real terminal of that size, else to a pipe.
    The five methods have the names and arguments of the ACP SDK, and may be called directly; what
    a message has in `_meta` are keyword arguments here.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        manners: HostSettings = HostSettings(),  # noqa: B008  frozen
        *,
        offered: bool = True,
        client: str = "",
    ) -> None:
        self.offered = offered
        self.client = client
        self.pty: TerminalSize | None = None
        self.sessions_opened = 0
        self.terminals_made = 0
        self._supervisor = supervisor
        self._manners = manners
        self._sessions: dict[str, _AcpSession] = {}
        self._opening = 0
        self._proving = anyio.Lock()  # many at once would leave as many threads behind
        self._beginning: dict[RunId, anyio.Event] = {}
        self._leave = supervisor.bus.subscribe(self._note_begun)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                for session in tuple(self._sessions):
                    tasks.start_soon(self.close_session, session)
        self._leave()

    # Sessions

    def open_session(
        self, session_id: str, cwd: str | Path, policy: TerminalPolicy | None = None
    ) -> None:
        """Let a session have terminals; one that is open keeps them, and gets these settings."""
        known = self._sessions.get(session_id)
        self.sessions_opened += known is None
        held = () if known is None else (known.terminals, known.trials)
        self._sessions[session_id] = _AcpSession(str(cwd), policy, *held)

    async def close_session(self, session_id: str) -> int:
        """Release all of its terminals; how many these were."""
        session = self._sessions.pop(session_id, None)
        terminals = [] if session is None else list(session.terminals.values())
        async with anyio.create_task_group() as tasks:
            for terminal in terminals:
                tasks.start_soon(_release_quietly, terminal)
        return len(terminals)

    def find(self, terminal_id: str) -> HostedTerminal | None:
        """The terminal of that id, whosever it is."""
        found = (session.terminals.get(terminal_id) for session in self._sessions.values())
        return next((terminal for terminal in found if terminal is not None), None)

    # The five methods

    async def create_terminal(
        self,
        session_id: str,
        command: str,
        args: Sequence[str] | None = None,
        env: Mapping[str, str] | Sequence[Mapping[str, str]] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
        *,
        channel: Channel | None = None,
        **meta: object,
    ) -> CreatedTerminal:
        """Start a command, and return as soon as it runs; after `timeoutMs` it is ended. On `trial`
        its changes are kept apart: `wait_for_terminal_exit` tells of them.

        Without arguments a text that is no program goes to a shell, as editors do it. Through
        `channel` a person is asked about it.
        Raises: CannotStart, CommandDenied, Misuse; and then nothing was started.
        """
        session = self._session(session_id)
        where = cwd or session.cwd
        if not Path(where).is_absolute():
            raise InvalidParameters(f"cwd must be an absolute path, not {where[:200]!r}")
        self._make_room()
        asked = understood(command, args, where, variables(env))
        if self.pty is not None:
            asked = in_terminal(asked, self.pty)
        wish = RunOptions(
            profile=self._manners.profile,
            limits=limits_of(
                asked.text, span(meta, "timeoutMs"), session.policy, self._manners.policy
            ),
            escalation=(session.policy or self._manners.policy).escalation,
            requester=Requester(Caller(client=self.client, session=session_id), channel),
            one_output=True,
            trial=parameter("trial", meta.get("trial", False), validate.json_boolean),
            isolation=_isolation(meta.get("isolation")),
        )
        self._opening += 1  # a question to a person may take long, and others come meanwhile
        try:
            run = await self._supervisor.start(asked, wish)
            await self._begun(run)
        finally:
            self._opening -= 1
        return self._hand_out(session_id, run, output_byte_limit)

    async def terminal_output(self, session_id: str, terminal_id: str) -> TerminalOutput:
        """What it has printed, and how it ended if it has.

        Raises: Misuse.
        """
        return self._terminal(session_id, terminal_id).output()

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **meta: object
    ) -> TerminalExit:
        """How it ended. After `timeoutMs` the answer is that it still runs; nothing is ended.

        Raises: Misuse.
        """
        terminal = self._terminal(session_id, terminal_id)
        with anyio.move_on_after(span(meta, "timeoutMs")):
            await terminal.run.wait()
            await self._supervisor.finish_trial(terminal.run)
            return terminal.exit()
        return TerminalExit(field_meta={**terminal.meta(), "waitTimedOut": True})

    async def kill_terminal(self, session_id: str, terminal_id: str, **meta: object) -> None:
        """End it and keep its id; what has ended stays as it ended.

        `signal` is sent first, and after `graceMs` SIGKILL. With `timedOut` it counts as ended by a
        timeout: its caller's own clock ran out.
        Raises: SignalFailed, KillFailed, Misuse.
        """
        terminal = self._terminal(session_id, terminal_id)
        number = None if meta.get("signal") is None else signal_number(meta["signal"])
        escalation = chosen(number, span(meta, "graceMs"))
        await terminal.kill(escalation, timed_out=meta.get("timedOut") is True)

    async def release_terminal(self, session_id: str, terminal_id: str) -> None:
        """End it if it runs. Its id means nothing from now on; who waits for its end gets that.

        Raises: SignalFailed, KillFailed, Misuse.
        """
        terminal = self._terminal(session_id, terminal_id)
        del self._sessions[session_id].terminals[terminal_id]
        await _release(terminal)

    async def decide_trial(
        self,
        session_id: str,
        trial_id: str,
        action: str,
        paths: Sequence[str] | None = None,
        *,
        channel: Channel | None = None,
    ) -> Meta:
        """Look at the changes of a session's own trial (`changes`), or `apply`, `discard` or `undo`
        them. To apply is asked about through `channel`, with the diff, where a rule says so.

        Raises: CommandDenied, Misuse, TrialError.
        """
        session, trials = self._session(session_id), self._supervisor.trials
        if trial_id not in session.trials or trials is None:
            raise NoSuchTrial(f"there is no trial {trial_id[:200]!r} of this session")
        if action == "changes":
            end = await trials.loaded.look(trial_id)
            diff = await anyio.to_thread.run_sync(end.changes.diff)
            told = diff.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            return {**without_folder(end.report()), "diff": told}
        if action not in _DECISIONS:
            raise InvalidParameters(f"action must be one of changes, {', '.join(_DECISIONS)}")
        if action == "apply":
            by = Requester(Caller(client=self.client, session=session_id), channel)
            done = await trials.loaded.apply(trial_id, paths, by)
        else:
            done = await getattr(trials.loaded, action)(trial_id, self.client)
        return {"id": done.id, "status": str(done.status), "note": done.why}

    # Finding

    def _session(self, session_id: str) -> _AcpSession:
        if not self.offered:
            raise NoCapability("the client does not offer terminals: clientCapabilities.terminal")
        session = self._sessions.get(session_id)
        if session is None:
            raise UnknownAcpSession(f"Session not found: {session_id[:200]}")
        return session

    def _terminal(self, session_id: str, terminal_id: str) -> HostedTerminal:
        terminal = self._session(session_id).terminals.get(terminal_id)
        if terminal is not None:
            return terminal
        if self.find(terminal_id) is not None:
            raise ForeignTerminal(f"Terminal {terminal_id[:200]} belongs to another session")
        raise UnknownTerminal(f"Terminal not found: {terminal_id[:200]}")

    def _make_room(self) -> None:
        held = sum(len(session.terminals) for session in self._sessions.values())
        if held + self._opening >= self._manners.most:
            raise TooManyTerminals(
                f"{held + self._opening} terminals are held, and {self._manners.most} may be:"
                " release those that have ended"
            )

    # Beginning

    def _note_begun(self, event: Event) -> None:
        if isinstance(event, RunStarted | RunEnded) and event.run in self._beginning:
            self._beginning[event.run].set()

    async def _begun(self, run: Run) -> None:
        """Return when it runs, and when it is known whether it is safe.

        Raises: CannotStart if it does not.
        """
        begun = anyio.Event()
        self._beginning[run.id] = begun
        try:
            if run.state is State.CREATED:
                await begun.wait()
            async with self._proving:
                await self._supervisor.confirm_safe(run)
        except BaseException:
            run.stop("nobody waits for it any more")
            raise
        finally:
            del self._beginning[run.id]
        if run.outcome is not None and run.state is State.SPAWN_FAILED:
            raise CannotStart(run.outcome.error or "it could not be started")

    def _hand_out(self, session_id: str, run: Run, limit: int | None) -> CreatedTerminal:
        session = self._sessions.get(session_id)
        if session is None:
            run.stop("its session was closed")
            raise UnknownAcpSession(f"Session not found: {session_id[:200]}")
        kept = OUTPUT_LIMIT if limit is None else min(limit, OUTPUT_LIMIT_MAX)
        terminal = HostedTerminal(
            f"term_{run.id}", session_id, run, kept, redact=self._manners.redact
        )
        session.terminals[terminal.id] = terminal
        if run.trial is not None:
            session.trials.add(run.trial.id)
        self.terminals_made += 1
        limits = run.rules.limits
        return CreatedTerminal(
            terminal.id,
            {
                "runId": str(run.id),
                "verdict": rating_of(run.verdict),
                "isolation": run.isolation,
                "limits": {"execSec": limits.total, "source": limits.source},
                "withheld": terminal.withheld,
                **({} if run.trial is None else {"trial": run.trial.id}),
            },
        )


def _isolation(said: object) -> str | None:
    known = validate.one_of(*ISOLATION_LEVELS, OUTSIDE)
    return None if said is None else parameter("isolation", said, known)


def understood(
    command: str, args: Sequence[str] | None, cwd: str, env: Mapping[str, str]
) -> Command:
    """A program with its arguments, to the letter; or, without any, perhaps a text for a shell.

    Raises: InvalidParameters.
    """
    if not command.strip():
        raise InvalidParameters("command is empty: name a program")
    if not args and _SHELL.search(command.strip()) and not _is_program(command, cwd):
        return Command(command, cwd=cwd, env=env)
    argv = (command, *(args or ()))
    return Command(shlex.join(argv), argv, cwd=cwd, env=env)


def in_terminal(asked: Command, size: TerminalSize) -> Command:
    """With a terminal to write to, in colours unless the call does not want them."""
    return replace(asked, pty=size, env={"NO_COLOR": None, **asked.env})


def _is_program(name: str, cwd: str) -> bool:
    with suppress(OSError, ValueError):  # no path can be so long, or have this in it
        return shutil.which(name) is not None or Path(cwd, name).is_file()
    return False


async def _release(terminal: HostedTerminal) -> None:
    with anyio.CancelScope(shield=True):  # its id is gone: nobody else could end it
        await terminal.release()
    if terminal.run.state is not State.RELEASED:
        terminal.run.move(State.RELEASED)


async def _release_quietly(terminal: HostedTerminal) -> None:
    with suppress(ProcessError):  # the leash goes on trying, and the run's events say so
        await _release(terminal)
