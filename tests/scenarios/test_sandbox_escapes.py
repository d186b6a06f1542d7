"""What a sandboxed command leaves behind does not become code or rights outside."""

import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from shelltie import CommandDenied, InvalidParameters, Result, Terminal
from shelltie.errors import IsolationUnavailable
from shelltie.providers.bubblewrap import bwrap
from shelltie.sessions.registry import Sessions
from shelltie.sessions.shell import open_shell
from tests.conftest import Open
from tests.sandboxes import become_nobody, contents, held
from tests.tree import until

pytestmark = pytest.mark.needs("bwrap", "setpriv", "git")

_LIVE = pytest.mark.parametrize("writes", ["live"])  # kept apart, it is nothing else or nothing
# A server that is root cannot enter the sandbox that another user has made: it writes live.
_USERS = pytest.mark.parametrize(
    ("user", "writes"), [("root", "live"), ("root", "auto"), ("nobody", "live")]
)
_GIT = ("git", "-c", "user.name=x", "-c", "user.email=x@y", "-c", "init.defaultBranch=main")
_PLANT = """
mkdir -p evil/objects evil/refs && cp .git/HEAD evil/ &&
printf '[core]\\n repositoryformatversion=0\\n fsmonitor="touch {canary};false"\\n' > evil/config &&
echo {to} > {where}/commondir
"""


def git(place: Path, *words: str) -> str:
    """As a person would, outside."""
    done = subprocess.run([*_GIT, "-C", str(place), *words], capture_output=True, check=True)
    return done.stdout.decode()


@pytest.fixture(params=["live", "auto"])
def writes(request: pytest.FixtureRequest) -> str:
    """Both ways in which a sandbox writes: each is to hold whatever is tried here."""
    return str(request.param)


@pytest.fixture
def workspace(beside_others: Path) -> Path:
    return beside_others


async def script(terminal: Terminal, text: str, **options: object) -> Result:
    """Run it, sandboxed, whatever it looks like."""
    result = await terminal.run(["sh", "-c", text], **options)  # type: ignore[arg-type]  # as named
    assert result.isolation == "sandbox"
    assert not any("write to the workspace itself" in it for it in result.warnings)
    return result


