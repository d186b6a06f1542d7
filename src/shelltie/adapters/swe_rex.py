"""Adapter for SWE-ReX: a deployment whose runtime runs on leashes, so that SWE-agent does.

>>> deployment = ShelltieDeployment(cwd="project", isolation="sandbox")
>>> environment = SWEEnv(deployment=deployment, repo=None, post_startup_commands=[])

SWE-agent has a new event loop for each call, so all of it lives in a thread.
"""

import io
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Self, Unpack

import anyio
import anyio.to_thread
from swerex.deployment.abstract import AbstractDeployment
from swerex.deployment.hooks.abstract import CombinedDeploymentHook, DeploymentHook
from swerex.exceptions import (
    CommandTimeoutError,
    DeploymentNotStartedError,
    NonZeroExitCodeError,
    SessionDoesNotExistError,
    SessionExistsError,
)
from swerex.runtime.abstract import (
    AbstractRuntime,
    BashAction,
    BashInterruptAction,
    BashObservation,
    CloseBashSessionRequest,
    CloseBashSessionResponse,
    CloseResponse,
    Command,
    CommandResponse,
    CreateBashSessionRequest,
    CreateBashSessionResponse,
    IsAliveResponse,
    ReadFileRequest,
    ReadFileResponse,
    UploadRequest,
    UploadResponse,
    WriteFileRequest,
    WriteFileResponse,
)
from swerex.utils.log import get_logger

from shelltie.adapters.raw_output import RawResult, run_raw
from shelltie.adapters.swe_rex_session import REFUSED, RexSession
from shelltie.adapters.workspace_files import ValueT, with_files
from shelltie.approval.broker import Callback
from shelltie.errors import FileMissing, ProcessError, TerminalError, UnknownSession
from shelltie.frontends.api import Options, Terminal
from shelltie.frontends.files import Files, absolute_path
from shelltie.frontends.terminal_thread import TerminalThread
from shelltie.model import Caller
from shelltie.providers.files.place_files import FileKind
from shelltie.running.options import Requester
from shelltie.sessions.registry import Sessions
from shelltie.sessions.shell import Start, open_shell
from shelltie.settings.config import Config

_NAME = "swe-rex"
_REQUESTER = Requester(Caller(client=_NAME))
MAX_OUTPUT = 1024 * 1024  # bytes of each stream, the last ones; of a session both ends
_NOT_FOUND = 127
_BASH_STARTS = 10.0  # seconds on a busy machine, before the time for the files it sources


class ShelltieDeployment(AbstractDeployment):
    """Starts a `ShelltieRuntime`, with these arguments, on this machine."""

    def __init__(
        self,
        *,
        logger: logging.Logger | None = None,
        config: Config | None = None,
        approve: Callback | None = None,
        max_output: int = MAX_OUTPUT,
        **options: Unpack[Options],
    ) -> None:
        self.logger = logger or get_logger("rex-deploy")
        self._arguments = (self.logger, config, approve, max_output)
        self._options = options
        self._hooks = CombinedDeploymentHook()
        self._runtime: ShelltieRuntime | None = None

    def add_hook(self, hook: DeploymentHook) -> None:
        """This and the following: see `AbstractDeployment`."""
        self._hooks.add_hook(hook)

    async def is_alive(self, *, timeout: float | None = None) -> IsAliveResponse:
        if self._runtime is None:
            return IsAliveResponse(is_alive=False, message="the deployment was not started")
        return await self._runtime.is_alive(timeout=timeout)

    async def start(self) -> None:
        self._hooks.on_custom_step("Starting runtime")
        self._runtime = ShelltieRuntime(*self._arguments, **self._options)

    async def stop(self) -> None:
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            await runtime.close()

    @property
    def runtime(self) -> "ShelltieRuntime":
        if self._runtime is None:
            raise DeploymentNotStartedError
        return self._runtime


