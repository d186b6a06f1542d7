"""Readable descriptors by an epoll of our own beside the event loop's (add_reader, made cheap).

A command has three descriptors that live for a few milliseconds. To add and to remove one of them
costs asyncio 540 steps, as many as judging the command; here it is a system call and a dictionary.
"""

import asyncio
import select
from collections.abc import Callable

Call = Callable[[], None]

if hasattr(select, "epoll"):
    _pollers: dict[asyncio.AbstractEventLoop, "_Poller"] = {}

    class _Poller:
        """What one event loop watches; it is closed with the last descriptor."""

        def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
            self.calls: dict[int, Call] = {}
            self.epoll = select.epoll()
            self._loop = loop
            loop.add_reader(self.epoll.fileno(), self._dispatch)

        def _dispatch(self) -> None:
            for fd, _ in self.epoll.poll(0):
                # One that was called before may have had this one forgotten.
                if (call := self.calls.get(fd)) is not None:
                    try:
                        call()
                    except Exception as error:  # noqa: BLE001  the others are called all the same
                        told = {"message": f"failed at what is to be read: {call}"}
                        self._loop.call_exception_handler({**told, "exception": error})

        def close(self) -> None:
            self._loop.remove_reader(self.epoll.fileno())
            self.epoll.close()

    def watch(loop: asyncio.AbstractEventLoop, fd: int, call: Call) -> None:
        """Call whenever there is something to read, or the end, until it is forgotten.

        Raises: OSError where it cannot be watched.
        """
        poller = _pollers.get(loop)
        if poller is None:
            poller = _pollers[loop] = _Poller(loop)
        poller.epoll.register(fd, select.EPOLLIN)
        poller.calls[fd] = call

    def forget(loop: asyncio.AbstractEventLoop, fd: int) -> None:
        """Watch it no longer; before it is closed. One that is not watched is left alone."""
        poller = _pollers.get(loop)
        if poller is None or poller.calls.pop(fd, None) is None:
            return
        poller.epoll.unregister(fd)
        if not poller.calls:
            del _pollers[loop]
            poller.close()

else:

    def watch(loop: asyncio.AbstractEventLoop, fd: int, call: Call) -> None:
        """As above."""
        loop.add_reader(fd, call)

    def forget(loop: asyncio.AbstractEventLoop, fd: int) -> None:
        """As above."""
        loop.remove_reader(fd)
