"""Sessions are for programs that ask: there the editor is the user's, or the caller's."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.served import served

_GIT = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


def git(repository: Path, *words: str) -> str:
    called = ["git", "-C", str(repository), *words]
    return subprocess.run(called, check=True, capture_output=True, text=True, env=_GIT).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Three commits."""
    made = tmp_path / "repository"
    made.mkdir()
    git(made, "init", "-q")
    for name, value in (("user.name", "Somebody"), ("user.email", "somebody@example.org")):
        git(made, "config", name, value)
    for number in range(3):
        git(made, "commit", "-q", "--allow-empty", "-m", f"commit {number}")
    return made


@pytest.mark.needs("git", "vi")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("whose", ["user", "caller"])
async def test_an_interactive_rebase_asks_in_a_real_editor(repository: Path, whose: str) -> None:
    editor = {"GIT_EDITOR": "vi -u NONE"}
    settings, env = (editor, {}) if whose == "user" else ({}, editor)
    async with served(**settings) as server:
        shown = "pick|Press ENTER"  # it asks after a name that is longer than its line
        session = await server.start(
            "git rebase -i HEAD~2", cwd=str(repository), env=env, waitFor=shown
        )
        edited = await server.call(
            "terminal_continue",
            sessionId=session,
            stdin=":%s/^pick/drop/\r:wq\r",
            raw=True,
            waitFor="Successfully",
        )

    assert edited["found"]
    assert git(repository, "log", "--format=%s").split("\n")[0] == "commit 0"


@pytest.mark.needs("git")
@pytest.mark.timeout(120)
async def test_a_dangerous_editor_is_judged_as_what_it_is(repository: Path) -> None:
    async with served(SHELLTIE_SAFETY_PROFILES_SESSION_DANGEROUS="deny") as server:
        refused = await server.call(
            "terminal_start",
            command="git commit --amend",
            cwd=str(repository),
            env={"GIT_EDITOR": f"rm -rf {repository}"},
        )

    assert refused["verdict"] == "dangerous"
    assert repository.exists()


@pytest.mark.timeout(120)
async def test_a_shell_that_stays_has_no_pager_but_asks() -> None:
    async with served(PAGER="less", GIT_EDITOR="vim") as server:
        shell = await server.call(
            "terminal_start", mode="shell", command='echo "<$PAGER $GIT_EDITOR $PIP_NO_INPUT>"'
        )

    assert "<cat vim >" in shell["output"]
