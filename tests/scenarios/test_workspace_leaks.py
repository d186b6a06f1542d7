"""What a sandboxed command makes in its workspace leads neither git nor shelltie itself outside.

Whatever is tried here is tried on canaries in directories of the test's own.
"""

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from shelltie import Result, Terminal
from shelltie.errors import IsolationUnavailable
from shelltie.providers.bubblewrap import mounts
from shelltie.providers.workspace import git as git_guards
from tests.conftest import Open
from tests.sandboxes import become_older, contents, held

pytestmark = pytest.mark.needs("bwrap", "setpriv", "git")

_LIVE = pytest.mark.parametrize("writes", ["live"])  # kept apart, it is nothing else or nothing
_GIT = ("git", "-c", "user.name=x", "-c", "user.email=x@y", "-c", "init.defaultBranch=main")
_COMMIT = ("commit", "-q", "--allow-empty", "-m", "0")


def git(place: Path, *words: str) -> str:
    """As a person would, outside."""
    allowed = ("-c", "safe.directory=*", "-c", "protocol.file.allow=always")
    done = subprocess.run(
        [*_GIT, *allowed, "-C", str(place), *words], capture_output=True, check=True
    )
    return done.stdout.decode()


@pytest.fixture(params=["live", "auto"])
def writes(request: pytest.FixtureRequest) -> str:
    """Both ways in which a sandbox writes: each is to hold whatever is tried here."""
    return str(request.param)


@pytest.fixture
def workspace(beside_others: Path) -> Path:
    return beside_others


@pytest.fixture
def victim(public_path: Path) -> Path:
    """A directory of the same user's, outside the workspace, with settings that a shell obeys."""
    place = public_path.resolve() / "victim"
    place.mkdir()
    (place / ".bashrc").write_text("echo mine\n")
    return place


async def script(terminal: Terminal, text: str) -> Result:
    """Run it, sandboxed, whatever it looks like."""
    result = await terminal.run(["sh", "-c", text])
    assert result.isolation == "sandbox"
    assert not any("write to the workspace itself" in it for it in result.warnings)
    return result


def snapshot(place: Path) -> dict[str, str]:
    """Every name in a directory, with what it is."""
    return {
        str(path.relative_to(place)): str(path.readlink()) if path.is_symlink() else "file"
        for path in sorted(place.rglob("*"))
    }


# Nothing outside is renamed, linked or made


async def test_a_directory_that_becomes_a_link_leads_nobody_outside(
    opened: Open, victim: Path
) -> None:
    before = snapshot(victim)
    plant = (
        "git init -q r && mkdir d && echo 'touch canary' > evil.sh && ln -s $PWD/evil.sh d/.bashrc"
        " && printf '[include]\\n path = %s\\n' $PWD/d/.bashrc >> r/.git/config"
    )
    async with opened() as terminal:
        planted = await script(terminal, plant)
    async with opened() as terminal:  # which guards what there is now
        await script(terminal, f"mv d d2; ln -s {victim} d; sleep 0.3")
        await script(terminal, f"mv d d3; rm -rf d; ln -s {victim} d")

    assert planted.exit_code == 0, planted.stderr
    assert snapshot(victim) == before
    assert (victim / ".bashrc").read_text() == "echo mine\n"


async def test_a_link_is_planted_in_no_other_project(opened: Open, victim: Path) -> None:
    git(victim, "init", "-q")
    git(victim, *_COMMIT)
    before = snapshot(victim)
    async with opened() as terminal:
        await script(terminal, "git init -q real && mkdir p && ln -s $PWD/real/.git p/.git")
    async with opened() as terminal:
        await script(terminal, f"mv p p2; ln -s {victim} p; sleep 0.3")

    assert snapshot(victim) == before


async def test_hooks_of_another_repository_are_not_renamed(opened: Open, victim: Path) -> None:
    git(victim, "init", "-q")
    before = snapshot(victim)
    async with opened() as terminal:
        await script(
            terminal, "git init -q r && mkdir d && git -C r config core.hooksPath $PWD/d/hooks"
        )
    async with opened() as terminal:
        await script(terminal, f"mv d d2; rmdir d; ln -s {victim}/.git d; sleep 0.3")

    assert snapshot(victim) == before


