"""A pulse: tells those who wait that something changed, each time anew."""

import anyio


class Pulse:
    """An event that is set and renewed. Nothing of it is kept: who did not wait looks first.

    while not done():
        await pulse.wait()
    """

    def __init__(self) -> None:
        self._event = anyio.Event()

    def beat(self) -> None:
        """Wake all who wait now."""
        self._event.set()
        self._event = anyio.Event()

    async def wait(self) -> None:
        """Until the next beat."""
        await self._event.wait()
