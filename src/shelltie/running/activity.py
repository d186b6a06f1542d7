"""Process tree activity from /proc: CPU and I/O. Does it work, or wait for input?

Reads /proc. Where there is none, a sighting says so (`cpu` is None), and nothing is concluded.
"""

import contextlib
import os
import re
from pathlib import Path

from shelltie.basics.lazy_regex import lazy
from shelltie.basics.times import human_duration, human_size
from shelltie.model import ProcessRow, Sighting
from shelltie.running import procfs
from shelltie.running.input_wait import InputWait, look_for_reader
from shelltie.running.procfs import descendants, slurp, stat

_HAS_PROC = Path("/proc/self/stat").exists()
_TICK = os.sysconf("SC_CLK_TCK")
_LEAST_CPU = 0.02  # seconds: two ticks of the kernel's clock
_LEAST_IO = 4096
_IO_LINES = lazy(rb"^[rw]char: (\d+)$", re.MULTILINE)


def snapshot(leash: int, terminal: int | None) -> Sighting:
    """Everybody below the leash. `terminal` is our end of the pty, where there is one."""
    cpu = _cpu_ticks(leash)
    if cpu is None:
        return Sighting(processes=0)
    io = 0
    disk_wait = False
    pids = tuple(descendants(leash))
    for pid in pids:
        cpu += _cpu_ticks(pid) or 0
        io += sum(int(count) for count in _IO_LINES.findall(slurp(f"/proc/{pid}/io")))
        disk_wait = disk_wait or _state(pid) == b"D"
    reader = InputWait() if terminal is None else look_for_reader(pids, terminal)
    return Sighting(
        len(pids),
        cpu / _TICK,
        io,
        disk_wait,
        waits_for_input=reader.waits,
        password=reader.password,
        polls=reader.polls,
        first_thread=reader.first_thread,
        foreground_cpu=reader.cpu / _TICK,
    )


def did_work(before: Sighting, after: Sighting, span: float) -> bool:
    """Between two sightings the tree used CPU, moved bytes or waited for a disk."""
    if before.cpu is None or after.cpu is None or before.io is None or after.io is None:
        return False
    used = after.cpu - before.cpu
    return (
        used >= max(_LEAST_CPU, span / 100)
        or after.io - before.io >= _LEAST_IO
        or (before.disk_wait and after.disk_wait)
    )


class Observer:
    """Looks at one tree from time to time and remembers what it saw."""

    def __init__(self, leash: int, terminal: int | None) -> None:
        self._leash = leash
        self._terminal = terminal
        self._before: Sighting | None = None
        self._before_at = 0.0
        self.last: Sighting | None = None
        self.tree: tuple[ProcessRow, ...] = ()  # at the last look before its end

    def look(self) -> Sighting:
        """What is to be seen now; nothing is remembered."""
        return snapshot(self._leash, self._terminal)

    def processes(self) -> list[ProcessRow]:
        """Everybody below the leash, parents before their children."""
        return procfs.process_rows(self._leash)

    def ignores(self, number: int) -> bool:
        """Whether anybody below the leash ignores a signal."""
        return any(procfs.ignores(pid, number) for pid in procfs.descendants(self._leash))

    def observe(self, now: float) -> None:
        """A look to compare later ones with."""
        self.last = self._before = snapshot(self._leash, self._terminal)
        self._before_at = now

    def works(self, now: float) -> str | None:
        """What it has done since `observe`, in words; nothing if it only waited."""
        before, after = self._before, snapshot(self._leash, self._terminal)
        self.last = after
        if before is None or after.waits_for_input:
            return None
        if not did_work(before, after, now - self._before_at):
            return None
        cpu = human_duration((after.cpu or 0) - (before.cpu or 0))
        moved = human_size(max(0, (after.io or 0) - (before.io or 0)))
        return f"CPU {cpu}, {moved} moved since the last look"

    def conclude(self) -> None:
        """A last look, before the tree is ended."""
        self.last = snapshot(self._leash, self._terminal)
        self.tree = tuple(self.processes())

    @property
    def cpu_used(self) -> float | None:
        """Seconds of CPU between the first and the last look."""
        before, after = self._before, self.last
        if before is None or after is None or before.cpu is None or after.cpu is None:
            return None
        return after.cpu - before.cpu


def alive(pid: int) -> bool:
    """The process exists and, where that can be seen, is not a zombie."""
    if not _HAS_PROC:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, 0)
            return True
        return False
    return _state(pid) not in (b"", b"Z", b"X")


def _state(pid: int) -> bytes:
    fields = stat(pid)
    return fields[0] if fields else b""


def _cpu_ticks(pid: int) -> int | None:
    """Own time and that of reaped children, so that the sum over a tree never shrinks."""
    fields = stat(pid)
    return sum(map(int, fields[11:15])) if fields else None
