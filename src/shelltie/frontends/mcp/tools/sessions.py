"""MCP tools `bash` and `terminal_*`: interactive sessions for dev servers, prompts, REPLs."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import anyio.to_thread
from mcp_types import CallToolResult

from shelltie.basics.frozen import frozen
from shelltie.basics.safe_regex import Pattern, compile_for_output
from shelltie.environment import child
from shelltie.errors import InvalidParameters, RunOver, TerminalError, UnknownSession
from shelltie.frontends.api import Options, asked, parse_options
from shelltie.frontends.mcp.handover import Handover, advice, running_fields
from shelltie.frontends.mcp.request import FollowedRun, ToolCall
from shelltie.frontends.mcp.tools import session_schemas as schemas
from shelltie.frontends.mcp.tools.schema import check, result
from shelltie.frontends.wire import lost_run
from shelltie.frontends.wire import session as said
from shelltie.frontends.wire.run import as_json, report, status_of, timeout_reason
from shelltie.frontends.wire.session import RedactedReading
from shelltie.model import Command, Limits, State, TerminalSize
from shelltie.output.redact import Redactor
from shelltie.output.screen import Screen
from shelltie.output.text import crop
from shelltie.running.options import RunOptions
from shelltie.sessions import keys
from shelltie.sessions.session import Session, SessionReading, checked_size
from shelltie.sessions.shell import CommandEnd, ShellSession, Start, open_shell
from shelltie.sessions.wait_rule import Waiting

_log = logging.getLogger(__name__)

ToolArguments = Mapping[str, object]
_LONG = 64 * 1024
_Answer = tuple[dict[str, object], str]


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

    def __init__(self, attendant: Handover, manners: SessionSettings) -> None:
        self._attendant = attendant
        self._supervisor = attendant.supervisor
        self._sessions = attendant.sessions
        self._manners = manners
        own = child.sift(child.inherited()).secrets
        self._for_lost = Redactor(own) if manners.redact else None  # theirs died with their server
        self._shells: dict[str, ShellSession] = {}
        self._screens: dict[str, Screen] = {}
        self._calls: dict[str, Callable[[ToolCall], Awaitable[_Answer]]] = {
            schemas.BASH.name: self._bash,
            schemas.START.name: self._start,
            schemas.CONTINUE.name: self._continue,
            schemas.OUTPUT.name: self._output,
            schemas.STOP.name: self._stop,
            schemas.LIST.name: self._list,
        }

    async def call(self, call: ToolCall) -> CallToolResult:
        """Whatever goes wrong on our side is an answer, too."""
        try:
            check(call.arguments, _SCHEMAS[call.name])
            answer, text = await self._calls[call.name](call)
        except TerminalError as error:
            answer = {"error": str(error), "errorCode": error.code, **said.details(error)}
            return result(answer, ok=False, text=said.refusal_text(error))
        except Exception:  # noqa: BLE001  the server lives on, whatever it was
            _log.exception("a call of `%s` failed", call.name)
            problem = "shelltie failed and says why on its stderr"
            return result({"error": problem, "errorCode": TerminalError.code}, ok=False)
        return result(answer, ok="error" not in answer, text=text)

    async def _bash(self, call: ToolCall) -> _Answer:
        command, _ = parse_options(call.arguments["command"], Options())
        limits = Limits(self._manners.bash_timeout, None, "bash.timeoutSeconds")
        run = await self._supervisor.start(
            command, RunOptions("session", limits, requester=call.requester)
        )
        session = await self._attendant.wait(FollowedRun(run), call)
        made = report(run, redact=self._manners.redact)
        brief = report(run, self._manners.shown, redact=self._manners.redact)
        shown = len(said.merged(made)) <= self._manners.crop
        answer: dict[str, object] = {
            "ok": made.status == "success",
            "status": made.status,
            "output": crop(said.merged(made), self._manners.crop, ""),
            "exitCode": made.exit_code,
            "stdout": brief.stdout,
            "stderr": brief.stderr,
            "truncated": brief.truncated or not shown,
            "outputFile": made.output_file,
            "timeoutReason": made.timeout_reason,
            "isolation": made.isolation,
            "warnings": [*made.warnings],
        }
        if session is not None:
            answer |= {"ok": None, **running_fields(session, shown=shown)}
            return answer, said.running_text(made, advice(session), self._manners.crop)
        problem = said.problem_of(made, self._manners.crop)
        text = said.result_text(made.exit_code, said.merged(made), problem, self._manners.crop)
        return answer, text

    async def _start(self, call: ToolCall) -> _Answer:
        arguments = call.arguments
        if arguments.get("mode") == "shell":
            return await self._start_shell(call)
        waiting, wait_for = self._waiting(call), _pattern(arguments)
        command, wish = _command(call)
        session = await self._sessions.open(command, wish, call.owner, self._manners.waiting)
        call.follow(FollowedRun(session.run))
        made = self._read(session, await session.exchange(b"", waiting, wait_for))
        return as_json(made), said.started_text(made)

    async def _start_shell(self, call: ToolCall) -> _Answer:
        arguments = call.arguments
        waiting, wait_for = self._waiting(call), _pattern(arguments)
        command, start = _shell_start(call)
        shell = await open_shell(self._sessions, self._supervisor, call.owner, command.text, start)
        self._forget_ended()
        self._shells[shell.session.id] = shell
        call.follow(FollowedRun(shell.session.run))
        made = self._ended(shell, await shell.follow(waiting, wait_for))
        return as_json(made), said.started_text(made)

    async def _continue(self, call: ToolCall) -> _Answer:
        arguments = call.arguments
        waiting, wait_for, typed = self._waiting(call), _pattern(arguments), _typed(arguments)
        session = await self._session(call)
        call.follow(FollowedRun(session.run))
        shell, text = self._shells.get(session.id), arguments.get("command")
        end = arguments.get("end") is True
        _check_kind(session, shell, text, typed=bool(typed) or end)
        if arguments.get("rows") is not None or arguments.get("columns") is not None:
            session.resize(_size(arguments, session.size))
        if shell is not None and text is not None:
            return self._told(shell, await shell.run(str(text), waiting, wait_for, call.requester))
        if shell is not None:
            if typed or end:
                async with session.typing:
                    await shell.let_type(typed, call.requester, end=end)
                    shell.type(typed, end=end)
            return self._told(shell, await shell.follow(waiting, wait_for))
        if (typed or end) and session.complete:
            return self._too_late(session)
        if not (typed or end):
            made = self._read(session, await session.exchange(b"", waiting, wait_for))
            return as_json(made), said.continued_text(made)
        async with session.typing:
            await self._sessions.let_type(session, typed, call.requester, end=end)
            made = self._read(session, await session.exchange(typed, waiting, wait_for, end=end))
        return as_json(made), said.continued_text(made)

    def _too_late(self, session: Session) -> _Answer:
        """Nobody reads the input any more; what is left to read is here, with its exit code."""
        reading = session.reading(session.cursor)
        session.cursor = reading.position
        made = self._read(session, reading)
        problem = f"{session.id} has ended, so nobody has read your input; this is the rest"
        answer = {"error": problem, "errorCode": RunOver.code, **as_json(made)}
        return answer, f"{problem}\n\n{said.continued_text(made)}"

    async def _output(self, call: ToolCall) -> _Answer:
        arguments = call.arguments
        view = arguments.get("view") or "clean"
        start, limit = arguments.get("from") or 0, arguments.get("limit") or self._manners.crop
        assert isinstance(start, int)
        assert isinstance(limit, int)
        try:
            session = self._sessions.get(str(arguments["sessionId"]), call.owner)
        except UnknownSession:
            return await self._lost_output(call, start, limit, raw=view == "raw")
        if view == "screen":
            return await self._screen(session)
        reading = await session.read(start)
        discretion = self._about(session, reading.start)
        make = partial(self._shown, session, reading, discretion, raw=view == "raw", limit=limit)
        # What is long and full of escapes takes a second to clean; others have their turns.
        made = await anyio.to_thread.run_sync(make) if limit > _LONG else make()
        return as_json(made), said.continued_text(made)

    async def _lost_output(self, call: ToolCall, start: int, limit: int, *, raw: bool) -> _Answer:
        name = str(call.arguments["sessionId"])
        gone = await lost_run.find(self._supervisor, call.requester, name)
        if gone is None:
            raise await self._unknown(call)
        made = await lost_run.report(gone, start, limit, raw=raw, redactor=self._for_lost)
        return as_json(made), said.continued_text(made)

    async def _screen(self, session: Session) -> _Answer:
        size = session.size
        if size is None:
            raise InvalidParameters("this session has pipes and no terminal, so it has no screen")
        self._forget_ended()
        screen = self._screens[session.id] = self._screens.get(session.id) or Screen(size)
        shown, discretion = await screen.show(session.run.output, size), self._about(session, 0)
        text = shown.text if discretion is None else discretion.screen(shown, size.columns)
        made = said.screen_report(session, shown, text)
        return as_json(made), said.continued_text(made)

    def _told(self, shell: ShellSession, end: CommandEnd) -> _Answer:
        made = self._ended(shell, end)
        return as_json(made), said.continued_text(made)

    def _about(self, session: Session, start: int) -> RedactedReading | None:
        return RedactedReading.about(session, start) if self._manners.redact else None

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
        most = self._manners.crop if limit is None else limit
        made = said.session_report(session, reading, raw=raw, limit=most, discretion=discretion)
        session.mark_delivered(reading.start - reading.skipped, made.read_from or reading.end)
        return made

    def _ended(self, shell: ShellSession, end: CommandEnd) -> said.SessionReport:
        reading, most = end.reading, self._manners.crop
        discretion = self._about(shell.session, reading.start)
        made = said.command_report(shell.session, end, limit=most, discretion=discretion)
        shell.session.mark_delivered(reading.start - reading.skipped, made.read_from or reading.end)
        return made

    def _forget_ended(self) -> None:
        known = {session.id for session in self._sessions.all()}
        for kept in (self._shells, self._screens):
            for session_id in [one for one in kept if one not in known]:
                del kept[session_id]

    async def _stop(self, call: ToolCall) -> _Answer:
        session = await self._session(call)
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
        return answer, said.stopped_text(session.id)

    async def _list(self, call: ToolCall) -> _Answer:
        sessions = self._sessions.owned_by(call.owner)
        gone = lost_run.nearby(
            await lost_run.lost_runs(self._supervisor, call.requester), Path.cwd()
        )
        answer: dict[str, object] = {"sessions": [said.listed(one) for one in sessions]}
        if gone:
            answer["lost"] = [lost_run.listed(one) for one in gone]
        return answer, said.list_text(sessions) + lost_run.list_text(gone)

    async def _session(self, call: ToolCall) -> Session:
        """The session a call is about.

        Raises: UnknownSession, which says what became of it.
        """
        try:
            return self._sessions.get(str(call.arguments["sessionId"]), call.owner)
        except UnknownSession:
            raise await self._unknown(call) from None

    async def _unknown(self, call: ToolCall) -> UnknownSession:
        client = call.requester.caller.client
        return await self._sessions.explain(str(call.arguments["sessionId"]), call.owner, client)

    def _waiting(self, call: ToolCall) -> Waiting:
        waiting = replace(self._manners.waiting, until=call.until)
        most = call.arguments.get("maxWait")
        return waiting if most is None else replace(waiting, most=cast(float, most))


_SCHEMAS = {tool.name: tool.input_schema for tool in schemas.TOOLS}


def _command(call: ToolCall) -> tuple[Command, RunOptions]:
    """What to start.

    Raises: InvalidParameters.
    """
    arguments = call.arguments
    text, changes = (
        str(arguments["command"]),
        cast(dict[str, str | None], arguments.get("env") or {}),
    )
    if arguments.get("pty") is not False:
        text, changes = child.with_chosen_programs(text, changes)
    given = {"cwd": arguments.get("cwd"), "env": changes}
    command, _ = parse_options(text, cast(Options, given))
    first = arguments.get("stdin")
    command = replace(
        command,
        stays_open=True,
        stdin=None if first is None else keys.line(str(first)),
        pty=None if arguments.get("pty") is False else _size(arguments),
    )
    limits = asked(arguments.get("timeoutSeconds"), arguments.get("silenceSeconds"))
    source = "the call" if limits.total or limits.silence else "sessions have no limit"
    held = Limits(limits.total, limits.silence, source, literal=True)
    isolation = cast(str | None, arguments.get("isolation"))
    return command, RunOptions("session", held, requester=call.requester, isolation=isolation)


def _shell_start(call: ToolCall) -> tuple[Command, Start]:
    """The first command of a shell, and how to start it.

    Raises: InvalidParameters.
    """
    if call.arguments.get("pty") is False:
        raise InvalidParameters('mode "shell" needs a terminal: leave pty out')
    if call.arguments.get("isolation") not in (None, "none", "auto"):
        raise InvalidParameters('mode "shell" cannot be isolated: start a program')
    command, wish = _command(call)
    assert isinstance(wish.limits, Limits)
    size, typed = command.pty or TerminalSize(), _text(call.arguments)
    return command, Start(
        command.cwd, command.env, size, wish.limits, call.requester, typed or None
    )


def _check_kind(session: Session, shell: ShellSession | None, text: object, *, typed: bool) -> None:
    if text is not None and shell is None:
        raise InvalidParameters(
            f"{session.id} runs one program and takes stdin: command is for sessions that were"
            ' started with mode "shell"'
        )
    if text is not None and typed:
        raise InvalidParameters("give either a command, or input for the one that runs")


def _size(arguments: ToolArguments, now: TerminalSize | None = None) -> TerminalSize:
    usual = now or TerminalSize()
    rows, columns = arguments.get("rows"), arguments.get("columns")
    return checked_size(
        usual.rows if rows is None else rows, usual.columns if columns is None else columns
    )


def _typed(arguments: ToolArguments) -> bytes:
    """The bytes of a call's text and keys.

    Raises: InvalidParameters.
    """
    names = arguments.get("keys") or []
    assert isinstance(names, list)
    if not all(isinstance(name, str) for name in names):
        raise InvalidParameters("keys must be a list of names such as ctrl-c")
    return _text(arguments) + b"".join(map(keys.bytes_of, names))


def _text(arguments: ToolArguments) -> bytes:
    text = arguments.get("stdin")
    if text is None:
        return b""
    if arguments.get("raw"):
        return str(text).encode("utf-8", "surrogatepass")
    return keys.pasted(str(text)) if arguments.get("paste") else keys.line(str(text))


def _pattern(arguments: ToolArguments) -> Pattern | None:
    text = arguments.get("waitFor")
    if not text:
        return None
    try:
        return compile_for_output(str(text))
    except ValueError as error:
        raise InvalidParameters(f"waitFor {error}") from error
