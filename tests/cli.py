"""The command line as a real process, and a look at what is left of it."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence

import psutil

SHELLTIE = [sys.executable, "-m", "shelltie"]


def shelltie(*args: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*SHELLTIE, *args], input=stdin, capture_output=True, timeout=100, check=False
    )


def text_of(*args: str, stdin: bytes = b"") -> str:
    """What a command that must succeed prints."""
    done = shelltie(*args, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def start(*args: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen([*SHELLTIE, *args], stdin=pipe, stdout=pipe, stderr=pipe)


def carriers(tag: str) -> list[int]:
    """Everybody with this name in the environment, wherever they went."""
    found = []
    for process in psutil.process_iter():
        try:
            if tag in process.environ():
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def on_terminal(
    *args: str, rows: int = 30, columns: int = 80, program: Sequence[str] = SHELLTIE
) -> tuple[int, str]:
    """Run it with a real terminal around it."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    with subprocess.Popen([*program, *args], stdin=slave, stdout=slave, stderr=slave) as process:
        os.close(slave)
        shown = b""
        try:
            while chunk := os.read(master, 4096):
                shown += chunk
        except OSError:  # EIO: nobody has the other side open any more
            pass
    os.close(master)
    return process.returncode, shown.decode()
