"""procfs: descendants, threads and stat of a process."""

import contextlib
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from shelltie.basics.lazy_regex import lazy
from shelltie.model import ProcessRow

_IGNORED = lazy(rb"\nSigIgn:\t([0-9a-f]+)")
_TICK = os.sysconf("SC_CLK_TCK")
_MOST_PROCESSES = 500  # a look costs about 30 µs a process, on the event loop


def descendants(root: int) -> Iterator[int]:
    """Everybody below a process, as far as there are not too many."""
    queue = deque([root])
    seen = 0
    while queue:
        for child in _children(queue.popleft()):
            if seen >= _MOST_PROCESSES:
                return
            seen += 1
            queue.append(child)
            yield child


def process_rows(root: int) -> list[ProcessRow]:
    """Everybody below a process, parents before their children; who ends meanwhile is left out."""
    found = []
    for pid in descendants(root):
        head, _, rest = slurp(f"/proc/{pid}/stat").rpartition(b")")
        fields = rest.split()
        if len(fields) > 12:
            name = head.partition(b"(")[2].decode("utf-8", "replace")
            cpu = (int(fields[11]) + int(fields[12])) / _TICK
            found.append(ProcessRow(pid, int(fields[1]), name, fields[0].decode("ascii"), cpu))
    return found


def threads(pid: int) -> list[str]:
    """The directories of its threads, the first one's before the others'."""
    with contextlib.suppress(OSError):
        return sorted(
            map(str, Path(f"/proc/{pid}/task").iterdir()), key=lambda one: (len(one), one)
        )
    return []


def slurp(path: str) -> bytes:
    """All of a file; nothing if it cannot be read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123  Path is three times as slow, times 500
            return file.read()
    except OSError:
        return b""


def stat(pid: int) -> list[bytes]:
    """The fields of /proc/PID/stat from the state on; a name may hold blanks and brackets."""
    return slurp(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def ignores(pid: int, number: int) -> bool:
    """Whether it ignores a signal."""
    found = _IGNORED.search(slurp(f"/proc/{pid}/status"))
    return found is not None and bool(int(found[1], 16) >> (number - 1) & 1)


def target(pid: int, fd: int) -> str:
    """What a descriptor is open on, as the kernel names it."""
    with contextlib.suppress(OSError):
        return str(Path(f"/proc/{pid}/fd/{fd}").readlink())
    return ""


def _children(pid: int) -> list[int]:
    """Children belong to the thread that forked them, so every thread is asked."""
    return [int(child) for one in threads(pid) for child in slurp(f"{one}/children").split()]
