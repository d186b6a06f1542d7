"""Timestamps of output chunks in a file beside the spool, for replay."""

import os
import time
from contextlib import suppress
from pathlib import Path

SUFFIX = ".times"
_APART = 0.01  # seconds; what comes closer together was printed at once
_SOON = 0.5
_LINES_MAX = 50_000  # about a megabyte
_BUFFER = 8 * 1024


class TimingFile:
    """A line for each piece: the seconds since the start, and how far the spool then was.

    It never disturbs a run: what cannot be written is left out.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._began = time.monotonic()
        self._last = -_APART
        self._latest = 0.0
        self._pending: tuple[float, int] | None = None
        self._buffer = bytearray()
        self._lines = 0
        self._made = False

    def resume(self, age: float) -> None:
        """Go on with the file that another server has left, so many seconds after the start."""
        self._began = time.monotonic() - age
        self._made = True

    def note(self, position: int) -> None:
        """The spool has everything before this position now."""
        now = self._latest = time.monotonic() - self._began
        if self._pending is not None and now - self._last >= _APART:
            self._write_pending()
            self._last = now
        at = now if self._pending is None else self._pending[0]
        self._pending = at, position

    @property
    def at_once(self) -> bool:
        """Everything came soon after the start, so that nobody misses a file of its pauses."""
        return self._latest < _SOON

    def _write_pending(self) -> None:
        if self._pending is None or self._lines >= _LINES_MAX:
            return
        at, position = self._pending
        self._pending = None
        self._lines += 1
        self._buffer += f"{at:.3f} {position}\n".encode("ascii")
        if len(self._buffer) >= _BUFFER:
            self._flush()

    def _flush(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        flags |= 0 if self._made else os.O_EXCL
        with suppress(OSError):
            fd = os.open(self._path, flags, 0o600)
            self._made = True
            try:
                os.write(fd, self._buffer)
            finally:
                os.close(fd)
        self._buffer.clear()

    def close(self) -> None:
        """Write what is left."""
        self._write_pending()
        if self._buffer:
            self._flush()


def pieces(path: Path, size: int) -> list[tuple[float, int]]:
    """When the spool was how far, in order; what makes no sense is left out.

    Without a file all of it came at once.
    """
    found: list[tuple[float, int]] = []
    with suppress(OSError, UnicodeDecodeError):
        for line in path.read_text(encoding="ascii").splitlines():
            with suppress(ValueError):
                at, position = line.split()
                found.append((float(at), int(position)))
    kept = [(0.0, 0)]
    for moment, end in found:
        if moment >= kept[-1][0] and kept[-1][1] < end <= size:
            kept.append((moment, end))
    if kept[-1][1] < size:
        kept.append((kept[-1][0], size))
    return kept[1:]
