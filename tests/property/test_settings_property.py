"""Whatever a settings file looks like, a change of one key is a change of one key."""

import tomllib
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from shelltie.errors import ConfigWrong
from shelltie.settings.edit import changed, flatten, removed

KEYS = ["shell", "keeper", "limits.grace", "safety.profiles.run.unknown", "safety.safeCommands"]
VALUES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.integers(0, 10**6),
    st.booleans(),
    st.lists(st.sampled_from(["a", "# b", '"', "]", "\n[x]\n"]), max_size=3),
)
LINES = st.sampled_from(
    [
        "# comment",
        "",
        'shell = "x # y"  # z',
        "[limits]",
        "grace = 5",
        "[safety]",
        "profiles.run.unknown = 'ask'",
        "[safety.profiles.run]",
        'unknown = "ask"',
        "safeCommands = [\n  \"^a\",  # [limits]\n  'b',\n]",
        'keeper = """\n[limits]\nkeeper = 1\n"""',
        "limits = { grace = 1 }",
        '"safety".profiles . run.dangerous = "ask"',
    ]
)


def read(text: str) -> dict[str, object] | None:
    with suppress(tomllib.TOMLDecodeError):
        return flatten(tomllib.loads(text))
    return None


@given(st.lists(LINES, max_size=9), st.sampled_from(KEYS), VALUES)
def test_exactly_one_key_changes_or_nothing_does(lines: list[str], key: str, value: object) -> None:
    text = "".join(f"{line}\n" for line in lines)
    before = read(text)
    if before is None:
        return

    with suppress(ConfigWrong):
        new = changed(text, key, value, "About it.")
        assert read(new) == {**before, key: value}
        assert all(new.count(line) >= text.count(line) for line in ("# comment", "# z"))
        with suppress(ConfigWrong):
            left = read(removed(new, key, "About it."))
            assert left == {name: old for name, old in before.items() if name != key}
