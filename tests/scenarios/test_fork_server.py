"""A process that tests fork is like one that they start, as far as /proc and its end tell."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests import fork_server
from tests.cli import SHELLTIE, shelltie

START = [sys.executable, "-c", "import runpy; runpy.run_module('shelltie', run_name='__main__')"]
_FIELDS = ("PPid", "Uid", "Gid", "Umask", "SigBlk", "SigIgn", "NoNewPrivs", "Seccomp")


def seen(process: subprocess.Popen[bytes]) -> Mapping[str, object]:
    """What anybody can see of a process that has answered."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    process.stdin.flush()
    process.stdout.readline()
    proc = Path("/proc") / str(process.pid)
    fields = dict(re.findall(r"^(\w+):\t(.*)", (proc / "status").read_text(), re.MULTILINE))
    status = {name: fields[name] for name in _FIELDS}
    if os.geteuid() != 0:  # a server does not let others of its user look into it
        return status
    stat = (proc / "stat").read_text().rpartition(") ")[2].split()
    return {
        "environ": sorted((proc / "environ").read_bytes().split(b"\0")),
        "cwd": (proc / "cwd").readlink(),
        "exe": (proc / "exe").readlink(),
        "session is its own": stat[3] == str(process.pid),
        "terminal": stat[4],
        "status": status,
        "passed": [os.fspath((proc / "fd" / "40").readlink())],
    }


def test_a_forked_server_looks_like_a_started_one(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "XDG_STATE_HOME": str(tmp_path), "ODD": "\udcff=ä"}
    os.dup2(file := os.open(tmp_path, os.O_RDONLY), 40)
    looks = []
    for command in ([*SHELLTIE, "mcp"], [*START, "mcp"]):
        with subprocess.Popen(
            command,
            env=env,
            cwd=tmp_path,
            umask=0o027,
            pass_fds=[40],
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            looks.append(seen(process))
            words = (Path("/proc") / str(process.pid) / "cmdline").read_bytes().split(b"\0")
            assert words == [*(word.encode() for word in command), b""]
            process.kill()
    os.close(40)
    os.close(file)

    assert looks[0] == looks[1]


def test_a_forked_process_ends_as_a_started_one() -> None:
    done = shelltie("run", "--", "echo out; echo err >&2; exit 7")
    with subprocess.Popen([*SHELLTIE, "mcp"], stdin=subprocess.PIPE) as killed:
        killed.send_signal(signal.SIGKILL)

    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")
    assert killed.returncode == -signal.SIGKILL
    assert fork_server.pids


@pytest.mark.parametrize("variable", ["PYTHONPATH", "LC_ALL", "LD_LIBRARY_PATH"])
def test_what_python_reads_at_its_start_starts_one(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise AssertionError

    monkeypatch.setattr(fork_server, "_ask", refuse)
    monkeypatch.setenv(variable, "")

    assert shelltie("--version").returncode == 0
