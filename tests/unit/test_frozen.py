import copy
import inspect
import pickle
from collections.abc import Mapping
from dataclasses import KW_ONLY, FrozenInstanceError, asdict, field, fields, is_dataclass, replace
from typing import ClassVar

import pytest
from pydantic import TypeAdapter

from shelltie.basics.frozen import fields as record_fields
from shelltie.basics.frozen import frozen, is_record, mutable
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


@frozen
class Many:
    """Of which some objects are made before its initializer is compiled, and some after."""

    kinds: ClassVar[int] = 2
    name: str
    size: int = 1
    marks: list[str] = field(default_factory=list)


def test_the_first_objects_are_made_as_the_later_ones() -> None:
    made = [Many("a", 2, marks=["x"]) for _ in range(30)]

    assert all(thing == made[0] for thing in made)
    assert Many.kinds == 2
    assert [f.name for f in fields(Many)] == ["name", "size", "marks"]
    assert str(inspect.signature(Many)).startswith("(name, size=1, marks=")


@pytest.mark.parametrize(
    ("args", "named", "said"),
    [
        ((), {}, "name"),
        (("a", 1, [], 4), {}, "positional"),
        (("a",), {"name": "b"}, "multiple values"),
        (("a",), {"nothing": 1}, "nothing"),
    ],
)
def test_a_wrong_first_call_is_told_as_by_any_function(
    args: tuple[object, ...], named: dict[str, object], said: str
) -> None:
    @frozen
    class Fresh:
        name: str
        size: int = 1
        marks: list[str] = field(default_factory=list)

    with pytest.raises(TypeError, match=said):
        Fresh(*args, **named)  # type: ignore[arg-type]
    assert Fresh("a") == Fresh("a", 1)


def test_a_mutable_thing_changes_and_has_no_hash() -> None:
    @mutable
    class Tally:
        name: str
        count: int = 0

    tally = Tally("a")
    tally.count += 1

    assert tally == Tally("a", 1) != Tally("a")
    assert copy.copy(tally) == tally
    assert repr(tally).endswith("Tally(name='a', count=1)")
    with pytest.raises(TypeError, match="unhashable"):
        hash(tally)
    with pytest.raises(AttributeError):
        tally.other = 1  # type: ignore[attr-defined]


def test_a_default_that_all_objects_would_share_is_refused() -> None:
    with pytest.raises(ValueError, match="marks"):

        @frozen
        class Shared:
            marks: list[str] = []  # noqa: RUF012  this is the mistake


def test_the_fields_are_those_that_dataclasses_finds() -> None:
    for kind in (Place, Harbour, Nowhere, Many):
        theirs, ours = fields(kind), record_fields(kind)
        assert [(f.name, f.type, f.default) for f in ours] == [
            (f.name, f.type, f.default) for f in theirs
        ]
        assert is_dataclass(kind)
        assert is_record(kind)
    assert TypeAdapter(Many).validate_python({"name": "a", "size": 2}) == Many("a", 2)
