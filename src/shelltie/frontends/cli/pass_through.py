"""Forwards a run's stdout and stderr to our own, byte for byte, with backpressure."""

import os
import select
from collections.abc import Callable

from shelltie.model import Stream

_PIECE = select.PIPE_BUF  # a pipe that is ready takes this much without blocking
_LOOK_AGAIN = 100  # milliseconds; the kernel does not wake a poll when `keep_waiting` turns false
_DESCRIPTORS = {Stream.STDOUT: 1, Stream.STDERR: 2}


class OutputForwarder:
    """Writes, and waits for a slow reader as long as `keep_waiting` says.

    A slow reader slows the command down, as it would without us. One who reads nothing at all must
    not keep a limit from ending the command: what finds no reader in time is counted in `lost`.
    """

    def __init__(self, keep_waiting: Callable[[], bool], on_problem: Callable[[], None]) -> None:
        self.lost = 0
        self.problem: OSError | None = None
        self.at_line_start = True
        self._keep_waiting = keep_waiting
        self._on_problem = on_problem
        self._polls = {descriptor: select.poll() for descriptor in _DESCRIPTORS.values()}
        for descriptor, poll in self._polls.items():
            poll.register(descriptor, select.POLLOUT)

    def write(self, stream: Stream, data: memoryview) -> None:
        """Pass it on; after a problem, drop it."""
        if self.problem is not None:
            return
        self.at_line_start = data[-1:].tobytes() == b"\n"
        try:
            self.lost += self._write(_DESCRIPTORS[stream], data)
        except OSError as error:
            self.problem = error
            self._on_problem()

    def _write(self, descriptor: int, data: memoryview) -> int:
        """How many bytes nobody took."""
        while data:
            if not self._ready(descriptor):
                return len(data)
            try:
                data = data[os.write(descriptor, data[:_PIECE]) :]
            except BlockingIOError:  # not ours alone: somebody made it non-blocking
                continue
        return 0

    def _ready(self, descriptor: int) -> bool:
        poll = self._polls[descriptor]
        if poll.poll(0):
            return True
        while self._keep_waiting():
            if poll.poll(_LOOK_AGAIN):
                return True
        return False
