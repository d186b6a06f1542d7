"""Adapter for smolagents: a tool.

>>> agent = ToolCallingAgent(tools=[ShellTool(cwd="project")], model=model)

The seam of smolagents for "where it runs" is `PythonExecutor`, which is given Python and keeps its
variables from step to step: not a place for commands. So the agent's own Python is not on a leash;
of a `CodeAgent` that is every line it writes, and only what goes through this tool is held. The
tool cannot be cancelled, as no tool of smolagents can: it ends by its limits.
"""

from typing import Unpack

from smolagents import Tool

from shelltie.adapters.command_tool import DESCRIPTION, SHOWN, CommandTool
from shelltie.approval.broker import Callback
from shelltie.frontends.api import Options
from shelltie.frontends.terminal_thread import TerminalThread
from shelltie.settings.config import Config


class ShellTool(Tool):
    """A tool `shell` whose commands run on leashes; `options` hold for all of them.

    `approve` is asked about commands that need a yes: smolagents has no way of its own.
    """

    name = "shell"
    description = DESCRIPTION
    inputs = {  # noqa: RUF012  as smolagents reads it
        "command": {"type": "string", "description": "for a shell"},
        "timeout": {"type": "number", "description": "seconds", "nullable": True},
    }
    output_type = "string"

    def __init__(
        self,
        config: Config | None = None,
        shown: int = SHOWN,
        approve: Callback | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__()
        tool = CommandTool("smolagents", config, shown, approve, **options)
        self._tool = TerminalThread(tool)

    def forward(self, command: str, timeout: float | None = None) -> str:
        """See `Tool`."""
        return self._tool.call(lambda tool: tool.call(command, timeout)).text

    def close(self) -> None:
        """End whatever still runs; without it that is the end of the program, or of the tool."""
        self._tool.close()
