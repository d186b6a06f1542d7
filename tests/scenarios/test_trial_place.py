"""A place for one command, on a copy-on-write view of its workspace: nothing real is written."""

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from shelltie.errors import CannotStart
from shelltie.keeper.binaries import BINARY
from shelltie.keeper.protocol import Gone, LeashWord, Lost
from shelltie.model import Resources
from shelltie.providers.bubblewrap import overlay
from shelltie.providers.bubblewrap.bwrap import explain
from shelltie.providers.bubblewrap.overlay import Overlay, check_all_is_seen, mounting, mounts_now
from shelltie.providers.bubblewrap.provider import BubblewrapProvider, OverlaidPlace, TrialPlace
from shelltie.providers.policies import SandboxPolicy
from shelltie.providers.provider import Prepared
from shelltie.settings.all_settings import SandboxSettings

pytestmark = pytest.mark.needs("bwrap")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A project with a few files; its name has what an overlay's options would misread."""
    place = tmp_path / "a,b:c\\d e"
    (place / "sub").mkdir(parents=True)
    (place / "old").write_text("old\n")
    (place / "sub" / "deep").write_text("deep\n")
    return place


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[BubblewrapProvider]:
    """Sandboxes of somebody whose home is empty, with one more directory to write."""
    for name in ("home", "more"):
        (tmp_path / name).mkdir()
    settings = SandboxSettings(idle=5)
    policy = SandboxPolicy(tmp_path / "home", settings, writable=(tmp_path / "more",))
    made = BubblewrapProvider(policy)
    yield made
    await made.close()


async def in_place(
    place: TrialPlace | OverlaidPlace | BubblewrapProvider,
    workspace: Path,
    text: str,
    *,
    close: bool = True,
) -> str:
    """What a shell there prints, to its end."""
    over = anyio.Event()

    def hear(word: LeashWord) -> None:
        if isinstance(word, Gone | Lost):
            over.set()

    env, resources = {"PATH": "/usr/bin:/bin"}, Resources()
    argv = ("/bin/sh", "-c", f"exec 2>&1; {text}")
    prepared = Prepared(argv, env, str(workspace), None, None, resources, workspace=str(workspace))
    process = place.spawn(prepared, hear)
    with anyio.fail_after(50):
        await over.wait()
    if close:
        await place.close()
    said = os.read(process.stdout, 65536).decode()
    for descriptor in (process.stdout, process.stderr):
        if descriptor is not None:
            os.close(descriptor)
    return said


async def test_a_command_on_trial_sees_its_changes_and_nobody_else_does(
    provider: BubblewrapProvider, workspace: Path, tmp_path: Path
) -> None:
    folder, more = tmp_path / "state" / "t1", tmp_path / "more"
    place = await provider.open_trial(str(workspace), folder)

    said = await in_place(
        place,
        workspace,
        "cat old; rm -rf old sub; echo new > new; ls; mkfifo pipe; ln -s /etc/passwd out;"
        f"echo x > {more}/x && cat {more}/x; touch /etc/here",
    )

    assert said.splitlines()[:3] == ["old", "new", "x"]
    assert "Read-only file system" in said
    assert sorted(one.name for one in workspace.iterdir()) == ["old", "sub"]
    assert (workspace / "sub" / "deep").read_text() == "deep\n"
    assert not list(more.iterdir())
    assert (folder / "upper" / "new").read_text() == "new\n"
    assert (folder / "upper" / "old").is_char_device()  # a whiteout
    assert (folder / "upper" / "out").is_symlink()


async def test_caches_of_the_user_are_seen_and_not_spoiled(
    provider: BubblewrapProvider, workspace: Path, tmp_path: Path
) -> None:
    uv, private = tmp_path / "home/.cache/uv", tmp_path / "home/.cache/tokens"
    linked = tmp_path / "home/.npm/_cacache"
    for folder in (uv, private, linked.parent, tmp_path / "elsewhere"):
        folder.mkdir(parents=True)
        (folder / "file").write_text("mine\n")
    linked.symlink_to(tmp_path / "elsewhere")
    place = await provider.open_trial(str(workspace), tmp_path / "state" / "t1")

    said = await in_place(
        place,
        workspace,
        f"cat {uv}/file; echo spoiled > {uv}/file; cat {uv}/file; ls {private} {linked}",
    )

    assert said.splitlines()[:2] == ["mine", "spoiled"]
    assert said.count("No such file") == 2
    assert (uv / "file").read_text() == "mine\n"


