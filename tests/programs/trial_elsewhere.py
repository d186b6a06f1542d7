"""Applies trials where a rename does not do: between file systems, on a full one, without rights.

Run by root of a mount namespace; says as JSON what came of it.
"""

import json
import os
import sys
from pathlib import Path

from shelltie.errors import TrialError
from shelltie.trials.apply import apply_changes
from shelltie.trials.undo import undo
from tests.programs.trial_worker import become, mount, snapshot
from tests.trial_trees import TrialTrees, put


def _trees(place: Path) -> TrialTrees:
    trees = TrialTrees(place)
    mount("tmpfs", str(trees.workspace), "size=1m")
    for name in ("a", "gone/one", "gone/two"):
        put(trees.workspace / name, name)
    os.link(trees.workspace / "gone/one", trees.workspace / "gone/other name")
    trees.begin()
    return trees


def between_file_systems(place: Path) -> object:
    """The workspace is on a tmpfs, the trial on a disk."""
    trees = _trees(place)
    before = snapshot(trees.workspace)
    trees.write("a", "changed").chmod(0o755)
    trees.write("new/file", "new")
    os.link(trees.upper / "new/file", trees.upper / "new/same")
    os.mkfifo(trees.upper / "new/pipe")
    os.utime(trees.upper / "new/file", (5, 5))
    with (trees.upper / "new/sparse").open("wb") as file:
        file.truncate(64 * 1024 * 1024)
    trees.delete("gone")
    apply_changes(trees.read(), undo_dir=trees.undo_dir)
    new, after = trees.workspace / "new", snapshot(trees.workspace)
    told = {
        "names": sorted(after["entries"]),  # type: ignore[call-overload]  # a dict
        "links": after["links"],
        "mtime": (new / "file").stat().st_mtime,
        "sparse": (new / "sparse").stat().st_blocks < 1000,
        "mode": oct((trees.workspace / "a").stat().st_mode),
    }
    undo(trees.undo_dir)
    return {**told, "undone": snapshot(trees.workspace) == before}


def on_a_full_one(place: Path) -> object:
    """There is no room for what the trial wrote."""
    trees = _trees(place)
    before = snapshot(trees.workspace)
    trees.write("a", "small")
    trees.write("large", b"x" * 4 * 1024 * 1024)
    return _refused(trees, before)


def without_rights(place: Path) -> object:
    """As an ordinary user, where one of the directories is another's."""
    trees = TrialTrees(place)
    put(trees.workspace / "a", "a")
    put(trees.workspace / "theirs/b", "b")
    trees.write("a", "changed")
    trees.write("theirs/b", "changed")
    trees.write("z", "new")
    theirs = {trees.workspace / "theirs", trees.workspace / "theirs/b"}
    for path in {place, *place.rglob("*")} - theirs:
        os.chown(path, 65534, 65534)
    trees.begin()
    become(65534)
    return _refused(trees, snapshot(trees.workspace))


def _refused(trees: TrialTrees, before: object) -> object:
    try:
        apply_changes(trees.read(), undo_dir=trees.undo_dir)
    except TrialError as error:
        left = sorted(path.name for path in trees.undo_dir.iterdir())
        same = snapshot(trees.workspace) == before
        return {"code": error.code, "message": str(error), "same": same, "left": left}
    return "applied"


if __name__ == "__main__":
    story = {"between": between_file_systems, "full": on_a_full_one, "rights": without_rights}
    print(json.dumps(story[sys.argv[1]](Path(sys.argv[2]))))  # noqa: T201  the answer
