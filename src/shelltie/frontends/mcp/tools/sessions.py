"""MCP tools `bash` and `terminal_*`: interactive sessions for dev servers, prompts, REPLs."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio.to_thread
from mcp_types import CallToolResult

from shelltie.basics.frozen import frozen
from shelltie.basics.json_codec import as_json
from shelltie.basics.safe_regex import Pattern, compile_for_output
from shelltie.environment import child
from shelltie.errors import InvalidParameters, RunOver, TerminalError, UnknownSession
from shelltie.frontends.api import Options, asked, parse_options
from shelltie.frontends.mcp.request import FollowedRun, ToolCall
from shelltie.frontends.mcp.run_to_session import Handover, advice, running_fields
from shelltie.frontends.mcp.tools import session_schemas as schemas
from shelltie.frontends.mcp.tools.schema import lean, read, result
from shelltie.frontends.reports import lost_run
from shelltie.frontends.reports import session_report as said
from shelltie.frontends.reports.run_report import (
    outside_lines,
    report,
    status_of,
    timeout_reason,
)
from shelltie.frontends.reports.session_report import RedactedReading
from shelltie.model import AUTO, Command, Isolation, LimitNames, Limits, State, TerminalSize
from shelltie.output.redact import Redactor
from shelltie.output.screen import Screen
from shelltie.output.text import crop
from shelltie.running.options import RunOptions
from shelltie.running.retry import Attempts
from shelltie.running.staying_run import StayingRun
from shelltie.sessions import keys
from shelltie.sessions.session import Session, SessionReading, checked_size
from shelltie.sessions.shell import CommandEnd, ShellSession, Start, open_shell
from shelltie.sessions.staying_sessions import StayingSessions
from shelltie.settings.all_settings import Waiting

_LONG = 64 * 1024
_OUTSIDE = 'the tool run with this command and isolation "outside".'
_ALWAYS = ("id", "output", "position", "complete", "running", "status")
_ZERO_COUNTS = ("exitCode", "readFrom", "found", "ended", "cursorRow", "cursorColumn")
_LISTED = ("id", "command", "position", "running", "status", "uptimeSeconds")
_LIMIT_NAMES = LimitNames("timeoutSeconds", "silenceSeconds")


@frozen
class SessionSettings:
    """How sessions behave unless a call says otherwise."""

    waiting: Waiting
    crop: int
    bash_timeout: float
    shown: int  # bytes of what `bash` printed, for programs
    redact: bool = False


class SessionTools:
    """The tools of all clients; each sees its own sessions only."""

    def __init__(
        self, handover: Handover, settings: SessionSettings, staying: StayingSessions
    ) -> None:
        self._handover = handover
        self._staying = staying
        self._supervisor = handover.supervisor
        self._sessions = handover.sessions
        self._settings = settings
        own = child.sift(child.inherited()).secrets
        self._for_lost = Redactor(own) if settings.redact else None  # theirs died with their server
        self._shells: dict[str, ShellSession] = {}
        self._screens: dict[str, Screen] = {}

    async def bash(self, call: ToolCall) -> CallToolResult:
        """Run a command to its end, by stricter rules than `run`."""
        command, _ = parse_options(read(call.arguments, schemas.BashArguments).command, Options())
        limits = Limits(self._settings.bash_timeout, None, "bash.timeoutSeconds")
        options = RunOptions("bash", limits, requester=call.requester)
        attempts = Attempts(options, 0, None)
        session = None
        while (again := await attempts.next()) is not None:
            attempts.runs.append(await self._handover.supervisor.start(command, again))
            session = await self._handover.wait(FollowedRun(attempts.runs[-1]), call)
        run = attempts.runs[-1]
        made = report(run, redact=self._settings.redact, notes=attempts.notes())
        brief = report(run, self._settings.shown, redact=self._settings.redact)
        shown = len(said.merged(made)) <= self._settings.crop
        answer: dict[str, object] = {
            "ok": made.status == "success",
            "status": made.status,
            "output": crop(said.merged(made), self._settings.crop, ""),
            "exitCode": made.exit_code,
            "stdout": brief.stdout,
            "stderr": brief.stderr,
            "truncated": brief.truncated or not shown,
            "outputFile": made.output_file,
            "timeoutReason": made.timeout_reason,
            "isolation": made.isolation,
            "warnings": [*made.warnings],
        }
        answer = lean(answer, ("ok", "status", "output", "exitCode", "stdout", "stderr"))
        if session is not None:
            answer |= {"ok": None, **running_fields(session, shown=shown)}
            text = said.running_text(made, advice(session), self._settings.crop)
            return result(answer, ok=True, text=text)
        problem = said.problem_of(made, self._settings.crop)
        text = said.result_text(made.exit_code, said.merged(made), problem, self._settings.crop)
        if made.outside is not None:
            lines = [made.hint or "", *outside_lines(made, _OUTSIDE)]
            answer |= {"outside": made.outside, "hint": " ".join(filter(None, lines))}
            text = "\n".join((text, *filter(None, lines)))
        return result(answer, ok=True, text=text)

    async def start(self, call: ToolCall) -> CallToolResult:
        """Start what stays, and read what it first prints."""
        given = read(call.arguments, schemas.StartArguments)
        waiting, wait_for = self._waiting(given.max_wait, call), _pattern(given.wait_for)
        if given.stays:
            _check_can_stay(given)
        if given.mode == "shell":
            return await self._start_shell(given, call, waiting, wait_for)
        command, limits = _command(given), _limits(given)
        options = RunOptions(
            "session",
            limits,
            requester=call.requester,
            isolation=given.isolation,
            trial=given.trial,
            at=given.at,
            stays=given.stays,
        )
        session = await self._sessions.open(command, options, call.owner, self._settings.waiting)
        self._staying.remember(session, call.who)
        self._handover.note_trial(session.run, call.owner)
        call.follow(FollowedRun(session.run))
        made = self._read(session, await session.exchange(b"", waiting, wait_for))
        return result(_fields(made), ok=True, text=said.started_text(made))

    async def _start_shell(
        self,
        given: schemas.StartArguments,
        call: ToolCall,
        waiting: Waiting,
        wait_for: Pattern | None,
    ) -> CallToolResult:
        if given.at is not None:
            raise InvalidParameters(
                'a session of mode "shell" runs here: leave `at` out, or start `bash` there in mode'
                ' "program"'
            )
        command = _shell_command(given)
        size, typed = command.pty or TerminalSize(), command.stdin
        start = Start(
            command.cwd,
            command.env,
            size,
            _limits(given),
            call.requester,
            typed,
            given.isolation,
            given.trial,
        )
        shell = await open_shell(self._sessions, self._supervisor, call.owner, command.text, start)
        self._forget_ended()
        self._shells[shell.session.id] = shell
        self._handover.note_trial(shell.session.run, call.owner)
        call.follow(FollowedRun(shell.session.run))
        made = self._ended(shell, await shell.follow(waiting, wait_for))
        return result(_fields(made), ok=True, text=said.started_text(made))

    async def go_on(self, call: ToolCall) -> CallToolResult:
        """Type into a session, and read on."""
        given = read(call.arguments, schemas.ContinueArguments)
        waiting, wait_for = self._waiting(given.max_wait, call), _pattern(given.wait_for)
        typed = _typed(given)
        session = await self._session(given.session_id, call)
        call.follow(FollowedRun(session.run))
        shell = self._shells.get(session.id)
        types = bool(typed) or given.end
        _check_kind(session, shell, given.command, typed=types)
        if given.rows is not None or given.columns is not None:
            session.resize(_size(given.rows, given.columns, session.size))
        if shell is not None and given.command is not None:
            end = await shell.run(given.command, waiting, wait_for, call.requester)
            return _continued(self._ended(shell, end))
        if shell is not None:
            if types:
                async with session.typing:
                    await shell.let_type(typed, call.requester, end=given.end)
                    shell.type(typed, end=given.end)
            return _continued(self._ended(shell, await shell.follow(waiting, wait_for)))
        if not types:
            reading = await session.exchange(b"", waiting, wait_for)
            return _continued(self._read(session, reading))
        if session.complete:
            return self._too_late(session)
        async with session.typing:
            await self._sessions.let_type(session, typed, call.requester, end=given.end)
            reading = await session.exchange(typed, waiting, wait_for, end=given.end)
            return _continued(self._read(session, reading))

    def _too_late(self, session: Session) -> CallToolResult:
        """Nobody reads the input any more; what is left to read is here, with its exit code."""
        reading = session.reading(session.cursor)
        session.cursor = reading.position
        made = self._read(session, reading)
        problem = f"{session.id} has ended, so nobody has read your input; this is the rest"
        answer = {"error": problem, "errorCode": RunOver.code, **_fields(made)}
        return result(answer, ok=False, text=f"{problem}\n\n{said.continued_text(made)}")

    async def output(self, call: ToolCall) -> CallToolResult:
        """Read what a session printed, from any position, or its screen."""
        given = read(call.arguments, schemas.OutputArguments)
        limit, raw = given.limit or self._settings.crop, given.view == "raw"
        try:
            session = await self._known(given.session_id, call)
        except UnknownSession:
            gone = await lost_run.find(self._supervisor, call.requester, given.session_id)
            if gone is None:
                raise await self._unknown(given.session_id, call) from None
            redactor = self._for_lost
            return _continued(
                await lost_run.report(gone, given.start, limit, raw=raw, redactor=redactor)
            )
        if given.view == "screen":
            return await self._screen(session)
        reading = await session.read(given.start)
        discretion = self._about(session, reading.start)
        make = partial(self._shown, session, reading, discretion, raw=raw, limit=limit)
        # What is long and full of escapes takes a second to clean; others have their turns.
        return _continued(await anyio.to_thread.run_sync(make) if limit > _LONG else make())

    async def _screen(self, session: Session) -> CallToolResult:
        size = session.size
        if size is None:
            raise InvalidParameters("this session has pipes and no terminal, so it has no screen")
        self._forget_ended()
        screen = self._screens[session.id] = self._screens.get(session.id) or Screen(size)
        shown, discretion = await screen.show(session.run.output, size), self._about(session, 0)
        text = shown.text if discretion is None else discretion.screen(shown, size.columns)
        return _continued(said.screen_report(session, shown, text))

    def _about(self, session: Session, start: int) -> RedactedReading | None:
        return RedactedReading.about(session, start) if self._settings.redact else None

    def _read(self, session: Session, reading: SessionReading) -> said.SessionReport:
        return self._shown(session, reading, self._about(session, reading.start))

    def _shown(
        self,
        session: Session,
        reading: SessionReading,
        discretion: RedactedReading | None,
        *,
        raw: bool = False,
        limit: int | None = None,
    ) -> said.SessionReport:
        """What is shown of a reading; a session stays until all of it was."""
        most = self._settings.crop if limit is None else limit
        made = said.session_report(session, reading, raw=raw, limit=most, discretion=discretion)
        return _delivered(session, reading, made)

    def _ended(self, shell: ShellSession, end: CommandEnd) -> said.SessionReport:
        reading, most = end.reading, self._settings.crop
        discretion = self._about(shell.session, reading.start)
        made = said.command_report(shell.session, end, limit=most, discretion=discretion)
        return _delivered(shell.session, reading, made)

    def _forget_ended(self) -> None:
        known = {session.id for session in self._sessions.all()}
        for kept in (self._shells, self._screens):
            for session_id in [one for one in kept if one not in known]:
                del kept[session_id]

    async def stop(self, call: ToolCall) -> CallToolResult:
        """End a session."""
        given = read(call.arguments, schemas.StopArguments)
        session = await self._session(given.session_id, call)
        await self._sessions.stop(session.id, call.owner)
        outcome = session.run.outcome
        answer = {
            "id": session.id,
            "stopped": True,
            "exitCode": None if outcome is None else outcome.exit.number,
            "status": status_of(outcome),
            "timeoutReason": timeout_reason(outcome),
            "cancelled": outcome is not None and outcome.state is State.KILLED,
        }
        told = lean(answer, ("id", "stopped", "status"), ("exitCode",))
        return result(told, ok=True, text=said.stopped_text(session.id))

    async def list_all(self, call: ToolCall) -> CallToolResult:
        """The client's sessions, and what was lost here."""
        read(call.arguments, schemas.ListArguments)
        await self._staying.take_up(call.who)
        sessions = self._sessions.owned_by(call.owner)
        gone = lost_run.nearby(
            await lost_run.lost_runs(self._supervisor, call.requester), Path.cwd()
        )
        answer: dict[str, object] = {
            "sessions": [_lean(as_json(said.listed(one)), _LISTED) for one in sessions]
        }
        if gone:
            answer["lost"] = [lost_run.listed(one) for one in gone]
        return result(answer, ok=True, text=said.list_text(sessions) + lost_run.list_text(gone))

    async def _session(self, session_id: str, call: ToolCall) -> Session:
        """The session a call is about.

        Raises: UnknownSession, which says what became of it.
        """
        try:
            return await self._known(session_id, call)
        except UnknownSession:
            raise await self._unknown(session_id, call) from None

    async def _known(self, session_id: str, call: ToolCall) -> Session:
        """The same, or one that another server has left. Raises: UnknownSession."""
        await self._staying.meet(call.who)
        try:
            return self._sessions.get(session_id, call.owner)
        except UnknownSession:
            found = await self._staying.find(session_id, call.who)
            if found is None:
                raise
            return found

    async def _unknown(self, session_id: str, call: ToolCall) -> UnknownSession:
        return await self._sessions.explain(session_id, call.owner, call.requester.caller.client)

    def _waiting(self, most: float | None, call: ToolCall) -> Waiting:
        waiting = replace(self._settings.waiting, until=call.until)
        return waiting if most is None else replace(waiting, most=most)


