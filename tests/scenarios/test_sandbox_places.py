"""Workspaces on odd file systems: what is kept apart works there, or it is said why not."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from shelltie.errors import CannotStart
from shelltie.providers.bubblewrap.overlay import check_can_be_written
from tests.conftest import Open

pytestmark = pytest.mark.needs("bwrap")
IS_ROOT = os.geteuid() == 0
ROOT_MOUNTS = pytest.mark.skipif(not IS_ROOT, reason="only root may mount here")
ALLOWED = {
    "safety_profiles_run_unknown": "allow",
    "safety_profiles_run_dangerous": "allow",
}
CHANGES = "echo x > new; echo y >> f; rm g; mkdir d; echo z > .envrc; ls"
# Run in a mount namespace of its own: `shelltie run` in a directory.
INSIDE = """
import json, os, subprocess, sys
os.chdir(sys.argv[1])
words = ["-m", "shelltie", "run", "--isolation", "sandbox", "--", sys.argv[2]]
done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=100)
names = sorted(os.listdir("."))
print(json.dumps({"said": done.stdout + done.stderr, "names": names}))
"""


def fill(place: Path) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    for name in ("f", "g"):
        (place / name).write_text(f"{name}\n")
    return place


@pytest.mark.parametrize(
    "name",
    ["with space", "new\nline", "a,b:c\\\\d\\", os.fsdecode(b"caf\xe9"), "link", "-rf"],
    ids=["space", "newline", "option", "bytes", "link", "dash"],
)
async def test_a_workspace_of_any_name_is_written_apart(
    name: str, open_terminal: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = fill(tmp_path / name)
    if name == "link":
        place = tmp_path / "leads here"
        place.symlink_to(tmp_path / name)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(place)

    async with open_terminal(**ALLOWED, sandbox_writes="trial") as terminal:
        result = await terminal.run(CHANGES, isolation="sandbox", timeout=60)
        safe = await terminal.run("cat new", timeout=60)

    assert (result.status, result.stdout.split()) == ("success", ["d", "f", "new"])
    assert ".envrc is guarded" in result.warnings[0]
    assert sorted(path.name for path in place.iterdir()) == ["d", "f", "new"]
    assert (place / "f").read_text() == "f\ny\n"
    assert (safe.stdout, safe.warnings) == ("x\n", ())


def mounted(tmp_path: Path, mounts: str, place: Path, **env: str) -> dict[str, object]:
    """What `shelltie run` says in a directory after these mounts, which nobody else sees."""
    (tmp_path / "home").mkdir(exist_ok=True)
    inside = shlex.join([sys.executable, "-c", INSIDE, str(place), CHANGES])
    done = subprocess.run(
        ["unshare", "-m", "--propagation", "private", "sh", "-ec", f"{mounts}\nexec {inside}"],
        env={
            **os.environ,
            "HOME": str(tmp_path / "home"),
            "SHELLTIE_SAFETY_PROFILES_RUN_UNKNOWN": "allow",
            "SHELLTIE_SAFETY_PROFILES_RUN_DANGEROUS": "allow",
            **env,
        },
        capture_output=True,
        text=True,
        timeout=110,
        check=True,
    )
    found: dict[str, object] = json.loads(done.stdout)
    found["said"] = " ".join(str(found["said"]).split())
    return found


@ROOT_MOUNTS
@pytest.mark.needs("unshare")
def test_an_overlay_a_bind_mount_or_tmpfs_is_a_workspace_like_any(tmp_path: Path) -> None:
    lower, bound = fill(tmp_path / "lower"), fill(tmp_path / "elsewhere")
    for name in ("upper", "work", "merged", "bound", "memory"):
        (tmp_path / name).mkdir()
    options = f"lowerdir={lower},upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    overlay = f"mount -t overlay -o {options} none {tmp_path}/merged"

    # As every path of pytest's, these have nothing in them that mount would misread.
    over = mounted(tmp_path, overlay, tmp_path / "merged")
    onto = mounted(tmp_path, f"mount --bind {bound} {tmp_path}/bound", tmp_path / "bound")

    memory = f"mount -t tmpfs none {tmp_path}/memory; cp {lower}/f {lower}/g {tmp_path}/memory"
    in_memory = mounted(tmp_path, memory, tmp_path / "memory")

    for found in (over, onto, in_memory):
        assert found["names"] == ["d", "f", "new"]
        assert ".envrc is guarded" in str(found["said"])


@ROOT_MOUNTS
@pytest.mark.needs("unshare")
def test_where_no_write_could_become_real_it_fails_at_once(tmp_path: Path) -> None:
    place = fill(tmp_path / "place")
    read_only = f"mount --bind {place} {place}; mount -o remount,bind,ro {place}"

    found = mounted(tmp_path, read_only, place)
    strict = mounted(tmp_path, read_only, place, SHELLTIE_SANDBOX_WRITES="trial")
    inner = mounted(tmp_path, f"mkdir {place}/in; mount -t tmpfs none {place}/in", place)

    assert "Read-only file system" in str(found["said"])
    assert "is on a file system that is read-only" in str(found["said"])
    assert "nothing was run" in str(strict["said"]).lower()
    assert "in is mounted in the workspace" in str(inner["said"])
    assert inner["names"] == [".envrc", "d", "f", "in", "new"]


def test_what_an_ordinary_users_overlay_cannot_change_is_said(tmp_path: Path) -> None:
    check_can_be_written(tmp_path)
    if IS_ROOT:
        check_can_be_written(Path("/usr"))  # where it is root's own decision
    else:
        with pytest.raises(CannotStart, match="belongs to another user or group"):
            check_can_be_written(Path("/usr"))


@pytest.mark.skipif(IS_ROOT, reason="root may write everywhere")
async def test_what_an_ordinary_user_may_not_write_fails_in_the_sandbox_as_outside(
    open_terminal: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = fill(tmp_path / "place")
    (place / "f").chmod(0o444)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(place)

    async with open_terminal(**ALLOWED, sandbox_writes="trial") as terminal:
        result = await terminal.run("echo y >> f", isolation="sandbox", timeout=60)

    assert "Permission denied" in result.stderr
    assert (place / "f").read_text() == "f\n"
