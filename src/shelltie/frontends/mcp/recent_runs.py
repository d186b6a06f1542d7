"""Cache of the last results of each client, readable as resources."""

import time
from collections import OrderedDict, deque
from collections.abc import Iterator

from mcp_types import CallToolResult

from shelltie.basics.frozen import frozen
from shelltie.frontends.mcp.request import ToolCall

_RUNS_MAX = 20  # of one client; a result has some ten KB
_OWNERS_MAX = 100
_BRIEF = ("status", "exitCode", "timeoutReason", "durationMs", "sessionId")


@frozen
class Remembered:
    """A run that was answered."""

    id: str
    command: str
    at: float
    result: dict[str, object]

    def brief(self) -> dict[str, object]:
        """What a list says of it."""
        known = {name: self.result[name] for name in _BRIEF if name in self.result}
        told = "answeredAt" if known.get("status") == "running" else "endedAt"
        return {"runId": self.id, "command": self.command, told: self.at, **known}


class Recent:
    """Nobody sees what others ran. The oldest is forgotten first, of clients as of runs."""

    def __init__(self) -> None:
        self._owners: OrderedDict[str, deque[Remembered]] = OrderedDict()

    def note(self, call: ToolCall, result: CallToolResult) -> bool:
        """Keep a result that is one of a run; whether it is."""
        match result.structured_content:
            case {"runId": str(run)} as answer:
                kept = self._owners.setdefault(call.owner, deque(maxlen=_RUNS_MAX))
                command = str(call.arguments.get("command", ""))
                kept.append(Remembered(run, command, time.time(), answer))
                self._owners.move_to_end(call.owner)
                if len(self._owners) > _OWNERS_MAX:
                    self._owners.popitem(last=False)
                return True
            case _:
                return False

    def of(self, owner: str) -> Iterator[Remembered]:
        """The newest first."""
        return reversed(self._owners.get(owner, deque()))

    def find(self, run: str, owner: str) -> Remembered | None:
        """One of them by its id."""
        return next((one for one in self.of(owner) if one.id == run), None)
