"""The store of trials: numbers, locks, bounds, and trees that are hard to delete."""

import os
from pathlib import Path

import pytest

from shelltie.basics.frozen import replace
from shelltie.errors import CannotStart, NoSuchTrial, TrialBusy
from shelltie.trials.tree_copy import remove_tree
from shelltie.trials.trial_store import Trial, TrialBounds, TrialStatus, TrialStore


@pytest.fixture
def store(tmp_path: Path) -> TrialStore:
    return TrialStore(tmp_path / "trials", TrialBounds(count=3))


def begun(store: TrialStore) -> Trial:
    return store.begin(store.new("/", "ls", "r"))


def test_a_number_is_never_given_twice(store: TrialStore) -> None:
    first, second = begun(store), begun(store)
    store.delete(second)

    assert [first.id, second.id, begun(store).id] == ["t1", "t2", "t3"]


def test_one_whose_process_is_gone_is_open_and_interrupted(store: TrialStore) -> None:
    trial = begun(store)

    with store.locked(trial):
        assert store.find("t1").status is TrialStatus.RUNNING
        with pytest.raises(TrialBusy), store.locked(trial):
            pass

    assert (store.find("t1").status, store.find("t1").outcome) == ("open", "interrupted")


def test_the_oldest_are_forgotten_and_what_runs_is_not(store: TrialStore) -> None:
    kept = begun(store)
    with store.locked(kept):
        for _ in range(5):
            begun(store)
        store.prune()

        assert [trial.id for trial in store.all()] == ["t1", "t4", "t5", "t6"]


def test_what_was_put_away_is_not_found_and_removed_by_whoever_looks_next(
    store: TrialStore,
) -> None:
    gone = store.put_away(begun(store))

    assert gone is not None
    assert gone.is_dir()
    assert (store.all(), begun(store).id) == ([], "t2")
    store.prune()
    assert not gone.exists()


def test_by_age_and_size_they_are_forgotten_too(store: TrialStore, tmp_path: Path) -> None:
    old, large = begun(store), begun(store)
    store.save(replace(old, started_ns=1))
    store.prune()
    assert [trial.id for trial in store.all()] == ["t2"]

    (Path(large.folder) / "upper").mkdir()
    (Path(large.folder) / "upper" / "f").write_bytes(b"x" * 100_000)
    begun(store)
    TrialStore(tmp_path / "trials", TrialBounds(size=50_000)).prune()

    assert [trial.id for trial in store.all()] == ["t3"]


@pytest.mark.parametrize("name", ["t2", "", "../t1", "t1/..", ".", "last"])
def test_other_names_mean_nothing(store: TrialStore, name: str) -> None:
    begun(store)

    with pytest.raises(NoSuchTrial, match="the last ones: t1"):
        store.find(name)


def test_a_record_that_was_spoiled_is_told(store: TrialStore) -> None:
    trial = begun(store)
    record = Path(trial.folder) / "trial.json"
    for content in ("", "{", "[]", "{}", '{"workspace": 5}', '{"id": "t7"}', "\udcff"):
        record.write_text(content, errors="surrogateescape")
        (found,) = store.all()
        assert (found.id, found.status) == ("t1", "damaged")
        assert "trial.json cannot be read" in store.find("t1").why

    record.unlink()
    assert store.all() == []


def test_a_state_directory_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(CannotStart, match="no place for a trial"):
        TrialStore(tmp_path / "file" / "trials").new("/", "ls", "r")


def test_trees_of_any_depth_and_mode_are_deleted_through_no_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    top = tmp_path / "top"
    top.mkdir()
    (top / "link").symlink_to(outside)
    here = os.open(top, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.mkdir("closed", 0o000, dir_fd=here)
    os.close(here)

    remove_tree(top)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside"]
    assert (outside / "kept").read_text() == "kept"
