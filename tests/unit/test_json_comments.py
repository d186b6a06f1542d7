import json

import pytest

from shelltie.errors import ConfigWrong
from shelltie.frontends.clients.json_comments import append, drop, get, put

COMMENTED = """\
// my settings
{
\t"theme": "One Dark", // nice
\t/* servers
\t   of mine */
\t"servers": {
\t\t"mine": {"command": "a//b", "args": ["/* no comment */"]}, // stays
\t},
}
"""


def test_a_value_is_added_and_everything_else_stays_byte_for_byte() -> None:
    new = put(COMMENTED, ["servers", "ours"], {"command": "x"})

    added = '\n\t\t"ours": {\n\t\t\t"command": "x"\n\t\t}'
    assert new == COMMENTED.replace("// stays", f"// stays{added}")
    assert get(new, ["servers", "ours", "command"]) == "x"
    assert get(new, ["servers", "mine", "args", 0]) == "/* no comment */"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("\ufeff{}", '\ufeff{\n  "a": {\n    "b": 1\n  }\n}'),
        ('{"x": 1}', '{"x": 1,\n  "a": {\n    "b": 1\n  }\n}'),
        ('{\n    "x": 1 // y\n}\n', '{\n    "x": 1, // y\n    "a": {\n        "b": 1\n    }\n}\n'),
        ('{\n  "a": {\n    "b": 2\n  }\n}', '{\n  "a": {\n    "b": 1\n  }\n}'),
        ('{"a": {}}', '{"a": {\n  "b": 1\n}}'),
        ('{"x": 1\n,\n}', '{"x": 1\n,\n"a": {\n  "b": 1\n}\n}'),
    ],
)
def test_a_value_is_put_where_it_belongs(before: str, after: str) -> None:
    assert put(before, ["a", "b"], 1) == after


@pytest.mark.parametrize(
    ("before", "path", "after"),
    [
        ('{\n  "a": 1,\n  "b": 2\n}', ["a"], '{\n  "b": 2\n}'),
        ('{\n  "a": 1,\n  "b": 2\n}', ["b"], '{\n  "a": 1\n}'),
        ('{"a": 1, "b": 2, "c": 3}', ["b"], '{"a": 1, "c": 3}'),
        ('{"a": [1, 2, 3]}', ["a", 2], '{"a": [1, 2]}'),
        ('{"a": {"b": {"c": 1}}, "d": 2}', ["a", "b", "c"], '{"d": 2}'),
        ('{\n  "x": 1,\n  "a": {"b": 1},\n}', ["a", "b"], '{\n  "x": 1,\n}'),
        ('{"a": 1}', ["a"], "{}"),
        ('{"a": 1}', ["b", "c"], '{"a": 1}'),
    ],
)
def test_a_value_goes_with_its_comma_and_what_held_nothing_else(
    before: str, path: list[str | int], after: str
) -> None:
    assert drop(before, path) == after


def test_what_was_added_can_be_taken_out_again() -> None:
    new = append(append("{}\n", ["hooks", "Pre"], {"m": 1}), ["hooks", "Pre"], {"m": 2})

    assert json.loads(new) == {"hooks": {"Pre": [{"m": 1}, {"m": 2}]}}
    assert json.loads(drop(new, ["hooks", "Pre", 0])) == {"hooks": {"Pre": [{"m": 2}]}}
    assert json.loads(drop(drop(new, ["hooks", "Pre", 0]), ["hooks", "Pre", 0])) == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "ends too early"),
        ("nonsense", "line 1"),
        ('{"a": 1\n "b": 2}', "line 2"),
        ("{} {}", "line 1"),
        ('{"a": tru}', "line 1"),
        ('{"a" 1}', "line 1"),
        ("{1: 2}", "line 1"),
        ('{"a": 1, "a": 2}', "twice"),
        ("[" * 100_000, "too deep"),
        ("/* never closed", "ends too early|line 1"),
        ('{"a": "x\ny"}', "line 1"),
    ],
)
def test_what_is_not_json_is_refused_with_the_line(text: str, told: str) -> None:
    with pytest.raises(ConfigWrong, match=told):
        get(text, ["a"])
    with pytest.raises(ConfigWrong, match=told):
        put(text, ["a"], 1)


@pytest.mark.parametrize(
    ("text", "path"),
    [("[]", ["a"]), ('{"a": 1}', ["a", "b"]), ('{"a": []}', ["a", "b"]), ("1", ["a"])],
)
def test_a_path_through_what_is_no_object_is_refused(text: str, path: list[str | int]) -> None:
    with pytest.raises(ConfigWrong, match="is no object"):
        put(text, path, 1)
    with pytest.raises(ConfigWrong, match="is no array"):
        append('{"a": {}}', ["a"], 1)
