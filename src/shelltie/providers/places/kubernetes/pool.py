"""Pool of pods that run already and wait for a keeper (warm start)."""

import asyncio
import secrets
from collections import deque
from collections.abc import Awaitable, Callable

import anyio

from shelltie.errors import CannotStart

WAITS = 3600.0  # seconds that such a pod waits for a keeper, before it ends by itself
_FRESH = WAITS - 600.0


class PodPool:
    """`make` starts a pod of that name and waits until it runs; `remove` removes one."""

    def __init__(
        self,
        size: int,
        make: Callable[[str], Awaitable[None]],
        remove: Callable[[str], Awaitable[None]],
    ) -> None:
        self._size = size
        self._make, self._remove = make, remove
        self._ready: deque[tuple[str, float]] = deque()  # with when it began to wait
        self._tasks: set[asyncio.Task[None]] = set()
        self._scopes: set[anyio.CancelScope] = set()  # not Task.cancel: it interrupts requests, too
        self._making = 0

    @property
    def ready(self) -> int:
        """How many could be taken now."""
        return len(self._ready)

    def take(self) -> str | None:
        """The name of one, which is the caller's now; another is made for it."""
        now = asyncio.get_running_loop().time()
        taken = None
        while self._ready and taken is None:
            name, since = self._ready.popleft()
            if now - since < _FRESH:
                taken = name
            else:
                self._run(self._remove(name))
        self.fill()
        return taken

    def fill(self) -> None:
        """Make those that are missing, beside what goes on."""
        while len(self._ready) + self._making < self._size:
            self._making += 1
            self._run(self._add())

    async def close(self) -> None:
        """Remove them all."""
        self._size = 0
        for scope in tuple(self._scopes):
            scope.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)
        while self._ready:
            await self._remove(self._ready.popleft()[0])

    async def _add(self) -> None:
        name = f"shelltie-warm-{secrets.token_hex(5)}"
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                await self._make(name)
                self._ready.append((name, asyncio.get_running_loop().time()))
            except CannotStart:  # a launch meets the same, and has somebody to tell
                pass
            finally:
                self._scopes.discard(scope)
                self._making -= 1

    def _run(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
