"""Limits for a whole tree hold where cgroups can be had, and otherwise the result says so."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shelltie import Resources, Terminal
from shelltie.providers import cgroup
from tests.conftest import Open
from tests.containers import IMAGE
from tests.programs import BOMB
from tests.tree import until

MIB = 1024 * 1024
_EATS = [
    os.path.realpath(sys.executable), "-I", "-S", "-c",
    "kept = []\nfor i in range(300): kept.append(bytearray(b'x' * 1048576))\nprint('full')",
]  # fmt: skip
_BUSY = "end=$((SECONDS+2)); while [ $SECONDS -lt $end ]; do :; done"


def _controllers() -> set[str]:
    return {name for parent in cgroup.our_parents() for name in parent.controllers}


needs_cgroups = pytest.mark.skipif(
    (os.environ.get("REQUIRE_TOOLS") != "1" or os.geteuid() != 0)
    and not {"memory", "pids", "cpu"} <= _controllers(),
    reason="needs a cgroup that we may divide: run it as root",
)


@pytest.fixture(params=["none", "sandbox"])
def isolation(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Every cgroup is removed."""
    yield
    assert _groups() == []


def _groups() -> list[Path]:
    name = f"shelltie-{os.getpid()}-*"
    return [path for parent in cgroup.our_parents() for path in parent.path.glob(name)]


@needs_cgroups
@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("keeper", ["c", "python"])
async def test_a_command_that_is_ended_for_memory_says_so(
    open_terminal: Open,
    isolation: str,
    keeper: str,
    public_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(public_path)
    async with open_terminal(keeper=keeper, sandbox_readable=(sys.base_prefix,)) as terminal:
        starved = await terminal.run(
            _EATS, isolation=isolation, resources=Resources(memory=64 * MIB)
        )
        fed = await terminal.run(_EATS, isolation=isolation, resources=Resources(memory=900 * MIB))
        await until(lambda: not _groups())

    assert (starved.status, starved.exit_code, starved.signal) == ("error", 137, "SIGKILL")
    assert starved.exhausted == ("memory",)
    assert "resources.memory" in str(starved.hint)
    assert any("memory" in warning for warning in starved.warnings)
    assert (fed.stdout, fed.exhausted) == ("full\n", ())


@needs_cgroups
@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("isolation", ["none", "sandbox", "container"])
async def test_a_bomb_of_root_meets_the_limit_of_its_tree(
    open_terminal: Open,
    isolation: str,
    public_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(public_path)
    engine = request.getfixturevalue("engine").address if isolation == "container" else "none"
    settings = {"container_image": IMAGE, "container_engine": str(engine)}
    async with open_terminal(**settings) as terminal:
        result = await terminal.run(BOMB, isolation=isolation, resources=Resources(tasks=20))
        after = await terminal.run("echo fine", isolation=isolation)
        await until(lambda: not _groups())

    assert "all" not in result.stdout
    assert "tasks" in result.exhausted
    assert not result.leaked
    assert after.stdout == "fine\n"


@needs_cgroups
async def test_a_tenth_of_a_cpu_is_a_tenth(terminal: Terminal) -> None:
    result = await terminal.run(_BUSY, resources=Resources(cpus=0.1))
    await until(lambda: not _groups())

    assert result.cpu_ms is not None
    assert result.cpu_ms < 1000


async def test_where_no_cgroup_can_be_made_the_result_says_so(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroup, "our_parents", lambda: ())
    result = await terminal.run("echo fine", resources=Resources(memory=MIB, tasks=5))

    assert result.stdout == "fine\n"
    assert any("no limit holds for its memory and pids" in one for one in result.warnings)


async def test_a_cgroup_that_fails_starts_nothing_half(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = cgroup.Parent(tmp_path / "gone", 2, frozenset({"memory"}))
    monkeypatch.setattr(cgroup, "our_parents", lambda: (broken,))
    result = await terminal.run("echo fine", resources=Resources(memory=MIB))

    assert result.stdout == "fine\n"
    assert any("could not be made" in one for one in result.warnings)
