"""DNS lookups outside of a sandbox: getaddrinfo in daemon threads, so many at a time.

A thread that waits for a name server cannot be ended; none of these keeps the program from ending.
"""

import asyncio
import socket
import threading
from collections import deque
from collections.abc import Callable
from functools import partial

Resolve = Callable[[str, int], tuple[str, ...]]  # the addresses of a host; raises OSError
_AT_A_TIME = 8


def system_addresses(host: str, port: int) -> tuple[str, ...]:
    """The addresses of a host, as this machine knows it.

    Raises: OSError.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(place[0]) for _, _, _, _, place in found))


class Lookups:
    """Hosts that are looked up, in the order in which they were asked for."""

    def __init__(self, resolve: Resolve = system_addresses) -> None:
        self._resolve = resolve
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Callable[[], None]] = deque()
        self._running = 0

    def ask(self, host: str, port: int, found: Callable[[tuple[str, ...]], None]) -> None:
        """Have `found` told the addresses, none if there are none, later."""
        self._waiting.append(partial(self._start, host, port, found))
        self._start_more()

    def _start_more(self) -> None:
        while self._waiting and self._running < _AT_A_TIME:
            self._running += 1
            self._waiting.popleft()()

    def _start(self, host: str, port: int, found: Callable[[tuple[str, ...]], None]) -> None:
        def look_up() -> None:
            try:
                addresses = self._resolve(host, port)
            except (OSError, UnicodeError):
                addresses = ()
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._found, found, addresses)

        threading.Thread(target=look_up, daemon=True).start()

    def _found(self, found: Callable[[tuple[str, ...]], None], addresses: tuple[str, ...]) -> None:
        self._running -= 1
        found(addresses)
        self._start_more()
