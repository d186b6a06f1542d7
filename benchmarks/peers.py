"""Other MCP servers that run commands, beside ours: the same calls over stdio, in turns.

`PEERS` names a directory where they are installed, or are to be: a virtual environment
`venv` and `npm` with its node_modules. Without it that is below ~/.cache. To install them needs
npm and the registries; nothing of it is in the repository.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Timer

from benchmarks.measuring import memory, rounds_of, take_turns
from benchmarks.rows import Goal, Of, Row

_PACKAGES = ("mcp-shell-server==1.1.14", "terminal-mcp==0.4.7")
_MODULES = {
    "name": "peers",
    "private": True,
    "dependencies": {"@wonderwhy-er/desktop-commander": "0.2.52", "mcp-server-commands": "0.5.0"},
    "overrides": {"typedarray.prototype.slice": "1.0.5"},
}
_STARTS = 5
_HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}
_INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
_ECHO = ["echo", "hi"]
_FLOOD = ["seq", "12500000"]  # 100 MB
_PATIENCE = 120  # seconds
_FIGURES = (
    ("start to the answer of tools/list", "ms"),
    ("memory of all its processes, idle (PSS)", "MB"),
    ("run of echo, p50", "ms"),
    ("100 MB of output, until it is answered", "s"),
    ("growth of the server meanwhile", "MB"),
)


@dataclass(frozen=True, slots=True)
class Peer:
    """A server: how it is started, and how it is asked to run something."""

    name: str
    argv: Sequence[str]
    tool: str
    argument: str = "command"
    more: dict[str, object] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    takes_words: bool = False
    has_limits: bool = True
    waits: bool = False  # each call takes as long as it may: there is nothing to compare

    def call(self, words: list[str]) -> dict[str, object]:
        """The parameters of `tools/call`."""
        given = words if self.takes_words else " ".join(words)
        return {"name": self.tool, "arguments": {self.argument: given, **self.more}}


_OURS = Peer("shelltie", (sys.executable, "-m", "shelltie", "mcp"), "run", more={"timeout_sec": 99})


def measure() -> list[Row]:
    """Ours against each of them: the ratio is ours by theirs."""
    place = Path(os.environ.get("PEERS") or Path.home() / ".cache" / "shelltie-peers")
    _install(place)
    peers = [_OURS, *_peers(place)]
    with TemporaryDirectory() as home:
        rounds = range(rounds_of(_STARTS) + 1)
        starts = [[_started(peer, home) for peer in peers] for _ in rounds][1:]
        calls = asyncio.run(_calls(peers, home))
        floods = [_flooded(peer, home) for peer in peers]
    figures = [
        (_middle(starts, at, 0), _middle(starts, at, 1), calls[at], *floods[at])
        for at in range(len(peers))
    ]
    rows = [
        Row(
            f"{what}, beside {peer.name}",
            unit,
            ours,
            theirs,
            goal=Goal(Of.RATIO, 1.0) if peer.has_limits else None,
        )
        for peer, their in zip(peers[1:], figures[1:], strict=True)
        for (what, unit), ours, theirs in zip(_FIGURES, figures[0], their, strict=True)
        if ours is not None and theirs is not None
    ]
    alone = zip(_FIGURES[3:], figures[0][3:], strict=True)  # most of them do not bear that
    return rows + [Row(f"{what}, ours", unit, ours) for (what, unit), ours in alone if ours]


def _middle(starts: list[list[tuple[float, float]]], peer: int, index: int) -> float:
    return median(turn[peer][index] for turn in starts)


def _install(place: Path) -> None:
    environment, modules = place / "venv", place / "npm"
    if not (environment / "bin" / "terminal-mcp").exists():
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        subprocess.run([environment / "bin" / "pip", "install", "-q", *_PACKAGES], check=True)
    if not (modules / "node_modules" / "mcp-server-commands").exists():
        modules.mkdir(parents=True, exist_ok=True)
        (modules / "package.json").write_text(json.dumps(_MODULES), encoding="utf-8")
        quiet = ("--silent", "--no-audit", "--no-fund", "--ignore-scripts")
        subprocess.run(["npm", "install", *quiet, "--prefix", modules], check=True)


def _peers(place: Path) -> list[Peer]:
    programs, modules = place / "venv" / "bin", place / "npm" / "node_modules"
    commander = modules / "@wonderwhy-er" / "desktop-commander" / "dist" / "index.js"
    commands = modules / "mcp-server-commands" / "build" / "index.js"
    allowed = {"ALLOW_COMMANDS": "echo,seq", "MCP_SHELL_MAX_TIMEOUT_SECONDS": "99"}
    return [
        Peer(
            "Desktop Commander",
            ("node", str(commander), "--no-onboarding"),
            "start_process",
            more={"timeout_ms": 99_000},
            env={"SHELL": "/bin/bash"},
        ),
        Peer(
            "tumf/mcp-shell-server",
            (str(programs / "mcp-shell-server"),),
            "shell_execute",
            more={"timeout": 99, "directory": "/tmp"},
            env=allowed,
            takes_words=True,
        ),
        Peer(
            "terminal-mcp",
            (str(programs / "terminal-mcp"),),
            "session_exec",
            argument="exec",
            more={"timeout": 1, "confirmed": True},
            waits=True,
        ),
        Peer(
            "g0t4/mcp-server-commands (no limits)",
            ("node", str(commands)),
            "run_command",
            has_limits=False,
        ),
    ]


class _Client:
    """Asks a server and reads past what it says unasked."""

    def __init__(self, name: str, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid, self._stdin, self._stdout = process.pid, process.stdin, process.stdout
        self._name, self._asked = name, 0

    def tell(self, message: Mapping[str, object]) -> None:
        self._stdin.write(json.dumps(message).encode() + b"\n")
        self._stdin.flush()

    def ask(self, method: str, params: object) -> dict[str, object]:
        self._asked += 1
        self.tell({"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params})
        while line := self._stdout.readline():
            answer = json.loads(line)
            if answer.get("id") == self._asked and "method" not in answer:
                result: dict[str, object] = answer.get("result") or {"isError": True}
                return result
        raise ConnectionError(f"the server has gone: {self._name}")


@contextmanager
def _greeted(peer: Peer, home: str) -> Iterator[_Client]:
    """A server that has said what it can do; it leaves when its input ends."""
    own = {"HOME": home, "SHELLTIE_STATE_DIR": home, "SHELLTIE_ENVIRONMENT_PATH": "inherit"}
    env = {**os.environ, **own, "XDG_CONFIG_HOME": home, "PYTHONPYCACHEPREFIX": home, **peer.env}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # compiled, as an installation is
    with subprocess.Popen(
        peer.argv,
        env=env,
        cwd=home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        client = _Client(peer.name, process)
        try:
            client.ask("initialize", _HELLO)
            client.tell(_INITIALIZED)
            client.ask("tools/list", {})
            yield client
        finally:
            process.terminate()


def _started(peer: Peer, home: str) -> tuple[float, float]:
    """Milliseconds until its tools are known, and the megabytes of its processes then."""
    begun = time.perf_counter()
    with _greeted(peer, home) as client:
        took = (time.perf_counter() - begun) * 1000
        client.ask("tools/call", peer.call(_ECHO))  # by then all is loaded
        return took, sum(memory(pid, "Pss", "smaps_rollup") for pid in _tree(client.pid)) / 1e6


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text(encoding="ascii").split():
            yield from _tree(int(child))


async def _calls(peers: Sequence[Peer], home: str) -> list[float | None]:
    """Milliseconds of a call, the median of the quietest rounds."""
    with ExitStack() as servers:
        subjects = []
        for peer in peers:
            if peer.waits:
                continue
            client = servers.enter_context(_greeted(peer, home))
            answer = client.ask("tools/call", peer.call(_ECHO))
            assert not answer.get("isError"), f"{peer.name}: {answer}"
            subjects.append(partial(_call, client, peer))
        samples = await take_turns(*subjects, rounds=9, calls=10)
    measured = iter(samples)
    return [None if peer.waits else next(measured).p50 for peer in peers]


async def _call(client: _Client, peer: Peer) -> None:
    client.ask("tools/call", peer.call(_ECHO))


def _flooded(peer: Peer, home: str) -> tuple[float | None, float | None]:
    """Seconds and megabytes for 100 MB of output; none if it did not bear that."""
    if peer.waits:
        return None, None
    with _greeted(peer, home) as client:
        before, begun = memory(client.pid, "VmRSS"), time.perf_counter()
        leaving = Timer(_PATIENCE, os.kill, (client.pid, signal.SIGKILL))
        leaving.start()
        try:
            answer = client.ask("tools/call", peer.call(_FLOOD))
            took, peak = time.perf_counter() - begun, memory(client.pid, "VmHWM")
        except (OSError, StopIteration) as error:
            answer, took, peak = {"isError": True, "error": str(error)}, 0.0, 0
        finally:
            leaving.cancel()
    if answer.get("isError"):
        print(f"{peer.name}: 100 MB of output: {str(answer)[:200]}", file=sys.stderr)
        return None, None
    return took, (peak - before) / 1e6
