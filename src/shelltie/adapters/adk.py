"""Adapter for Google ADK: an environment for its `EnvironmentToolset`.

>>> agent = Agent(model=…, tools=[EnvironmentToolset(environment=AdkEnvironment())])

ADK's own tool gives every command 30 seconds, and has no way to ask a person for one command of an
environment: what needs a yes is asked as any terminal asks it.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Unpack

import anyio.to_thread
from google.adk.environment import ExecutionResult, LocalEnvironment

from shelltie.adapters.workspace_files import ValueT, with_files
from shelltie.approval.broker import Callback
from shelltie.frontends.api import Options, Terminal
from shelltie.frontends.files import Files
from shelltie.frontends.reports.run_report import Result, report
from shelltie.frontends.terminal_thread import TerminalThread
from shelltie.model import Caller
from shelltie.settings.config import Config

# ADK's tools cut off what is longer than 30000 characters, and with it the end, which tells most.
_SHOWN = 29_000


class AdkEnvironment(LocalEnvironment):
    """A directory whose commands run on leashes; without one, it is temporary until `close()`.

    Files are read and written there and nowhere else, as its commands see them. The model
    reads `shown` bytes of output, the beginning and the end. `approve` is asked about commands that
    need a yes, in a thread of its own. `options` hold for all commands.
    """

    def __init__(
        self,
        *,
        working_dir: Path | None = None,
        config: Config | None = None,
        shown: int = _SHOWN,
        approve: Callback | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(working_dir=working_dir)
        terminal = Terminal(config, approve=approve, caller=Caller(client="google-adk"))
        # `Runner.run` has a new event loop for each message.
        self._terminal = TerminalThread(terminal)
        self._shown = shown
        self._options = options

    async def execute(
        self,
        command: str,
        *,
        timeout: float | None = None,
    ) -> ExecutionResult:
        """Run a command in a shell.

        Raises: TerminalError if it was refused, of which ADK's tool makes an answer.
        """
        options: Options = {**self._options, "cwd": self.working_dir}
        if timeout is not None:
            options["timeout"] = timeout

        async def run(terminal: Terminal) -> Result:
            started = await terminal.start(command, **options)
            await terminal.supervisor.attend(started)
            return report(started, self._shown)

        result = await self._terminal.call_async(run)
        return ExecutionResult(
            exit_code=result.exit_code,
            stdout=result.stdout,
            stderr=result.stderr,
            timed_out=result.timeout_reason is not None,
        )

    async def read_file(self, path: str | Path) -> bytes:
        """See `BaseEnvironment`. Raises: ValueError for what is not in the directory; OSError."""
        return await self._use_files(lambda files: files.read(path))

    async def write_file(self, path: str | Path, content: str | bytes) -> None:
        """See `BaseEnvironment`. Raises: ValueError for what is not in the directory; OSError."""
        await self._use_files(lambda files: files.write(path, content))

    async def _use_files(self, work: Callable[[Files], Awaitable[ValueT]]) -> ValueT:
        return await self._terminal.call_async(with_files(self.working_dir, self._options, work))

    async def close(self) -> None:
        """See `BaseEnvironment`."""
        await anyio.to_thread.run_sync(self._terminal.close)
        await super().close()
