import copy
import pickle
from collections.abc import Mapping
from dataclasses import KW_ONLY, FrozenInstanceError, asdict, field, fields, replace

import pytest

from shelltie.basics.frozen import frozen
from shelltie.basics.frozen import replace as frozen_replace


@frozen
class Place:
    """Somewhere."""

    name: str
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    seen: int = field(default=0, compare=False)
    _: KW_ONLY
    far: bool = False


@frozen
class Harbour(Place):
    """Somewhere at sea."""

    depth: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", 2.0 if self.far else 1.0)


@frozen
class Nowhere:
    """It has no fields."""


def test_a_frozen_thing_is_made_as_a_dataclass_is() -> None:
    place = Place("home", far=True)

    assert (place.name, place.secrets, place.seen, place.far) == ("home", {}, 0, True)
    assert Place("home").secrets is not Place("home").secrets
    assert [f.name for f in fields(Place)] == ["name", "secrets", "seen", "far"]
    assert asdict(replace(place, seen=3))["seen"] == 3
    assert Harbour("sea", far=True).depth == 2.0
    with pytest.raises(TypeError, match=r"Place\.__init__\(\).*'nothing'"):
        Place("home", nothing=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        Place("home", {}, 0, True)  # type: ignore[call-arg]


def test_a_frozen_thing_does_not_change() -> None:
    place = Harbour("sea")

    with pytest.raises(FrozenInstanceError, match="name"):
        place.name = "land"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        place.other = "land"  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError):
        del place.name
    assert not hasattr(place, "__dict__")


def test_frozen_things_are_the_same_when_their_fields_are() -> None:
    assert Place("a", seen=1) == Place("a", seen=2) != Place("b")
    assert Nowhere() == Nowhere()
    assert Harbour("a") != Place("a")
    assert hash(Place("a", secrets=())) == hash(Place("a", secrets=(), seen=1))  # type: ignore[arg-type]
    assert len({Nowhere(), Nowhere()}) == 1


def test_a_frozen_thing_shows_its_fields_but_not_its_secrets() -> None:
    place = Place("a", {"TOKEN": "hunter2"})

    assert repr(place) == "Place(name='a', seen=0, far=False)"
    assert repr(Nowhere()) == "Nowhere()"


def test_a_copy_of_a_frozen_thing_is_the_same_thing() -> None:
    place = Harbour("sea", {"a": "b"}, far=True)

    assert copy.deepcopy(place) == pickle.loads(pickle.dumps(place)) == copy.copy(place) == place


def test_a_frozen_thing_with_other_values_is_as_dataclasses_would_make_it() -> None:
    harbour = Harbour("sea", {"a": "b"}, 3, far=True)

    assert frozen_replace(harbour, name="lake", far=False) == replace(
        harbour, name="lake", far=False
    )
    assert frozen_replace(harbour, far=False).depth == 1.0
    assert frozen_replace(harbour).secrets is harbour.secrets
    with pytest.raises(TypeError, match="nothing"):
        frozen_replace(harbour, nothing=1)


def test_an_initializer_is_compiled_once_whoever_is_made_first() -> None:
    @frozen
    class First:
        name: str

    @frozen
    class Second(First):
        size: int = 1

    assert Second("two").size == 1
    assert First("one").name == "one"
    assert Second("two", size=2) == Second("two", 2)
