"""Messages API on loopback, with a script in place of a model: for a real Claude Code, offline."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class ScriptedMessages(ThreadingHTTPServer):
    """Calls these tools in turn, by how many results there are, and then says `done`."""

    daemon_threads = True

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.calls = calls
        self.results: list[str] = []

    def respond(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """The next thing the model says."""
        blocks = [
            block
            for message in messages
            if isinstance(message["content"], list)
            for block in message["content"]
        ]
        results = [block["content"] for block in blocks if block["type"] == "tool_result"]
        self.results = [json.dumps(result) for result in results]
        if len(results) >= len(self.calls):
            return {"type": "text", "text": "done"}
        name, arguments = self.calls[len(results)]
        return {"type": "tool_use", "id": f"call_{len(results)}", "name": name, "input": arguments}


class _Answer(BaseHTTPRequestHandler):
    """One request."""

    server: ScriptedMessages

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.end_headers()

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "count_tokens" in self.path:
            self._send("application/json", json.dumps({"input_tokens": 1}))
            return
        block = self.server.respond(request["messages"]) if request.get("tools") else None
        events = _events(block or {"type": "text", "text": "done"})
        lines = (f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)
        self._send("text/event-stream", "".join(lines))

    def _send(self, kind: str, body: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _events(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    used = {"input_tokens": 1, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "fake",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": used,
    }
    yield {"type": "message_start", "message": message}
    begun: dict[str, Any] = {"type": "text", "text": ""}
    delta: dict[str, Any] = {"type": "text_delta", "text": block.get("text")}
    if block["type"] != "text":
        begun = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    yield {"type": "content_block_start", "index": 0, "content_block": begun}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    why = "end_turn" if block["type"] == "text" else "tool_use"
    yield {"type": "message_delta", "delta": {"stop_reason": why}, "usage": used}
    yield {"type": "message_stop"}


@contextmanager
def scripted_messages(*calls: tuple[str, dict[str, Any]]) -> Iterator[ScriptedMessages]:
    """The server, while it serves."""
    with ScriptedMessages(*calls) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