async def test_a_link_for_the_submodules_has_nothing_made_behind_it(
    opened: Open, workspace: Path, victim: Path
) -> None:
    git(workspace, "init", "-q")
    (victim / "bare").mkdir()
    (victim / "bare/HEAD").write_text("ref: refs/heads/main\n")
    before = snapshot(victim)
    async with opened() as terminal:
        await script(terminal, f"rmdir .git/modules 2>/dev/null; ln -s {victim} .git/modules")
    async with opened() as terminal:
        with pytest.raises(IsolationUnavailable, match="modules is a link"):
            await terminal.run("true")

    assert snapshot(victim) == before


async def test_a_directory_that_is_closed_right_after_keeps_nothing(
    opened: Open, workspace: Path
) -> None:
    git(workspace, "init", "-q")
    close = "echo ../evil > .git/commondir && chmod 555 .git"
    async with opened() as terminal:
        told = await script(terminal, close)

    assert told.exit_code == 0, told.stderr
    assert told.blocked == ("write",)
    assert not (workspace / ".git/commondir").exists()
    assert (workspace / ".git").stat().st_mode & 0o777 == 0o555


# What git runs by itself


async def test_a_hook_that_is_a_link_into_the_tree_stays_as_it_is(
    opened: Open, workspace: Path, writes: str
) -> None:
    git(workspace, "init", "-q")
    (workspace / "scripts").mkdir()
    (workspace / "scripts/check").write_text("#!/bin/sh\n")
    (workspace / "scripts/pre-commit").symlink_to("check")
    (workspace / ".git/hooks/pre-commit").symlink_to("../../scripts/pre-commit")
    async with opened() as terminal:
        written = await script(terminal, "echo evil >> scripts/check")
        moved = await script(terminal, "mv scripts scripts2 && mkdir scripts")
        relinked = await script(terminal, "echo evil > e && ln -sf ../e scripts/pre-commit")

    assert held(written, writes)
    assert held(moved, writes)
    assert relinked.blocked == ("write",)
    assert (workspace / "scripts/check").read_text() == "#!/bin/sh\n"
    assert (workspace / ".git/hooks/pre-commit").resolve() == workspace / "scripts/check"


async def test_the_hooks_of_husky_stay_in_a_subdirectory_too(
    opened: Open, workspace: Path, writes: str
) -> None:
    git(workspace, "init", "-q")
    (workspace / "web/.husky/_").mkdir(parents=True)
    (workspace / "web/.husky/pre-commit").write_text("npm test\n")
    git(workspace, "config", "core.hooksPath", "web/.husky/_")
    async with opened() as terminal:
        written = await script(terminal, "echo evil >> web/.husky/pre-commit")
        made = await script(terminal, "echo evil > web/.husky/pre-push")

    assert held(written, writes)
    assert held(made, writes)
    assert (workspace / "web/.husky/pre-commit").read_text() == "npm test\n"
    assert not (workspace / "web/.husky/pre-push").exists()


async def test_settings_of_the_home_that_lie_in_the_workspace_stay_with_what_they_include(
    opened: Open, workspace: Path, tmp_path: Path, writes: str
) -> None:
    (workspace / "gitconfig").write_text(f"[include]\n path = {workspace}/more\n")
    (workspace / "more").write_text(f"[include]\n path = {workspace}/last\n")
    (workspace / "last").write_text("[user]\n name = x\n")
    (tmp_path / "home/.gitconfig").symlink_to(workspace / "gitconfig")
    git(workspace, "init", "-q")
    before = contents(workspace)
    async with opened() as terminal:
        tries = [
            await script(terminal, f"echo '[alias]' >> {name}")
            for name in ("gitconfig", "more", "last")
        ]

    assert [held(one, writes) for one in tries] == [True] * 3
    assert contents(workspace) == before


