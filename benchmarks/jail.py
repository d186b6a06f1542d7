"""A jail in which any shell text may be run to see what bash executes: bash, and nothing else.

It is a directory that holds only bash and its libraries, entered by `chroot` in namespaces of its
own (processes, network, mounts, messages), as nobody, with limits on everything.
"""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

NEEDS = ("unshare", "bash", "ldd")

_INSIDE = Path(__file__).with_name("jail_inside.py")
_NAMESPACES = ("--pid", "--fork", "--kill-child", "--net", "--mount", "--ipc")
_PATIENCE = 3.0  # for each script
_LIBRARY = re.compile(r"(/\S+) \(0x")


@dataclass(frozen=True, slots=True)
class Ran:
    """What one script did: every external command, every file in its directory.

    `valid`: bash found no error of syntax. `late`: it did not end by itself.
    """

    argvs: tuple[tuple[str, ...], ...]
    files: tuple[str, ...]
    valid: bool
    late: bool


class Jail:
    """Runs scripts, many in one go."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def run(self, scripts: Sequence[str]) -> list[Ran]:
        """What bash did with each of them."""
        alone = () if os.geteuid() == 0 else ("--user", "--map-root-user")
        outside = str(Path("/proc/self/ns/pid").readlink())
        inside = (sys.executable, "-I", "-S", str(_INSIDE), str(self._root), outside)
        done = subprocess.run(
            ("unshare", *alone, *_NAMESPACES, f"--mount-proc={self._root}/proc", *inside),
            input="".join(json.dumps(script) + "\n" for script in scripts),
            stdout=subprocess.PIPE,
            encoding="ascii",
            timeout=30 + _PATIENCE * len(scripts),
            check=True,
        )
        return [_ran(json.loads(line)) for line in done.stdout.splitlines()]


@contextmanager
def jail() -> Iterator[Jail]:
    """A jail that vanishes in the end. Raises: CalledProcessError where none can be built."""
    with TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        _furnish(root)
        yield Jail(root)


def _furnish(root: Path) -> None:
    bash = shutil.which("bash") or "/bin/bash"
    for folder in ("bin", "dev", "proc", "tmp", "work"):
        (root / folder).mkdir()
    for writable in ("tmp", "work"):
        (root / writable).chmod(0o777)
    shutil.copy(bash, root / "bin/bash")
    for library in _libraries(bash):
        copy = root / library.relative_to("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, copy)
    _make_null(root / "dev/null")
    (root / "dev/fd").symlink_to("/proc/self/fd")
    if os.geteuid() != 0:
        (root / "alone").touch()


def _libraries(program: str) -> list[Path]:
    listed = subprocess.run(
        ("ldd", program), stdout=subprocess.PIPE, encoding="utf-8", check=True
    ).stdout
    return [Path(found[1]) for found in _LIBRARY.finditer(listed)]


def _make_null(path: Path) -> None:
    """The device; where that is forbidden, an ordinary file is as good."""
    try:
        os.mknod(path, stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        path.touch()
    path.chmod(0o666)


def _ran(answer: dict[str, Any]) -> Ran:
    argvs = tuple(tuple(argv) for argv in answer["argvs"])
    return Ran(argvs, tuple(answer["files"]), answer["valid"], answer["late"])
