"""Adapter for the OpenAI Agents SDK: a sandbox client, whose sessions run on leashes.

>>> sandbox = SandboxRunConfig(client=ShelltieSandboxClient())
>>> await Runner.run(SandboxAgent(…), "…", run_config=RunConfig(sandbox=sandbox))

Snapshots, and what a manifest brings, are the SDK's own; its host sessions are the base class.
"""

import io
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import anyio
import anyio.to_thread
from agents.sandbox.errors import (
    ExecNonZeroError,
    ExecTimeoutError,
    ExecTransportError,
    InvalidManifestPathError,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
    WorkspaceRootNotFoundError,
    WorkspaceStartError,
)
from agents.sandbox.manifest import Manifest
from agents.sandbox.sandboxes.unix_local import (
    UnixLocalSandboxClient,
    UnixLocalSandboxClientOptions,
    UnixLocalSandboxSession,
    UnixLocalSandboxSessionState,
)
from agents.sandbox.session import BaseSandboxSession, SandboxSession, SandboxSessionState
from agents.sandbox.session.pty_types import (
    PtyExecUpdate,
    clamp_pty_yield_time_ms,
    resolve_pty_write_yield_time_ms,
)
from agents.sandbox.session.workspace_payloads import coerce_write_payload
from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec
from agents.sandbox.types import ExecResult, User

from shelltie.adapters.judged_variables import judged_variables
from shelltie.adapters.openai_agents_pty import PtyPlace
from shelltie.adapters.raw_output import run_raw
from shelltie.adapters.throwaway import approve_throwaway
from shelltie.adapters.workspace_files import ValueT, with_files
from shelltie.approval.broker import Callback
from shelltie.errors import CommandDenied, TerminalError
from shelltie.frontends.api import Options, Terminal, parse_options
from shelltie.frontends.files import Files
from shelltie.frontends.terminal_thread import TerminalThread
from shelltie.model import ISOLATION_LEVELS, Caller, Limits
from shelltie.output.text import decode
from shelltie.running.options import Requester
from shelltie.settings.config import Config
from shelltie.trials.tree_copy import remove_tree

_NAME = "openai-agents"
_REQUESTER = Requester(Caller(client=_NAME))
MAX_OUTPUT = 1024 * 1024  # bytes of each stream, the last ones; of a PTY both ends
_REFUSED = 126  # the exit code of a shell for what it may not run
_START_WAITS = 10.0  # seconds, as the SDK's own
_WRITE_WAITS = 0.25
_UNLIMITED = Limits(None, None, "a program on a terminal ends with its session")


class ShelltieSandboxClient(UnixLocalSandboxClient):
    """Makes sandbox sessions on this machine: each has a directory and a terminal of its own.

    `isolation` is sandbox, container, auto or none, `provider` a place by its name. `timeout` and
    `silence` are seconds, for commands that are called without a timeout; else the policy's hold.
    `approve` is asked about commands that need a yes. Without it, what runs isolated in a directory
    that was made for the session needs none.
    """

    backend_id = "shelltie"

    def __init__(
        self,
        *,
        isolation: str | None = "sandbox",
        provider: str | None = None,
        timeout: float | None = None,
        silence: float | None = None,
        config: Config | None = None,
        approve: Callback | None = None,
        max_output: int = MAX_OUTPUT,
    ) -> None:
        super().__init__()
        if isolation is not None and isolation not in ISOLATION_LEVELS:
            known = ", ".join(ISOLATION_LEVELS)
            raise ValueError(f"there is no isolation {isolation!r}: use {known}")
        self._options = Options(
            isolation=None if provider else isolation,
            provider=provider,
            timeout=timeout,
            silence=silence,
        )
        self._config = config
        self._approve = approve
        self._max_output = max_output

    async def create(
        self,
        *,
        snapshot: SnapshotSpec | SnapshotBase | None = None,
        manifest: Manifest | None = None,
        options: UnixLocalSandboxClientOptions | None = None,
    ) -> SandboxSession:
        """This and the following: see `BaseSandboxClient`."""
        _check(manifest)
        made = await super().create(snapshot=snapshot, manifest=manifest, options=options)
        return self._session(made.state)

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        _check(state.manifest)
        return self._session((await super().resume(state)).state)

    async def delete(self, session: SandboxSession) -> SandboxSession:
        inner = session._inner  # noqa: SLF001  as their own client
        if not isinstance(inner, ShelltieSandboxSession):
            raise TypeError("ShelltieSandboxClient.delete expects a session that it has made")
        await inner.close()
        if inner.state.workspace_root_owned:
            await anyio.to_thread.run_sync(remove_tree, Path(inner.state.manifest.root))
        return session

    def _session(self, state: UnixLocalSandboxSessionState) -> SandboxSession:
        approve, options = self._approve, self._options
        if approve is None and state.workspace_root_owned and options.get("workspace") is None:
            approve = approve_throwaway(options.get("isolation"), self._config)
        terminal = Terminal(self._config, approve=approve, caller=_REQUESTER.caller)
        place = TerminalThread(PtyPlace(terminal, _REQUESTER, self._max_output))
        session = ShelltieSandboxSession(state, place, self._options, self._max_output)
        return self._wrap_session(session, instrumentation=self._instrumentation)


