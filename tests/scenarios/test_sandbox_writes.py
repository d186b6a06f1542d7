"""What a sandboxed one-shot command writes is applied at its end, but for what is guarded."""

import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from anyio import fail_after

from shelltie import Result, Terminal
from shelltie.errors import IsolationUnavailable
from shelltie.model import Command, Isolation
from shelltie.running.options import RunOptions
from shelltie.settings.config import Config
from tests.cli import shelltie
from tests.conftest import Open
from tests.tree import new_tag, nobody_left, until

pytestmark = pytest.mark.needs("bwrap", "git")
APART = {
    "sandbox_writes": "trial",  # nothing runs where it cannot be had
    "safety_profiles_run_unknown": "allow",
    "safety_profiles_run_dangerous": "allow",
    "limits_grace": 0.5,
}
CONFINED = "grep -E 'Cap|NoNewPrivs|Seccomp' /proc/self/status; ls /proc/self/fd; id; umask"
NAMESPACES = "for one in net pid user ipc uts cgroup; do readlink /proc/self/ns/$one; done"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with settings of an editor, in which everything happens."""
    place = tmp_path / "project"
    (place / ".vscode").mkdir(parents=True)
    (place / ".vscode" / "settings.json").write_text("{}\n")
    (place / "kept").write_text("kept\n")
    (place / "old").write_text("old\n")
    git(place, "init", "-q")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "first")
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(place)
    return place


def git(place: Path, *words: str) -> str:
    who = ("-c", "user.name=x", "-c", "user.email=x@y")
    done = subprocess.run(
        ["git", *who, "-C", str(place), *words], check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture
async def apart(project: Path, open_terminal: Open) -> AsyncIterator[Terminal]:
    assert project.is_dir()
    async with open_terminal(**APART) as terminal:
        yield terminal


async def sandboxed(terminal: Terminal, text: str, **options: object) -> Result:
    with fail_after(100):
        return await terminal.run(text, isolation="sandbox", **options)  # type: ignore[arg-type]  # any


def trial_named_in(result: Result) -> str:
    """The trial that it says is left."""
    found = re.search(r"kept as trial (t\d+)", " ".join(result.warnings))
    assert found, result.warnings
    return found[1]


async def test_what_cannot_be_read_ends_all_the_same(apart: Terminal, project: Path) -> None:
    result = await sandboxed(apart, "for i in $(seq 400); do mkdir d && cd d || exit; done")

    assert result.status == "success"
    assert "directories in one another" in " ".join(result.warnings)
    assert trial_named_in(result)
    assert not (project / "d").exists()


@pytest.mark.usefixtures("project")
def test_the_command_line_says_what_was_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELLTIE_SANDBOX_WRITES", "trial")
    monkeypatch.setenv("SHELLTIE_SAFETY_PROFILES_RUN_DANGEROUS", "allow")

    done = shelltie("run", "--isolation", "sandbox", "--", "echo x > .vscode/settings.json")

    assert "is kept as trial t1" in " ".join(done.stderr.decode().split())


async def test_writes_are_applied_and_guarded_ones_are_kept(apart: Terminal, project: Path) -> None:
    config = (project / ".git" / "config").read_text()

    plain = await sandboxed(apart, "echo more >> kept; mkdir -p a/b; echo x > a/b/c; rm old")
    first = {path.name for path in project.iterdir()}
    commit = "git -c user.name=x -c user.email=x@y commit -qam second"
    committed = await sandboxed(apart, f"{commit}; git log --oneline | wc -l")
    planted = await sandboxed(
        apart,
        "echo x > .git/hooks/pre-commit; git config core.fsmonitor ./x; echo 1 > .vscode/new;"
        " echo . > .envrc; echo ours > ours",
    )
    repository = await sandboxed(
        apart,
        "git init -q new; git -C new config core.fsmonitor ./x; cp /bin/true new/.git/hooks/update;"
        " git init -q good; echo elsewhere > .git/commondir; mkdir bare; git init -q --bare bare/x",
    )

    assert (plain.warnings, plain.trial, plain.blocked) == ((), None, ())
    assert first == {".git", ".vscode", "kept", "a"}
    assert (committed.stdout, committed.warnings) == ("2\n", ())
    assert git(project, "log", "--format=%s").split() == ["second", "first"]
    assert planted.blocked == ("write",)
    for name in (".git/hooks/pre-commit", ".git/config", ".vscode/new", ".envrc"):
        assert name in planted.warnings[0]
    assert (project / "ours").read_text() == "ours\n"
    assert (project / ".git" / "config").read_text() == config
    assert not (project / ".git" / "hooks" / "pre-commit").exists()
    assert not (project / ".envrc").exists()
    for name in ("new/.git/config", "new/.git/hooks/update", ".git/commondir"):
        assert name in repository.warnings[0]
        assert not (project / name).exists()
    assert "good" not in repository.warnings[0]
    assert (project / "good" / ".git" / "config").exists()
    assert (project / "bare" / "x" / "config").exists()

    with fail_after(60):
        await apart.trials.apply(trial_named_in(planted), None, None)  # a person wants it
    assert (project / ".envrc").read_text() == ".\n"
    assert "fsmonitor" in (project / ".git" / "config").read_text()


async def test_settings_further_down_and_what_git_looks_at_are_guarded(
    apart: Terminal, project: Path
) -> None:
    for name in ("packages/web/.vscode", "packages/old", "node_modules/x"):
        (project / name).mkdir(parents=True)
    settings = ("packages/web/.vscode/a", "packages/web/.npmrc", "packages/old/CLAUDE.md")
    for name in (*settings, "node_modules/x/.npmrc"):
        (project / name).write_text("before\n")

    changed = await sandboxed(
        apart,
        "cd packages/web; echo x > .vscode/a; echo x > .vscode/tasks.json; rm .npmrc; echo x > a;"
        " mkdir new; echo x > new/CLAUDE.md; cd ../..; rm -r packages/old;"
        " echo x > node_modules/x/.npmrc",
    )
    hidden = await sandboxed(
        apart,
        "git update-index --skip-worktree kept; git update-index --assume-unchanged old;"
        " echo x > kept",
    )
    added = await sandboxed(apart, "echo x > more; git add more")

    for name in (".vscode/a", ".vscode/tasks.json", ".npmrc"):
        assert f"packages/web/{name}" in changed.warnings[0]
    assert (project / "packages/web/.vscode/a").read_text() == "before\n"
    assert (project / "packages/web/.npmrc").read_text() == "before\n"
    assert not (project / "packages/web/.vscode/tasks.json").exists()
    assert (project / "packages/web/new/CLAUDE.md").exists()  # nobody had settings there
    assert not (project / "packages/old").exists()
    assert (project / "node_modules/x/.npmrc").read_text() == "x\n"
    assert ".git/index" in hidden.warnings[0]
    assert added.warnings == ()
    assert git(project, "status", "--short", "kept", "more").split("\n")[:2] == [
        " M kept",
        "A  more",
    ]


async def test_whoever_replaces_what_lies_above_does_not_replace_what_is_guarded(
    apart: Terminal, project: Path
) -> None:
    result = await sandboxed(
        apart, "rm -rf .git .vscode; ln -s kept .vscode; mkdir x; echo 'gitdir: x' > .git"
    )

    assert {".git", ".vscode"} <= {*re.findall(r"\.\w+", result.warnings[0])}
    assert (project / ".git" / "config").is_file()
    assert (project / ".vscode" / "settings.json").is_file()
    assert (project / "x").is_dir()


async def test_it_is_as_confined_as_others_in_its_sandbox(
    apart: Terminal, project: Path, open_terminal: Open
) -> None:
    async with open_terminal(**{**APART, "sandbox_writes": "live"}) as live:
        expected = await sandboxed(live, CONFINED)
    where = Command(
        f"{NAMESPACES}; echo here > /tmp/shared; touch live; sleep 1000", stays_open=True
    )
    with fail_after(100):
        run = await apart.supervisor.start(where, RunOptions("session", isolation="sandbox"))
        await until((project / "live").exists)  # a session writes at once

    result = await sandboxed(apart, CONFINED)
    beside = await sandboxed(apart, f"{NAMESPACES}; cat /tmp/shared; ls live")
    session = run.output.view(None, 4096, 4096).head
    with fail_after(60):
        await run.kill("seen enough")

    assert result.stdout == expected.stdout
    assert run.isolation is Isolation.SANDBOX
    assert beside.stdout == f"{session.decode()}here\nlive\n"


async def test_what_others_change_meanwhile_is_left_as_it_is(
    apart: Terminal, project: Path
) -> None:
    results: list[Result] = []

    async def first() -> None:
        waiting = "touch /tmp/written; until [ -e /tmp/go ]; do sleep 0.05; done"
        results.append(await sandboxed(apart, f"echo 1 >> kept; echo 1 > mine; {waiting}"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first)
        await sandboxed(apart, "until [ -e /tmp/written ]; do sleep 0.05; done")
        unseen = (project / "mine").exists()
        (project / "kept").write_text("others\n")
        await sandboxed(apart, "touch /tmp/go")

    assert not unseen
    assert (project / "kept").read_text() == "others\n"
    assert (project / "mine").read_text() == "1\n"
    assert "kept was changed by others" in results[0].warnings[0]
    end = await apart.trials.look(trial_named_in(results[0]))
    assert [change.path for change in end.changes.changes] == ["kept"]


async def test_what_is_cut_short_or_leaves_its_leash_is_not_written(
    apart: Terminal, project: Path
) -> None:
    late = await sandboxed(apart, "echo half > half; sleep 1000", timeout=2)
    # It kills its leash and its keeper; who is left then is ended with the sandbox.
    tag = new_tag()
    killer = await sandboxed(apart, f"echo x > x; kill -9 -1; kill -9 $PPID; sleep 1000.{tag}")
    after = await sandboxed(apart, "echo here")

    assert (late.status, killer.status, after.stdout) == ("timeout", "error", "here\n"), after
    assert "it was ended" in late.warnings[0]
    assert "still be running" in killer.warnings[0]
    assert not (project / "half").exists()
    assert not (project / "x").exists()
    with fail_after(50):
        await nobody_left(tag)
        await apart.trials.apply(trial_named_in(late), None, None)
    assert (project / "half").exists()


async def test_without_an_overlay_it_is_said_once_or_nothing_runs(project: Path) -> None:
    unfit = {"state_dir": str(project / "state")}  # the command could write there itself
    async with Terminal(Config.of(**unfit, **{**APART, "sandbox_writes": "auto"})) as terminal:
        told = [(await sandboxed(terminal, "echo x >> kept")).warnings for _ in range(2)]
    async with Terminal(Config.of(**unfit, **APART)) as terminal:
        with pytest.raises(IsolationUnavailable, match="Nothing was run"):
            await sandboxed(terminal, "echo y >> kept")

    assert "write to the workspace itself here" in told[0][0]
    assert told[1] == ()
    assert (project / "kept").read_text() == "kept\nx\nx\n"
