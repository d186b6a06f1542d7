"""Which keeper executable to use: the C program, or pykeeper.py."""

import subprocess
import sys
from enum import StrEnum
from functools import cache
from pathlib import Path

from shelltie.errors import CannotStart, ConfigWrong
from shelltie.keeper.hardening import bare_environment
from shelltie.model import Directory
from shelltie.settings.files import file_identity

BINARY = Path(__file__).with_name("shelltie-keeper")
SCRIPT = Path(__file__).with_name("pykeeper.py")
STAYING = Path(__file__).with_name("pystay.py")
# In one file they run on a machine that has only Python (see pybundle.py).
PYTHON_FILES = {
    "__main__.py": Path(__file__).with_name("pybundle.py"),
    "pykeeper.py": SCRIPT,
    "pystay.py": STAYING,
    "pystream.py": Path(__file__).with_name("pystream.py"),
}
_VERSION_TIMEOUT = 5.0  # with a program that only says its version


class KeeperKind(StrEnum):
    """Which of the two programs keeps."""

    C = "c"
    PYTHON = "python"


def choose(wanted: str | None) -> tuple[tuple[str, ...], KeeperKind]:
    """How to start a keeper: the binary where it runs, unless the one in Python is wanted.

    Raises: ConfigWrong for a keeper we do not have, CannotStart if "c" is wanted and does not run.
    """
    if wanted not in (None, *KeeperKind):
        raise ConfigWrong(f"there is no keeper {wanted!r}: say 'c', 'python' or nothing")
    if wanted != KeeperKind.PYTHON and _binary_runs():
        return (str(BINARY),), KeeperKind.C
    if wanted == KeeperKind.C:
        raise CannotStart(f"{BINARY} is missing or does not run here: build it, or say 'python'")
    return (sys.executable, "-I", "-S", str(SCRIPT)), KeeperKind.PYTHON


def staying_argv(argv: tuple[str, ...], kind: KeeperKind) -> tuple[str, ...]:
    """How to start the keeper that stays, of the same kind as this one."""
    return argv if kind is KeeperKind.C else (*argv[:-1], str(STAYING))


def _binary_runs() -> bool:
    identity = file_identity(BINARY)
    return identity is not None and _runs(str(BINARY), identity)


@cache
def _runs(binary: str, _: Directory) -> bool:
    try:
        words, null = [binary, "--version"], subprocess.DEVNULL
        with subprocess.Popen(words, stdout=null, env=bare_environment()) as process:
            return process.wait(_VERSION_TIMEOUT) == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
