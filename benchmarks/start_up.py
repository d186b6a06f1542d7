"""What `shelltie run -- true` costs from a shell, the start of Python not counted."""

import os
import subprocess
import sys
import time
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.rows import Goal, Of, Row

_ROUNDS = 15
_FLOOR = [sys.executable, "-c", "pass"]
_OURS = [sys.executable, "-m", "shelltie", "run", "--", "true"]


def measure() -> list[Row]:
    """CPU, of the command line and everything it starts, and time on the wall."""
    with TemporaryDirectory() as state:
        # The first round compiles our modules, as an installation does, whatever the caller's
        # environment says about it.
        env = {**os.environ, "SHELLTIE_STATE_DIR": state, "PYTHONPYCACHEPREFIX": state}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        pairs = [(_cost(_FLOOR, env), _cost(_OURS, env)) for _ in range(_ROUNDS + 1)][1:]
    rows = []
    for index, (what, goal) in enumerate([("CPU", Goal(Of.MORE, 150)), ("wall", None)]):
        floor, ours = (median(pair[who][index] for pair in pairs) * 1000 for who in (0, 1))
        rows.append(Row(f"shelltie run -- true, {what}, median", "ms", ours, floor, goal=goal))
    return rows


def _cost(argv: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Seconds of CPU and on the wall."""
    begun = time.perf_counter()
    process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime, wall