def refused(error: TerminalError) -> CallToolResult:
    """Why nothing was done."""
    answer = {"error": str(error), "errorCode": error.code, **lean(said.details(error))}
    return result(answer, ok=False, text=said.refusal_text(error))


def _continued(made: said.SessionReport) -> CallToolResult:
    return result(_fields(made), ok=True, text=said.continued_text(made))


def _fields(made: said.SessionReport) -> dict[str, object]:
    """What a program is told: what every answer has, and whatever else is not empty or as usual."""
    usual = None if made.isolation == "none" else made.isolation
    return _lean(as_json(replace(made, isolation=usual)), _ALWAYS)


def _lean(answer: dict[str, object], always: tuple[str, ...]) -> dict[str, object]:
    """Without what is empty; `ports` is null where none can be reached, which is worth a word."""
    kept = (*always, "ports") if answer.get("ports", ()) is None else always
    return lean(answer, kept, _ZERO_COUNTS)


def _delivered(
    session: Session, reading: SessionReading, made: said.SessionReport
) -> said.SessionReport:
    """Note what the client has been told; a warning is told once."""
    session.mark_delivered(reading.start - reading.skipped, made.read_from or reading.end)
    session.warnings_told = len(session.run.warnings)
    if isinstance(session.run, StayingRun):
        session.run.remember_position(session.cursor)
        if session.delivered:
            session.run.mark_read()
    return made


