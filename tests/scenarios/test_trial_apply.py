"""Changes of a trial are applied all or nothing, never through a link, and can be undone."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shelltie.errors import (
    ChangesConflict,
    ChangesNotApplied,
    ChangesUnreadable,
    TrialError,
    UndoTooLarge,
)
from shelltie.trials import renaming
from shelltie.trials.apply import apply_changes
from shelltie.trials.change_set import ChangeKind
from shelltie.trials.tree_copy import remove_tree
from shelltie.trials.undo import recover, undo
from shelltie.trials.unified_diff import DIFF_MAX
from tests.trial_trees import TrialTrees, contents, put

_ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def trees(tmp_path: Path) -> TrialTrees:
    """A workspace, and changes of every kind."""
    trees = TrialTrees(tmp_path)
    for name in ("a", "b", "gone/one", "gone/two", "kept/deep/er"):
        put(trees.workspace / name, f"{name}\n")
    trees.begin()
    trees.write("a", "a\nmore\n")
    trees.write("new/inner/file", "new\n")
    trees.write("kept/deep/er", "changed\n")
    trees.delete("gone")
    (trees.upper / "b").symlink_to("a")
    return trees


# What is told


def test_a_change_set_says_what_happened(trees: TrialTrees) -> None:
    changes = trees.read()

    assert changes.summary() == "3 files changed, 1 added, 2 deleted, 19 B"
    assert changes.lines() == [
        "changed  a (7 B)",
        "type     b (file → link, → a)",
        "deleted  gone/ (2 files)",
        "changed  kept/deep/er (8 B)",
        "added    new/ (1 file)",
    ]
    report = changes.to_json()
    assert report["total"] == 9
    assert report["complete"] is True


def test_what_is_as_before_is_no_change(tmp_path: Path) -> None:
    trees = TrialTrees(tmp_path)
    put(trees.workspace / "same", "same")
    put(trees.workspace / "d/inner", "x")
    trees.begin()
    os.utime(trees.write("same", "same"), (1, 1))
    (trees.upper / "d").mkdir()

    assert not trees.read()
    assert trees.read().summary() == "no changes"


def test_a_diff_is_what_git_applies(tmp_path: Path) -> None:
    trees = TrialTrees(tmp_path)
    long = "".join(f"{number}\n" for number in range(5000))
    names = {
        "plain": "a\nb\n",
        "with blank": "a\nb",
        'quo"te\nline': "",
        "ü\tb": "x\n",
        "long": long,
    }
    for name, text in names.items():
        put(trees.workspace / name, text)
    put(trees.workspace / "goes", "bye")
    put(trees.workspace / "mode", "x")
    put(trees.workspace / "link", "x")
    trees.begin()
    for name, text in names.items():
        trees.write(name, text.replace("2\n", "two\n") + "added\nno end")
    trees.write("come/new", "new\n")
    trees.write("mode", "x").chmod(0o755)
    trees.delete("goes")
    (trees.upper / "link").symlink_to("plain")
    text = trees.read().diff()
    before = tmp_path / "before"
    before.mkdir()
    shutil.copytree(trees.workspace, before, symlinks=True, dirs_exist_ok=True)

    given = text.encode("utf-8", "surrogateescape")
    subprocess.run(["git", "apply", "-"], input=given, cwd=before, check=True)

    apply_changes(trees.read(), undo_dir=trees.undo_dir)
    assert contents(before) == contents(trees.workspace)


def test_a_diff_is_bounded_and_names_binary_files(tmp_path: Path) -> None:
    trees = TrialTrees(tmp_path)
    put(trees.workspace / "bin", b"a\0b")
    trees.begin()
    trees.write("bin", b"a\0c")
    trees.write("large", "line\n" * 2000)
    trees.write("too large", "x" * (DIFF_MAX + 1))
    changes = trees.read()

    assert "Binary files a/bin and b/bin differ\n" in changes.diff()
    assert "Binary files /dev/null and b/too large" not in changes.diff()
    assert changes.diff(limit=1000).endswith("# 2 files are not shown: the diff is too long\n")


# All or nothing


class _Killed(BaseException):
    """As if the process had ended there."""


def _killed_after(calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real, left = renaming._renameat2, calls

    def renameat2(*words: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise _Killed
        real(*words)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(renaming, "_renameat2", renameat2)


@pytest.mark.parametrize("way", ["apply", "undo"])
def test_whatever_was_interrupted_is_rolled_back(
    trees: TrialTrees, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each rename, in an apply and in an undo."""
    old = contents(trees.workspace)
    if way == "undo":
        apply_changes(trees.read(), undo_dir=trees.undo_dir)
    before, calls = contents(trees.workspace), 0
    while True:
        with monkeypatch.context() as patch:
            _killed_after(calls, patch)
            try:
                if way == "apply":
                    apply_changes(trees.read(), undo_dir=trees.undo_dir)
                else:
                    undo(trees.undo_dir)
                break
            except _Killed:
                pass
        assert recover(trees.undo_dir)
        assert contents(trees.workspace) == before, calls
        if way == "apply":
            assert trees.read().conflicts() == (), calls
        calls += 1

    assert calls > 5
    assert (contents(trees.workspace) == old) is (way == "undo")


