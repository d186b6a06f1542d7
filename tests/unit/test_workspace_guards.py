from pathlib import Path

import pytest

from shelltie.errors import CannotStart
from shelltie.providers.workspace.guards import RememberedFiles


@pytest.mark.parametrize("name", ["link", "link/inside", "to-file"])
def test_nothing_is_held_that_is_a_link_or_reached_through_one(tmp_path: Path, name: str) -> None:
    place = tmp_path.resolve()
    (place / "real" / "inside").mkdir(parents=True)
    (place / "file").touch()
    (place / "link").symlink_to("real")
    (place / "to-file").symlink_to("file")
    held = RememberedFiles()

    with pytest.raises(CannotStart, match="is a link"):
        held.take(place / name)

    assert held.known == {}
    held.close()


def test_what_is_held_is_known_by_what_it_is(tmp_path: Path) -> None:
    place = tmp_path.resolve() / "place"
    place.mkdir()
    held = RememberedFiles()

    held.take(place)
    before = held.unchanged
    place.rename(place.with_name("elsewhere"))
    place.mkdir()

    assert before
    assert not held.unchanged
    held.close()
