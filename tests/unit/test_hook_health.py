"""A hook that its client does not call, or cannot start, is found."""

import json
import sys

import pytest

from shelltie.frontends.clients.hook_health import why_not_called
from shelltie.frontends.clients.registry import CLIENTS

HERE = [sys.executable, "-m", "shelltie"]


def installed(client: str, argv: list[str], **changed: object) -> str:
    """The file of hooks, as it is after an install."""
    hooks = CLIENTS[client].hooks
    assert hooks is not None
    events = {event: [{**entry, **changed}] for event, entry in hooks.entries(argv).items()}
    return json.dumps({"hooks": events})


@pytest.mark.parametrize("client", ["claude", "codex", "gemini", "cursor"])
def test_what_is_installed_is_called_and_a_missing_program_is_named(client: str) -> None:
    known = CLIENTS[client]
    assert why_not_called(known, installed(client, HERE)) is None
    gone = installed(client, ["/gone/shelltie"])
    assert why_not_called(known, gone) == "there is no program /gone/shelltie"


def test_a_matcher_must_name_the_shell_tool() -> None:
    told = {
        matcher: why_not_called(CLIENTS["claude"], installed("claude", HERE, matcher=matcher))
        for matcher in ("Bash", "Write|Bash", "*", "", "Write", "(")
    }
    assert [matcher for matcher, why in told.items() if why] == ["Write", "("]
    assert told["Write"] == "its matcher is 'Write', not 'Bash'"


def test_hooks_that_are_off_or_for_another_event_are_told() -> None:
    claude = CLIENTS["claude"]
    events = json.loads(installed("claude", HERE))["hooks"]
    off = {"hooks": events, "disableAllHooks": True}
    assert why_not_called(claude, json.dumps(off)) == "disableAllHooks is true there"
    other = {"hooks": {"PostToolUse": events["PreToolUse"]}}
    assert why_not_called(claude, json.dumps(other)) == "it is not called for PreToolUse"


def test_hooks_of_others_in_the_same_group_are_not_looked_at() -> None:
    events = json.loads(installed("claude", HERE))["hooks"]
    events["PreToolUse"][0]["hooks"].insert(
        0, {"type": "command", "command": "/gone/shelltie-audit"}
    )
    assert why_not_called(CLIENTS["claude"], json.dumps({"hooks": events})) is None
