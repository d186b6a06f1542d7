"""What the scenarios of task contexts share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shelltie import Terminal
from tests.task_project import Caller, Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
async def call(terminal: Terminal, project: Project) -> AsyncIterator[Caller]:
    async with project.contexts(terminal) as caller:
        yield caller
