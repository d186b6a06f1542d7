"""Chat tools of TerminalService (function calling), and the plugin that registers them."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from shelltie.basics.frozen import frozen
from shelltie.basics.validate import json_text, known_instead
from shelltie.errors import ConfigWrong, InvalidParameters, TerminalError, UnknownSession, parameter
from shelltie.frontends import about
from shelltie.frontends.reports.session_report import (
    refusal_text,
    result_text,
    stopped_text,
    table_text,
)
from shelltie.frontends.service.service import SessionPlace, TerminalService
from shelltie.frontends.service.settings import SCHEMA
from shelltie.frontends.service.terminal_provider import (
    ExecuteCommandOptions,
    InteractiveSessionOptions,
    InteractiveTerminalOutput,
    OutputWaitOptions,
)
from shelltie.output.text import crop

_CROPPED = "\n[...Output truncated...]"
Arguments = Mapping[str, object]


@frozen
class ServiceTool:
    """What a chat offers to its model. `execute` never raises: what went wrong is the answer."""

    name: str
    description: str
    parameters: Mapping[str, object]
    execute: Callable[[Arguments, str], Awaitable[str]]


def tools_of(service: TerminalService) -> list[ServiceTool]:
    """The five tools; the second argument of each call is the agent."""
    does = _Tools(service)
    return [
        _tool("bash", "Run a shell command to its end.", does.bash, command=True),
        _tool(
            "terminal_start",
            "Start a process that stays: a dev server, a REPL, a program that asks.",
            does.start,
            command=True,
            stdin=False,
        ),
        _tool(
            "terminal_continue",
            "Send a line to a session, and read what it printed since the last call.",
            does.carry_on,
            sessionId=True,
            stdin=False,
        ),
        _tool("terminal_stop", "End a session and all its processes.", does.stop, sessionId=True),
        _tool("terminal_list", "List the sessions.", does.table),
    ]


def _tool(
    name: str,
    description: str,
    answer: Callable[[Arguments, str], Awaitable[str]],
    **required: bool,
) -> ServiceTool:
    """A tool whose parameters are all texts."""

    async def execute(arguments: Arguments, agent: str) -> str:
        try:
            _check(arguments, required)
            return await answer(arguments, agent)
        except TerminalError as error:
            return refusal_text(error)

    schema: dict[str, Any] = {
        "type": "object",
        "properties": {key: {"type": "string"} for key in required},
        "required": [key for key, must in required.items() if must],
        "additionalProperties": False,
    }
    return ServiceTool(name, description, schema, execute)


def _check(arguments: Arguments, required: Mapping[str, bool]) -> None:
    for key, value in arguments.items():
        if key not in required:
            raise InvalidParameters(f"{key} is no parameter{known_instead(key, required)}")
        parameter(key, value, json_text)
    missing = [key for key, must in required.items() if must and not arguments.get(key)]
    if missing:
        raise InvalidParameters(f"{missing[0]} is missing")


class _Tools:
    """What they do."""

    def __init__(self, service: TerminalService) -> None:
        self._service = service

    async def bash(self, arguments: Arguments, agent: str) -> str:
        """Run it as soon as it is safe or somebody said yes."""
        settings = self._service.state(agent).settings
        options = ExecuteCommandOptions(timeout_seconds=settings.timeout)
        result = await self._service.run_approved(str(arguments["command"]), options, agent)
        return result_text(result.exit_code, result.output, result.error, settings.crop_output)

    async def start(self, arguments: Arguments, agent: str) -> str:
        """The first output comes with the id."""
        command, stdin = str(arguments["command"]), arguments.get("stdin")
        given = InteractiveSessionOptions(command, input=None if stdin is None else str(stdin))
        session = await self._service.start_approved(given, agent)
        places = self._service.state(agent).sessions
        places[session] = SessionPlace(command, time.time())
        output = await self._read(session, agent)
        head = ["Terminal Session Started", f"ID: {session}", f"Command: {command}"]
        return self._text([*head, f"Position: {output.new_position}"], output, agent)

    async def carry_on(self, arguments: Arguments, agent: str) -> str:
        """What is new since the last call."""
        session, stdin = str(arguments["sessionId"]), arguments.get("stdin")
        self._known(session, agent)
        if stdin is not None:
            await self._service.require_sessions(agent).send_input(session, str(stdin))
        output = await self._read(session, agent)
        head = [f"Terminal Session: {session}", f"Position: {output.new_position}"]
        complete = f"Complete: {str(output.is_complete).lower()}"
        return self._text([*head, complete], output, agent)

    async def stop(self, arguments: Arguments, agent: str) -> str:
        """End it."""
        session = str(arguments["sessionId"])
        self._known(session, agent)
        await self._service.require_sessions(agent).terminate_session(session)
        self._service.state(agent).sessions.pop(session, None)
        return stopped_text(session)

    async def table(self, _: Arguments, agent: str) -> str:
        """A table."""
        provider, places = (
            self._service.require_sessions(agent),
            self._service.state(agent).sessions,
        )
        rows = []
        for session, place in places.items():
            status = provider.get_session_status(session)
            running = status is not None and status.running
            rows.append(
                (session, place.command, place.position, running, time.time() - place.since)
            )
        return table_text(rows)

    async def _read(self, session: str, agent: str) -> InteractiveTerminalOutput:
        state = self._service.state(agent)
        waiting, place = state.settings.waiting, state.sessions[session]
        wait = OutputWaitOptions(waiting.least, waiting.settle, waiting.most)
        provider = self._service.require_sessions(agent)
        output = await provider.collect_output(session, place.position, wait)
        place.position = output.new_position
        if output.is_complete:
            state.sessions.pop(session, None)
        return output

    def _known(self, session: str, agent: str) -> None:
        if session not in self._service.state(agent).sessions:
            raise UnknownSession(f"Session {session} not found")

    def _text(self, head: list[str], output: InteractiveTerminalOutput, agent: str) -> str:
        limit = self._service.state(agent).settings.crop_output
        ended = [f"Exit Code: {output.exit_code}"] if output.is_complete else []
        return "\n".join([*head, *ended, "", "Output:", crop(output.output, limit, _CROPPED)])


class Chat(Protocol):
    """Where tools are offered to a model."""

    def add_tools(self, tools: Sequence[ServiceTool]) -> None:
        """Offer these, too."""
        ...


class App(Protocol):
    """What holds the services."""

    def add_service(self, service: TerminalService) -> None:
        """Take a service in; its `run` and `stop` are the program's to call."""
        ...

    def when_service(self, name: str, then: Callable[[Chat], None]) -> None:
        """Call `then` with the service of that name as soon as there is one, if there ever is."""
        ...


class TerminalPlugin:
    """What a program installs."""

    name = "shelltie"
    version = about.version()
    description = TerminalService.description
    config_schema: Mapping[str, object] = {
        "type": "object",
        "properties": {"terminal": SCHEMA},
    }

    def install(self, app: App, config: Mapping[str, object]) -> TerminalService | None:
        """Add the service if `config` has a section for it, and its tools once there is a chat.

        Raises: ConfigWrong.
        """
        given = config.get("terminal")
        if given is None:
            return None
        if not isinstance(given, Mapping):
            raise ConfigWrong(f"terminal must be a table, not {given!r}")
        service = TerminalService(given)
        app.add_service(service)
        app.when_service("chat", lambda chat: chat.add_tools(tools_of(service)))
        return service
