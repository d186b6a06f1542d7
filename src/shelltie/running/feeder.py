"""Types prepared input into a pty, as fast as the command reads and no faster."""

import asyncio
import os

_END_OF_FILE = b"\x04"


class Feeder:
    """Writes `data` and then the end-of-file key, whenever the terminal takes some."""

    def __init__(self, terminal: int, data: bytes) -> None:
        self._loop = asyncio.get_running_loop()
        self._terminal = terminal
        # In the middle of a line the first end-of-file key only flushes; the second one ends.
        end = _END_OF_FILE if data.endswith(b"\n") or not data else _END_OF_FILE * 2
        self._rest = memoryview(data + end)
        self._loop.add_writer(terminal, self._write)

    def _write(self) -> None:
        try:
            written = os.write(self._terminal, self._rest[:1024])
        except BlockingIOError:
            return
        except OSError:  # everybody has left the terminal
            self.close()
            return
        self._rest = self._rest[written:]
        if not self._rest:
            self.close()

    def close(self) -> None:
        """Type no more."""
        self._loop.remove_writer(self._terminal)
