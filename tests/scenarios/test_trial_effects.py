"""What a trial changed is applied unasked, or asked about, by its effect."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from shelltie import Config
from shelltie.trials.effect_rules import Apply, Ask, decide
from tests.trial_trees import TrialTrees, git_init, put

Do = Callable[[TrialTrees], object]
_OBEYED = (
    *("web/CLAUDE.md", "docs/AGENTS.override.md", ".github/workflows/ci.yml", ".gitlab-ci.yml"),
    *(".github/copilot-instructions.md", ".npmrc", "web/.npmrc", ".yarnrc.yml", "lefthook.yml"),
    *("web/.cargo/config.toml", ".gdbinit", ".exrc", "mise.toml", "web/.vscode/tasks.json"),
)


DELETIONS = Config().trial.deletions


@pytest.fixture
def trees(tmp_path: Path) -> TrialTrees:
    """A repository with some tracked files, some ignored, and a secret place that it obeys."""
    trees = TrialTrees(tmp_path)
    for number in range(20):
        put(trees.workspace / f"src/f{number}.py", f"{number}\n")
    put(trees.workspace / ".claude/settings.json", "{}")
    git_init(trees.workspace, ignored="build/\n*.log\n")
    put(trees.workspace / "build/out.o", "o")
    put(trees.workspace / "notes.txt", "nobody knows me")
    trees.begin()
    return trees


def _reasons(trees: TrialTrees) -> str:
    decision = decide(trees.read(), DELETIONS)
    return "" if isinstance(decision, Apply) else "; ".join(decision.reasons)


def test_what_git_tracks_or_ignores_is_applied_unasked(trees: TrialTrees) -> None:
    trees.write("src/f1.py", "changed\n")
    trees.write("build/new.o", "o")
    trees.write("build/deep/er.o", "o")
    trees.write("src/run.log", "log")
    trees.delete("src/f2.py")
    (trees.upper / "src/inner").symlink_to("f1.py")
    (trees.upper / "build/link").symlink_to(trees.workspace / "src")

    assert _reasons(trees) == "new, and git neither tracks nor ignores it: src/inner"

    (trees.upper / "src/inner").unlink()
    assert decide(trees.read(), DELETIONS) == Apply()


def _index_on_trial(trees: TrialTrees, *words: str) -> None:
    index = put(trees.upper / ".git/index", (trees.workspace / ".git/index").read_bytes())
    env = {**os.environ, "GIT_INDEX_FILE": str(index)}
    subprocess.run(["git", "-C", trees.workspace, *words], check=True, env=env)


def test_what_is_staged_is_applied_unasked(trees: TrialTrees) -> None:
    for name in ("objects/12/3456", "COMMIT_EDITMSG"):
        trees.write(f".git/{name}", "x")
    _index_on_trial(trees, "add", "-f", "build/out.o")

    assert _reasons(trees) == ""


@pytest.mark.parametrize("mark", ["--assume-unchanged", "--skip-worktree"])
def test_an_index_that_hides_a_file_is_asked_about(trees: TrialTrees, mark: str) -> None:
    words = ["git", "-C", str(trees.workspace), "update-index", "--assume-unchanged", "src/f2.py"]
    subprocess.run(words, check=True)
    trees.begin()
    _index_on_trial(trees, "update-index", mark, "src/f1.py")

    assert _reasons(trees) == "`git status` would not look at it any more: src/f1.py"


def test_an_index_that_git_cannot_read_is_asked_about(trees: TrialTrees) -> None:
    trees.write(".git/index", "x")

    assert _reasons(trees) == "`git status` would not look at it any more: .git/index"


def test_a_repository_that_git_cannot_read_is_asked_about(trees: TrialTrees) -> None:
    (trees.workspace / ".git/HEAD").unlink()
    trees.begin()
    trees.write("src/f1.py", "changed")

    assert _reasons(trees) == "git cannot read its repository: src/f1.py"


@pytest.mark.parametrize(
    ("do", "reason"),
    [
        (lambda t: t.write("new.py", "x"), "new, and git neither tracks nor ignores it: new.py"),
        (lambda t: t.write("notes.txt", "x"), "git does not know it: notes.txt"),
        (lambda t: t.delete("notes.txt"), "git does not know it: notes.txt"),
        (lambda t: t.write(".git/hooks/pre-commit", "x"), "guarded"),
        (lambda t: t.write(".git/config", "x"), "guarded"),
        (lambda t: t.write(".git/refs/heads/main", "x"), "guarded"),
        (lambda t: t.write(".git/refs/replace/12", "x"), "guarded"),
        (lambda t: t.write(".git/packed-refs", "x"), "guarded"),
        (lambda t: t.write(".git/objects/info/alternates", "/x"), "guarded"),
        (lambda t: t.write(".git/rebase-merge/git-rebase-todo", "exec x"), "guarded"),
        (lambda t: t.write("build/HEAD", "ref: refs/heads/x"), "guarded"),
        (lambda t: t.write(".gitignore", "*"), "guarded"),
        (lambda t: t.write("src/.gitattributes", "* filter=x"), "guarded"),
        (lambda t: t.write(".git/info/attributes", "x"), "guarded"),
        (lambda t: t.write(".git/commondir", "x"), "guarded"),
        (lambda t: t.write("build/.git/config", "x"), "guarded"),
        (lambda t: t.write(".claude/settings.json", "x"), "guarded"),
        (lambda t: t.write("build/.envrc", "x"), "guarded"),
        (lambda t: t.delete(".git/refs/heads"), "deleted from a repository"),
        (lambda t: t.write("src/f1.py", "x").chmod(0o4755), "gains rights when it is run"),
        (lambda t: (t.upper / "a.log").symlink_to("/etc/passwd"), "leads out"),
        (lambda t: (t.upper / "a.log").symlink_to("build/../../x"), "leads out"),
        # `here` leads to the workspace itself, so what looks like that is the directory above it.
        (lambda t: (t.upper / "a.log").symlink_to("here/.."), "leads out"),
        (lambda t: t.write("src", "now a file"), "another type"),
        (lambda t: [t.delete(f"src/f{n}.py") for n in range(10)], "10 files deleted"),
        (lambda t: t.delete("src"), "20 files deleted"),
        (
            lambda t: put(t.workspace / "src/f1.py", "mine") and t.write("src/f1.py", "x"),
            "meanwhile",
        ),
    ],
)
def test_what_cannot_be_made_again_or_is_obeyed_is_asked_about(
    trees: TrialTrees, do: Do, reason: str
) -> None:
    do(trees)

    assert reason in _reasons(trees)


def test_hooks_that_a_setting_names_are_guarded(trees: TrialTrees) -> None:
    config = trees.workspace / ".git/config"
    with config.open("a") as file:
        file.write("[core]\n\thooksPath = src/hooks\n[include]\n\tpath = ../src/more.config\n")
    put(trees.workspace / "src/more.config", "[user]\n\tname = me\n")
    trees.begin()
    trees.write("src/hooks/pre-commit", "#!/bin/sh\n")
    trees.write("src/more.config", "[core]\n\tfsmonitor = evil\n")

    reasons = _reasons(trees)

    assert "guarded: programs obey it: src/hooks, src/hooks/pre-commit, src/more.config" in reasons


def test_what_programs_obey_unasked_is_guarded_though_git_tracks_it(tmp_path: Path) -> None:
    trees = TrialTrees(tmp_path)
    names = (*_OBEYED, "CLAUDE.md")
    for name in names:
        put(trees.workspace / name, "x\n")
    put(trees.workspace / "docs/agents.md", "be kind\n")
    (trees.workspace / "AGENTS.md").symlink_to("docs/agents.md")
    git_init(trees.workspace, ignored=".cargo\n")
    trees.begin()

    for name in (*names, "docs/agents.md"):
        written = trees.write(name, "evil\n")
        assert _reasons(trees) == f"guarded: programs obey it: {name}"
        written.unlink()
    (trees.upper / ".cargo").symlink_to("docs")
    assert "guarded: programs obey it: .cargo" in _reasons(trees)


@pytest.mark.parametrize(
    "name", ["src/f3.py", "src/f4.py", "build/hk/pre-push", "build/store/hooks/x"]
)
def test_what_runs_as_a_hook_is_guarded_wherever_it_lies(trees: TrialTrees, name: str) -> None:
    workspace, own = trees.workspace, trees.workspace / "build/store"
    (workspace / ".git").rename(own)  # as `git init --separate-git-dir` has it
    put(workspace / ".git", f"gitdir: {own}\n")
    put(workspace / "build/hk/_/h", "")
    (workspace / "src/linked").symlink_to("f3.py")
    (own / "hooks/pre-commit").symlink_to("../../../src/linked")
    (workspace / "build/hk/_/post-merge").symlink_to("../../../src/f4.py")
    with (own / "config").open("a") as file:
        file.write("[core]\n\thooksPath = build/hk/_\n")
    trees.begin()
    trees.write(name, "#!/bin/sh\nevil\n")

    assert "guarded: programs obey it" in _reasons(trees)


def test_a_trial_cannot_have_its_files_ignored(trees: TrialTrees) -> None:
    trees.write(".gitignore", "*\n")
    trees.write("new.py", "x")

    assert "new, and git neither tracks nor ignores it: new.py" in _reasons(trees)
    assert "guarded: programs obey it: .gitignore" in _reasons(trees)


def test_what_is_only_staged_is_not_known(trees: TrialTrees) -> None:
    trees.write("evil.sh", "x")
    put(trees.workspace / "evil.sh", "y")
    subprocess.run(["git", "-C", trees.workspace, "add", "evil.sh"], check=True)
    (trees.workspace / "evil.sh").unlink()

    assert "new, and git neither tracks nor ignores it: evil.sh" in _reasons(trees)


def test_objects_are_added_and_not_overwritten(trees: TrialTrees) -> None:
    pack = next(p for p in (trees.workspace / ".git/objects").rglob("*") if p.is_file())
    trees.write(str(pack.relative_to(trees.workspace)), "")

    assert "guarded" in _reasons(trees)


def test_programs_that_the_settings_of_git_name_are_guarded(trees: TrialTrees) -> None:
    subprocess.run(
        ["git", "-C", trees.workspace, "config", "filter.cl.clean", "sh src/f1.py %f"], check=True
    )
    trees.begin()
    trees.write("src/f1.py", "evil")

    assert "guarded" in _reasons(trees)


def test_each_repository_is_asked_about_its_own(trees: TrialTrees) -> None:
    inner = trees.workspace / "build/inner"
    put(inner / "known.c", "c")
    git_init(inner)
    trees.begin()
    trees.write("build/inner/known.c", "changed")
    trees.write("build/inner/new.c", "new")

    assert _reasons(trees) == "new, and git neither tracks nor ignores it: build/inner/new.c"


def test_without_git_few_changes_are_applied_unasked(tmp_path: Path) -> None:
    trees = TrialTrees(tmp_path)
    put(trees.workspace / "a", "a")
    trees.begin()
    trees.write("a", "b")
    trees.write("new", "n")
    few = decide(trees.read(), 3)
    trees.write("third", "n")

    assert few == Apply()
    assert isinstance(decide(trees.read(), 3), Ask)