@pytest.mark.parametrize("place", ["dist", "a/b/c/d/e/f/g/sub"])
async def test_a_submodule_is_guarded_wherever_it_lies(
    opened: Open, workspace: Path, public_path: Path, place: str, writes: str
) -> None:
    other = public_path / "other"
    git(workspace, "init", "-q")
    git(workspace, "init", "-q", str(other))
    git(other, *_COMMIT)
    git(workspace, "submodule", "add", "-q", str(other), place)
    before = (workspace / place / ".git").read_text()
    async with opened() as terminal:
        written = await script(terminal, f"echo 'gitdir: {workspace}/evil' > {place}/.git")
        moved = await script(terminal, f"mv {place} away && mkdir {place}")

    assert held(written, writes)
    assert held(moved, writes)
    assert (workspace / place / ".git").read_text() == before


async def test_a_repository_in_a_further_writable_directory_is_guarded(
    opened: Open, workspace: Path, public_path: Path
) -> None:
    further = public_path.resolve() / "further"
    git(workspace, "init", "-q", str(further))
    async with opened(sandbox_writable=(str(further),)) as terminal:
        written = await script(terminal, f"echo '[core]' >> {further}/.git/config")
        hooked = await script(terminal, f"echo evil > {further}/.git/hooks/pre-commit")
        free = await script(terminal, f"echo fine > {further}/file")

    assert written.exit_code != 0
    assert hooked.exit_code != 0
    assert free.exit_code == 0


async def test_what_says_what_git_status_leaves_out_stays(
    opened: Open, workspace: Path, writes: str
) -> None:
    git(workspace, "init", "-q")
    (workspace / ".git/info").mkdir(exist_ok=True)
    (workspace / ".git/info/exclude").write_text("")
    async with opened() as terminal:
        hidden = await script(terminal, "echo .vscode > .git/info/exclude")

    assert held(hidden, writes)
    assert (workspace / ".git/info/exclude").read_text() == ""


# More than can be guarded is an error


async def test_too_many_directories_are_an_error(
    opened: Open, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_guards, "_DIRECTORIES", 40)
    git(workspace, "init", "-q", str(workspace / "pkg/one"))
    async with opened() as terminal:
        await script(terminal, "mkdir aa && cd aa && mkdir $(seq -f d%g 1 50)")
    async with opened() as terminal:
        with pytest.raises(IsolationUnavailable, match="too many directories"):
            await terminal.run(["git", "-C", "pkg/one", "config", "core.fsmonitor", "x"])


async def test_too_many_work_trees_are_an_error(opened: Open, workspace: Path) -> None:
    git(workspace, "init", "-q")
    async with opened() as terminal:
        await script(terminal, "mkdir -p $(seq -f .git/worktrees/a%g 1 230)")
    async with opened() as terminal:
        with pytest.raises(IsolationUnavailable, match="too many work trees"):
            await terminal.run("true")


async def test_too_many_submodules_are_an_error(
    opened: Open, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_guards, "_DIRECTORIES", 40)
    git(workspace, "init", "-q")
    async with opened() as terminal:
        await script(terminal, "mkdir -p $(seq -f .git/modules/a%g 1 60)")
    async with opened() as terminal:
        with pytest.raises(IsolationUnavailable, match="too many submodules"):
            await terminal.run("true")


# What is told


@pytest.mark.parametrize("made", ["n", "deep/er/n"])
async def test_a_new_repository_of_which_git_would_run_something_is_told(
    opened: Open, workspace: Path, made: str, writes: str
) -> None:
    git(workspace, "init", "-q")
    git(workspace, *_COMMIT)
    hostile = (
        f"mkdir -p {made} && git init -q {made} && git -C {made} config core.fsmonitor ./evil &&"
        f" touch {made}/x && git -C {made} add x &&"
        f" git -C {made} -c user.name=x -c user.email=x@y -c core.fsmonitor= commit -qm 1 &&"
        f" git add {made}"
    )
    async with opened() as terminal:
        plain = await script(terminal, "git init -q plain")
        told = await script(terminal, hostile)
        again = await script(terminal, "true")

    assert not any("repository was made" in warning for warning in plain.warnings)
    if writes == "auto":
        assert held(told, writes)
        assert f"{made}/.git/config" in told.warnings[0]
        assert not (workspace / made / ".git/config").exists()
        return
    (warning,) = [one for one in told.warnings if "repository was made" in one]
    assert str(workspace / made) in warning
    assert "fsmonitor" in warning
    assert not any("repository was made" in warning for warning in again.warnings)