class ShelltieRuntime(AbstractRuntime):
    """Runs commands on leashes, and bash sessions, in one terminal of its own thread.

    `options` hold for all commands; `cwd`, `env` and `isolation` also for sessions. `approve` is
    asked about commands that need a yes; what is refused has exit code 126 and the reason.
    """

    def __init__(
        self,
        logger: logging.Logger | None = None,
        config: Config | None = None,
        approve: Callback | None = None,
        max_output: int = MAX_OUTPUT,
        **options: Unpack[Options],
    ) -> None:
        self.logger = logger or get_logger("rex-runtime")
        self._options = options
        self._max_output = max_output
        self._place = TerminalThread(_Place(config, approve))
        self._cwd = Path(options.get("cwd") or ".").absolute()
        # Without isolation commands have all files, and SWE-agent puts its tools below the root.
        isolated = options.get("isolation") or options.get("provider")
        self._files_below = options.get("workspace") or (self._cwd if isolated else "/")

    async def is_alive(self, *, timeout: float | None = None) -> IsAliveResponse:  # noqa: ARG002
        """This and the following: see `AbstractRuntime`."""
        return IsAliveResponse(is_alive=True)

    async def create_session(self, request: CreateBashSessionRequest) -> CreateBashSessionResponse:
        start = Start(
            str(self._cwd),
            dict(self._options.get("env") or {}),
            requester=_REQUESTER,
            isolation=self._options.get("isolation"),
        )
        output = await self._place.call_async(
            lambda place: place.open(request, start, self._max_output)
        )
        return CreateBashSessionResponse(output=output)

    async def run_in_session(self, action: BashAction | BashInterruptAction) -> BashObservation:
        return await self._place.call_async(lambda place: place.session(action.session).run(action))

    async def close_session(self, request: CloseBashSessionRequest) -> CloseBashSessionResponse:
        await self._place.call_async(lambda place: place.close(request.session))
        return CloseBashSessionResponse()

    async def execute(self, command: Command) -> CommandResponse:
        """Run a command apart from the sessions. Its `env` adds to the environment.

        Raises: CommandTimeoutError, NonZeroExitCodeError.
        """
        words = _words(command)
        if not words:
            return CommandResponse(exit_code=0)
        options: Options = {
            **self._options,
            "cwd": self._cwd / (command.cwd or ""),
            "env": {**(self._options.get("env") or {}), **(command.env or {})},
            "one_output": command.merge_output_streams,
        }
        if command.timeout is not None:
            options["timeout"] = command.timeout
        try:
            done = await self._place.call_async(
                lambda place: run_raw(place.terminal, words, self._max_output, **options)
            )
            response = _response(done)
        except TerminalError as error:
            response = CommandResponse(stderr=f"[not run: {error}]\n", exit_code=REFUSED)
        if command.check and response.exit_code != 0:
            message = f"Command {command.command!r} failed with exit code {response.exit_code}."
            message += f" Stdout:\n{response.stdout!r}\nStderr:\n{response.stderr!r}"
            raise NonZeroExitCodeError(": ".join(filter(None, (command.error_msg, message))))
        return response

    async def read_file(self, request: ReadFileRequest) -> ReadFileResponse:
        content = await self._use_files(lambda files: files.read(self._cwd / request.path))
        # As `Path.read_text`, which has one kind of line end.
        text = io.TextIOWrapper(io.BytesIO(content), request.encoding or "utf-8", request.errors)
        return ReadFileResponse(content=text.read())

    async def write_file(self, request: WriteFileRequest) -> WriteFileResponse:
        path = self._cwd / request.path
        await self._use_files(lambda files: files.write(path, request.content))
        return WriteFileResponse()

    async def upload(self, request: UploadRequest) -> UploadResponse:
        source = absolute_path("source_path", request.source_path)
        target, tree = self._cwd / request.target_path, await anyio.Path(source).is_dir()

        async def copy(files: Files) -> None:
            into = target
            with suppress(FileMissing):
                if not tree and (await files.stat(target)).kind is FileKind.DIRECTORY:
                    into = target / Path(source).name
            await files.upload(source, into)

        await self._use_files(copy)
        return UploadResponse()

    async def _use_files(self, work: Callable[[Files], Awaitable[ValueT]]) -> ValueT:
        use = with_files(self._files_below, self._options, work)
        return await self._place.call_async(lambda place: use(place.terminal))

    async def close(self) -> CloseResponse:
        """End all sessions and whatever else runs, and the thread."""
        await anyio.to_thread.run_sync(self._place.close)
        return CloseResponse()


class _Place:
    """The terminal with its sessions; all of it in one event loop."""

    def __init__(self, config: Config | None, approve: Callback | None) -> None:
        self.terminal = Terminal(config, approve=approve, caller=_REQUESTER.caller)
        self._open: dict[str, RexSession | None] = {}

    async def __aenter__(self) -> Self:
        await self.terminal.__aenter__()
        self._registry = Sessions(self.terminal.supervisor)
        self._open = {}
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.terminal.__aexit__()

    async def open(self, request: CreateBashSessionRequest, start: Start, max_output: int) -> str:
        """Open a session by its name; what it printed."""
        if request.session in self._open:
            raise SessionExistsError(f"session {request.session!r} already exists")
        self._open[request.session] = None  # it takes a while, and others come meanwhile
        async with AsyncExitStack() as stack:
            stack.callback(self._open.pop, request.session, None)
            first = " ; ".join(f"source {path}" for path in request.startup_source) or ":"
            supervisor = self.terminal.supervisor
            shell = await open_shell(self._registry, supervisor, _NAME, first, start)
            stack.push_async_callback(self._stop, shell.session.id)
            session = RexSession(shell, self.terminal, start.requester, max_output)
            printed = await session.first(request.startup_timeout + _BASH_STARTS)
            self._open[request.session] = session
            stack.pop_all()
        return printed

    def session(self, name: str) -> RexSession:
        """Raises: SessionDoesNotExistError."""
        session = self._open.get(name)
        if session is None:
            raise SessionDoesNotExistError(f"session {name!r} does not exist")
        return session

    async def close(self, name: str) -> None:
        """End a session with all it started.

        Raises: SessionDoesNotExistError.
        """
        session = self.session(name)
        del self._open[name]
        await self._stop(session.shell.session.id)

    async def _stop(self, session_id: str) -> None:
        with anyio.CancelScope(shield=True), suppress(ProcessError, UnknownSession):
            await self._registry.stop(session_id, _NAME, "closed")


def _words(command: Command) -> str | list[str]:
    """As `subprocess` has it: a text for a shell, or the words of a program."""
    if isinstance(command.command, str):
        text = command.command
        return (text if text.strip() else "") if command.shell else [text]
    if command.shell:
        return ["sh", "-c", *command.command]
    return command.command


def _response(done: RawResult) -> CommandResponse:
    if done.timed_out:
        raise CommandTimeoutError(f"{done.why} It has printed:\n{_text(done.both)}")
    if done.exit_code == _NOT_FOUND and done.result.error is not None:
        raise FileNotFoundError(done.result.error)
    stdout, stderr = _text(done.stdout), _text(done.stderr)
    return CommandResponse(stdout=stdout, stderr=stderr, exit_code=done.exit_code)


def _text(printed: bytes) -> str:
    return printed.decode(errors="backslashreplace")
