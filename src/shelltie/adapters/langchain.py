"""Adapter for LangChain: an execution policy for its shell middleware, and a tool.

>>> agent = create_agent(model, tools=[shell_tool(cwd="project")])
>>> shell = ShellToolMiddleware(execution_policy=ExecutionPolicy(isolation="sandbox"))
>>> agent = create_agent(model, middleware=[shell])

The tool is the better one: each command is judged, has both limits, keeps what it printed when it
is late, and is asked about as an interrupt. The policy gives the middleware's one long-lived shell
a leash and isolation; its commands are typed, so that they are not judged one by one.
"""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Unpack

from langchain.agents.middleware import shell_tool as middleware
from langchain.agents.middleware._execution import BaseExecutionPolicy
from langchain_core.tools import StructuredTool
from langgraph.types import interrupt

from shelltie.adapters import leashed_shell
from shelltie.adapters.command_tool import DESCRIPTION, SHOWN, CommandTool, question_of
from shelltie.environment import child
from shelltie.errors import ConfirmationRequired
from shelltie.frontends.api import Options
from shelltie.frontends.terminal_thread import TerminalThread
from shelltie.settings.config import Config

_NAME = "langchain"
_NO = "[not run: the person who was asked did not say yes]"
_LINE_MAX = 64 * 1024


def shell_tool(
    config: Config | None = None, shown: int = SHOWN, **options: Unpack[Options]
) -> StructuredTool:
    """A tool `shell` whose commands run on leashes; `options` hold for all of them.

    What needs a yes interrupts the graph; it goes on with `Command(resume=True)`, and any other
    answer is a no. Without a checkpointer LangGraph cannot do that, and the call fails.
    """

    # `invoke` is called in threads without an event loop, and `ainvoke` in any.
    thread = TerminalThread(CommandTool(_NAME, config, shown, **options))

    async def run(command: str, timeout: float | None = None) -> str:
        try:
            answer = await thread.call_async(
                lambda tool: tool.call_or_defer(command, timeout, approved=False)
            )
        except ConfirmationRequired as asked:
            if not _interrupt(command, asked):
                return _NO
            answer = await thread.call_async(
                lambda tool: tool.call_or_defer(command, timeout, approved=True)
            )
        return answer.text

    def run_sync(command: str, timeout: float | None = None) -> str:
        try:
            answer = thread.call(lambda tool: tool.call_or_defer(command, timeout, approved=False))
        except ConfirmationRequired as asked:
            if not _interrupt(command, asked):
                return _NO
            answer = thread.call(lambda tool: tool.call_or_defer(command, timeout, approved=True))
        return answer.text

    return StructuredTool.from_function(
        run_sync, coroutine=run, name="shell", description=DESCRIPTION
    )


def _interrupt(command: str, asked: ConfirmationRequired) -> bool:
    """Leave the graph with a question; when it is resumed, whether the answer is a yes."""
    return interrupt({"command": command, **question_of(asked)}) is True


@dataclass
class ExecutionPolicy(BaseExecutionPolicy):
    """Runs the shell of `ShellToolMiddleware` on a leash: whatever it started ends with it, and it
    has this `isolation`.

    `command_timeout` is the middleware's own clock: when a command is late it ends the shell and
    begins another, and what was printed is lost. `env` of the middleware adds to the environment.
    """

    # `exit` is not read by a shell that is busy; what then ends it takes everything along.
    termination_timeout: float = 1.0
    isolation: str = "none"

    def spawn(
        self, *, workspace: Path, env: Mapping[str, str], command: Sequence[str]
    ) -> "subprocess.Popen[str]":
        """See `BaseExecutionPolicy`."""
        process = subprocess.Popen(
            [sys.executable, "-m", leashed_shell.__name__, self.isolation, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=workspace,
            env={**child.inherited(), **env},
            text=True,
            encoding="utf-8",
            errors="replace",
            bufsize=1,
            start_new_session=True,  # the middleware kills the whole group, and must not be in it
        )
        process.stdout = _MarkedLines(process.stdout, process)  # type: ignore[assignment]
        process.stderr = _MarkedLines(process.stderr, process)  # type: ignore[assignment]
        return process


class _MarkedLines:
    """Lines of a shell's output, of bounded length, and each mark of an end on a line of its own.

    The middleware looks for its mark at the beginning of a line, where it is not after a command
    whose output has no end of line; and it would hold 200 MB without one in memory. It neither
    closes what it has read to the end, nor waits for a process that it killed: this does.
    """

    def __init__(self, stream: IO[str] | None, process: "subprocess.Popen[str]") -> None:
        assert stream is not None
        self._stream = stream
        self._process = process
        self._held = ""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever else a stream has
        return getattr(self._stream, name)

    def readline(self) -> str:
        """The next line, or a part of one."""
        line = self._held or self._stream.readline(_LINE_MAX)
        self._held = ""
        at = line.find(middleware._DONE_MARKER_PREFIX)  # noqa: SLF001  it has no other name
        if at > 0:
            line, self._held = line[:at], line[at:]
        if not line:
            self._stream.close()
            self._process.wait()
        return line
