from pathlib import Path

import pytest

from shelltie.model import Resources
from shelltie.providers.cgroup import Parent, make, parents, wanted


def _tree(top: Path) -> None:
    for place, handed in (("", "cpu memory pids"), ("app", "memory pids"), ("app/own", "")):
        folder = top / place
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.subtree_control").write_text(handed)
        (folder / "cgroup.procs").write_text("")


def test_in_version_two_the_nearest_that_hands_controllers_on_is_used(tmp_path: Path) -> None:
    _tree(tmp_path)
    mounts = f"41 31 0:38 / {tmp_path} rw,relatime - cgroup2 cgroup2 rw"

    found = list(parents(mounts, "0::/app/own\n"))

    assert found == [Parent(tmp_path / "app", 2, frozenset({"memory", "pids"}))]


def test_in_version_one_each_controller_has_its_own(tmp_path: Path) -> None:
    (tmp_path / "memory" / "own").mkdir(parents=True)
    (tmp_path / "cpu").mkdir()
    mounts = (
        f"35 31 0:32 / {tmp_path}/memory rw,relatime - cgroup cgroup rw,memory\n"
        f"32 31 0:29 / {tmp_path}/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
        "23 1 0:1 / / rw - ext4 /dev/vda rw"
    )

    found = list(parents(mounts, "4:memory:/own\n1:cpu,cpuacct:/\n0::/\n"))

    assert [(one.version, one.controllers) for one in found] == [
        (1, frozenset({"memory"})),
        (1, frozenset({"cpu"})),
    ]
    assert found[0].path == tmp_path / "memory" / "own"


def test_limits_are_written_as_version_two_wants_them(tmp_path: Path) -> None:
    parent = Parent(tmp_path, 2, frozenset({"memory", "pids", "cpu"}))
    limits = wanted(Resources(memory=1000, tasks=7, cpus=0.5, open_files=3))

    with pytest.raises(FileNotFoundError):  # a real cgroup brings its cgroup.procs along
        make(limits, (parent,))

    made = next(tmp_path.glob("shelltie-*"))
    assert limits == {"memory": 1000, "pids": 7, "cpu": 0.5}
    assert (made / "memory.max").read_text() == "1000"
    assert (made / "pids.max").read_text() == "8"
    assert (made / "cpu.max").read_text() == "50000 100000"
