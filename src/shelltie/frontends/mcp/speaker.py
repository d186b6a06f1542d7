"""Says one thing after the other to a client, and delays nobody who does not listen."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

_log = logging.getLogger(__name__)

_UNSAID_MAX = 32
Say = Callable[[], Awaitable[None]]


class Speaker:
    """What cannot be said is dropped, the oldest first."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._unsaid: deque[Say] = deque(maxlen=_UNSAID_MAX)
        self._said: anyio.Event | None = None  # set when there is nothing left to say

    @property
    def spoke(self) -> bool:
        """Whether anything was to be said at all."""
        return self._said is not None

    @property
    def busy(self) -> bool:
        """Whether the client has not heard everything yet."""
        return self._said is not None and not self._said.is_set()

    def say(self, say: Say) -> None:
        """After what is said now."""
        self._unsaid.append(say)
        if not self.busy:
            self._said = anyio.Event()
            self._tasks.start_soon(self._speak, self._said)

    async def finish(self, most: float) -> None:
        """Wait until everything is said, but no longer than so many seconds."""
        if self._said is not None:
            with anyio.move_on_after(most):
                await self._said.wait()

    async def _speak(self, said: anyio.Event) -> None:
        while self._unsaid:
            try:
                await self._unsaid.popleft()()
            except Exception:  # noqa: BLE001  whatever the wire does, the run goes on
                _log.debug("a client could not be told", exc_info=True)
        said.set()
