"""`python -m shelltie`, started by a test, is forked from a process that has imported it already.

Imports are most of what a server costs. What asks for something a fork does not give, and what
Python itself would read at its start, is started in earnest; so is the installed `bin/shelltie`.
"""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from tests.programs.fork_server import HEADER, Order, is_supported

FORKED = (
    "shelltie",
    "tests.programs.asking",
    "tests.programs.asks_here",
    "tests.programs.at_terminal",
    "tests.programs.few_descriptors",
)
pids: set[int] = set()  # of fork servers that this process has started
_ROOT = Path(__file__).resolve().parent.parent
_READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "COVERAGE_", "MALLOC_", "GLIBC_")


def install() -> Callable[[], None]:
    """Have every `subprocess.Popen` of this process use a fork server; how to end it."""
    if os.environ.get("FORK_SERVER") == "no" or not is_supported():
        return lambda: None
    client = ForkClient(subprocess._fork_exec)  # type: ignore[attr-defined]
    subprocess._fork_exec = client.fork_exec  # type: ignore[attr-defined]
    return client.close


class _Arguments(NamedTuple):
    """Those of `_posixsubprocess.fork_exec`."""

    args: list[str | bytes]
    executables: object
    close_fds: bool
    fds_to_keep: tuple[int, ...]
    cwd: str | bytes | None
    env: list[bytes] | None
    stdin: int
    stdin_of_parent: int
    stdout_of_parent: int
    stdout: int
    stderr_of_parent: int
    stderr: int
    errors_of_parent: int
    errors: int
    restore_signals: bool
    new_session: bool
    group: int
    gid: object
    gids: object
    uid: object
    umask: int
    before_exec: object
    vfork: bool


class ForkClient:
    """The fork server of this process, started when it is needed first."""

    def __init__(self, really: Callable[..., int]) -> None:
        self._really = really
        self._lock = threading.Lock()
        self._link: socket.socket | None = None
        self._env = dict(os.environ)  # of no test: one may count who carries a variable of its own
        self._read_at_start = _read_at_start(self._env)
        self._limits = _limits()

    def fork_exec(self, *given: object) -> int:
        """In the place of `_posixsubprocess.fork_exec`."""
        asked = _Arguments(*given)  # type: ignore[arg-type]
        order = _ordered(asked)
        if order is None or self._is_different(order):
            return self._really(*given)
        with self._lock:
            if self._link is None:
                self._link = self._start()
            return _ask(self._link, order, asked)

    def _is_different(self, order: Order) -> bool:
        return _read_at_start(order.env) != self._read_at_start or _limits() != self._limits

    def _start(self) -> socket.socket:
        link, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.programs.fork_server", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                cwd=_ROOT,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        pids.add(self._process.pid)
        return link

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._process.wait()


def _read_at_start(env: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_READ_AT_START)}


def _limits() -> bytes:
    return Path("/proc/self/limits").read_bytes()


def _ordered(asked: _Arguments) -> Order | None:
    """Nothing, if it has to be started in earnest."""
    words = [os.fsdecode(word) for word in asked.args]
    unusual = (asked.group, asked.gid, asked.gids, asked.uid, asked.before_exec)
    if words[:2] != [sys.executable, "-m"] or words[2] not in FORKED or not asked.close_fds:
        return None
    if unusual != (-1, None, None, None, None):
        return None
    try:
        cwd = str(Path.cwd() / os.fsdecode(asked.cwd or "."))
    except OSError:
        return None
    if not os.access(cwd, os.X_OK):
        return None
    passed = [fd for fd in asked.fds_to_keep if fd != asked.errors]
    umask = _umask() if asked.umask < 0 else asked.umask
    return Order(words, _env_of(asked), cwd, umask, bool(asked.new_session), [0, 1, 2, *passed])


def _env_of(asked: _Arguments) -> dict[str, str]:
    if asked.env is None:
        return dict(os.environ)
    pairs = (os.fsdecode(one).partition("=") for one in asked.env)
    return {name: value for name, _, value in pairs}


def _umask() -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("Umask:\t")[2].split()[0], 8)


def _ask(link: socket.socket, order: Order, asked: _Arguments) -> int:
    given = [asked.stdin, asked.stdout, asked.stderr]
    standard = [number if fd < 0 else fd for number, fd in enumerate(given)]
    data = json.dumps(asdict(order)).encode()
    socket.send_fds(link, [HEADER.pack(len(data))], [*standard, *order.fds[3:]])
    link.sendall(data)
    (pid,) = HEADER.unpack(link.recv(HEADER.size, socket.MSG_WAITALL))
    return int(pid)
