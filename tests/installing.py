"""A copy of the checkout and a home with nothing in it, for tests that install shelltie.

Packages come from where pip of this machine takes them. Where it reaches nothing such a test is
skipped, except in CI (REQUIRE_TOOLS=1).
"""

import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

from tests.node_tools import CACHE

ROOT = Path(__file__).resolve().parent.parent
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PASSED = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
# What pip calls its sources, and uv.
_FOR_UV = {"INDEX_URL": "DEFAULT_INDEX", "EXTRA_INDEX_URL": "INDEX", "FIND_LINKS": "FIND_LINKS"}
_PIP = [sys.executable, "-m", "pip"]
_LIMIT = 420.0
INSTALLERS = ("uv==0.13.8", "pipx==1.18.4")


@cache
def package_sources() -> dict[str, str]:
    """Variables with which pip and uv find packages though the home has no settings of theirs."""
    found = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("PIP_", "UV_")) or name in _PASSED or "_proxy" in name.lower()
    }
    listed = subprocess.run([*_PIP, "config", "list"], capture_output=True, text=True, check=False)
    for line in listed.stdout.splitlines():
        key, equals, value = line.partition("=")
        section, _, option = key.partition(".")
        name = option.upper().replace("-", "_")
        if equals and section in ("global", "install"):
            found.setdefault(f"PIP_{name}", " ".join(value.strip("'\"").split()))
    for name, of_uv in _FOR_UV.items():
        if f"PIP_{name}" in found:
            found.setdefault(f"UV_{of_uv}", found[f"PIP_{name}"])
    # As pip does: the newest wins, wherever it is. Byte code is compiled when needed, and what
    # was downloaded once is kept beside the other packages of the tests.
    quick = {"PIP_NO_COMPILE": "1", "PIP_CACHE_DIR": str(CACHE / "pip")}
    quick["UV_CACHE_DIR"] = str(CACHE / "uv")
    return {"UV_INDEX_STRATEGY": "unsafe-best-match", **quick, **found}


@cache
def require_packages() -> None:
    """Skip where pip reaches nothing; fail there in CI."""
    with tempfile.TemporaryDirectory() as place:
        tried = subprocess.run(
            [*_PIP, "download", "-qq", "--no-deps", "--dest", place, "pyte==0.8.2"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_LIMIT,
        )
    if tried.returncode != 0 and os.environ.get("REQUIRE_TOOLS") != "1":
        pytest.skip(f"pip cannot reach any packages: {tried.stderr[-300:]}")


def copy_checkout(place: Path) -> Path:
    """This checkout as a clone has it, but for the tests: nothing built, nothing installed."""
    left = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "shelltie-keeper", "tests")
    return Path(shutil.copytree(ROOT, place, ignore=left))


def run_there(
    words: list[str | Path] | str, home: Path, cwd: Path, *first_in_path: Path, **env: str
) -> "subprocess.CompletedProcess[str]":
    """Run a program, or a line of bash, as somebody with that home; both streams in stdout."""
    own_python = Path(sys.executable).resolve().parent
    places = [*first_in_path, home / ".local" / "bin", own_python]
    argv = ["bash", "-c", words] if isinstance(words, str) else [str(word) for word in words]
    return subprocess.run(
        argv,
        cwd=cwd,
        env={
            **package_sources(),
            "HOME": str(home),
            "PATH": ":".join([*map(str, places), _PATH]),
            "TERM": "dumb",
            **env,
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=_LIMIT,
    )
