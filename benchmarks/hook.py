"""CPU of `shelltie hook`, which an agent calls before each command: with a server, and without."""

import json
import os
import subprocess
import sys
from statistics import median
from tempfile import TemporaryDirectory, TemporaryFile

from benchmarks.measuring import rounds_of
from benchmarks.rows import Goal, Of, Row
from tests.web_page import agent, own_environment

_ROUNDS = 9
_FLOOR = [sys.executable, "-c", "pass"]
_HOOK = [sys.executable, "-m", "shelltie", "hook", "claude"]
_SENT = {
    "session_id": "s",
    "cwd": "/",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "git log -3 | head"},
}


def measure() -> list[Row]:
    """The hook beside a Python that does nothing."""
    with TemporaryDirectory() as compiled, own_environment(PYTHONPYCACHEPREFIX=compiled) as env:
        # The first round compiles our modules, as an installation does (see `start_up`).
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        with agent(env):
            asked = _row("shelltie hook, a server runs, CPU, median", env, Goal(Of.OURS, 60))
        return [asked, _row("shelltie hook, no server, CPU, median", env)]


def _row(what: str, env: dict[str, str], goal: Goal | None = None) -> Row:
    pairs = [(_cpu(_FLOOR, env), _cpu(_HOOK, env)) for _ in range(rounds_of(_ROUNDS) + 1)][1:]
    floor, ours = (median(pair[who] for pair in pairs) * 1000 for who in (0, 1))
    return Row(what, "ms", ours, floor, goal=goal)


def _cpu(argv: list[str], env: dict[str, str]) -> float:
    """Seconds, of the process and all that it started."""
    with TemporaryFile() as sent:
        sent.write(json.dumps(_SENT).encode())
        sent.seek(0)
        with subprocess.Popen(argv, env=env, stdin=sent, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            answer = process.stdout.read()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert argv is _FLOOR or b'"allow"' in answer, answer
    return used.ru_utime + used.ru_stime
