"""What a sandbox kept a command from is told in words, at once, with what to do."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Open
from tests.sandboxes import project_away_from_home

pytestmark = pytest.mark.needs("bwrap", "git", "curl")


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository with a branch that follows another."""
    with project_away_from_home(tmp_path, monkeypatch) as path:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        for words in (
            ["init", "-q", "-b", "main"],
            [*identity, "commit", "-q", "--allow-empty", "-m", "first"],
            ["branch", "other"],
        ):
            subprocess.run(["git", *words], check=True)
        yield path


@pytest.mark.usefixtures("workspace")
async def test_what_was_in_the_way_is_said(open_terminal: Open) -> None:
    async with open_terminal(sandbox_writes="live") as terminal:
        curl = await terminal.run("curl -sS https://example.org/", isolation="sandbox")
        pip = await terminal.run(
            "echo 'ERROR: Temporary failure in name resolution' >&2; pip --nothing",
            isolation="sandbox",
        )
        tracked = await terminal.run("git checkout -q -b new --track other", isolation="sandbox")
        name = await terminal.run("getent hosts $(hostname)", isolation="sandbox")

    assert curl.blocked == ("network",)
    assert "`shelltie config set sandbox.network allow`" in str(curl.hint)
    assert "`shelltie config add sandbox.network_allow example.org`" in str(curl.hint)
    assert "sandbox.network_allow pypi`" in str(pip.hint)
    assert "busy" in tracked.stderr.lower(), tracked  # git goes on without its settings
    assert "write" in tracked.blocked
    assert "hooks, settings" in str(tracked.hint)
    assert name.stdout.split() == ["127.0.0.1", "sandbox"]
