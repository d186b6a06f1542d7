"""Adapter for Inspect (inspect-ai): a sandbox environment, registered by its entry point.

>>> Task(dataset=dataset, solver=[use_tools(bash(timeout=60)), generate()], sandbox="shelltie")

Each sample has a directory and a terminal of its own, in a bubblewrap sandbox unless its
`SampleConfig` says otherwise: then no sample sees the files or processes of another, and what
would need a yes elsewhere needs none.
"""

import errno
import os
import pwd
import tempfile
from pathlib import Path
from typing import Any, Literal, overload

import anyio
import anyio.to_thread
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
    sandboxenv,
)
from pydantic import BaseModel

from shelltie.adapters.judged_variables import judged_variables
from shelltie.adapters.raw_output import RawResult, run_raw
from shelltie.adapters.throwaway import approve_throwaway
from shelltie.errors import CommandDenied, FileError, FileTooLarge, TerminalError
from shelltie.frontends.api import Options, Terminal
from shelltie.frontends.terminal_thread import TerminalThread
from shelltie.model import Caller
from shelltie.output.text import decode
from shelltie.trials.tree_copy import remove_tree

_NOT_EXECUTABLE = 126
# Files beyond the sample's directory are those of the place where commands run, for which there is
# no other way in. Each of these ends with the errno of what is wrong, 126 being nobody's.
_READ = f"""\
[ -e "$1" ] || exit {errno.ENOENT}
[ ! -d "$1" ] || exit {errno.EISDIR}
[ -r "$1" ] && [ -f "$1" ] || exit {errno.EACCES}
exec cat -- "$1"
"""
_WRITE = f"""\
[ ! -d "$1" ] || exit {errno.EISDIR}
mkdir -p -- "$(dirname -- "$1")" 2>&1 || exit {errno.EACCES}
[ ! -e "$1" ] || [ -w "$1" ] || exit {errno.EACCES}
cat > "$1" || exit {errno.EACCES}
"""


class SampleConfig(BaseModel, frozen=True):
    """Where a sample runs, and its limits: `sandbox=SandboxEnvironmentSpec("shelltie", this)`.

    `isolation` is sandbox, container, auto or none; `sandbox=("shelltie", "none")` says just that.
    `timeout` and `silence` are seconds, for commands that are called without a timeout; else the
    policy's hold.
    """

    isolation: str = "sandbox"
    provider: str | None = None
    timeout: float | None = None
    silence: float | None = None


