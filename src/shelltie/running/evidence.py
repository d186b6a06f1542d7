"""What a process tree is doing: does it work, or wait for somebody to type?

Reads /proc. Where there is none, a sighting says so (`cpu` is None), and nothing is concluded.
"""

import contextlib
import os
import re
import termios
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from shelltie.model import Sighting, human_duration, human_size
from shelltie.regex import regex

_HAS_PROC = Path("/proc/self/stat").exists()
_TICK = os.sysconf("SC_CLK_TCK")
_MOST_PROCESSES = 500  # a look costs about 30 µs a process, on the event loop
_LEAST_CPU = 0.02  # seconds: two ticks of the kernel's clock
_LEAST_IO = 4096
_IO_LINES = regex(rb"^[rw]char: (\d+)$", re.MULTILINE)

# The numbers of read(2) and of the calls that wait for several descriptors at once.
_CALLS = {
    "x86_64": ({0}, {7, 23, 232, 270, 271, 281}),
    "aarch64": ({63}, {22, 72, 73}),
}
_READS, _WAITS = _CALLS.get(os.uname().machine, (frozenset[int](), frozenset[int]()))


def look(leash: int, terminal: int | None) -> Sighting:
    """Everybody below the leash. `terminal` is our end of the pty, where there is one."""
    cpu = _cpu_ticks(leash)
    if cpu is None:
        return Sighting(processes=0)
    io = processes = 0
    disk_wait = False
    for pid in _descendants(leash):
        processes += 1
        cpu += _cpu_ticks(pid) or 0
        io += sum(int(count) for count in _IO_LINES.findall(_slurp(f"/proc/{pid}/io")))
        disk_wait = disk_wait or _state(pid) == b"D"
    waits, password = (False, False) if terminal is None else _waits_for_input(leash, terminal)
    return Sighting(processes, cpu / _TICK, io, disk_wait, waits, password)


def works(before: Sighting, after: Sighting, span: float) -> bool:
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

    def look(self) -> Sighting:
        """What is to be seen now; nothing is remembered."""
        return look(self._leash, self._terminal)

    def observe(self, now: float) -> None:
        """A look to compare later ones with."""
        self.last = self._before = look(self._leash, self._terminal)
        self._before_at = now

    def works(self, now: float) -> str | None:
        """What it has done since `observe`, in words; nothing if it only waited."""
        before, after = self._before, look(self._leash, self._terminal)
        self.last = after
        if before is None or after.waits_for_input:
            return None
        return _in_words(before, after) if works(before, after, now - self._before_at) else None

    def conclude(self) -> None:
        """A last look, before the tree is ended."""
        self.last = look(self._leash, self._terminal)

    @property
    def cpu_used(self) -> float | None:
        """Seconds of CPU between the first and the last look."""
        before, after = self._before, self.last
        if before is None or after is None or before.cpu is None or after.cpu is None:
            return None
        return after.cpu - before.cpu


def _in_words(before: Sighting, after: Sighting) -> str:
    cpu = human_duration((after.cpu or 0) - (before.cpu or 0))
    moved = human_size(max(0, (after.io or 0) - (before.io or 0)))
    return f"CPU {cpu}, {moved} moved since the last look"


def alive(pid: int) -> bool:
    """The process exists and, where that can be seen, is not a zombie."""
    if not _HAS_PROC:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, 0)
            return True
        return False
    return _state(pid) not in (b"", b"Z", b"X")


def _descendants(root: int) -> Iterator[int]:
    queue = deque([root])
    seen = 0
    while queue:
        for child in _children(queue.popleft()):
            if seen >= _MOST_PROCESSES:
                return
            seen += 1
            queue.append(child)
            yield child


def _children(pid: int) -> list[int]:
    """Children belong to the thread that forked them, so every thread is asked."""
    children: list[int] = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, _slurp(f"{thread}/children").split())
    return children


def _slurp(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123  Path is three times as slow, times 500
            return file.read()
    except OSError:
        return b""


def _stat(pid: int) -> list[bytes]:
    """The fields of /proc/PID/stat from the state on; a name may hold blanks and brackets."""
    return _slurp(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _state(pid: int) -> bytes:
    fields = _stat(pid)
    return fields[0] if fields else b""


def _cpu_ticks(pid: int) -> int | None:
    """Own time and that of reaped children, so that the sum over a tree never shrinks."""
    fields = _stat(pid)
    return sum(map(int, fields[11:15])) if fields else None


def _waits_for_input(leash: int, terminal: int) -> tuple[bool, bool]:
    """Whether the foreground of the terminal is blocked reading it, and if so with echo off."""
    try:
        foreground = os.tcgetpgrp(terminal)
        local_modes = termios.tcgetattr(terminal)[3]
    except (OSError, termios.error):
        return False, False
    by_line = bool(local_modes & termios.ICANON)
    if not any(_reads_terminal(pid, foreground, by_line=by_line) for pid in _descendants(leash)):
        return False, False
    return True, by_line and not local_modes & termios.ECHO


def _reads_terminal(pid: int, foreground: int, *, by_line: bool) -> bool:
    fields = _stat(pid)
    if len(fields) < 3 or int(fields[2]) != foreground:
        return False
    call = _slurp(f"/proc/{pid}/syscall").split()
    if not call or not call[0].isdigit():
        return False
    number = int(call[0])
    if number in _READS:
        return _is_terminal(pid, int(call[1], 16))
    # An editor or a REPL waits for several things at once, but has switched line mode off.
    return number in _WAITS and not by_line


def _is_terminal(pid: int, fd: int) -> bool:
    with contextlib.suppress(OSError):
        target = str(Path(f"/proc/{pid}/fd/{fd}").readlink())
        return target.startswith("/dev/pts/") or target == "/dev/tty"
    return False
