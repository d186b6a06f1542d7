"""What the tests of all adapters share: a hostile command, and who is left of it."""

import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from shelltie.frontends.terminal_thread import TerminalThread

PAGE = Path(__file__).resolve().parents[2] / "docs" / "adapters.md"
HOSTILE = """\
trap '' TERM HUP INT
python3 -c '
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
'
setsid sleep 600 &
head -c 3000000 /dev/zero | tr '\\0' x
echo begun
sleep 600 & wait
sleep 600
"""
"""Ignores SIGTERM, double-forks, holds the pipe, floods, and never ends."""


@pytest.fixture(autouse=True)
def _closed_terminals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody writes into the state directory of the tests when it is removed."""
    opened: list[TerminalThread[Any]] = []
    make = TerminalThread.__init__

    def remember(self: TerminalThread[Any], terminal: Any) -> None:
        make(self, terminal)
        opened.append(self)

    monkeypatch.setattr(TerminalThread, "__init__", remember)
    yield
    for one in opened:
        one.close()


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> str:
    """A variable in the environment of whatever this test starts; `alive` looks for it."""
    value = secrets.token_hex(8)
    monkeypatch.setenv("MARK_OF_TEST", value)
    return value


@pytest.fixture
def nobody_left(mark: str) -> Iterator[None]:
    """Fails a test after which something that it started is alive."""
    yield
    assert alive(mark) == []


def alive(mark: str) -> list[str]:
    """The command lines of processes with this mark, but for our own keeper."""
    found = []
    for process in psutil.process_iter():
        try:
            marked = process.environ().get("MARK_OF_TEST") == mark
            words = process.cmdline()
        except psutil.Error:
            continue
        ours = any(Path(word).name in ("shelltie-keeper", "pykeeper.py") for word in words[:3])
        if marked and process.pid != os.getpid() and not ours:
            found.append(" ".join(words))
    return found


def run_example(section: str) -> str:
    """What the program in this section of docs/adapters.md prints last; it must end well."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    code = re.search(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert code is not None
    ran = subprocess.run(
        [sys.executable, "-c", code[1]], check=False, capture_output=True, text=True, timeout=150
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.rstrip("\n").splitlines()[-1]
