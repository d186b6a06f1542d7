"""Which commands have a kind: only those of which every word, and what it leads to, is proved."""

import json
import os
import subprocess
from pathlib import Path

import anyio
import pytest
from mcp import Client
from mcp_types import CallToolResult, ElicitResult

from shelltie import Config
from shelltie.approval.kind_rules import KindRules
from shelltie.approval.kinds import prove
from shelltie.approval.question import Kind, ProvedKind
from shelltie.model import Command
from shelltie.safety.judge import Judge
from shelltie.safety.rule_set import RuleSet
from tests.asking import shelltie
from tests.conformance.servers import server_of
from tests.conformance.test_mcp_confirm import Person
from tests.conftest import Open

JUDGE = Judge(RuleSet())


def git(place: Path, *words: str) -> None:
    own = {"GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x@x", "HOME": str(place.parent)}
    env = {**os.environ, **own, "GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x@x"}
    with subprocess.Popen(["git", *words], cwd=place, env=env, stdout=subprocess.DEVNULL) as done:
        assert done.wait(30) == 0


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with something built, something kept, and a way out."""
    monkeypatch.setenv("HOME", str(tmp_path))
    place = tmp_path / "work"
    for name in ("build/deep", "src", "dist", "vendor", "loose"):
        (place / name).mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (place / ".gitignore").write_text("build/\ndist/\nvendor/\nlink\n*.log\n", encoding="utf-8")
    (place / "package-lock.json").write_text("{}", encoding="utf-8")
    for name in ("build/deep/a.o", "dist/kept.js", "src/a.c", "loose/notes", "a.log"):
        (place / name).write_text("x", encoding="utf-8")
    (place / "link").symlink_to(tmp_path / "other")
    git(place, "init", "-q")
    git(place, "add", ".gitignore", "src", "package-lock.json")
    git(place, "add", "-f", "dist/kept.js")
    git(place, "commit", "-qm", "x")
    git(place, "remote", "add", "origin", "https://example.org/me/x.git")
    (place / "vendor" / "lib").mkdir()
    git(place / "vendor" / "lib", "init", "-q")
    return place


def kind_of(text: str, workspace: Path, cwd: Path | None = None) -> ProvedKind | None:
    command = Command(text, cwd=str(cwd or workspace))
    return prove(command, JUDGE.first(command), str(workspace))


@pytest.mark.proves("D15")
@pytest.mark.parametrize(
    "text",
    [
        "rm -rf build",
        "rm -r build/deep",
        "rm -rf ./build",
        "rm -f a.log",
        "rm -rf -- build",
        "rm -rf build/not/here",
    ],
)
def test_to_delete_what_git_ignores_is_a_kind(text: str, workspace: Path) -> None:
    kind = kind_of(text, workspace)

    assert kind == ProvedKind(Kind.DELETE_IGNORED, str(workspace))
    assert kind_of("rm -rf deep", workspace, workspace / "build") == kind


@pytest.mark.proves("D15")
@pytest.mark.parametrize(
    "text",
    [
        "rm -rf src",  # git keeps it
        "rm -rf dist",  # ignored, but something in it is kept
        "rm -rf loose",  # neither
        "rm -rf build src",
        "rm -rf vendor",  # another repository is in it
        "rm -rf link",  # a link
        "rm -rf link/x",  # behind one
        "rm -rf link/",
        "rm -rf build/../src",
        "rm -rf ..",
        "rm -rf ../other",
        "rm -rf .",
        "rm -rf .git",
        "rm -rf /",
        "rm -rf build/*",
        "rm -rf buil?",
        "rm -rf $x",
        "rm -rf ${x:-build}",
        "rm -rf $(echo build)",
        "rm -rf `echo build`",
        "rm -rf 'build'",
        'rm -rf "build"',
        "rm -rf b\\uild",
        "rm -rf ~/x",
        "rm -rf {build,src}",
        "rm  -rf build",
        "rm -rf build ",
        "rm -rf build\n",
        "rm -rf build; ls",
        "rm -rf build && ls",
        "rm -rf build | cat",
        "rm -rf build > x",
        "cd src && rm -rf build",
        "x=1 rm -rf build",
        "sudo rm -rf build",
        "command rm -rf build",
        "./rm -rf build",
        "/bin/rm -rf build",
        "bash -c rm",
        "rm -rf --no-preserve-root build",
        "rm -rfi build",
        "rm -rf nothing-here",
        "find build -delete",
        "shred build/deep/a.o",
    ],
)
def test_what_cannot_be_proved_to_be_ignored_has_no_kind(text: str, workspace: Path) -> None:
    assert kind_of(text, workspace) is None


@pytest.mark.proves("D15")
@pytest.mark.parametrize("text", ["rm -rf build", "rm -rf build/deep", "rm -rf build/deep/x/refs"])
def test_a_repository_by_any_name_is_never_covered(text: str, workspace: Path) -> None:
    git(workspace, "clone", "-q", "--bare", ".", "build/deep/x")

    assert kind_of(text, workspace) is None
    assert kind_of("rm -rf a.log", workspace) is not None


@pytest.mark.proves("D15")
def test_nor_is_one_whose_git_directory_was_renamed_nor_a_part_of_one(workspace: Path) -> None:
    lib = workspace / "vendor" / "lib"
    (lib / "src").mkdir()
    part = kind_of("rm -rf vendor/lib/src", workspace)
    (lib / ".git").rename(lib / "kept")

    assert part is None
    assert kind_of("rm -rf vendor", workspace) is None
    assert kind_of("rm -rf vendor/lib/kept", workspace) is None
    assert kind_of("rm -rf vendor/lib/src", workspace) is not None


@pytest.mark.proves("D15")
def test_a_tree_that_is_too_large_to_be_looked_at_has_no_kind(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shelltie.approval.kinds._ENTRIES_MAX", 2)
    small = kind_of("rm -rf build", workspace)
    (workspace / "build" / "b.o").touch()

    assert small is not None
    assert kind_of("rm -rf build", workspace) is None


@pytest.mark.proves("D15")
def test_what_the_last_commit_has_is_kept_though_the_index_lost_it(workspace: Path) -> None:
    git(workspace, "rm", "-q", "--cached", "dist/kept.js")

    assert kind_of("rm -rf dist", workspace) is None
    assert kind_of("rm -f dist/kept.js", workspace) is None
    git(workspace, "commit", "-qm", "y")
    assert kind_of("rm -rf dist", workspace) is not None


@pytest.mark.proves("D15")
def test_a_list_outside_of_the_repository_ignores_nothing(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("loose/\n", encoding="utf-8")
    git(workspace, "config", "core.excludesFile", str(tmp_path / "mine"))
    configured = kind_of("rm -rf loose", workspace)
    (workspace / ".git" / "info" / "exclude").write_text("loose/\n", encoding="utf-8")

    assert configured is None
    assert kind_of("rm -rf loose", workspace) is not None


@pytest.mark.proves("D15")
def test_a_kind_is_of_one_workspace_without_variables_or_input(
    workspace: Path, tmp_path: Path
) -> None:
    verdict = JUDGE.first(Command("rm -rf build", cwd=str(workspace)))
    for command in (
        Command("rm -rf build", cwd=str(workspace), env={"PATH": "."}),
        Command("rm -rf build", cwd=str(workspace), stdin=b""),
        Command("rm -rf build", cwd=str(tmp_path / "other")),
        Command("rm -rf build", cwd=str(tmp_path)),
        Command("rm -rf build", argv=("rm", "-rf", "bu ild"), cwd=str(workspace)),
    ):
        assert prove(command, verdict, str(workspace)) is None
    (tmp_path / "alias").symlink_to(workspace)
    assert prove(Command("rm -rf build", cwd=str(tmp_path / "alias")), verdict, str(workspace))


@pytest.mark.proves("D15")
def test_a_program_of_the_workspace_is_not_the_one_that_its_name_says(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "rm").write_text("#!/bin/sh\n", encoding="utf-8")
    (workspace / "rm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{workspace}:{os.environ['PATH']}")

    assert kind_of("rm -rf build", workspace) is None


@pytest.mark.proves("D15")
def test_to_ask_git_runs_nothing_that_the_repository_configures(
    workspace: Path, tmp_path: Path
) -> None:
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/canary\n", encoding="utf-8")
    hook.chmod(0o755)
    for key in ("core.fsmonitor", "core.sshCommand", "core.pager", "diff.external"):
        git(workspace, "config", key, str(hook))

    kind_of("rm -rf build", workspace)
    kind_of("git push origin main", workspace)
    kind_of("npm ci", workspace)

    assert not (tmp_path / "canary").exists()


@pytest.mark.proves("D15")
@pytest.mark.parametrize(
    "text", ["git push origin main", "git push -u origin HEAD", "git push origin feature/x-1"]
)
def test_to_push_named_branches_to_a_named_remote_is_a_kind(text: str, workspace: Path) -> None:
    kind = kind_of(text, workspace)

    assert kind is not None
    assert (kind.kind, kind.detail) == (Kind.PUSH, "origin (https://example.org/me/x.git)")


@pytest.mark.proves("D15")
@pytest.mark.parametrize(
    "text",
    [
        "git push",
        "git push origin",
        "git push --force origin main",
        "git push -f origin main",
        "git push --force-with-lease origin main",
        "git push origin +main",
        "git push origin :main",
        "git push origin a:b",
        "git push --delete origin main",
        "git push --mirror origin",
        "git push --all origin",
        "git push --tags origin main",
        "git push --no-verify origin main",
        "git push --receive-pack=x origin main",
        "git push https://evil.example/x main",
        "git push unknown main",
        "git push origin $branch",
        "git -C src push origin main",
        "git -c push.default=x push origin main",
    ],
)
def test_a_push_that_may_do_more_has_no_kind(text: str, workspace: Path) -> None:
    assert kind_of(text, workspace) is None


@pytest.mark.proves("D15")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("remote.origin.mirror", "true"),
        ("remote.origin.receivepack", "evil"),
        ("remote.origin.push", "+refs/heads/*"),
        ("url.https://evil.example/.pushInsteadOf", "https://example.org/"),
        ("core.sshCommand", "evil"),
        ("core.hooksPath", "evil"),
        ("include.path", "evil"),
        ("push.recurseSubmodules", "on-demand"),
        ("credential.helper", "!evil"),
        ("remote.origin.pushurl", "ext::evil"),
        ("remote.origin.pushurl", "/tmp/x"),
    ],
)
def test_a_repository_that_steers_its_pushes_has_none(
    key: str, value: str, workspace: Path
) -> None:
    git(workspace, "config", key, value)

    assert kind_of("git push origin main", workspace) is None


@pytest.mark.proves("D15")
def test_with_submodules_a_push_has_no_kind_and_another_address_is_another(
    workspace: Path,
) -> None:
    before = kind_of("git push origin main", workspace)
    git(workspace, "remote", "set-url", "origin", "https://evil.example/x.git")
    moved = kind_of("git push origin main", workspace)
    (workspace / ".gitmodules").write_text("", encoding="utf-8")

    assert before is not None
    assert moved not in (None, before)
    assert kind_of("git push origin main", workspace) is None


@pytest.mark.proves("D15")
def test_to_install_what_the_committed_lock_file_names_is_a_kind(
    workspace: Path, public_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm = public_path / "bin" / "npm"  # whether it is installed here or not
    npm.parent.mkdir()
    npm.write_text("#!/bin/sh\n", encoding="utf-8")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(npm.parent), prepend=os.pathsep)

    kind = kind_of("npm ci", workspace)
    others = [
        kind_of(text, workspace)
        for text in ("npm install", "npm ci left-pad", "npm ci --registry=x", "uv sync --frozen")
    ]
    (workspace / "package-lock.json").write_text('{"evil": 1}', encoding="utf-8")

    assert kind == ProvedKind(Kind.INSTALL_LOCKED, str(workspace), "package-lock.json")
    assert others == [None] * len(others)
    assert kind_of("npm ci", workspace) is None


@pytest.mark.proves("D15")
def test_only_processes_of_this_server_are_its_own(workspace: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as stranger:
        try:
            for text in (
                f"kill {stranger.pid}",  # a child of this process, but on no leash
                "kill 1",
                f"kill {os.getpid()}",
                f"kill {os.getppid()}",
                "kill 0",
                f"kill -9 -{stranger.pid}",
                "kill %1",
                "kill -9 $x",
                "kill",
                "pkill sleep",
                "killall sleep",
            ):
                assert kind_of(text, workspace) is None, text
        finally:
            stranger.kill()


@pytest.mark.proves("D15")
def test_a_rule_holds_for_its_own_workspace_and_detail_and_can_be_revoked(tmp_path: Path) -> None:
    file = tmp_path / "approved-kinds.toml"
    rules = KindRules(file)
    kind = ProvedKind(Kind.PUSH, "/a", "origin (https://example.org)")
    rules.add(kind)
    again = KindRules(file)
    text = file.read_text(encoding="utf-8")

    assert rules.holds(kind)
    assert again.holds(kind)
    for other in (
        ProvedKind(Kind.PUSH, "/b", kind.detail),
        ProvedKind(Kind.PUSH, "/a", "origin (https://evil.example)"),
        ProvedKind(Kind.DELETE_IGNORED, "/a", kind.detail),
    ):
        assert not rules.holds(other)
    file.write_text(text.replace('"/a"', '"/b"'), encoding="utf-8")
    forged = KindRules(file)
    assert not forged.holds(ProvedKind(Kind.PUSH, "/b", kind.detail))
    assert "not by shelltie" in forged.problem


@pytest.mark.proves("D15")
async def test_to_stop_what_this_server_runs_is_a_kind(
    workspace: Path, open_terminal: Open
) -> None:
    async with open_terminal() as terminal:
        run = await terminal.start("sleep 600 & sleep 600", cwd=str(workspace))
        with anyio.fail_after(30):
            while run.pid is None:
                await anyio.sleep(0.02)
        own = [kind_of(f"kill {flag}{run.pid}", workspace) for flag in ("", "-9 ", "-TERM ")]
        keeper = kind_of(f"kill {Path(f'/proc/{run.pid}/stat').read_text().split()[3]}", workspace)
        mixed = kind_of(f"kill {run.pid} {os.getpid()}", workspace)

    assert own == [ProvedKind(Kind.STOP_OWN, str(workspace))] * 3
    assert (keeper, mixed) == (None, None)


@pytest.mark.proves("D15")
async def test_a_yes_to_a_kind_is_for_all_of_it_until_it_is_revoked(
    workspace: Path, open_terminal: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace)
    always = ElicitResult(action="accept", content={"allow": True, "scope": "kind"})
    person = Person(always)
    statuses = []

    async def delete(client: Client, name: str) -> None:
        (workspace / name).mkdir(exist_ok=True, parents=True)
        result = await client.call_tool("run", {"command": f"rm -rf {name}"})
        assert isinstance(result, CallToolResult)
        statuses.append((result.structured_content or {})["status"])

    async with open_terminal() as terminal:
        server = server_of(terminal, Config())
        async with Client(server, mode="legacy", elicitation_callback=person) as client:
            for name in ("build", "build/deep", "build", "loose"):
                await delete(client, name)
            asked = len(person.read)
            listed = json.loads((await shelltie("approvals", "--json"))[1])
            _, shown, _ = await shelltie("approvals")
            code, said, _ = await shelltie("approvals", "revoke", listed[0]["id"].lower())
            await delete(client, "build")
            again = len(person.read)

    assert statuses == ["success"] * 5
    assert asked == 2  # the first, and what git does not ignore
    assert "delete what git ignores in" in person.read[0]
    assert "delete what git ignores in" not in person.read[1]
    assert [(one["kind"], one["workspace"]) for one in listed] == [
        ("delete_ignored", str(workspace))
    ]
    assert "delete what git ignores" in shown
    assert (code, said.split()[1]) == (0, "revoked:")
    assert again == 3
