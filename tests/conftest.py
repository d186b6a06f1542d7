"""What every test may use: real processes, and a look at what is left of them."""

import os
import shutil

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A tool that is missing skips on a laptop and fails in CI (REQUIRE_TOOLS=1)."""
    for item in items:
        for mark in item.iter_markers("needs"):
            missing = [tool for tool in mark.args if shutil.which(tool) is None]
            if missing and os.environ.get("REQUIRE_TOOLS") != "1":
                item.add_marker(pytest.mark.skip(reason=f"needs {', '.join(missing)}"))
