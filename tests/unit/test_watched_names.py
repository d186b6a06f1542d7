import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from shelltie.errors import CannotStart
from shelltie.providers.workspace.watched_names import UnguardedName, WatchedNames

_NOBODY = 65534


@contextmanager
def ordinary_user(*places: Path) -> Iterator[None]:
    """Whatever we do in this is done without root's rights, by the owner of these."""
    if os.geteuid() != 0:
        yield
        return
    for place in places:
        os.chown(place, _NOBODY, _NOBODY)
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_its_directory_does_not_let_go_is_put_aside_all_the_same(public_path: Path) -> None:
    place = public_path.resolve() / ".git"
    place.mkdir()
    with (
        ordinary_user(place),
        closing(WatchedNames([UnguardedName(place / "commondir")])) as watched,
    ):
        (place / "commondir").write_text("../evil")
        place.chmod(0o555)
        (undone,) = watched.put_aside()
        again = list(watched.put_aside())

    assert undone.path == place / "commondir"
    assert undone.problem == ""
    assert again == []
    assert not (place / "commondir").exists()
    assert place.stat().st_mode & 0o777 == 0o555


def test_what_cannot_be_put_aside_is_told(public_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to make what is another user's")
    place = public_path.resolve() / ".git"
    place.mkdir()
    with closing(WatchedNames([UnguardedName(place / "commondir")])) as watched:
        (place / "commondir").write_text("../evil")
        with ordinary_user():
            (undone,) = watched.put_aside()

    assert undone.problem == "Permission denied"


def test_a_directory_that_was_replaced_by_a_link_is_not_followed(tmp_path: Path) -> None:
    place = tmp_path.resolve()
    (place / "d").mkdir()
    (place / "victim").mkdir()
    (place / "victim/name").write_text("mine")
    with closing(WatchedNames([UnguardedName(place / "d/name", "target")])) as watched:
        (place / "d").rename(place / "d2")
        (place / "d").symlink_to("victim")
        list(watched.put_aside())

    assert [one.name for one in (place / "victim").iterdir()] == ["name"]
    assert (place / "victim/name").read_text() == "mine"
    assert str((place / "d2/name").readlink()) == "target"


def test_a_link_on_the_way_to_what_is_not_there_yet_is_put_aside(tmp_path: Path) -> None:
    place = tmp_path.resolve()
    (place / "victim").mkdir()
    (place / "victim/hooks").mkdir()
    with closing(WatchedNames([UnguardedName(place / "a/b/hooks")])) as watched:
        nothing = list(watched.put_aside())
        (place / "a").mkdir()
        (place / "a/b").symlink_to(place / "victim")
        (undone,) = watched.put_aside()
        (place / "a/b").mkdir()
        fine = list(watched.put_aside())
        (place / "a/b/hooks").mkdir()
        (made,) = watched.put_aside()

    assert nothing == fine == []
    assert undone.problem == made.problem == ""
    assert (place / "victim/hooks").is_dir()
    assert not (place / "a/b/hooks").exists()


def test_what_is_reached_by_a_link_is_not_watched(tmp_path: Path) -> None:
    place = tmp_path.resolve()
    (place / "real").mkdir()
    (place / "link").symlink_to("real")

    with pytest.raises(CannotStart, match="reached by a link"):
        WatchedNames([UnguardedName(place / "link/name")])
