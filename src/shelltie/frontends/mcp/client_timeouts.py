"""Request timeouts of MCP clients, and so how long a call may take here. Pure."""

import math

# Most clients give up after 60 s (the TypeScript SDK, Claude Desktop, Zed), and some cannot be told
# otherwise. Nothing keeps all of them waiting but an answer.
USUAL = 50.0
# How a client's name begins, and seconds below what it waits for unless its user says otherwise.
_KNOWN = (
    ("claude-code", 110.0),  # puts a call into the background after 120 s
    ("codex", 280.0),  # 300 s
    ("goose", 280.0),  # 300 s
    ("gemini-cli", 580.0),  # 600 s
)


def client_timeout(client: str, configured: float | None = None) -> float:
    """Seconds from the arrival of a call to its answer. What is `configured` wins; 0: no limit."""
    if configured is not None:
        return configured or math.inf
    name = client.casefold()
    return next((seconds for start, seconds in _KNOWN if name.startswith(start)), USUAL)
