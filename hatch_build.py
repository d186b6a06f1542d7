"""Builds the keeper: as a hatchling hook, or by hand with `python hatch_build.py`."""

import hashlib
import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # by hand, where hatchling need not be installed
    BuildHookInterface = object  # type: ignore[assignment,misc]

FOLDER = Path(__file__).parent / "src" / "shelltie" / "keeper"
BINARY = FOLDER / "shelltie-keeper"
HEADER = FOLDER / "keeper.h"
SOURCES = (FOLDER / "keeper.c", FOLDER / "leash.c", FOLDER / "tree.c")


def digest() -> str:
    """Which source this is; the binary says the same with --version."""
    content = b"".join(path.read_bytes() for path in (HEADER, *SOURCES))
    return hashlib.sha256(content).hexdigest()[:16]


def is_current() -> bool:
    """Whether the binary is there, runs here, and was built from this source."""
    try:
        said = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return said.stdout.strip() == f"shelltie-keeper {digest()}"


def compile_keeper(*link: str) -> str | None:
    """What went wrong, or None."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    flags = ["-O2", "-Wall", "-Wextra", f'-DSOURCE_DIGEST="{digest()}"', *link]
    target = BINARY.with_suffix(f".{os.getpid()}")  # renamed when done: a running one stays whole
    command = [*compiler, *flags, "-o", str(target), *map(str, SOURCES)]
    try:
        subprocess.run(command, capture_output=True, text=True, check=True)
        target.replace(BINARY)
    except OSError as error:
        return str(error)
    except subprocess.CalledProcessError as error:
        return error.stderr or str(error)
    finally:
        target.unlink(missing_ok=True)
    return None


def build() -> str | None:
    """Have a current binary in place, static if possible. What went wrong, or None."""
    if not sys.platform.startswith("linux"):
        return "it needs Linux"
    if is_current():
        return None
    return compile_keeper("-static") and compile_keeper()


class KeeperHook(BuildHookInterface):  # type: ignore[misc,type-arg,unused-ignore]
    """With a binary the wheel is for this platform, without one it is for all."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 (theirs)
        """Called by hatchling before a wheel is put together, for an editable install too."""
        problem = build()
        if problem:
            BINARY.unlink(missing_ok=True)
            self.app.display_warning(
                f"No keeper binary: {problem}\nThe slower keeper in Python will be used."
            )
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"


if __name__ == "__main__":
    sys.exit(build())
