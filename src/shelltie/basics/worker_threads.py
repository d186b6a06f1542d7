"""Worker threads for what blocks, so that the event loop goes on; and the same without a loop.

A program that asks one thing and leaves needs none: it saves the imports of asyncio and anyio, as
long as the rest of its start.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar, TypeVarTuple

import anyio

_AT_ONCE = 4  # threads stay for a while: a hundred calls at once would leave forty behind

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Threads(Protocol):
    """Where blocking work is done."""

    async def run(self, work: Callable[[*Ts], T], *given: *Ts) -> T:
        """Do it, and wait for it."""
        ...

    async def run_in_turn(self, work: Callable[[*Ts], T], *given: *Ts) -> T:
        """The same for what keeps a processor busy. It may go on though its caller is cancelled."""
        ...


class WorkerThreads:
    """In other threads."""

    def __init__(self) -> None:
        self._few: anyio.CapacityLimiter | None = None
        self._turn: anyio.CapacityLimiter | None = None

    async def run(self, work: Callable[[*Ts], T], *given: *Ts) -> T:
        """See `Threads`."""
        self._few = self._few or anyio.CapacityLimiter(_AT_ONCE)
        return await anyio.to_thread.run_sync(work, *given, limiter=self._few)

    async def run_in_turn(self, work: Callable[[*Ts], T], *given: *Ts) -> T:
        """See `Threads`. Threads share one interpreter: two would be ready no sooner, and the event
        loop would have its turn less often.
        """
        self._turn = self._turn or anyio.CapacityLimiter(1)
        return await anyio.to_thread.run_sync(
            work, *given, abandon_on_cancel=True, limiter=self._turn
        )


class CallersThread:
    """At once: there is no loop that could go on meanwhile. For `without_loop`."""

    async def run(self, work: Callable[[*Ts], T], *given: *Ts) -> T:
        """See `Threads`."""
        return work(*given)

    async def run_in_turn(self, work: Callable[[*Ts], T], *given: *Ts) -> T:
        """See `Threads`."""
        return work(*given)


def without_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that waits for nothing but work in its `CallersThread`."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    coroutine.close()
    raise RuntimeError("it waits for something, and no event loop runs")
