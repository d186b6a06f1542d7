"""Small programs that misbehave."""

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

_SOURCE = Path(__file__).with_name("evil.c")

# Each is a way to hide or to resist; `shoot_leash` also ends the one who holds the command.
DEEDS = [
    "daemon_and_stay",
    "daemon_and_exit",
    "ignore",
    "mover",
    "movers",
    "burst",
    "churn",
    "phoenix",
    "change_groups",
    "fork_on_term",
    "chain",
    "headless",
]

# Bounded, whatever happens. Not bash: it tries again for 15 seconds when it may not fork.
BOMB = ["sh", "-c", "i=0; while [ $i -lt 60 ]; do sleep 20 & i=$((i+1)); done; echo all"]


@functools.cache
def evil() -> str:
    """The path of the compiled program; compiled once for each version of its source."""
    digest = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"shelltie-tests-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    program = folder / f"evil-{digest}"
    if not program.exists():
        fresh = folder / f"evil-{os.getpid()}"
        command = ["cc", "-O1", "-Wall", "-Wextra", "-pthread", "-o", str(fresh), str(_SOURCE)]
        subprocess.run(command, check=True)
        fresh.replace(program)
    return str(program)


def set_uid_setpriv(place: Path) -> Path:
    """A copy of `setpriv` by which anybody becomes root."""
    program = place / "become-root"
    program.write_bytes(Path(shutil.which("setpriv") or "").read_bytes())
    program.chmod(0o4755)
    return program