def _command(given: schemas.StartArguments) -> Command:
    """What to start.

    Raises: InvalidParameters.
    """
    text, changes = given.command, dict[str, str | None](given.env or {})
    if given.pty:
        text, changes = child.with_chosen_programs(text, changes)
    command, _ = parse_options(text, {"cwd": given.cwd, "env": changes})
    return replace(
        command,
        stays_open=True,
        stdin=None if given.stdin is None else keys.line(given.stdin),
        pty=_size(given.rows, given.columns) if given.pty else None,
    )


def _limits(given: schemas.StartArguments) -> Limits:
    limits = asked(given.timeout, given.silence, _LIMIT_NAMES)
    source = "the call" if limits.total or limits.silence else "sessions have no limit"
    return Limits(limits.total, limits.silence, source, literal=True, names=_LIMIT_NAMES)


def _check_can_stay(given: schemas.StartArguments) -> None:
    """Raises: InvalidParameters."""
    if given.mode == "shell":
        raise InvalidParameters('mode "shell" cannot stay: start a program, such as bash, to stay')
    if given.trial or given.at or given.isolation not in (None, AUTO, Isolation.NONE):
        raise InvalidParameters(
            "what stays runs here, without isolation and not on trial: leave out `isolation`,"
            " `trial` and `at`, or `stays`"
        )


