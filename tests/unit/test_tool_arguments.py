"""What a tool takes: a dataclass, the schema that is made from it, and what is read into it."""

from collections.abc import Mapping

import pytest

from shelltie import InvalidParameters
from shelltie.basics.frozen import frozen
from shelltie.frontends.mcp.tools.schema import optional, read, required, schema_of


@frozen
class Arguments:
    """One field of every kind."""

    session_id: str = required("Which one.", "sessionId", minLength=1)
    seconds: float | None = optional("How long.", minimum=0)
    lines: int = optional("How many.", "from", default=7, minimum=1, maximum=9)
    keys: list[str] | None = optional("What to press.")
    env: Mapping[str, str] | None = optional("What to set.")
    raw: bool = optional("As it is.", default=False)


def test_the_schema_has_the_names_kinds_and_bounds_that_the_fields_have() -> None:
    text = {"type": "string"}

    assert schema_of(Arguments) == {
        "type": "object",
        "properties": {
            "sessionId": {"type": "string", "minLength": 1, "description": "Which one."},
            "seconds": {"type": "number", "minimum": 0, "description": "How long."},
            "from": {"type": "integer", "minimum": 1, "maximum": 9, "description": "How many."},
            "keys": {"type": "array", "items": text, "description": "What to press."},
            "env": {"type": "object", "additionalProperties": text, "description": "What to set."},
            "raw": {"type": "boolean", "description": "As it is."},
        },
        "required": ["sessionId"],
        "additionalProperties": False,
    }


def test_what_is_absent_or_null_is_as_the_dataclass_says() -> None:
    given = {"sessionId": "a", "seconds": 3, "from": None, "raw": None}

    assert read(given, Arguments) == Arguments("a", seconds=3)
    assert read(given, Arguments).lines == 7


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "sessionId is missing. Which one."),
        ({"sessionId": None}, "sessionId must be of type string, not null"),
        ({"sessionId": "a", "session_id": "a"}, "session_id: did you mean sessionId?"),
        ({"sessionId": "a", "from": True}, "from must be of type integer, not boolean"),
        ({"sessionId": "a", "from": 10}, "from must be between 1 and 9, not 10"),
        ({"sessionId": "a", "seconds": float("nan")}, "seconds must be at least 0, not nan"),
        ({"sessionId": "a", "keys": "up"}, "keys must be of type array, not string"),
    ],
)
def test_what_is_wrong_is_told_in_the_words_of_the_wire(
    given: dict[str, object], problem: str
) -> None:
    with pytest.raises(InvalidParameters) as refusal:
        read(given, Arguments)

    assert problem in str(refusal.value)