@_USERS
async def test_git_cannot_be_led_to_another_repository(
    opened: Open,
    workspace: Path,
    public_path: Path,
    user: str,
    writes: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    canary = public_path / "canary"
    git(workspace, "init", "-q")
    if user == "nobody":
        become_nobody(public_path, monkeypatch)
        subprocess.run(["chown", "-R", "65534:65534", str(workspace)], check=True)
        monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
        monkeypatch.setenv("GIT_CONFIG_KEY_0", "safe.directory")
        monkeypatch.setenv("GIT_CONFIG_VALUE_0", "*")
    async with opened() as terminal:
        planted = await script(terminal, _PLANT.format(canary=canary, to="../evil", where=".git"))
        git(workspace, "status")
        moved = await script(terminal, "mv .git old")

    assert planted.exit_code == 0, planted.stderr
    assert planted.blocked == ("write",)
    assert ".git/commondir" in " ".join((str(planted.hint), *planted.warnings))
    assert not canary.exists()
    assert not (workspace / ".git/commondir").exists()
    assert held(moved, writes)
    assert (workspace / ".git/config").is_file()


@_LIVE
async def test_nor_can_it_while_the_command_goes_on(opened: Open, workspace: Path) -> None:
    git(workspace, "init", "-q")
    async with opened() as terminal:
        once = await terminal.start(["sh", "-c", "echo ../evil > .git/commondir; sleep 300"])
        await until(lambda: list(workspace.glob(".git/commondir.blocked-*")) != [])
        meanwhile = (once.outcome, (workspace / ".git/commondir").exists())
        again = await terminal.start(
            ["sh", "-c", "while :; do echo x > .git/commondir; sleep 0.01; done"]
        )
        with anyio.fail_after(50):
            stopped = await again.wait()
        after = await script(terminal, "echo fine")

    assert meanwhile == (None, False)
    assert stopped.undone is not None
    assert not (workspace / ".git/commondir").exists()
    assert after.stdout == "fine\n"


async def test_nor_can_it_in_a_linked_work_tree(
    opened: Open, workspace: Path, public_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary, tree = public_path / "canary", workspace.parent / "tree"
    git(workspace, "init", "-q")
    git(workspace, "commit", "-q", "--allow-empty", "-m", "0")
    git(workspace, "worktree", "add", "-q", str(tree))
    own = workspace / ".git/worktrees/tree"
    monkeypatch.chdir(tree)
    plant = _PLANT.replace("cp .git/HEAD", f"cp {own}/HEAD")
    async with opened() as terminal:
        tries = [
            await script(terminal, plant.format(canary=canary, to=f"{tree}/evil", where=own)),
            await script(terminal, f"mv {own} {own}2 && mkdir {own}"),
            await script(terminal, f"mv {own.parent} {own.parent}2 && mkdir -p {own}"),
            await script(terminal, f"echo x > {own}/gitdir"),
        ]
        git(tree, "status")
        further = await script(
            terminal, plant.format(canary=canary, to="../../tree/evil", where=f"{own}/../..")
        )
        git(tree, "status")
        commit = await script(
            terminal, "git -c user.name=x -c user.email=x@y commit -qm 1 --allow-empty"
        )

    assert [one.exit_code != 0 for one in tries] == [True] * 4
    assert further.blocked == ("write",)
    assert not canary.exists()
    assert commit.exit_code == 0, commit.stderr


async def test_a_forged_work_tree_opens_no_other_repository(opened: Open, workspace: Path) -> None:
    victim = workspace.parent / "victim"
    git(workspace, "init", "-q", str(victim))
    forge = (
        'mkdir -p {own} && echo "gitdir: {own}" > .git && echo $PWD/.git > {own}/gitdir &&'
        f" echo {victim}/.git > {{own}}/commondir"
    )
    for own in ("$PWD/fake", "$PWD/x/worktrees/fake"):
        async with opened() as terminal:
            await script(terminal, f"rm -rf .git; {forge.format(own=own)}")
        async with opened() as terminal:
            tried = await script(terminal, f"echo evil > {victim}/.git/canary")

        assert tried.exit_code != 0
    assert not (victim / ".git/canary").exists()


@_LIVE
async def test_a_bwrap_that_a_command_has_made_is_not_used(
    opened: Open, workspace: Path, public_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = public_path / "canary"
    scripts = workspace / ".venv/bin"
    scripts.mkdir(parents=True)
    (scripts / "bwrap").write_text(f"#!/bin/sh\ntouch {canary}\n")
    (scripts / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{scripts}:{os.environ['PATH']}")
    async with opened() as terminal:
        found = await script(terminal, "true")
    monkeypatch.setattr(bwrap, "PLACES", ())
    monkeypatch.setenv("PATH", str(scripts))
    async with opened() as terminal:
        with pytest.raises(IsolationUnavailable, match="lies where commands can write"):
            await terminal.run("true")

    assert found.exit_code == 0
    assert not canary.exists()


async def test_what_was_replaced_outside_is_guarded_again(
    opened: Open, workspace: Path, writes: str
) -> None:
    git(workspace, "init", "-q")
    (workspace / ".mcp.json").write_text("{}")
    shown = workspace.parent / "shown"  # in the workspace it would not be seen by who writes apart
    shown.mkdir()
    wait = f"echo up; until [ -e {shown}/go ]; do sleep 0.1; done"
    async with opened(sandbox_readable=(str(shown),)) as terminal:
        first = await terminal.start(["sh", "-c", wait])
        git(workspace, "remote", "add", "origin", "https://example.org/x")
        (workspace / ".mcp.json.new").write_text("{}")
        (workspace / ".mcp.json.new").replace(workspace / ".mcp.json")
        (workspace / ".git/hooks").rename(workspace / ".git/hooks-old")
        (workspace / ".git/hooks").mkdir()
        (workspace / ".claude").mkdir()
        before = contents(workspace)
        tries = [
            await script(terminal, f"echo evil >> {name}")
            for name in (".git/config", ".mcp.json", ".git/hooks/pre-commit", ".claude/settings")
        ]
        state = first.outcome
        (shown / "go").touch()
        with anyio.fail_after(50):
            ended = await first.wait()

    assert [held(one, writes) for one in tries] == [True] * 4
    assert contents(workspace) == before
    assert state is None
    assert ended.ok


async def test_a_workspace_that_was_made_again_is_the_new_one(
    opened: Open, workspace: Path
) -> None:
    async with opened() as terminal:
        await script(terminal, "echo old > file", cwd=workspace)
        workspace.rename(workspace.with_name("old"))
        workspace.mkdir()
        result = await script(terminal, "echo fresh > file", cwd=workspace)
        workspace.rename(workspace.with_name("gone"))
        with pytest.raises(IsolationUnavailable, match="is no directory"):
            await terminal.run("true", cwd=workspace)

    assert result.exit_code == 0, result.stderr
    assert (workspace.with_name("gone") / "file").read_text() == "fresh\n"
    assert (workspace.with_name("old") / "file").read_text() == "old\n"


@pytest.mark.parametrize("layout", ["nested", "submodule", "separate", "linked hooks", "no hooks"])
async def test_every_repository_in_the_workspace_is_guarded(
    opened: Open, workspace: Path, layout: str, writes: str
) -> None:
    outer = workspace
    inner = workspace / "a/b"
    tries: tuple[str, ...]
    if layout == "nested":
        git(outer, "init", "-q", str(inner))
        tries = ("echo x >> a/b/.git/config", "echo x > a/b/.git/hooks/pre-commit", "mv a old")
    elif layout == "submodule":
        git(outer, "init", "-q")
        git(outer, "init", "-q", str(inner))
        git(inner, "commit", "-q", "--allow-empty", "-m", "0")
        git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", "./a/b", "s")
        own = ".git/modules/s"
        tries = (
            "rm s/.git",
            "mv s t",
            f"echo x >> {own}/config",
            f"echo x > {own}/hooks/post-commit",
        )
    elif layout == "separate":
        git(outer, "init", "-q", "--separate-git-dir", str(workspace / "store"))
        tries = ("rm .git", "echo x >> store/config", "mv store other")
    else:
        git(outer, "init", "-q")
        subprocess.run(["rm", "-r", str(outer / ".git/hooks")], check=True)
        tries = ("mkdir -p .git/hooks && touch .git/hooks/pre-commit",)
        if layout == "linked hooks":
            (outer / "hooks").mkdir()
            (outer / ".git/hooks").symlink_to("../hooks")
    before = contents(outer)
    async with opened() as terminal:
        results = [await script(terminal, text) for text in tries]
        replaced = await script(terminal, "rm .git/hooks && mkdir .git/hooks && touch .git/hooks/x")

    assert [held(one, writes) for one in results] == [True] * len(tries)
    left = contents(outer)
    assert {name: left.get(name) for name in before} == before
    if layout == "linked hooks":
        assert replaced.blocked == ("write",)
        assert (outer / ".git/hooks").readlink() == Path("../hooks")


async def test_hooks_and_settings_that_settings_name_are_guarded_where_they_are(
    opened: Open, workspace: Path, writes: str
) -> None:
    git(workspace, "init", "-q")
    git(workspace, "config", "core.hooksPath", ".githooks")
    git(workspace, "config", "include.path", "../team.gitconfig")
    (workspace / ".githooks").mkdir()
    (workspace / "team.gitconfig").write_text("")
    before = contents(workspace)
    async with opened() as terminal:
        hook = await script(terminal, "echo x > .githooks/pre-commit")
        settings = await script(terminal, "echo x > team.gitconfig")

    assert [held(hook, writes), held(settings, writes)] == [True, True]
    assert contents(workspace) == before


@pytest.mark.parametrize("trap", ["pipe", "link", "garbage"])
async def test_a_workspace_full_of_traps_does_no_harm(opened: Open, trap: str) -> None:
    plant = {
        "pipe": "mkfifo .git; mkdir -p sub/.git; mkfifo sub/.git/HEAD sub/.git/config",
        "link": "mkdir sub; echo {} > sub/terminal_timeout_policy.json; ln -s $PWD/sub config;"
        " ln -s /home .git; ln -s /root .claude; mkdir c; ln -s /etc c/.git",
        "garbage": "head -c 99999 /dev/urandom > .git; mkdir -p b/.git; echo x > b/.git/HEAD;"
        " printf '[core]\\nhooksPath = ~nobody-there/x\\n[include]\\npath=\\0' > b/.git/config",
    }
    async with opened() as terminal:
        await script(terminal, plant[trap])
    async with opened() as terminal:
        with anyio.fail_after(50):
            after = await script(terminal, "echo fine; ls .claude/.ssh .git/x")

    assert after.stdout == "fine\n"


async def test_a_commit_has_the_author_that_an_included_file_names(
    opened: Open, workspace: Path
) -> None:
    home = Path.home()
    for number, included in enumerate((home / "mine", workspace / "theirs", home / "other")):
        included.write_text(
            f"[user]\n email = {number}@example.org\n[include]\n path = ~/more\n"
            "[http]\n x = secret\n"
        )
    (home / "more").write_text("[user]\n name = Included\n[url]\n y = secret\n")
    (home / ".gitconfig").write_text(
        f'[includeIf "gitdir:{home}/elsewhere/"]\n path = other\n'
        f'[includeIf "gitdir:{workspace.parent}/"]\n path = ~/mine\n path = {workspace}/theirs\n'
    )
    author = (
        "git init -q n && git -C n commit -q --allow-empty -m x && git -C n log --format='%an %ae'"
    )

    async with opened() as terminal:
        result = await script(terminal, f"{author}; cat ~/.gitconfig")

    assert result.stdout.startswith("Included 0@example.org\n")
    assert "secret" not in result.stdout


async def test_accounts_that_toolchains_know_are_not_there(opened: Open) -> None:
    home = Path.home()
    secrets = (
        *(".local/share/uv/credentials/x", ".dotnet/corefx/cryptography/x509stores/my/x"),
        *(".nvm/versions/node/v20/etc/npmrc", "miniconda3/.condarc", ".pyenv/versions/3/pip.conf"),
        *(".opam/plugins/opam-publish/x.token", ".cargo/credentials.toml"),
    )
    for name in secrets:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("secret")
    (home / ".local/share/uv/python").mkdir()
    (home / ".gitconfig").write_text(
        '[user]\n name = me\n[url "https://x:secret@example.org/"]\n insteadOf = y\n'
        "[http]\n extraheader = secret\n"
    )
    places = " ".join(f"{home}/{name}" for name in secrets)
    async with opened() as terminal:
        result = await script(terminal, f"cat {places} ~/.gitconfig; ls ~/.local/share/uv")
        (home / "miniconda3/condarc").write_text("secret")
        (home / ".local/share/uv/credentials").rename(home / ".local/share/uv/old")
        (home / ".local/share/uv/old").rename(home / ".local/share/uv/credentials")
        later = await script(terminal, f"cat {places} ~/miniconda3/condarc")

    assert "secret" not in result.stdout + later.stdout
    assert "name = me" in result.stdout
    assert "python" in result.stdout


async def test_path_shows_no_directory_by_way_of_a_link(
    opened: Open, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, other = workspace.parent / "secret", workspace.parent / "other"
    for place in (secret, other, other / "plain"):
        place.mkdir()
        (place / "key").write_text("key")
    (other / "tools").symlink_to(secret)
    monkeypatch.setenv("PATH", f"{other}/tools:{other}/plain:{os.environ['PATH']}")
    async with opened() as terminal:
        result = await script(terminal, f"ls {other}/plain; ls {other}/tools {secret}")

    assert result.stdout.split() == ["key"]


async def test_no_set_uid_file_can_be_left(opened: Open, workspace: Path) -> None:
    python = os.path.realpath(sys.executable)
    make = (
        "import os\nfor deed in (lambda: os.chmod('f', 0o4755), lambda: os.mknod('n', 0o106755),"
        " lambda: os.open('o', os.O_CREAT, 0o4755), lambda: os.fchmod(os.open('f', 0), 0o2755)):\n"
        " try: deed(); print('made')\n except OSError as error: print(error.errno)\n"
    )
    async with opened(sandbox_readable=(sys.base_prefix,)) as terminal:
        await script(terminal, "touch f; chmod 755 f; mkdir -m 1777 d")
        tried = await terminal.run([python, "-I", "-S", "-c", make])

    assert tried.stdout.split() == ["1"] * 4
    modes = {entry.name: entry.stat().st_mode & 0o7777 for entry in workspace.iterdir()}
    assert modes == {"f": 0o755, "d": 0o1777}


async def test_every_private_place_has_an_end(opened: Open) -> None:
    size = 2 * 1024 * 1024
    places = ("/tmp", "/dev/shm", "$HOME/.cache", "$HOME/.npm", "$HOME/.local/state")
    async with opened(sandbox_tmp_size=size) as terminal:
        for place in places:
            filled = await script(terminal, f"head -c {size + 4096} /dev/zero > {place}/big")
            assert "No space left" in filled.stderr, place
        device = await script(terminal, "echo x > /dev/big")

    assert device.exit_code != 0


async def test_our_own_code_in_the_workspace_is_read_only(
    opened: Open, workspace: Path, writes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = workspace / ".venv"
    (environment / "lib").mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(environment))
    async with opened() as terminal:
        tried = await script(terminal, "echo x > .venv/lib/sitecustomize.py")
        moved = await script(terminal, "mv .venv other")

    assert [held(tried, writes), held(moved, writes)] == [True, True]
    assert [*(environment / "lib").iterdir()] == []


async def test_auto_is_a_demand_that_a_workspace_cannot_weaken(
    open_terminal: Open, workspace: Path
) -> None:
    async with open_terminal(
        isolation_profiles_run_unknown="auto", isolation_profiles_run_safe="auto"
    ) as terminal:
        usual = await terminal.run("pwd")
        for place in ("/", "/etc"):
            with pytest.raises(
                IsolationUnavailable, match="works here, but not for this workspace"
            ):
                await terminal.run("pwd", cwd=place)
        with pytest.raises(CommandDenied, match="demands sandbox"):
            await terminal.run("pwd", provider="local")
        with pytest.raises(CommandDenied, match="demands sandbox"):
            await terminal.run("mkdir made", provider="local")

    assert usual.isolation == "sandbox"
    assert not (workspace / "made").exists()


async def test_auto_lets_no_shell_stay_outside(open_terminal: Open, workspace: Path) -> None:
    async with open_terminal(
        safety_profiles_session_unknown="allow", isolation_profiles_session_unknown="auto"
    ) as terminal:
        sessions = Sessions(terminal.supervisor)
        shell = await open_shell(sessions, terminal.supervisor, "me", "true")

    assert Path.cwd() == workspace
    assert shell.session.run.isolation == "sandbox"


@_LIVE
async def test_without_a_home_it_says_so(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    async with opened() as terminal:
        with pytest.raises(IsolationUnavailable, match="HOME is / or empty"):
            await terminal.run("true")


@pytest.mark.parametrize("wish", [{"workspace": 5}, {"workspace": "a\0b"}, {"cwd": b"/"}])
@_LIVE
async def test_what_is_no_path_is_told(opened: Open, wish: dict[str, object]) -> None:
    async with opened() as terminal:
        with pytest.raises(InvalidParameters, match="must be a path"):
            await terminal.run("true", **wish)  # type: ignore[arg-type]  # garbage


async def test_nobody_is_told_which_hidden_files_exist(opened: Open) -> None:
    async with opened() as terminal:
        there = await script(terminal, "cat /srv")
        missing = await script(terminal, "cat /srv-that-is-nowhere")

    assert Path("/srv").exists()
    assert there.blocked == missing.blocked == ("files",)


@_LIVE
async def test_what_is_to_be_read_must_be_there(opened: Open, workspace: Path) -> None:
    async with opened(sandbox_readable=(str(workspace.parent / "gone"),)) as terminal:
        with pytest.raises(IsolationUnavailable, match=r"sandbox\.readable names .*gone"):
            await terminal.run("true")


@pytest.mark.parametrize("keeper", ["c", "python"])
async def test_a_command_cannot_end_its_keeper(opened: Open, keeper: str) -> None:
    async with opened(keeper=keeper, sandbox_readable=(sys.base_prefix,)) as terminal:
        told = await script(terminal, "touch /tmp/here; kill -TERM 1; kill -HUP 1; echo told")
        after = await script(terminal, "ls /tmp/here")

    assert (told.status, told.stdout) == ("success", "told\n")
    assert after.stdout == "/tmp/here\n"  # it is the same sandbox


@pytest.mark.needs("unshare")
@_USERS
async def test_no_namespace_of_users_can_be_made_inside(
    opened: Open, workspace: Path, monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    if user == "nobody":
        if os.geteuid() != 0:
            pytest.skip("only root can become somebody else")
        become_nobody(workspace.parent, monkeypatch)
    async with opened() as terminal:
        result = await script(terminal, "unshare --user true || echo refused")

    assert result.stdout == "refused\n"


@pytest.mark.skipif(
    os.geteuid() != 0, reason="whoever is not root cannot read them outside, either"
)
async def test_what_of_etc_not_everybody_may_read_is_empty(opened: Open) -> None:
    folders = (Path("/etc"), *(one for one in Path("/etc").iterdir() if one.is_dir()))
    files = [one for folder in folders for one in folder.iterdir() if not one.is_symlink()]
    closed = [str(one) for one in files if one.is_file() and not one.stat().st_mode & 0o004]
    if not closed:
        pytest.skip("there is none here")

    async with opened() as terminal:
        looks = 'for one; do [ ! -s "$one" ] && [ ! -f "$one" ] || echo "$one"; done'
        seen = await terminal.run(["sh", "-c", looks, "sh", *closed])

    assert (seen.isolation, seen.status, seen.stdout) == ("sandbox", "success", "")