class ShelltieSandboxSession(UnixLocalSandboxSession):
    """One workspace. Commands, processes and files of the agent go through our terminal."""

    def __init__(
        self,
        state: UnixLocalSandboxSessionState,
        place: TerminalThread[PtyPlace],
        options: Options,
        max_output: int,
    ) -> None:
        super().__init__(state=state)
        self._place = place
        self._options = options
        self._max_output = max_output
        self._root = Path(state.manifest.root).resolve()

    async def _exec_internal(
        self, *command: str | Path, timeout: float | None = None
    ) -> ExecResult:
        """See `BaseSandboxSession.exec`. What is refused has exit code 126, and says why."""
        words, options = await self._prepared(command, timeout)
        options["stdin"] = b""
        try:
            done = await self._place.call_async(
                lambda place: run_raw(place.terminal, words, self._max_output, **options)
            )
        except CommandDenied as error:
            return ExecResult(stdout=b"", stderr=_not_run(error), exit_code=_REFUSED)
        except TerminalError as error:
            raise ExecTransportError(command=command, cause=error, message=str(error)) from error
        if done.timed_out:
            context = {"reason": done.why, "output": decode(done.both[-2000:])}
            raise ExecTimeoutError(command=command, timeout_s=timeout, context=context)
        stderr = done.stderr or (done.result.error or "").encode()
        return ExecResult(stdout=done.stdout, stderr=stderr, exit_code=done.exit_code)

    async def pty_exec_start(
        self,
        *command: str | Path,
        timeout: float | None = None,
        shell: bool | list[str] = True,
        user: str | User | None = None,
        tty: bool = False,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        """See `BaseSandboxSession`. With `tty` it has no limits but those that were given."""
        given = self._prepare_exec_command(*command, shell=shell, user=user)
        words, options = await self._prepared(given, timeout)
        options |= Options(pty=True) if tty else Options(one_output=True, stdin=b"")
        wait = _START_WAITS if yield_time_s is None else yield_time_s
        wait = clamp_pty_yield_time_ms(int(wait * 1000)) / 1000
        try:
            made, wish = parse_options(words, options, _REQUESTER)
            if tty:
                made, wish = replace(made, stays_open=True), replace(wish, profile="session")
                if not (options.get("timeout") or options.get("silence")):
                    wish = replace(wish, limits=_UNLIMITED)
            return await self._place.call_async(
                lambda place: place.start(made, wish, wait, max_output_tokens)
            )
        except CommandDenied as error:
            return PtyExecUpdate(None, _not_run(error), _REFUSED, None)
        except TerminalError as error:
            raise ExecTransportError(command=given, cause=error, message=str(error)) from error

    async def pty_write_stdin(
        self,
        *,
        session_id: int,
        chars: str,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        wait = _WRITE_WAITS if yield_time_s is None else yield_time_s
        least = resolve_pty_write_yield_time_ms(
            yield_time_ms=int(wait * 1000), input_empty=not chars
        )
        typed = chars.encode("utf-8", "surrogateescape")
        return await self._place.call_async(
            lambda place: place.write(session_id, typed, least / 1000, max_output_tokens)
        )

    async def pty_terminate_all(self) -> None:
        await self._place.call_async(lambda place: place.end_all())

    def _wrap_start_error(self, error: Exception) -> Exception:
        why = f"failed to start session: {error.__cause__ or error}"
        return WorkspaceStartError(path=self._root, cause=error, message=why)

    async def _shutdown_backend(self) -> None:
        await self.close()

    async def close(self) -> None:
        """End whatever still runs for the session."""
        await anyio.to_thread.run_sync(self._place.close)

    async def read(self, path: Path, *, user: str | User | None = None) -> io.IOBase:
        _check_user(user)
        at = self.normalize_path(path)
        try:
            return io.BytesIO(await self._use_files(path, lambda files: files.read(at)))
        except FileNotFoundError as error:
            raise WorkspaceReadNotFoundError(path=path, cause=error) from error
        except OSError as error:
            raise WorkspaceArchiveReadError(path=path, cause=error) from error

    async def write(self, path: Path, data: io.IOBase, *, user: str | User | None = None) -> None:
        _check_user(user)
        content = _content(path, data)
        await self._change(path, lambda files, at: files.write(at, content))

    async def _write_new_file(
        self, path: Path, data: io.IOBase, *, user: str | User | None = None
    ) -> None:
        """Raises: FileExistsError."""
        _check_user(user)
        content = _content(path, data)

        async def create(files: Files, at: Path) -> None:
            names = [entry.name for entry in await files.list(at.parent)]
            if at.name in names:
                raise FileExistsError(str(at))
            await files.write(at, content)

        await self.mkdir(Path(path).parent, parents=True)
        await self._change(path, create, leaf=True)

    async def mkdir(
        self, path: Path | str, *, parents: bool = False, user: str | User | None = None
    ) -> None:
        _check_user(user)

        async def make(files: Files, at: Path) -> None:
            if not parents and at != self._root:
                await files.stat(at.parent)
            await files.make_directory(at)

        await self._change(path, make)

    async def rm(
        self, path: Path | str, *, recursive: bool = False, user: str | User | None = None
    ) -> None:
        _check_user(user)
        try:
            await self._change(path, lambda files, at: files.remove(at, tree=recursive), leaf=True)
        except WorkspaceArchiveWriteError as error:
            if not isinstance(error.cause, FileNotFoundError):
                raise
            if not recursive:
                failed = ExecResult(stdout=b"", stderr=str(error.cause).encode(), exit_code=1)
                raise ExecNonZeroError(failed, command=("rm", "--", str(path))) from error

    async def mv(
        self,
        source: Path | str,
        destination: Path | str,
        *,
        user: str | User | None = None,
    ) -> None:
        """A command as any other, and judged: a rename here would be none of our files."""
        ends = (self._normalize_entry_path(one, for_write=True) for one in (source, destination))
        command = ["mv", "-fT", "--", *map(str, ends)]
        result = await self.exec(*command, shell=False, user=user)
        if not result.ok():
            raise ExecNonZeroError(result, command=command)

    # By a command, and by `read`: theirs go to the files of this machine.
    ls = BaseSandboxSession.ls
    _read_bounded = BaseSandboxSession._read_bounded  # noqa: SLF001

    async def _run_file_operation_as_user(self, *_: object, user: object, **__: object) -> NoReturn:
        _check_user(user)
        raise AssertionError("it is called for a user")

    def _prepare_exec_command(
        self, *command: str | Path, shell: bool | list[str], user: str | User | None
    ) -> list[str]:
        _check_user(user)
        return super()._prepare_exec_command(*command, shell=shell, user=None)

    def _should_compute_snapshot_fingerprint_on_persist(self) -> bool:
        return False  # a resumed session restores its snapshot anyway

    async def _prepared(
        self, command: Sequence[str | Path], timeout: float | None
    ) -> tuple[list[str], Options]:
        """The command as it is judged, and how it runs.

        Raises: WorkspaceRootNotFoundError.
        """
        if not await anyio.Path(self._root).is_dir():
            raise WorkspaceRootNotFoundError(path=self._root)
        variables = await self.state.manifest.environment.resolve()
        words, others = judged_variables([str(word) for word in command], variables)
        options: Options = {
            **self._options,
            "cwd": self._root,
            "workspace": self._root,
            "env": {**others, "HOME": str(self._root)},  # as theirs
        }
        if timeout is not None:
            options["timeout"] = timeout
        return words, options

    async def _change(
        self,
        path: Path | str,
        change: Callable[[Files, Path], Awaitable[None]],
        *,
        leaf: bool = False,
    ) -> None:
        """With `leaf` it is about a link itself, not about what it leads to."""
        normalize = self._normalize_entry_path if leaf else self.normalize_path
        at = normalize(path, for_write=True)
        try:
            await self._use_files(path, lambda files: change(files, at))
        except FileExistsError:
            raise
        except OSError as error:
            raise WorkspaceArchiveWriteError(path=at, cause=error) from error

    async def _use_files(
        self, path: Path | str, work: Callable[[Files], Awaitable[ValueT]]
    ) -> ValueT:
        use = with_files(self._root, self._options, work)
        try:
            return await self._place.call_async(lambda place: use(place.terminal))
        except ValueError as error:
            raise InvalidManifestPathError(rel=path, reason="escape_root", cause=error) from error


def _check(manifest: Manifest | None) -> None:
    if manifest is not None and manifest.extra_path_grants:
        raise ValueError(
            "shelltie gives a sandbox session its workspace only: leave out extra_path_grants"
        )


def _check_user(user: object) -> None:
    if user is not None:
        raise ValueError("commands and files are those of the user who runs this program: no user=")


def _content(path: Path, data: io.IOBase) -> bytes | str:
    return coerce_write_payload(path=path, data=data).stream.read()


def _not_run(error: CommandDenied) -> bytes:
    return f"[not run: {error}]\n".encode()
