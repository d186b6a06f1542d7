"""An ACP agent that runs each prompt in a terminal of the editor's, for two seconds at most.

It shows the five steps of the timeout pattern: create, race the timer and the exit, kill if the
timer wins, read, release. `execute_with_timeout` does all five.
"""

import asyncio
import os
from typing import Any
from uuid import uuid4

import acp
from acp.schema import (
    AgentMessageChunk,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    TextContentBlock,
)

from shelltie.acp import TimedOut, execute_with_timeout

TIMEOUT = float(os.environ.get("ACP_EXAMPLE_TIMEOUT", "2"))


class Agent:
    """The least that an editor can talk to."""

    connection: Any

    def on_connect(self, connection: Any) -> None:
        self.connection = connection

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        return InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, **_: Any) -> NewSessionResponse:
        return NewSessionResponse(session_id=f"sess_{uuid4().hex}")

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        command = prompt[0].text
        result = await execute_with_timeout(self.connection, session_id, command, timeout=TIMEOUT)
        if isinstance(result, TimedOut):
            said = f"timed out; so far: {result.output!r}"
        else:
            said = f"exit {result.exit_status.exit_code}: {result.output!r}"
        block = TextContentBlock(type="text", text=said)
        await self.connection.session_update(
            session_id=session_id,
            update=AgentMessageChunk(session_update="agent_message_chunk", content=block),
        )
        return PromptResponse(stop_reason="end_turn")


if __name__ == "__main__":
    asyncio.run(acp.run_agent(Agent()))  # type: ignore[arg-type]  # the methods it needs, not all
