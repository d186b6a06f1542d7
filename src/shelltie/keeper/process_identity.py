"""Process identity beyond the pid (start time, boot id): safe against pid reuse and reboots."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from shelltie.basics.frozen import frozen
from shelltie.keeper.helper_program import output_of

_PROC = Path("/proc")
_TIMEOUT = 5.0


@frozen
class ProcessIdentity:
    """A process of some boot and pid namespace. No two ever have the same."""

    pid: int
    started: str
    boot: str
    namespace: str

    @property
    def comparable(self) -> bool:
        """Its pid is one that we could see, or it ran before the last boot."""
        return self.boot != boot() or self.namespace == namespace()

    @property
    def alive(self) -> bool:
        """It is there. Of one that cannot be seen from here we must believe it."""
        if not self.comparable:
            return True
        return self.boot == boot() and bool(self.started) and started(self.pid) == self.started


def of(pid: int) -> ProcessIdentity:
    """The process that has this pid now; without `started` if there is none."""
    return ProcessIdentity(pid, started(pid) or "", boot(), namespace())


def boot() -> str:
    """Which boot of the machine this is; empty where the kernel does not say."""
    with suppress(OSError):
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def namespace() -> str:
    """In which pid namespace we are; empty where there is only one."""
    with suppress(OSError):
        return str((_PROC / "self/ns/pid").readlink())
    return ""


def started(pid: int) -> str | None:
    """When it was started, by the kernel's own clock; `None` if it is gone, or a zombie."""
    return _started_by_proc(pid) if sys.platform == "linux" else _started_by_ps(pid)


def _started_by_proc(pid: int) -> str | None:
    try:
        # Not pathlib: every run is looked at, and it would take four times as long.
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return None
    try:
        # The name before the parenthesis may hold anything, spaces and parentheses, too.
        fields = os.read(descriptor, 4096).rpartition(b")")[2].split()
    except OSError:  # it went while we looked
        return None
    finally:
        os.close(descriptor)
    return None if fields[0] in (b"Z", b"X") else fields[19].decode("ascii")


def _started_by_ps(pid: int) -> str | None:
    command = ["/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)]
    state, _, moment = (output_of(command, timeout=_TIMEOUT) or b"").decode().partition(" ")
    return None if not moment or state.startswith("Z") else moment.strip()


def marked(mark: str) -> Iterator[tuple[int, str]]:
    """Every process of ours with this variable in its environment, and its value there."""
    wanted = f"{mark}=".encode()
    for folder in _PROC.glob("[0-9]*"):
        with suppress(OSError):
            for one in (folder / "environ").read_bytes().split(b"\0"):
                if one.startswith(wanted):
                    yield int(folder.name), os.fsdecode(one[len(wanted) :])
