"""An ACP client that gives its agent terminals on a leash.

Usage: acp_editor.py PROMPT… -- AGENT [ARGUMENT…]
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import acp
from acp.schema import ClientCapabilities, RequestPermissionResponse, TextContentBlock

from shelltie import Terminal
from shelltie.acp import HostedTerminals, TerminalHost


class Editor(HostedTerminals):
    """Prints what the agent says, and says yes to nothing."""

    async def session_update(self, update: Any, **_: Any) -> None:
        if update.session_update == "agent_message_chunk":
            print(update.content.text, flush=True)

    async def request_permission(self, **_: Any) -> RequestPermissionResponse:
        return RequestPermissionResponse.model_validate({"outcome": {"outcome": "cancelled"}})


async def main(prompts: list[str], agent: list[str]) -> None:
    async with Terminal() as terminal, TerminalHost(terminal.supervisor) as host:
        # An agent's complaints go to our own stderr: a pipe that nobody reads would stop it.
        spawned = acp.spawn_agent_process(
            Editor(host),  # type: ignore[arg-type]  # the methods it needs, not all
            *agent,
            env=dict(os.environ),
            transport_kwargs={"stderr": None},
        )
        async with spawned as (connection, _):
            capabilities = ClientCapabilities(terminal=host.offered)
            await connection.initialize(protocol_version=1, client_capabilities=capabilities)
            session = await connection.new_session(cwd=str(Path.cwd()), mcp_servers=[])
            host.open_session(session.session_id, Path.cwd())
            for text in prompts:
                block = TextContentBlock(type="text", text=text)
                await connection.prompt(session_id=session.session_id, prompt=[block])


if __name__ == "__main__":
    if "--" not in sys.argv:
        sys.exit(__doc__)
    split = sys.argv.index("--")
    asyncio.run(main(sys.argv[1:split], sys.argv[split + 1 :]))
