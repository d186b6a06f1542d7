import tomllib

import pytest

from shelltie.errors import ConfigWrong
from shelltie.settings.describe import describe
from shelltie.settings.edit import HEADING, changed, removed

FILE = """\
# mine
shell = "/bin/bash"  # not "sh # really"

[limits]
grace = 5   # seconds
# about warnings
warn_lead = 3

# about safety
[safety]
profiles.run.unknown = "ask"
safeCommands = [
  "^make$",  # ours
  "^ls",
]
"""


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("limits.grace", 10, "grace = 10   # seconds"),
        ("shell", "/bin/sh # x", 'shell = "/bin/sh # x"  # not "sh # really"'),
        ("safety.profiles.run.unknown", "deny", 'profiles.run.unknown = "deny"'),
        ("safety.profiles.run.dangerous", "deny", 'profiles.run.dangerous = "deny"'),
        ("safety.safeCommands", ["a{b}"], 'safeCommands = ["a{b}"]'),
        ("limits.idle_evidence", "any", 'idle_evidence = "any"'),
        ("keeper", "c", 'keeper = "c"'),
        ("container.network", "on", 'network = "on"'),
        ("output.redact", True, "redact = true"),
    ],
)
def test_one_key_changes_and_everything_else_stays(key: str, value: object, line: str) -> None:
    new = changed(FILE, key, value, "What it is for.")

    kept = [old for old in FILE.splitlines() if old.startswith("#")]
    assert line in new.splitlines()
    assert [old for old in new.splitlines() if old in kept] == kept
    assert changed(new, key, value) == new


def test_the_first_file_explains_itself() -> None:
    new = changed("", "limits.grace", 10, describe("limits.grace").meaning)

    assert new == (
        f"{HEADING}\n[limits]\n"
        "# How long a command that must end has between SIGTERM and SIGKILL.\ngrace = 10\n"
    )


def test_what_was_set_can_be_removed_with_its_comment() -> None:
    new = changed(changed(FILE, "keeper", "c", "Which one."), "container.user", "1", "Who.")

    left = removed(removed(new, "keeper", "Which one."), "container.user", "Who.")

    assert tomllib.loads(left) == {**tomllib.loads(FILE), "container": {}}
    assert "Who." not in left
    assert removed(FILE, "keeper") == FILE


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("limits = { grace = 1, warn_lead = 2 }\n", "limits.grace"),
        ("limits = { warn_lead = 2 }\n", "limits.grace"),
        ("[limits\n", "limits.grace"),
    ],
)
def test_what_cannot_be_changed_without_harm_is_left_to_an_editor(text: str, key: str) -> None:
    with pytest.raises(ConfigWrong):
        changed(text, key, 5)
