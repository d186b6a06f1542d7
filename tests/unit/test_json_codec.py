from enum import StrEnum

import pytest

from shelltie.basics.frozen import frozen
from shelltie.basics.json_codec import as_json, from_json


class Colour(StrEnum):
    RED = "red"


@frozen
class Row:
    run_id: str
    exit_code: int | None
    elapsed_seconds: float
    left: bool
    colour: Colour


@frozen
class Table:
    first_rows: tuple[Row, ...]
    title: str | None = None


ROW = Row("01J", None, 1.5, left=True, colour=Colour.RED)
OBJECT = {
    "runId": "01J",
    "exitCode": None,
    "elapsedSeconds": 1.5,
    "left": True,
    "colour": "red",
}


def test_names_are_camel_case_and_what_is_within_is_written_too() -> None:
    assert as_json(ROW) == OBJECT
    assert as_json(Table((ROW,))) == {"firstRows": [OBJECT], "title": None}


def test_what_was_written_is_read_back() -> None:
    assert from_json(Row, as_json(ROW)) == ROW
    assert from_json(Row, {**OBJECT, "exitCode": 3, "added": "later"}).exit_code == 3


@pytest.mark.parametrize(
    "said",
    [
        {},
        {**OBJECT, "colour": "blue"},
        {**OBJECT, "exitCode": "three"},
        {**OBJECT, "elapsedSeconds": []},
    ],
)
def test_what_is_no_such_object_is_refused(said: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        from_json(Row, said)