def _shell_command(given: schemas.StartArguments) -> Command:
    """The first command of a shell.

    Raises: InvalidParameters.
    """
    if not given.pty:
        raise InvalidParameters('mode "shell" needs a terminal: leave pty out')
    return _command(given)


def _check_kind(session: Session, shell: ShellSession | None, text: object, *, typed: bool) -> None:
    if text is not None and shell is None:
        raise InvalidParameters(
            f"{session.id} runs one program and takes stdin: command is for sessions that were"
            ' started with mode "shell"'
        )
    if text is not None and typed:
        raise InvalidParameters("give either a command, or input for the one that runs")


def _size(rows: int | None, columns: int | None, now: TerminalSize | None = None) -> TerminalSize:
    usual = now or TerminalSize()
    return checked_size(
        usual.rows if rows is None else rows, usual.columns if columns is None else columns
    )


def _typed(given: schemas.ContinueArguments) -> bytes:
    """The bytes of a call's text and keys.

    Raises: InvalidParameters.
    """
    names = given.keys or []
    if not all(isinstance(name, str) for name in names):
        raise InvalidParameters("keys must be a list of names such as ctrl-c")
    return _text(given) + b"".join(map(keys.bytes_of, names))


def _text(given: schemas.ContinueArguments) -> bytes:
    if given.stdin is None:
        return b""
    if given.raw:
        return given.stdin.encode("utf-8", "surrogatepass")
    return keys.pasted(given.stdin) if given.paste else keys.line(given.stdin)


def _pattern(text: str | None) -> Pattern | None:
    if not text:
        return None
    try:
        return compile_for_output(text)
    except ValueError as error:
        raise InvalidParameters(f"waitFor {error}") from error
