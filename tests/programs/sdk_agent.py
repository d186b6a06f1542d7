"""An agent on the official Python SDK that does what its prompt says: a list of requests, as JSON.

`"@0"` stands for the terminal of the first answer, `until` repeats a request until its output has
that text, and `all` has requests that are made at once. All answers are its message.
"""

import asyncio
import json
from typing import Any

import acp
from acp.schema import (
    AgentMessageChunk,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    TextContentBlock,
)

METHODS = {
    "terminal/create": "create_terminal",
    "terminal/output": "terminal_output",
    "terminal/wait_for_exit": "wait_for_terminal_exit",
    "terminal/kill": "kill_terminal",
    "terminal/release": "release_terminal",
}
NAMES = {
    "sessionId": "session_id",
    "terminalId": "terminal_id",
    "outputByteLimit": "output_byte_limit",
}


class Agent:
    connection: Any

    def on_connect(self, connection: Any) -> None:
        self.connection = connection

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        return InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, **_: Any) -> NewSessionResponse:
        return NewSessionResponse(session_id="sess_1")

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        answers: list[dict[str, Any]] = []
        for step in json.loads(prompt[0].text):
            answers.append(await self.perform(step, answers))
        block = TextContentBlock(type="text", text=json.dumps(answers))
        chunk = AgentMessageChunk(session_update="agent_message_chunk", content=block)
        await self.connection.session_update(session_id=session_id, update=chunk)
        return PromptResponse(stop_reason="end_turn")

    async def perform(self, step: dict[str, Any], answers: list[Any]) -> dict[str, Any]:
        if "all" in step:
            steps = (self.perform(one, answers) for one in step["all"])
            return {"all": await asyncio.gather(*steps)}
        call = getattr(self.connection, METHODS[step["method"]])
        params = {"sessionId": "sess_1", **step["params"]}
        terminal = params.get("terminalId", "")
        if terminal.startswith("@"):
            params["terminalId"] = answers[int(terminal[1:])]["result"]["terminalId"]
        meta = params.pop("_meta", {})
        named = {NAMES.get(name, name): value for name, value in params.items()}
        while True:
            try:
                result = await call(**named, **meta)
            except acp.RequestError as error:
                return {"error": {"code": error.code, "message": str(error)}}
            said = {} if result is None else result.model_dump(by_alias=True, exclude_none=True)
            if step.get("until", "") in said.get("output", ""):
                return {"result": said}
            await asyncio.sleep(0.02)


asyncio.run(acp.run_agent(Agent()))  # type: ignore[arg-type]  # the methods it needs, not all
