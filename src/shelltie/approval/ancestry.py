"""Process ancestry: a process that descends from one of our leashes may not approve anything.

The kernel hands the orphans of a command to its leash, and those of a leash to its keeper, so that
neither a double fork nor a new session nor an emptied environment hides where a process comes from.
Who has killed both is an orphan like any other, once it has forgotten the mark of its run. So after
such an end (`unheld`) only a terminal counts that was there before the server: sessions of the
kernel are inherited, and none can be entered from outside.
What this cannot see: a process outside that does the command's bidding (cron, ssh, a tmux that was
there before), and the orphans of another server.
"""

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from shelltie.basics.frozen import frozen
from shelltie.keeper.helper_program import output_of

_DEPTH_MAX = 256
_LOOKS = 8
_TIMEOUT = 5.0
_KEEPER = "shelltie-keeper"
_PYKEEPER = "pykeeper.py"
_MARK = b"SHELLTIE_RUN="  # in the environment of every command of ours


@frozen
class ProcessView:
    """A process as it was seen; `started` tells it from another one with the same pid."""

    pid: int
    parent: int
    started: int
    leashed: bool  # a keeper, a leash, or marked as one of our commands
    nested: bool = False  # in a pid namespace below ours
    session: int = 0  # the pid of its session's leader; nobody else gets it while the session lives
    terminal: int = 0  # that controls it


LookUp = Callable[[int], ProcessView | None]
ProcessLookup = Callable[[], LookUp]


def why_not_a_person(
    pid: int, server: int | None = None, *, unheld: bool = False, view: ProcessLookup | None = None
) -> str | None:
    """Why this process may not answer for a person; `None` if nothing speaks against it.

    Whoever descends from `server` was started by it, and so is no person either. If something that
    it started may be `unheld`, ancestors prove nothing.
    """
    view = view or _view
    for _ in range(_LOOKS):
        first, second = ancestry(pid, view()), ancestry(pid, view())
        # Twice the same: no parent died in between and gave its pid to a stranger.
        if first == second and _in_order(first):
            why = _objection(first, server)
            return _newcomer(first[0], server, view()) if why is None and unheld else why
    return "its ancestors change while they are looked at"


def is_started_by(pid: int, server: int, *, view: ProcessLookup | None = None) -> bool:
    """Whether a process is one that this server started, and none that holds others for it."""
    view = view or _view
    first, second = ancestry(pid, view()), ancestry(pid, view())
    if first != second or not _in_order(first) or len(first) < 3 or _is_keeper(pid):
        return False
    return any(one.pid == server for one in first[2:])  # behind the leash at least


def _is_keeper(pid: int) -> bool:
    try:
        words = (Path("/proc") / str(pid) / "cmdline").read_bytes().decode("utf-8", "replace")
        name = (Path("/proc") / str(pid) / "comm").read_bytes()
    except OSError:
        return True
    return name.startswith(b"shelltie-") or _keeps(words.split("\0"))


def ancestry(pid: int, look: LookUp) -> tuple[ProcessView, ...]:
    """The process, its parent and so on, as far as they can be seen."""
    found: list[ProcessView] = []
    while pid > 0 and len(found) < _DEPTH_MAX:
        seen = look(pid)
        if seen is None:
            break
        found.append(seen)
        pid = seen.parent
    return tuple(found)


def _in_order(line: tuple[ProcessView, ...]) -> bool:
    """Nobody is older than their parent, nor than the subreaper that adopted them."""
    return all(child.started >= parent.started for child, parent in pairwise(line))


def _objection(line: tuple[ProcessView, ...], server: int | None) -> str | None:
    if not line:
        return "it cannot be seen: it has ended, or lives in another pid namespace"
    if any(one.leashed for one in line) or any(one.pid == server for one in line[1:]):
        return "it was started by a command that shelltie runs"
    if any(one.nested for one in line):
        return "it lives in a pid namespace of its own"
    if line[-1].parent != 0:
        return "not all of its ancestors can be seen"
    return None


def _newcomer(one: ProcessView, server: int | None, look: LookUp) -> str | None:
    """Why nobody can say that it sits at a terminal which was there before the server."""
    leader, us = look(one.session), None if server is None else look(server)
    if leader is not None and us is not None and one.terminal and leader.started < us.started:
        return None
    return (
        "a command of this server got rid of what held it, and may pose as anybody. Answer where"
        " the client asks, or at a terminal that was open before this server; or restart the server"
    )


def _view() -> LookUp:
    return _from_proc if sys.platform == "linux" else processes_by_ps().get


def _from_proc(pid: int) -> ProcessView | None:
    folder = Path("/proc") / str(pid)
    try:
        name, _, rest = (folder / "stat").read_bytes().rpartition(b")")
        words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        status = (folder / "status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = rest.split()
    # `NSpid:` has one number for each namespace in which the process has a pid, ours first.
    lines = (line for line in status.splitlines() if line.startswith("NSpid:"))
    return ProcessView(
        pid=pid,
        parent=int(fields[1]),
        started=int(fields[19]),
        leashed=name.partition(b"(")[2] == _KEEPER.encode() or _keeps(words) or _marked(folder),
        nested=(len(next(lines, "").split()) > 2),
        session=int(fields[3]),
        terminal=int(fields[4]),
    )


def _keeps(words: list[str]) -> bool:
    names = [word.rpartition("/")[2] for word in words[:6]]
    return names[:1] == [_KEEPER] or (_PYKEEPER in names[1:] and "-I" in names)


def _marked(folder: Path) -> bool:
    try:
        return any(one.startswith(_MARK) for one in (folder / "environ").read_bytes().split(b"\0"))
    except OSError:  # another user's
        return False


def processes_by_ps() -> dict[int, ProcessView]:
    """Everybody, where there is no /proc; the age of a process is then unknown."""
    found: dict[int, ProcessView] = {}
    command = ["/bin/ps", "-axww", "-o", "pid=,ppid=,command="]
    printed = output_of(command, timeout=_TIMEOUT) or b""
    for line in printed.decode("utf-8", "replace").split("\n"):
        numbers, words = line.split()[:2], line.split()[2:]
        if len(numbers) == 2:
            pid, parent = map(int, numbers)
            found[pid] = ProcessView(pid, parent, 0, _keeps(words))
    return found
