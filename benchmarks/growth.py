"""Whether a run costs more the more there is beside it: commands that live."""

import asyncio

from benchmarks.measuring import TRUE, fresh_terminal, take_turns
from benchmarks.rows import Goal, Of, Row

_LIVING = (100, 1000)
_FEW = 10


def measure() -> list[Row]:
    """Each beside the same with little of it."""
    return [asyncio.run(_beside_others(count)) for count in _LIVING]


async def _beside_others(count: int) -> Row:
    """A run while so many commands live, and while ten do."""
    async with fresh_terminal() as many, fresh_terminal() as few:
        for terminal, number in ((many, count), (few, _FEW)):
            for _ in range(number):
                await terminal.start(["/bin/sleep", "600"], timeout=600, silence=0)
        floor, ours = await take_turns(
            lambda: few.run([TRUE]), lambda: many.run([TRUE]), rounds=15, calls=10
        )
    what = f"library run of {TRUE} beside {count} that live, CPU in the server"
    return Row(what, "ms", ours.cpu_each, floor.cpu_each, goal=Goal(Of.RATIO, 1.1))
