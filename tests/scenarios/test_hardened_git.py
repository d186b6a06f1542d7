"""What a hostile repository names in its configuration is not run."""

import os
import subprocess
from pathlib import Path

import pytest

from shelltie.environment.child import hardened_git

KEYS = {"core.fsmonitor", "core.sshCommand"}
BARE = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A repository with a change, in which everything leaves a mark beside it."""
    own = {**BARE, "GIT_AUTHOR_NAME": "me", "GIT_AUTHOR_EMAIL": "me@x.y"}
    own |= {"GIT_COMMITTER_NAME": "me", "GIT_COMMITTER_EMAIL": "me@x.y"}
    repository = tmp_path / "repository"
    repository.mkdir()
    for number, words in enumerate((["init", "-q"], ["add", "a"], ["commit", "-qm", "a"])):
        (repository / "a").write_text(f"{number}\n", encoding="utf-8")
        subprocess.run(["git", *words], cwd=repository, env=own, check=True)
    (tmp_path / "marks").mkdir()
    for key in KEYS:
        mark = f"touch {tmp_path}/marks/{key}; false"
        subprocess.run(["git", "config", key, mark], cwd=repository, env=BARE, check=True)
    return repository


@pytest.mark.needs("git")
@pytest.mark.parametrize("hardened", [True, False])
def test_git_runs_nothing_that_the_repository_names(hostile: Path, hardened: bool) -> None:
    env = {**BARE, **(hardened_git() if hardened else {})}
    commands = (["status"], ["diff"], ["ls-files", "-m"], ["ls-remote", "ssh://127.0.0.1:1/x"])
    said = b""
    for words in commands:
        done = subprocess.run(
            ["git", *words], cwd=hostile, env=env, capture_output=True, timeout=20, check=False
        )
        said += done.stdout

    marks = {path.name for path in (hostile.parent / "marks").iterdir()}
    assert marks == (set() if hardened else KEYS)
    assert not hardened or b"+2" in said