_KILL_ITSELF = """
import os, signal, sys
from pathlib import Path
from shelltie.trials import renaming
from shelltie.trials.apply import apply_changes
from shelltie.trials.overlay_upper import read_change_set
real, left = renaming._renameat2, [3]
def renameat2(*words):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    real(*words)
renaming._renameat2 = renameat2
workspace, upper, undo = map(Path, sys.argv[1:])
apply_changes(read_change_set(workspace, upper, started_ns=1 << 62), undo_dir=undo)
"""


def test_an_apply_that_is_killed_is_rolled_back_at_the_next_look(trees: TrialTrees) -> None:
    before = contents(trees.workspace)
    places = (trees.workspace, trees.upper, trees.undo_dir)
    ended = subprocess.run([sys.executable, "-c", _KILL_ITSELF, *places], cwd=_ROOT, check=False)
    half = contents(trees.workspace)

    recovered = recover(trees.undo_dir)

    assert ended.returncode == -signal.SIGKILL
    assert half != before
    assert recovered
    assert contents(trees.workspace) == before
    assert not recover(trees.undo_dir)
    assert apply_changes(trees.read(), undo_dir=trees.undo_dir).undoable


def test_a_failure_half_way_leaves_nothing_applied(
    trees: TrialTrees, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(trees.workspace)
    real, left = renaming._renameat2, [4]

    def renameat2(*words: object) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(28, "No space left on device", "kept/deep/er")
        real(*words)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(renaming, "_renameat2", renameat2)

    with pytest.raises(ChangesNotApplied, match="No space left") as refused:
        apply_changes(trees.read(), undo_dir=trees.undo_dir)

    assert refused.value.rolled_back
    assert contents(trees.workspace) == before
    monkeypatch.undo()
    assert apply_changes(trees.read(), undo_dir=trees.undo_dir).undoable


def test_a_file_system_that_knows_no_exchange_will_do(
    trees: TrialTrees, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS, and some in user space: EINVAL for every flag of renameat2."""
    real, before = renaming._renameat2, contents(trees.workspace)

    def renameat2(old_dir: int, old: str, new_dir: int, new: str, flags: int) -> None:
        if flags:
            raise OSError(22, "Invalid argument")
        real(old_dir, old, new_dir, new, flags)

    monkeypatch.setattr(renaming, "_renameat2", renameat2)
    apply_changes(trees.read(), undo_dir=trees.undo_dir)
    applied = contents(trees.workspace)
    undo(trees.undo_dir)

    assert applied["b"][1] == "a"  # type: ignore[index]  # mode and target
    assert contents(trees.workspace) == before


# What others do meanwhile

Meanwhile = Callable[[TrialTrees, Path], object]


def _by_link(trees: TrialTrees, outside: Path) -> None:
    """The directory that a change is in becomes a link to somewhere else."""
    (trees.workspace / "kept/deep").rename(trees.workspace / "aside")
    (trees.workspace / "kept/deep").symlink_to(outside)


def _workspace_by_link(trees: TrialTrees, outside: Path) -> None:
    trees.workspace.rename(outside.parent / "elsewhere")
    trees.workspace.symlink_to(outside)


def _workspace_by_another(trees: TrialTrees, outside: Path) -> None:
    trees.workspace.rename(outside.parent / "elsewhere")
    shutil.copytree(outside.parent / "elsewhere", trees.workspace)


@pytest.mark.parametrize("read_before", [True, False], ids=["after reading", "before reading"])
@pytest.mark.parametrize(
    "meanwhile",
    [
        _by_link,
        _workspace_by_link,
        lambda t, _: put(t.workspace / "a", "mine"),
        lambda t, _: put(t.workspace / "gone/three", "mine"),
        lambda t, _: put(t.workspace / "gone/one", "mine"),
        lambda t, _: put(t.workspace / "new", "mine"),
        lambda t, _: (t.workspace / "b").chmod(0o600),
    ],
)
def test_what_others_changed_meanwhile_is_refused(
    trees: TrialTrees, tmp_path: Path, meanwhile: Meanwhile, read_before: bool
) -> None:
    outside = tmp_path / "outside"
    put(outside / "er", "not yours")
    changes = trees.read() if read_before else None
    remove_tree(trees.bases)
    meanwhile(trees, outside)
    before, beyond = contents(trees.workspace), contents(outside)

    with pytest.raises((ChangesConflict, ChangesUnreadable)):
        apply_changes(changes or trees.read(), undo_dir=trees.undo_dir)

    assert contents(trees.workspace) == before
    assert contents(outside) == beyond


def test_a_new_directory_is_applied_but_for_a_part_of_it_whatever_its_name(tmp_path: Path) -> None:
    trees = TrialTrees(tmp_path)
    trees.begin()
    trees.write("n1/inner/file", "")  # as the first of what lies ready for an apply is called
    trees.write("n1/inner/not", "")

    apply_changes(trees.read(), undo_dir=trees.undo_dir, undo_max=None, besides=["n1/inner/not"])

    assert [path.name for path in (trees.workspace / "n1/inner").iterdir()] == ["file"]


def test_another_workspace_of_the_same_name_is_refused(trees: TrialTrees, tmp_path: Path) -> None:
    changes = trees.read()
    _workspace_by_another(trees, tmp_path / "outside")

    with pytest.raises(TrialError, match="another directory"):
        apply_changes(changes, undo_dir=trees.undo_dir)


def test_texts_are_merged_where_both_changes_go_together(tmp_path: Path) -> None:
    trees = TrialTrees(tmp_path)
    lines = [f"{number}\n" for number in range(20)]
    for name in ("both", "clash"):
        put(trees.workspace / name, "".join(lines))
    trees.begin()
    for name in ("both", "clash"):
        trees.write(name, "".join(lines).replace("3\n", "three\n", 1))
    changes = trees.read()
    put(trees.workspace / "both", "".join(lines).replace("17\n", "seventeen\n"))
    put(trees.workspace / "clash", "".join(lines).replace("3\n", "drei\n", 1))

    with pytest.raises(ChangesConflict) as refused:
        apply_changes(changes, undo_dir=trees.undo_dir)
    applied = apply_changes(trees.read(), ["both"], undo_dir=trees.undo_dir)

    assert refused.value.paths == ("clash",)
    assert applied.merged == ("both",)
    merged = (trees.workspace / "both").read_text().split()
    assert merged[3] == "three"
    assert merged[17] == "seventeen"
    undo(trees.undo_dir)
    assert "three" not in (trees.workspace / "both").read_text()


def test_a_link_of_the_trial_takes_the_place_of_a_directory_and_is_never_followed(
    tmp_path: Path,
) -> None:
    trees = TrialTrees(tmp_path)
    outside = put(tmp_path / "outside/file", "not yours").parent
    put(trees.workspace / "dir/file", "mine")
    trees.begin()
    (trees.upper / "dir").symlink_to(outside)
    changes = trees.read()

    apply_changes(changes, undo_dir=trees.undo_dir)

    assert [(c.path, c.kind) for c in changes.changes] == [
        ("dir", ChangeKind.TYPE),
        ("dir/file", ChangeKind.DELETED),
    ]
    assert (trees.workspace / "dir").readlink() == outside
    undo(trees.undo_dir)
    assert contents(outside) == {"file": (oct(0o100644), b"not yours")}
    assert (trees.workspace / "dir/file").read_text() == "mine"


# Undo


@pytest.mark.parametrize(
    "since",
    [
        lambda w: put(w / "a", "mine"),
        lambda w: put(w / "new/inner/more", "mine"),
        lambda w: put(w / "gone", "mine"),
        lambda w: (w / "kept/deep/er").chmod(0o600),
        lambda w: (w / "new").rename(w / "other"),
    ],
)
def test_undo_refuses_what_was_changed_since(
    trees: TrialTrees, since: Callable[[Path], object]
) -> None:
    apply_changes(trees.read(), undo_dir=trees.undo_dir)
    trees.begin()
    since(trees.workspace)
    before = contents(trees.workspace)

    with pytest.raises(ChangesConflict, match="changed since"):
        undo(trees.undo_dir)

    assert contents(trees.workspace) == before


def test_what_cannot_be_undone_is_said_before_it_is_applied(trees: TrialTrees) -> None:
    before = contents(trees.workspace)

    with pytest.raises(UndoTooLarge, match="could not be undone"):
        apply_changes(trees.read(), undo_dir=trees.undo_dir, undo_max=1000)

    assert contents(trees.workspace) == before
    assert not apply_changes(trees.read(), undo_dir=trees.undo_dir, undo_max=None).undoable
    with pytest.raises(ChangesNotApplied, match="nothing to undo"):
        undo(trees.undo_dir)


def test_some_paths_can_be_applied_alone(trees: TrialTrees) -> None:
    trees.write("new/other", "other\n")
    (trees.upper / "new").chmod(0o750)
    before = contents(trees.workspace)

    applied = apply_changes(
        trees.read(), ["./new/inner/", f"{trees.workspace}/gone/one"], undo_dir=trees.undo_dir
    )

    assert applied.paths == ("gone/one", "new", "new/inner", "new/inner/file")
    assert not (trees.workspace / "new/other").exists()
    assert (trees.workspace / "new").stat().st_mode & 0o777 == 0o750
    assert (trees.workspace / "gone/two").exists()
    undo(trees.undo_dir)
    assert contents(trees.workspace) == before
    with pytest.raises(ChangesUnreadable, match="changed nothing at nowhere"):
        apply_changes(trees.read(), ["nowhere"], undo_dir=trees.undo_dir)


# Honest about times, names, holes and numbers


def test_times_and_other_names_are_honest(tmp_path: Path) -> None:
    trees = TrialTrees(tmp_path)
    shared = put(trees.workspace / "shared", "old")
    os.link(shared, trees.workspace / "other name")
    trees.begin()
    os.utime(trees.write("shared", "new"), (1, 1))
    os.utime(trees.write("dir/file", "new"), (2, 2))
    os.utime(trees.upper / "dir", (3, 3))

    applied = apply_changes(trees.read(), undo_dir=trees.undo_dir)

    assert applied.notes == ("shared had 2 names (hard links): the others keep the old content",)
    assert (trees.workspace / "other name").read_text() == "old"
    assert [(trees.workspace / name).stat().st_mtime for name in ("shared", "dir/file", "dir")] == [
        *(1, 2, 3)
    ]


def test_many_files_take_one_apply(tmp_path: Path) -> None:
    trees = TrialTrees(tmp_path)
    for number in range(500):
        put(trees.workspace / f"d/{number}", "old")
    trees.begin()
    for number in range(9500):
        trees.write(f"new/{number % 10}/{number}", "")
    for number in range(500):
        trees.write(f"d/{number}", "new")
    changes = trees.read()

    apply_changes(changes, undo_dir=trees.undo_dir)

    assert changes.summary() == "500 files changed, 9500 added, 1.5 KB"
    assert len(list((trees.workspace / "new").rglob("*"))) == 9510
    assert (trees.workspace / "d/499").read_text() == "new"
    undo(trees.undo_dir)
    assert sorted(path.name for path in trees.workspace.iterdir()) == ["d"]


# Where a rename does not do


def _elsewhere(story: str, place: Path) -> dict[str, object]:
    """What came of it in a mount namespace, as root of that."""
    users = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    program = ["-m", "tests.programs.trial_elsewhere", story, str(place)]
    argv = ["unshare", "--mount", *users, sys.executable, *program]
    done = subprocess.run(argv, cwd=_ROOT, check=True, capture_output=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.needs("unshare")
def test_between_file_systems_it_is_copied_as_honestly(public_path: Path) -> None:
    found = _elsewhere("between", public_path)

    assert found == {
        "names": ["a", "new", "new/file", "new/pipe", "new/same", "new/sparse"],
        "links": [["new/file", "new/same"]],
        "mtime": 5.0,
        "sparse": True,
        "mode": "0o100755",
        "undone": True,
    }


@pytest.mark.needs("unshare")
def test_on_a_full_disk_nothing_is_applied(public_path: Path) -> None:
    found = _elsewhere("full", public_path)

    assert (found["code"], found["same"]) == ("CHANGES_NOT_APPLIED", True)
    assert "No space left" in str(found["message"])
    assert found["left"] == ["lock"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
def test_where_a_right_is_missing_half_way_nothing_is_applied(public_path: Path) -> None:
    found = _elsewhere("rights", public_path)

    assert (found["code"], found["same"]) == ("CHANGES_NOT_APPLIED", True)
    assert "Permission denied" in str(found["message"])
