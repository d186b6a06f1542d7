"""Whether the event loop goes round while something is done."""

from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel


async def turns_during(work: Callable[[], Awaitable[object]]) -> int:
    """How often another task had its turn before the work was done."""
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take_turns)
        await anyio.lowlevel.checkpoint()
        await work()
        tasks.cancel_scope.cancel()
    return turns
