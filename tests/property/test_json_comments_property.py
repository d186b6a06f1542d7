"""Edits of JSON with comments, against the same edit of the plain value."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shelltie.frontends.clients.json_comments import drop, get, put

KEYS = st.sampled_from(["a", "b", "//", "/*", ",", '"', "}"])
BLANKS = st.sampled_from(["", " ", "\n", "\n  ", "// a, } note\n", "/* , ] */", "\t"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


def written(draw: st.DrawFn, value: object) -> str:
    """The value as a person might write it."""
    blank = draw(BLANKS)
    if isinstance(value, dict):
        parts = [f"{draw(BLANKS)}{json.dumps(k)}:{written(draw, v)}" for k, v in value.items()]
    elif isinstance(value, list):
        parts = [written(draw, one) for one in value]
    else:
        return f"{blank}{json.dumps(value)}{draw(BLANKS)}"
    comma = draw(st.sampled_from(["", ","])) if parts else ""
    inside = f"{','.join(parts)}{comma}{draw(BLANKS)}"
    open_, close = "{}" if isinstance(value, dict) else "[]"
    return f"{blank}{open_}{inside}{close}{draw(BLANKS)}"


@st.composite
def documents(draw: st.DrawFn) -> tuple[dict[str, Any], str]:
    value = draw(st.dictionaries(KEYS, VALUES, max_size=4))
    return value, written(draw, value)


@given(documents(), KEYS, VALUES)
def test_one_value_is_set_and_no_other_changes(
    document: tuple[dict[str, Any], str], key: str, new: object
) -> None:
    value, text = document
    assert get(text, []) == value

    edited = put(text, [key], new)

    assert get(edited, []) == {**value, key: new}


@given(documents(), KEYS)
def test_one_value_is_deleted_and_no_other_changes(
    document: tuple[dict[str, Any], str], key: str
) -> None:
    value, text = document

    edited = drop(text, [key])

    assert get(edited, []) == {name: one for name, one in value.items() if name != key}
