"""A pulse: tells those who wait that something changed, each time anew."""

import asyncio


class Pulse:
    """An event that is set and renewed. Nothing of it is kept: who did not wait looks first.

    while not done():
        await pulse.wait()
    """

    def __init__(self) -> None:
        self._event: asyncio.Event | None = None  # there is one while somebody waits

    def beat(self) -> None:
        """Wake all who wait now."""
        if self._event is not None:
            self._event.set()
            self._event = None

    async def wait(self) -> None:
        """Until the next beat."""
        if self._event is None:
            self._event = asyncio.Event()  # anyio's is the same one, and a hundred steps more
        await self._event.wait()
