"""Adapter for the Claude Agent SDK: an in-process MCP server, and the permission callback.

>>> shell = ClaudeShell(cwd="project")
>>> async for message in query(prompt="…", options=shell.agent_options()):

The SDK asks the callback only where no rule of Claude Code has decided; a command that nobody was
asked about, and that needs a yes, is refused by the server.
"""

from pathlib import Path
from typing import Any, Unpack

from claude_agent_sdk import (
    CanUseTool,
    ClaudeAgentOptions,
    McpSdkServerConfig,
    PermissionResultAllow,
    PermissionResultDeny,
    ToolPermissionContext,
    create_sdk_mcp_server,
    tool,
)

from shelltie.adapters.command_tool import DESCRIPTION, SHOWN, CommandTool
from shelltie.errors import ConfirmationRequired, InvalidParameters
from shelltie.frontends.api import Options
from shelltie.frontends.dry_run import DryRun
from shelltie.frontends.terminal_thread import TerminalThread
from shelltie.settings.config import Config
from shelltie.settings.layers import load
from shelltie.verdict import Decision

_NAME = "claude-agent-sdk"
_SERVER = "shelltie"
TOOL = f"mcp__{_SERVER}__shell"
_SCHEMA = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "timeout": {"type": "number"}},
    "required": ["command"],
}
_APPROVED_MAX = 1000


class ClaudeShell:
    """A `shell` tool whose commands run on leashes, and who decides about them.

    `ask` is the program's own `can_use_tool`: it is called for commands that need a yes, and for
    whatever is no command. Without it the former are refused, and so is the latter.
    """

    def __init__(
        self,
        config: Config | None = None,
        shown: int = SHOWN,
        ask: CanUseTool | None = None,
        **options: Unpack[Options],
    ) -> None:
        self._config = config or load(Path.cwd())
        self._ask = ask
        # The SDK has no end for a server of a program, whose next agent may have another loop.
        self._tool = TerminalThread(CommandTool(_NAME, self._config, shown, **options))
        self._place = Path(options.get("cwd") or ".").absolute()
        self._approved: dict[str, None] = {}

    def agent_options(self, **more: Any) -> ClaudeAgentOptions:  # noqa: ANN401  theirs
        """Options for `query` and `ClaudeSDKClient`, where ours is the only shell."""
        more["mcp_servers"] = {**more.get("mcp_servers", {}), _SERVER: self.server()}
        more["disallowed_tools"] = [*more.get("disallowed_tools", []), "Bash"]
        return ClaudeAgentOptions(can_use_tool=self.can_use_tool, **more)

    def server(self) -> McpSdkServerConfig:
        """The in-process server, for `ClaudeAgentOptions.mcp_servers`."""
        shell = tool("shell", DESCRIPTION, _SCHEMA)(self._call)
        return create_sdk_mcp_server(_SERVER, tools=[shell])

    def close(self) -> None:
        """End whatever still runs; without it that is the end of the program, or of this."""
        self._tool.close()

    async def _call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        command = arguments["command"]
        approved = command in self._approved
        self._approved.pop(command, None)
        timeout = arguments.get("timeout")
        try:
            answer = await self._tool.call_async(
                lambda tool: tool.call_or_defer(command, timeout, approved=approved)
            )
            text, failed = answer.text, answer.failed
        except ConfirmationRequired as asked:
            text, failed = f"[not run: {asked}]", True
        return {"content": [{"type": "text", "text": text}], "is_error": failed}

    async def can_use_tool(
        self, name: str, arguments: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        """Whether the tool may be used: a command as the policy says, and `ask` says the rest."""
        if name not in (TOOL, "Bash"):
            return await self._ask_program(name, arguments, context)
        command = arguments.get("command")
        try:
            found = await DryRun(self._config, self._place).one(str(command))
        except InvalidParameters as error:
            return PermissionResultDeny(message=str(error))
        if found.decision is Decision.ALLOW:
            return PermissionResultAllow()
        why = "; ".join(reason.message for reason in found.verdict.reasons)
        if found.decision is Decision.DENY:
            return PermissionResultDeny(message=f"the policy refuses this command: {why}")
        if name == TOOL and found.decision is Decision.TRIAL:
            return PermissionResultAllow()  # it is run on trial
        context.decision_reason = context.decision_reason or why
        said = await self._ask_program(name, arguments, context)
        if isinstance(said, PermissionResultAllow) and name == TOOL:
            changed = said.updated_input or arguments
            self._approved[str(changed.get("command"))] = None
            while len(self._approved) > _APPROVED_MAX:
                del self._approved[next(iter(self._approved))]
        return said

    async def _ask_program(
        self, name: str, arguments: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        if self._ask is None:
            return PermissionResultDeny(message=f"nobody can be asked about this call of {name}")
        return await self._ask(name, arguments, context)
