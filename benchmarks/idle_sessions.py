"""A thousand that wait, as runs and as sessions: what each costs, and how fast all of them end."""

import asyncio
import os
import resource
import signal
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring import fresh_terminal, memory
from benchmarks.rows import Goal, Of, Row
from shelltie import Terminal
from shelltie.model import Command, Limits, State, TerminalSize
from shelltie.running.options import RunOptions
from shelltie.running.run import Run
from shelltie.sessions.registry import Sessions
from shelltie.settings.all_settings import SessionLimits, Waiting

_WANTED = 1000
_SLEEP = ["/bin/sleep", "600"]
_DESCRIPTORS_EACH = 4  # two pipes and a socket, and one more while it starts
_PROCESSES_EACH = 2  # the command and its leash


@dataclass(frozen=True, slots=True)
class _Cost:
    memory: float  # bytes for each
    end: float  # seconds for all


def measure() -> list[Row]:
    """Runs of `sleep` against as many without us."""
    count = _most()
    bare = _bare(count)
    runs, sessions = asyncio.run(_ours(count, _run)), asyncio.run(_ours(count, _session))
    fewer = " (limits forbid 1000)" if count < _WANTED else ""
    return [
        *_rows(f"{count} idle runs{fewer}", runs, bare),
        *_rows(f"{count} idle sessions on terminals{fewer}", sessions, bare),
    ]


def _rows(what: str, ours: _Cost, bare: _Cost) -> list[Row]:
    return [
        Row(
            f"{what}, memory for each",
            "KiB",
            ours=ours.memory / 1024,
            floor=bare.memory / 1024,
            goal=Goal(Of.MORE, 100),
        ),
        Row(f"{what} ended and proved gone", "s", ours.end, bare.end, goal=Goal(Of.OURS, 1)),
    ]


def _most() -> int:
    """How many the limits of this process allow, once they are raised as far as they go."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    processes, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    by_files = _WANTED if files < 0 else files // _DESCRIPTORS_EACH - 50
    by_processes = _WANTED if processes < 0 else processes // _PROCESSES_EACH - 200
    return max(1, min(_WANTED, by_files, by_processes))


def _bare(count: int) -> _Cost:
    pids = [os.posix_spawn(_SLEEP[0], _SLEEP, os.environ) for _ in range(count)]
    try:
        cost = _pss(pids) / count
    finally:
        begun = time.monotonic()
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        for pid in pids:
            os.waitpid(pid, 0)
    return _Cost(cost, time.monotonic() - begun)


async def _run(terminal: Terminal, _: Sessions) -> Run:
    return await terminal.start(_SLEEP, timeout=600, silence=0)


async def _session(_: Terminal, sessions: Sessions) -> Run:
    command = Command("sleep 600", tuple(_SLEEP), stays_open=True, pty=TerminalSize())
    wish = RunOptions("session", Limits(None, None, "sessions have no limit"))
    return (await sessions.open(command, wish, "me", Waiting())).run


async def _ours(count: int, start: Callable[[Terminal, Sessions], Awaitable[Run]]) -> _Cost:
    """The commands, their leashes, the keeper, and what the server grew by."""
    async with fresh_terminal() as terminal:
        await terminal.run(["true"])
        before = memory("self", "VmRSS")
        sessions = Sessions(terminal.supervisor, SessionLimits(count))
        runs = [await start(terminal, sessions) for _ in range(count)]
        while any(run.state is State.CREATED for run in runs):
            await asyncio.sleep(0.01)
        commands = {run.pid for run in runs if run.pid is not None}
        assert len(commands) == count
        leashes = set(map(_parent, commands))
        keepers = set(map(_parent, leashes))
        grown = memory("self", "VmRSS") - before
        cost = (_pss(commands | leashes | keepers) + grown) / count
        begun = time.monotonic()
    end = time.monotonic() - begun
    assert not [pid for pid in commands | leashes | keepers if Path(f"/proc/{pid}").exists()]
    return _Cost(cost, end)


def _pss(pids: Iterable[int]) -> int:
    """Memory with shared pages divided among those who share them."""
    return sum(memory(pid, "Pss", "smaps_rollup") for pid in pids)


def _parent(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return int(stat.rpartition(")")[2].split()[1])