@sandboxenv(name="shelltie")
class ShelltieSandbox(SandboxEnvironment):
    """The sandbox of one sample. It cannot run as another user, nor start Inspect's own server for
    `exec_remote`, `bash_session` and `text_editor`: nothing stays when a command has ended.
    """

    def __init__(self, config: SampleConfig, task_name: str) -> None:
        super().__init__()
        caller = Caller(client="inspect-ai", task=task_name)
        self._config = config
        terminal = Terminal(caller=caller, approve=approve_throwaway(config.isolation))
        self._place = TerminalThread(terminal)
        self.directory = tempfile.mkdtemp(prefix="shelltie-sample-")  # the last that may fail

    @classmethod
    async def sample_init(
        cls,
        task_name: str,
        config: BaseModel | str | None,
        metadata: dict[str, str],  # noqa: ARG003  of their interface
    ) -> dict[str, SandboxEnvironment]:
        """This and the following: see `SandboxEnvironment`."""
        if isinstance(config, str):
            config = SampleConfig(isolation=Path(config).name)  # they make a path of it
        sample = cls(SampleConfig.model_validate(config or SampleConfig()), task_name)
        try:
            await sample._files(lambda files: files.list())  # which says what is missing
        except BaseException:
            await sample.close()
            raise
        return {"default": sample}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,  # noqa: ARG003  of their interface
        config: BaseModel | str | None,  # noqa: ARG003
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,  # noqa: ARG003
    ) -> None:
        for environment in environments.values():
            await environment.as_type(cls).close()

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        return SampleConfig(**config)

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,  # noqa: A002  theirs
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,  # noqa: ARG002  what ran once is not run again
        concurrency: bool = True,  # noqa: ARG002
    ) -> ExecResult[str]:
        """Run a command; of each stream the last 10 MiB are told, or what Inspect's limit says.

        Raises: TimeoutError, PermissionError (not executable, or refused by the policy),
        SandboxUserUnsupportedError, SandboxUnavailableError.
        """
        if user is not None and not _is_this_user(user):
            raise SandboxUserUnsupportedError(f"commands run as the user of Inspect, not as {user}")
        options = self._options(timeout, cwd)
        words, variables = judged_variables(cmd, env or {})
        options |= Options(env=variables, stdin=input if input is not None else b"")
        done = await self._run(words, SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE, options)
        if done.timed_out:
            raise TimeoutError(f"{done.why}\n{decode(done.both[-2000:])}")
        if done.result.error is not None and done.exit_code == _NOT_EXECUTABLE:
            raise PermissionError(errno.EACCES, done.result.error)
        stderr = decode(done.stderr) or done.result.error or ""
        success = done.exit_code == 0
        return ExecResult(success, done.exit_code, decode(done.stdout), stderr)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        data = contents.encode("utf-8") if isinstance(contents, str) else contents
        if self._outside(file):
            await self._by_command(_WRITE, file, data)
        else:
            await self._files(lambda files: files.write(file, data), file)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """Raises: OutputLimitExceededError, UnicodeDecodeError, OSError."""
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        if self._outside(file):
            content = await self._by_command(_READ, file, b"", limit)
        else:
            content = await self._files(lambda files: files.read(file, limit), file)
        return content.decode("utf-8") if text else content

    def _outside(self, file: str) -> bool:
        return file.startswith("/") and not Path(file).is_relative_to(self.directory)

    async def _files(self, act: Any, file: str = "") -> Any:  # noqa: ANN401  of any value
        config = self._config

        def do(terminal: Terminal) -> Any:  # noqa: ANN401
            where = {"isolation": config.isolation, "provider": config.provider}
            return act(terminal.files.at(self.directory, **where, secrets=True))

        try:
            return await self._place.call_async(do)
        except FileTooLarge as error:
            limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR
            raise OutputLimitExceededError(limit, None) from error
        except FileError as error:
            raise OSError(error.errno, str(error), file) from error
        except TerminalError as error:
            raise SandboxUnavailableError(str(error)) from error

    async def _by_command(self, script: str, file: str, data: bytes, limit: int = 4096) -> bytes:
        options = self._options(None, None) | Options(stdin=data)
        done = await self._run(["/bin/sh", "-c", script, "sh", file], limit, options)
        if done.timed_out:
            raise TimeoutError(done.why)
        if done.exit_code != 0:
            code = (
                done.exit_code if done.exit_code in (errno.ENOENT, errno.EISDIR) else errno.EACCES
            )
            raise OSError(code, os.strerror(code), file)
        if done.lost:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        return done.stdout

    def _options(self, timeout: float | None, cwd: str | None) -> Options:
        config = self._config
        return Options(
            cwd=os.path.join(self.directory, cwd or ""),  # noqa: PTH118  an absolute one stays
            workspace=self.directory,
            isolation=config.isolation,
            provider=config.provider,
            timeout=timeout or config.timeout,
            silence=config.silence,
        )

    async def _run(self, cmd: list[str], limit: int, options: Options) -> RawResult:
        try:
            return await self._place.call_async(
                lambda terminal: run_raw(terminal, cmd, limit, **options)
            )
        except CommandDenied as error:  # Inspect tells the model
            raise PermissionError(errno.EACCES, str(error)) from error
        except TerminalError as error:
            raise SandboxUnavailableError(str(error)) from error

    async def close(self) -> None:
        """End whatever still runs for the sample, and remove its directory."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._place.close)
            await anyio.to_thread.run_sync(remove_tree, Path(self.directory))


def _is_this_user(user: str) -> bool:
    try:
        return (int(user) if user.isdecimal() else pwd.getpwnam(user).pw_uid) == os.geteuid()
    except KeyError:
        return False