async def test_settings_of_a_new_repository_hide_behind_no_way_to_write_them(
    opened: Open, workspace: Path, public_path: Path, writes: str
) -> None:
    canary = public_path / "canary"
    runs = f'"touch {canary};false"'
    ways = (f"[a] [core] fsmonitor = {runs}", f"\ufeff[core]fsmonitor={runs}")
    async with opened() as terminal:
        told = [
            await script(terminal, f"git init -q n{at} && printf '%s' '{text}' > n{at}/.git/config")
            for at, text in enumerate(ways)
        ]
    if writes == "live":
        assert ["fsmonitor" in " ".join(one.warnings) for one in told] == [True] * len(ways)
        return
    for at in range(len(ways)):
        subprocess.run(["git", "-C", str(workspace / f"n{at}"), "status"], check=False)

    assert [held(one, writes) for one in told] == [True] * len(ways)
    assert not canary.exists()


async def test_a_hook_of_a_new_repository_is_told(
    opened: Open, workspace: Path, writes: str
) -> None:
    async with opened() as terminal:
        told = await script(
            terminal,
            "git init -q n && echo x > n/.git/hooks/post-checkout && chmod +x n/.git/hooks/*",
        )

    if writes == "live":
        assert any("the hook post-checkout" in warning for warning in told.warnings)
    else:
        assert held(told, writes)
        assert not (workspace / "n/.git/hooks/post-checkout").exists()


async def test_installed_files_that_are_hard_links_are_told_once(
    opened: Open, workspace: Path, victim: Path
) -> None:
    package = workspace / ".venv/lib/python3.11/site-packages/six"
    package.mkdir(parents=True)
    (victim / "cached.py").write_text("")
    (package / "__init__.py").hardlink_to(victim / "cached.py")
    async with opened() as terminal:
        first, second = await script(terminal, "true"), await script(terminal, "true")

    assert any("UV_LINK_MODE=copy" in warning for warning in first.warnings)
    assert not any("UV_LINK_MODE" in warning for warning in second.warnings)


async def test_a_socket_in_what_is_only_shown_cannot_be_reached(
    opened: Open, public_path: Path
) -> None:
    shown = public_path.resolve() / "shown"
    shown.mkdir()
    connect = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX)\n"
        f"print(s.connect_ex({str(shown / 'daemon')!r}))"
    )
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(str(shown / "daemon"))
        daemon.listen()
        (shown / "file").write_text("readable\n")
        python = os.path.realpath(sys.executable)
        async with opened(sandbox_readable=(str(shown), sys.base_prefix)) as terminal:
            read = await script(terminal, f"cat {shown}/file")
            tried = await terminal.run([python, "-I", "-S", "-c", connect])

    assert read.stdout == "readable\n"
    assert tried.stdout == f"{errno.ECONNREFUSED}\n"


@_LIVE
async def test_a_bwrap_that_lacks_something_is_told_once(
    opened: Open, public_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    become_older(public_path, monkeypatch)
    async with opened() as terminal:
        first, second = await script(terminal, "echo a"), await script(terminal, "echo b")

    assert (first.stdout, second.stdout) == ("a\n", "b\n")
    (warning,) = [one for one in first.warnings if "update bubblewrap" in one]
    assert "--bind-fd" in warning
    assert "--perms" in warning
    assert not any("update bubblewrap" in one for one in second.warnings)


def test_what_not_everybody_may_read_is_found_however_deep_it_lies(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("in a sandbox of an ordinary user the kernel sees to it")
    deep = tmp_path / "a/b/c/d"
    deep.mkdir(parents=True)
    (deep / "key").write_text("")
    (deep / "key").chmod(0o600)
    (deep / "public").write_text("")
    for place in (tmp_path / "a", *deep.parents[:3], deep):
        place.chmod(0o755)

    assert list(mounts._closed(str(tmp_path / "a"))) == [deep / "key"]
