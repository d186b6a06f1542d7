"""What it costs to start: a command from a shell, a server until its first answer, our names."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory, TemporaryFile

from benchmarks.measuring import rounds_of
from benchmarks.rows import Goal, Of, Row

_ROUNDS = 9
_FLOOR = [sys.executable, "-c", "pass"]
_SHELLTIE = [sys.executable, "-m", "shelltie"]
_OURS = [*_SHELLTIE, "run", "--", "true"]
_QUICK = (["ps"], ["pending"], ["approve", "0" * 6], ["check", "ls"])
_IMPORT = [sys.executable, "-c", "import shelltie"]
_SERVER = [*_SHELLTIE, "mcp"]
_BARE_SERVER = [sys.executable, str(Path(__file__).with_name("echo_server.py")), "stock"]
_HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "benchmark", "version": "1"},
    },
}
_LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
_UNKNOWN = {"jsonrpc": "2.0", "id": 3, "method": "nonsense", "params": {}}


def measure() -> list[Row]:
    """CPU, of the process and everything it starts, and time on the wall."""
    with TemporaryDirectory() as state:
        # The first round compiles our modules, as an installation does, whatever the caller's
        # environment says about it.
        extra = {"SHELLTIE_STATE_DIR": state, "SHELLTIE_ENVIRONMENT_PATH": "inherit"}
        env = {**os.environ, **extra, "PYTHONPYCACHEPREFIX": state}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        return [
            *_rows("shelltie run -- true", _FLOOR, _OURS, env, goal=Goal(Of.OURS, 100)),
            *(
                row
                for words in _QUICK
                for row in _rows(
                    f"shelltie {words[0]}", _FLOOR, [*_SHELLTIE, *words], env, Goal(Of.OURS, 60)
                )[:1]
            ),
            *_rows("import shelltie", _FLOOR, _IMPORT, env),
            *_rows(
                "shelltie mcp, until it has left, beside a bare server", _BARE_SERVER, _SERVER, env
            ),
            *_first_answers(env),
        ]


def _rows(
    what: str, bare: list[str], ours: list[str], env: dict[str, str], goal: Goal | None = None
) -> list[Row]:
    pairs = [(_cost(bare, env), _cost(ours, env)) for _ in range(rounds_of(_ROUNDS) + 1)][1:]
    rows = []
    for index, (kind, reach) in enumerate([("CPU", goal), ("wall", None)]):
        floor, mine = (median(pair[who][index] for pair in pairs) * 1000 for who in (0, 1))
        rows.append(Row(f"{what}, {kind}, median", "ms", mine, floor, goal=reach))
    return rows


def _first_answers(env: dict[str, str]) -> list[Row]:
    """From the start to the answers that a client waits for, and what a server has in memory."""
    pairs = [
        (_greeted(_BARE_SERVER, env), _greeted(_SERVER, env)) for _ in range(rounds_of(_ROUNDS) + 1)
    ][1:]
    whats = (
        ("shelltie mcp, start to the answer of initialize, median", "ms", 250.0),
        ("shelltie mcp, start to the answer of tools/list, median", "ms", 250.0),
        ("shelltie mcp, memory of an idle server (PSS)", "MB", 45.0),
    )
    return [
        Row(what, unit, mine, floor, goal=Goal(Of.OURS, most))
        for index, (what, unit, most) in enumerate(whats)
        for floor, mine in [[median(pair[who][index] for pair in pairs) for who in (0, 1)]]
    ]


def _greeted(argv: list[str], env: dict[str, str]) -> tuple[float, float, float]:
    """Milliseconds until `initialize` and until `tools/list` were answered; megabytes then."""
    begun = time.perf_counter()
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        spans = []
        for message in (_HELLO, _LIST):
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            assert b'"result"' in process.stdout.readline()
            spans.append((time.perf_counter() - begun) * 1000)
        process.stdin.write(json.dumps(_UNKNOWN).encode() + b"\n")  # answered by the SDK alone
        process.stdin.flush()
        process.stdout.readline()
        rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii")
        memory = next(int(line.split()[1]) for line in rollup.splitlines() if line[:4] == "Pss:")
        process.stdin.close()
        process.stdout.read()
    return spans[0], spans[1], memory / 1024


def _cost(argv: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Seconds of CPU and on the wall."""
    with TemporaryFile() as hello:  # a server answers and leaves; nobody else reads it
        hello.write(json.dumps(_HELLO).encode() + b"\n")
        hello.seek(0)
        begun = time.perf_counter()
        process = subprocess.Popen(
            argv, env=env, stdin=hello, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, 1)  # there is nothing to approve
    return used.ru_utime + used.ru_stime, wall
