"""What the scenarios of task contexts share, and those of sandboxes."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from shelltie import Terminal
from tests.conftest import Open
from tests.sandboxes import project_away_from_home
from tests.task_project import Caller, Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
async def call(terminal: Terminal, project: Project) -> AsyncIterator[Caller]:
    async with project.contexts(terminal) as caller:
        yield caller


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project that anybody may enter, and where we are; the home is elsewhere."""
    with project_away_from_home(tmp_path, monkeypatch) as path:
        path.chmod(0o777)
        yield path


@pytest.fixture
def beside_others(
    public_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A project with room for others beside it; its user has a home elsewhere."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    place = public_path.resolve() / "project"
    place.mkdir()
    monkeypatch.chdir(place)
    yield place
    place.parent.chmod(0o755)
    for name, _, _ in os.walk(place):
        Path(name).chmod(0o755)


@pytest.fixture
def writes() -> str:
    """How a sandbox writes: to the workspace itself, unless a suite wants it otherwise, too."""
    return "live"


@pytest.fixture
def opened(open_terminal: Open, beside_others: Path, writes: str) -> Open:
    """A terminal that lets everything run, in a sandbox that writes as `writes` says."""
    assert Path.cwd() == beside_others

    def with_settings(**settings: object) -> AbstractAsyncContextManager[Terminal]:
        levels = (f"isolation_profiles_run_{one}" for one in ("dangerous", "unknown", "safe"))
        everything = {
            "safety_profiles_run_dangerous": "allow",
            **dict.fromkeys(levels, "sandbox"),
            "sandbox_writes": writes,
            "limits_grace": 0.5,
        }
        return open_terminal(**{**everything, **settings})

    return with_settings
