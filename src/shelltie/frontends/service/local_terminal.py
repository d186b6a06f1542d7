"""LocalTerminal: the TerminalProvider of TerminalService that runs on our engine."""

import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from shelltie.errors import CommandDenied, InvalidParameters, UnknownSession
from shelltie.frontends.api import Options, parse_options
from shelltie.frontends.reports.run_report import report
from shelltie.frontends.reports.session_report import merged, refusal_text
from shelltie.frontends.service.terminal_provider import (
    ExecuteCommandOptions,
    ExecuteCommandResult,
    InteractiveSessionOptions,
    InteractiveTerminalOutput,
    OutputWaitOptions,
    SessionStatus,
)
from shelltie.model import Caller, Command, Limits, TerminalSize
from shelltie.output.text import clean
from shelltie.running.options import Requester, RunOptions
from shelltie.running.retry import Attempts
from shelltie.running.supervisor import Supervisor
from shelltie.sessions import keys
from shelltie.sessions.registry import Sessions
from shelltie.sessions.session import Session
from shelltie.settings.all_settings import Waiting

DEFAULT_TIMEOUT = 120.0
_NO_LIMIT = Limits(None, None, "sessions have no limit")


class LocalTerminal:
    """Commands and sessions of one agent. Relative directories begin at `root`."""

    def __init__(
        self,
        supervisor: Supervisor,
        sessions: Sessions,
        owner: str,
        root: Path,
        place: str | None = None,
    ) -> None:
        self._place = place
        self._supervisor = supervisor
        self._sessions = sessions
        self._owner = owner
        self._root = root
        self._requester = Requester(Caller(agent=owner))

    def placed(self, place: str) -> "LocalTerminal":
        """The same agent, by a provider of that name."""
        return LocalTerminal(self._supervisor, self._sessions, self._owner, self._root, place)

    def _wish(self, profile: str | None, limits: Limits) -> RunOptions:
        return RunOptions(
            profile,
            limits,
            requester=self._requester,
            provider=self._place,
            workspace=str(self._root),
        )

    async def execute_command(
        self, command: str, args: Sequence[str], options: ExecuteCommandOptions
    ) -> ExecuteCommandResult:
        """Run a program without a shell; "npm install" without arguments is split into words."""
        words = [command, *args]
        if not args and shutil.which(command) is None:
            words = _split(command)
        return await self._run(words, options)

    async def run_script(
        self, script: str, options: ExecuteCommandOptions, profile: str | None = "run"
    ) -> ExecuteCommandResult:
        """Run a shell text; without a `profile` it was allowed already."""
        return await self._run(script, options, profile)

    async def _run(
        self,
        command: str | list[str],
        options: ExecuteCommandOptions,
        profile: str | None = "run",
    ) -> ExecuteCommandResult:
        cwd = self._directory(options.working_directory)
        asked = Options(cwd=cwd, env=options.env, stdin=options.input)
        made, _ = parse_options(command, asked)
        timeout = options.timeout_seconds or DEFAULT_TIMEOUT
        try:
            limits = Limits(timeout, None, "timeoutSeconds")
            attempts = Attempts(self._wish(profile, limits), 0, None)
            while (chosen := await attempts.next()) is not None:
                attempts.runs.append(await self._supervisor.run(made, chosen))
        except CommandDenied as refusal:
            return ExecuteCommandResult(
                ok=False, output="", exit_code=126, stdout="", stderr="",
                error=refusal_text(refusal),
            )  # fmt: skip
        result = report(attempts.runs[-1])
        error = result.error
        if result.status == "timeout":
            error = f"timed out after {timeout:g} s"
        return ExecuteCommandResult(
            ok=result.status == "success",
            output=merged(result),
            exit_code=result.exit_code,
            stdout=result.stdout,
            stderr=result.stderr,
            error=error,
        )

    def _directory(self, given: str | None) -> Path:
        return self._root if given is None else self._root / given

    # Sessions

    async def start_interactive_session(self, options: InteractiveSessionOptions) -> str:
        """Start a process that stays.

        Raises: InvalidParameters, CommandDenied, TooManySessions.
        """
        made, _ = parse_options(
            options.command,
            Options(cwd=self._directory(options.working_directory), env=options.env),
        )
        command = Command(
            text=made.text,
            cwd=made.cwd,
            env=made.env,
            stdin=None if options.input is None else keys.line(options.input),
            stays_open=True,
            pty=TerminalSize() if options.pty else None,
        )
        wish = self._wish("session", _NO_LIMIT)
        session = await self._sessions.open(command, wish, self._owner, Waiting())
        return session.id

    async def send_input(self, session_id: str, text: str) -> None:
        """Type a line; its newline is added if it is missing.

        Raises: UnknownSession, CommandDenied, RunOver, InputFull.
        """
        session, line = self._session(session_id), keys.line(text)
        async with session.typing:
            await self._sessions.let_type(session, line, self._requester)
            session.send(line)

    async def collect_output(
        self, session_id: str, from_position: int, wait: OutputWaitOptions
    ) -> InteractiveTerminalOutput:
        """What it printed from a position on, once it is an answer.

        Raises: UnknownSession, InvalidParameters.
        """
        session = self._session(session_id)
        waiting = Waiting(wait.min_interval, wait.settle_interval, wait.max_interval)
        reading = await session.read(from_position, waiting)
        session.mark_delivered(reading.start - reading.skipped, reading.end)
        return InteractiveTerminalOutput(
            output=clean(reading.text.encode("utf-8", "surrogateescape")),
            new_position=reading.end,
            is_complete=reading.complete,
            exit_code=None if reading.exit is None else reading.exit.number,
            skipped=reading.skipped,
        )

    async def terminate_session(self, session_id: str) -> None:
        """End its whole tree and forget it.

        Raises: UnknownSession.
        """
        await self._sessions.stop(session_id, self._owner)

    def get_session_status(self, session_id: str) -> SessionStatus | None:
        """How it is doing; `None` if there is no such session."""
        try:
            return status_of(self._session(session_id))
        except UnknownSession:
            return None

    def get_isolation_level(self) -> str:
        """Truthfully."""
        placement = self._supervisor.placement
        name = self._place
        provider = placement.default if name is None else placement.providers[name]
        return str(provider.isolation)

    def list_sessions(self) -> list[Session]:
        """All of this agent."""
        return self._sessions.owned_by(self._owner)

    async def terminate_all(self, reason: str) -> None:
        """End every session of this agent."""
        await self._sessions.stop_all(self._owner, reason)

    def _session(self, session_id: str) -> Session:
        return self._sessions.get(session_id, self._owner)


def status_of(session: Session) -> SessionStatus:
    """A session's status as TerminalService names it."""
    outcome = session.run.outcome
    return SessionStatus(
        id=session.id,
        running=not session.complete,
        start_time=session.created,
        output_length=session.position,
        exit_code=None if outcome is None else outcome.exit.number,
    )


def _split(command: str) -> list[str]:
    """Words as a shell would see them, without any other feature of a shell.

    Raises: InvalidParameters.
    """
    try:
        return shlex.split(command) or [command]
    except ValueError as error:
        raise InvalidParameters(f"command cannot be split into words: {error}") from error
