"""Keepers of every kind, one after the other."""

import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import hatch_build
from shelltie.keeper.binaries import KeeperKind, choose
from shelltie.keeper.link import Link


@pytest.fixture(scope="session")
def current_binary() -> None:
    """What is tested is what is in the source."""
    problem = hatch_build.build()
    if problem and os.environ.get("REQUIRE_TOOLS") == "1":
        pytest.fail(problem)
    if problem:
        pytest.skip(problem)


def argv_of(keeper: str) -> tuple[tuple[str, ...], KeeperKind]:
    """How to start a keeper; "portable" is the one without subreapers."""
    if keeper != "portable":
        return choose(keeper)
    argv, kind = choose("python")
    return ("/usr/bin/env", "SHELLTIE_PYKEEPER_PORTABLE=1", *argv), kind


def process_of(link: Link) -> "subprocess.Popen[bytes]":
    """The keeper's own."""
    assert isinstance(link._process, subprocess.Popen)
    return link._process


def stop(link: Link) -> None:
    """Stop the keeper, and have nobody continue it."""
    link._watch.close()
    process_of(link).send_signal(signal.SIGSTOP)


@asynccontextmanager
async def linked(keeper: str) -> AsyncIterator[Link]:
    """A keeper that is ended with everything it holds."""
    link = Link(*argv_of(keeper))
    try:
        yield link
    finally:
        await link.close()


@pytest.fixture(params=["c", "python"])
async def link(request: pytest.FixtureRequest) -> AsyncIterator[Link]:
    """Both keepers."""
    if request.param == "c":
        request.getfixturevalue("current_binary")
    async with linked(request.param) as link:
        yield link


@pytest.fixture(params=["c", "python", "portable"])
async def any_link(request: pytest.FixtureRequest) -> AsyncIterator[Link]:
    """For what is promised even without subreapers."""
    if request.param == "c":
        request.getfixturevalue("current_binary")
    async with linked(request.param) as link:
        yield link


@pytest.fixture
def own_sleeper(public_path: Path) -> str:
    """A program that becomes root whoever starts it, and sleeps."""
    program = public_path / "sleeper.c"
    program.write_text(
        "#include <stdlib.h>\n#include <unistd.h>\n"
        "int main(int c, char **v) { if (setuid(0)) return 1; return sleep(atoi(v[c - 1])); }\n"
    )
    subprocess.run(["cc", "-o", public_path / "sleeper", program], check=True)
    (public_path / "sleeper").chmod(0o4755)
    return str(public_path / "sleeper")
