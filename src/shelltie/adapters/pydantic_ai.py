"""Adapter for pydantic-ai: a toolset with a `shell` tool, and a workspace backend.

>>> agent = Agent(model, toolsets=[Toolset(cwd="project", isolation="sandbox")])

What needs a yes is pydantic-ai's deferred approval: the run ends with `DeferredToolRequests`, and
goes on with their results. The workspace has no such way, and asks as any terminal does.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, Unpack

from pydantic_ai import ApprovalRequired, FunctionToolset, RunContext, ToolFailed
from pydantic_ai.workspaces import (
    CommandResult,
    FileEntry,
    LocalWorkspaceBackend,
    WorkspaceError,
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceTimeoutError,
)

from shelltie.adapters.command_tool import DESCRIPTION, SHOWN, CommandTool, question_of
from shelltie.adapters.workspace_files import ValueT, with_files
from shelltie.approval.broker import Callback
from shelltie.errors import ConfirmationRequired, FileError, TerminalError
from shelltie.frontends.api import Options, Terminal
from shelltie.frontends.files import Files
from shelltie.frontends.reports.run_report import report
from shelltie.frontends.terminal_thread import TerminalThread
from shelltie.model import Caller, Stream
from shelltie.output.text import decode
from shelltie.providers.files.place_files import FileEntry as PlaceEntry
from shelltie.providers.files.place_files import FileKind
from shelltie.running.run import Run
from shelltie.settings.config import Config

_NAME = "pydantic-ai"
_FILE_MAX = 100 * 1024 * 1024  # bytes
_OUTPUT_MAX = 10 * 1024 * 1024  # bytes; as pydantic-ai's own backend has it


class Toolset(FunctionToolset[Any]):
    """A `shell` tool on a leash. Each agent run has a terminal of its own, closed when it ends.

    `shown` is how many bytes of output the model reads; `options` hold for every command.
    """

    def __init__(
        self,
        config: Config | None = None,
        shown: int = SHOWN,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(id="shelltie")
        self._arguments = (config, shown, options)
        self._tool = CommandTool(_NAME, config, shown, **options)
        self.add_function(self._shell, takes_ctx=True, name="shell", description=DESCRIPTION)

    async def for_run(self, ctx: RunContext[Any]) -> "Toolset":  # noqa: ARG002  of their interface
        """See `AbstractToolset`."""
        config, shown, options = self._arguments
        return Toolset(config, shown, **options)

    async def __aenter__(self) -> Self:
        await self._tool.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._tool.__aexit__(None, None, None)

    async def _shell(self, ctx: RunContext[Any], command: str, timeout: float | None = None) -> str:
        try:
            answer = await self._tool.call_or_defer(
                command, timeout, approved=ctx.tool_call_approved
            )
        except ConfirmationRequired as asked:
            raise ApprovalRequired(metadata=question_of(asked)) from asked
        if answer.result is None:
            raise ToolFailed(answer.text)
        return answer.text


class WorkspaceBackend:
    """A directory whose commands run on leashes: `agent.run(…, workspace=WorkspaceBackend("."))`.

    Files are those of the directory and no others, which isolated commands see at the same path.
    More than `output_max` bytes of output are an error, as pydantic-ai demands. `approve` is asked
    about commands that need a yes, in a thread of its own.
    """

    def __init__(
        self,
        working_dir: str | Path,
        config: Config | None = None,
        output_max: int = _OUTPUT_MAX,
        approve: Callback | None = None,
        **options: Unpack[Options],
    ) -> None:
        self._directory = LocalWorkspaceBackend(working_dir)  # which may be gone, or a link
        # `run_sync` has an event loop of its own, and a workspace no end that we are told.
        self._terminal = TerminalThread(
            Terminal(config, approve=approve, caller=Caller(client=_NAME))
        )
        self._output_max = output_max
        self._options = options

    @property
    def ref(self) -> WorkspaceRef:
        """See `WorkspaceBackend` of pydantic-ai."""
        return WorkspaceRef(provider="shelltie", id=self._directory.ref.id)

    async def working_dir(self) -> str:
        """The directory itself.

        Raises: WorkspaceUnavailableError if it is gone.
        """
        return await self._directory.working_dir()

    async def run(
        self,
        command: str | Sequence[str],
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        """Run a command to its end.

        Raises: WorkspaceTimeoutError, WorkspaceOutputLimitError with what was printed until then;
        WorkspaceUnavailableError; WorkspaceError if it was refused; TypeError, ValueError.
        """
        if shell is not isinstance(command, str):
            raise TypeError("a text needs shell=True, and a list of words shell=False")
        if timeout is not None and not 0 < timeout < float("inf"):
            raise ValueError("timeout must be a positive finite number or None")
        given = self._options.get("env") or {}
        root = await self.working_dir()
        options: Options = {**self._options, "env": {**given, **(env or {})}, "cwd": root}
        if timeout is not None:
            options["timeout"] = timeout

        async def work(terminal: Terminal) -> Run:
            run = await terminal.start(command, **options)
            await terminal.supervisor.attend(run)
            return run

        try:
            ended = await self._terminal.call_async(work)
        except TerminalError as error:
            raise WorkspaceError(str(error)) from error
        await self.working_dir()
        return self._result(ended)

    def close(self) -> None:
        """End whatever still runs; without it that is the end of the program, or of this."""
        self._terminal.close()

    def _result(self, run: Run) -> CommandResult:
        result, most = report(run, 0), self._output_max
        printed = run.output.view(Stream.STDOUT, most, 0), run.output.view(Stream.STDERR, most, 0)
        stdout, stderr = (decode(part.head) for part in printed)
        if result.timeout_reason is not None:
            why = result.hint or f"timed out after {result.duration_ms / 1000:.1f} s"
            raise WorkspaceTimeoutError(why, stdout=stdout, stderr=stderr)
        if sum(part.total for part in printed) > most:
            raise WorkspaceOutputLimitError(
                f"more than {most} bytes of output", limit=most, stdout=stdout, stderr=stderr
            )
        return CommandResult(exit_code=result.exit_code, stdout=stdout, stderr=stderr)

    async def read_bytes(self, path: str) -> bytes:
        """This and the following: see `SupportsFilesystem`.

        Raises: ValueError for what is not in the directory, or leads out of it; OSError.
        """
        return await self._use_files(lambda files: files.read(path, _FILE_MAX))

    async def write_bytes(self, path: str, data: bytes) -> None:
        await self._use_files(lambda files: files.write(path, data))

    async def stat(self, path: str) -> FileEntry:
        return await self._use_files(lambda files: _entry(files, path))

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        async def entries(files: Files) -> list[FileEntry]:
            return [
                await _listed(files, f"{path.rstrip('/')}/{one.name}", one)
                for one in await files.list(path)
            ]

        return await self._use_files(entries)

    async def make_dir(self, path: str) -> None:
        try:
            await self._use_files(lambda files: files.make_directory(path))
        except NotADirectoryError as error:
            if await self.exists(path):
                raise FileExistsError(str(error)) from error
            raise

    async def remove(self, path: str) -> None:
        root = Path(await self.working_dir())
        # A link is removed, and not what it leads to; so its own name is not resolved.
        name = Path(await self.realpath(str(Path(path).parent))) / Path(path).name
        if name in (root, *root.parents):
            raise ValueError("cannot remove the workspace root or its ancestor")
        await self._use_files(lambda files: files.remove(path, tree=True))

    async def exists(self, path: str) -> bool:
        try:
            await self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    async def realpath(self, path: str) -> str:
        return await self._directory.realpath(path)

    async def _use_files(self, work: Callable[[Files], Awaitable[ValueT]]) -> ValueT:
        root = await self.working_dir()
        return await self._terminal.call_async(with_files(root, self._options, work))


async def _entry(files: Files, path: str) -> FileEntry:
    return _told(path, await files.stat(path))


async def _listed(files: Files, path: str, listed: PlaceEntry) -> FileEntry:
    """An entry of a directory; of a link what it leads to, if that is there and inside."""
    if listed.kind is FileKind.LINK:
        try:
            return await _entry(files, path)
        except FileError:
            return FileEntry(name=listed.name, path=path, is_dir=False, size=None)
    return _told(path, listed)


def _told(path: str, entry: PlaceEntry) -> FileEntry:
    is_dir = entry.kind is FileKind.DIRECTORY
    size = None if is_dir else entry.size
    return FileEntry(name=Path(path).name, path=path, is_dir=is_dir, size=size)