async def test_caches_are_seen_added_to_and_never_spoiled(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By any command of a sandbox, where caches are shared."""
    uv, kept = tmp_path / "home/.cache/uv", tmp_path / "state" / "caches"
    uv.mkdir(parents=True)
    (uv / "file").write_text("mine\n")
    (kept / "of-one-that-was-killed").mkdir(parents=True)
    (kept / "of-one-that-was-killed" / "lock").touch()
    policy = SandboxPolicy(home=tmp_path / "home", path="/usr/bin:/bin", caches=kept)

    def opened() -> BubblewrapProvider:
        return BubblewrapProvider(policy)

    async def said(provider: BubblewrapProvider, text: str) -> str:
        await provider.ready(str(workspace))
        return await in_place(provider, workspace, text, close=False)

    provider = opened()
    first = await said(
        provider, f"cat {uv}/file; echo x > {uv}/file; echo added > {uv}/new; ln -s /tmp {uv}/l"
    )
    (workspace / ".git").mkdir()  # what must be guarded is another now: so is its sandbox
    (workspace / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (workspace / ".envrc").write_text("")
    second = await said(provider, f"cat {uv}/file {uv}/new")
    while_open = [path.name for path in kept.iterdir()]
    await provider.close()
    third = opened()
    fresh = await said(third, f"cat {uv}/file; ls {uv}")
    await third.close()
    refuses = tmp_path / "refuses"
    refuses.write_text("#!/bin/sh\necho 'overlay: mount: EPERM: refused' >&2; exit 1\n")
    refuses.chmod(0o755)
    monkeypatch.setattr(overlay, "PYTHON", str(refuses))
    without = opened()
    private = await said(without, f"ls {uv.parent}; echo x > {uv.parent}/y && echo here")
    await without.close()

    assert private == "here\n"
    assert (first, second, fresh) == ("mine\n", "x\nadded\n", "mine\nfile\n")
    assert (uv / "file").read_text() == "mine\n"
    assert len(while_open) == 1
    assert "of-one-that-was-killed" not in while_open
    assert not [*kept.iterdir()]


async def test_places_on_trial_do_not_see_one_another(
    provider: BubblewrapProvider, workspace: Path, tmp_path: Path
) -> None:
    first = await provider.open_trial(str(workspace), tmp_path / "state" / "t1")
    second = await provider.open_trial(str(workspace), tmp_path / "state" / "t2")

    await in_place(first, workspace, "echo 1 > mine")

    assert await in_place(second, workspace, "ls") == "old\nsub\n"


@pytest.mark.parametrize("keeper", ["c", "python"])
async def test_whoever_enters_a_living_sandbox_alone_sees_what_it_writes(
    workspace: Path, tmp_path: Path, keeper: str
) -> None:
    (tmp_path / "home").mkdir()
    provider = BubblewrapProvider(SandboxPolicy(tmp_path / "home", SandboxSettings()), keeper)
    folder = tmp_path / "state" / "t1"

    place = await provider.enter_overlay(str(workspace), folder)
    said = await in_place(place, workspace, "rm old; echo new > sub/new; ls . sub", close=False)
    over = await anyio.to_thread.run_sync(place.dismiss())
    await place.close()
    place.leave(survivors=not over)
    beside = await in_place(provider, workspace, "ls . sub", close=False)
    await provider.close()

    assert said.split() == [".:", "sub", "sub:", "deep", "new"]
    assert over
    assert beside.split() == [".:", "old", "sub", "sub:", "deep"]
    assert (folder / "upper" / "sub" / "new").read_text() == "new\n"


async def test_who_comes_after_survivors_gets_another_sandbox(
    provider: BubblewrapProvider, workspace: Path, tmp_path: Path
) -> None:
    namespaces = set()
    for number in range(2):
        place = await provider.enter_overlay(str(workspace), tmp_path / "state" / f"t{number}")
        # The kernel gives the number of a namespace that has ended to another one.
        which = "readlink /proc/self/ns/pid; cut -d ' ' -f 22 /proc/1/stat"
        said = await in_place(place, workspace, which, close=False)
        namespaces.add(said)
        await place.close()
        place.leave(survivors=True)  # the sandbox is about to end

    assert len(namespaces) == 2
    assert all(said.startswith("pid:[") for said in namespaces)


_UNTIL_ENDED = "while grep -qs 'State:.[^Z]' /proc/$first/status; do sleep 0.01; done"
_END_SANDBOX = f"{{ read first < /proc/$2/task/$2/children; kill -9 $2; {_UNTIL_ENDED}; }}"


@pytest.mark.parametrize(("does", "tries"), [("exit 1", 1), (_END_SANDBOX, 2)], ids=["1", "2"])
async def test_who_cannot_enter_tries_again_only_if_the_sandbox_has_ended(
    provider: BubblewrapProvider,
    workspace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    does: str,
    tries: int,
) -> None:
    log, first = tmp_path / "log", tmp_path / "first"
    first.write_text(
        f'#!/bin/sh\necho x >> {log}\n[ $(wc -l < {log}) = 1 ] && {does}\nexec {BINARY} "$@"\n'
    )
    first.chmod(0o755)
    monkeypatch.setattr(overlay, "BINARY", first)

    said = ""
    try:
        place = await provider.enter_overlay(str(workspace), tmp_path / "state" / "t1")
        said = await in_place(place, workspace, "ls")
        place.leave(survivors=False)
    except CannotStart as error:
        said = str(error)

    assert len(log.read_text().split()) == tries
    assert said == (
        "old\nsub\n" if tries > 1 else "no command can enter its sandbox: it ended without a word"
    )


async def test_where_there_can_be_no_overlay_the_reason_is_said(
    provider: BubblewrapProvider, workspace: Path, tmp_path: Path
) -> None:
    for unfit in ("/", "/usr", str(tmp_path / "home"), str(tmp_path / "nothing")):
        with pytest.raises(CannotStart, match=r"workspace"):
            await provider.open_trial(unfit, tmp_path / "state" / "t1")
    with pytest.raises(CannotStart, match=r"outside of the workspace"):
        await provider.open_trial(str(workspace), workspace / "state" / "t1")
    for code, why in (("EPERM", "Linux 5.11"), ("EINVAL", "NFS"), ("ENODEV", "modprobe")):
        assert why in explain(f"overlay: mount: {code}: no such luck")
    assert "disk" in explain("overlay: mount: ENOSPC: No space on the disk")


def test_what_an_overlay_would_show_otherwise_is_said(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)

    mounts = mounts_now()
    check_all_is_seen(tmp_path, (tmp_path.parent, tmp_path.parent / "beside"), mounts)
    with pytest.raises(CannotStart, match="shelltie's own, is in the workspace"):
        check_all_is_seen(tmp_path, (tmp_path / "link" / "state",), mounts)
    with pytest.raises(CannotStart, match=r"/dev/\w+ is mounted in the workspace"):
        check_all_is_seen(Path("/dev"), (), mounts)


def test_a_directory_that_was_replaced_is_not_mounted(workspace: Path, tmp_path: Path) -> None:
    for name in ("upper", "work", "view"):
        (tmp_path / name).mkdir()
    looked_at = workspace.stat()
    overlay = Overlay(
        workspace,
        (looked_at.st_dev, looked_at.st_ino),
        *(tmp_path / name for name in ("upper", "work", "view")),
    )
    workspace.rename(tmp_path / "moved")
    workspace.mkdir()

    done = subprocess.run([*mounting([overlay]), "/bin/true"], capture_output=True, check=False)

    assert done.returncode == 1
    assert b"is not the directory any more" in done.stderr
