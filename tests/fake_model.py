"""Model on loopback that asks an agent to run commands, in the protocols of three vendors.

It speaks as much of each as the real clients need: they cannot tell it from the vendor's.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Event = tuple[str, dict[str, Any]]  # of a stream: its name, and what is in it


@dataclass
class FakeModel:
    """Asks for one command after another; `results` is what the agent says of each."""

    commands: Sequence[str]
    port: int = 0
    results: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, path: str, body: dict[str, Any]) -> list[Event]:
        """The next command, or that it is done."""
        if path.endswith("/messages"):
            return self._anthropic(body)
        if path.endswith("/responses"):
            return self._openai(body)
        if "treamGenerateContent" in path:
            return self._gemini(body)
        return []

    def _next(self, results: list[str]) -> str | None:
        if len(results) > len(self.results):
            self.results = results
        return self.commands[len(results)] if len(results) < len(self.commands) else None

    def _anthropic(self, body: dict[str, Any]) -> list[Event]:
        blocks = [
            block
            for message in body["messages"]
            for block in (message["content"] if isinstance(message["content"], list) else ())
        ]
        told = [json.dumps(b["content"]) for b in blocks if b.get("type") == "tool_result"]
        offered = any(tool.get("name") == "Bash" for tool in body.get("tools", ()))
        command = self._next(told) if offered else None
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []}
        if command is None:
            block: dict[str, Any] = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": "done"}
        else:
            block = {"type": "tool_use", "id": f"t{len(told)}", "name": "Bash", "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps({"command": command})}
        stop = "end_turn" if command is None else "tool_use"
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**message, "usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage},
            {"type": "message_stop"},
        ]
        return [(event["type"], event) for event in events]

    def _openai(self, body: dict[str, Any]) -> list[Event]:
        said = [one for one in body["input"] if one.get("type") == "function_call_output"]
        told = [json.dumps(one["output"]) for one in said]
        command = self._next(told)
        if command is None:
            text = [{"type": "output_text", "text": "done"}]
            item: dict[str, Any] = {"type": "message", "role": "assistant", "content": text}
        else:
            item = {"type": "function_call", "call_id": f"c{len(told)}", "name": "exec_command"}
            item["arguments"] = json.dumps({"cmd": command})
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": {"id": "r"}},
            {"type": "response.output_item.done", "item": {"id": "i", **item}},
            {"type": "response.completed", "response": {"id": "r", "usage": usage}},
        ]
        return [(event["type"], event) for event in events]

    def _gemini(self, body: dict[str, Any]) -> list[Event]:
        parts = [part for content in body["contents"] for part in content.get("parts", ())]
        told = [json.dumps(p["functionResponse"]) for p in parts if "functionResponse" in p]
        command = self._next(told)
        part: dict[str, Any] = {"text": "done"}
        if command is not None:
            call = {"name": "run_shell_command", "args": {"command": command}}
            part = {"functionCall": call}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        return [("", {"candidates": [candidate], "usageMetadata": usage})]


@contextmanager
def fake_model(*commands: str) -> Iterator[FakeModel]:
    """A model that listens, and asks for these commands."""
    model = FakeModel(commands)

    class _Requests(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}")
            events = model.answer(self.path.partition("?")[0], body)
            lines = [
                (f"event: {name}\n" if name else "") + f"data: {json.dumps(event)}\n\n"
                for name, event in events
            ]
            kind = "text/event-stream" if events else "application/json"
            self._send(kind, "".join(lines) or "{}")

        def do_GET(self) -> None:
            self._send("application/json", '{"data": [], "models": []}')

        do_HEAD = do_GET  # noqa: N815  http.server calls it so

        def _send(self, kind: str, text: str) -> None:
            data = text.encode()
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), _Requests)
    model.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
