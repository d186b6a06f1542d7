"""ACP's permission request: what counts as a yes, and what the text of it cannot break out of."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shelltie.approval.question import Question, Scope
from shelltie.frontends.acp.diff_content import diff_content
from shelltie.frontends.acp.permission import fenced, permission_answer, permission_request
from shelltie.frontends.mcp.confirm import form_of, message
from shelltie.model import Command
from shelltie.trials.unified_diff import DiffEntry, unified_diff
from shelltie.verdict import Code, Rating, Reason, Span, Verdict

ASKED = permission_request(
    Question.about(Command("rm x", cwd="/"), Verdict(Rating.DANGEROUS), "local"), "s", "x", {}
)


def selected(option: object) -> dict[str, object]:
    return {"outcome": {"outcome": "selected", "optionId": option}}


@pytest.mark.parametrize(
    ("option", "scope"), [("allow-once", Scope.ONCE), ("allow-session", Scope.SESSION)]
)
def test_only_the_two_options_that_were_offered_are_a_yes(option: str, scope: Scope) -> None:
    answer = permission_answer(ASKED, selected(option), "the editor")

    assert answer is not None
    assert (answer.allowed, answer.scope, answer.by) == (True, scope, "the editor")


@pytest.mark.parametrize(
    "option", ["allow", "allow-", "allow-forever", "allow-once ", "ALLOW-ONCE", "reject-once", ""]
)
def test_an_option_that_was_not_offered_is_a_no(option: str) -> None:
    answer = permission_answer(ASKED, selected(option), "the editor")

    assert answer is not None
    assert not answer.allowed


@pytest.mark.parametrize(
    "result", [None, {}, [], selected(5), {"outcome": "selected"}, {"outcome": {"outcome": "x"}}]
)
def test_what_is_no_answer_is_none(result: object) -> None:
    assert permission_answer(ASKED, result, "the editor") is None


@pytest.mark.parametrize("text", ["plain", "a ``` b", "```\nnot code\n```", "`" * 7 + "x"])
def test_nothing_in_a_text_ends_its_fence(text: str) -> None:
    first, *lines, last = fenced(text).split("\n")

    assert first == last + "console"
    assert last.strip("`") == ""
    assert len(last) >= 3
    assert "\n".join(lines) == text
    assert last not in text


def test_no_secret_is_shown_and_what_is_withheld_is_not_set() -> None:
    env = {"API_KEY": "hunter2hunter2", "DB_PASSWORD": "swordfish99", "MINE": "y"}
    command = Command("rm x; echo hunter2hunter2 open-sesame-1", cwd="/", env=env)
    verdict = Verdict(Rating.DANGEROUS)
    question = Question.about(command, verdict, "local", withheld=("API_KEY",))

    asked = permission_request(question, "s", "x", {"OURS": "open-sesame-1"})

    text = asked["toolCall"]["content"][0]["content"]["text"]
    for secret in ("hunter2", "swordfish", "open-sesame"):
        assert secret not in str(asked)
    assert "set     API_KEY" not in text
    assert "set     DB_PASSWORD=[REDACTED:DB_PASSWORD]" in text
    assert "set     MINE=y" in text


def test_its_tool_call_bears_an_id_that_no_agent_knows() -> None:
    assert ASKED["toolCall"]["toolCallId"] == "shelltie-x"


def changes(diff: str) -> Question:
    text = f"shelltie apply t1\n# 1 file changed\n# by: make\n{diff}"
    reason = Reason(Code.TRIAL_CHANGES, Rating.DANGEROUS, "guarded", Span(0, len(text)))
    return Question.about(
        Command(text, cwd="/"), Verdict(Rating.DANGEROUS, (reason,)), "local", "agent"
    )


def side(path: str, old: str | None, new: str | None) -> DiffEntry:
    def content(text: str | None) -> Callable[[], bytes]:
        return (text or "").encode

    before, after = (None if text is None else "100644" for text in (old, new))
    return DiffEntry(path, before, after, content(old), content(new))


def test_changes_are_asked_about_as_changes_with_their_diff() -> None:
    diff = unified_diff([side("a", "one\ntwo\n", "one\n2"), side("b c", None, "new\n")], 10_000)

    asked = permission_request(changes(diff), "s", "x", {})

    call = asked["toolCall"]
    assert call["kind"] == "edit"
    assert call["title"].startswith("shelltie apply t1")
    assert call["content"][1:] == [
        {"type": "diff", "path": "/a", "oldText": "one\ntwo\n", "newText": "one\n2"},
        {"type": "diff", "path": "/b c", "newText": "new\n"},
    ]
    names = [(option["optionId"], option["name"]) for option in asked["options"]]
    assert names == [("allow-once", "Apply these changes"), ("reject-once", "Do not apply them")]
    dialogue = message(changes(diff), {}, 0.0).text
    assert "An agent wants to apply these changes of a command that ran on trial:" in dialogue
    assert form_of(changes(diff))["properties"]["scope"]["enum"] == ["once"]
    assert "changes of a trial · asked by agent" in dialogue


@given(st.text("ab-+@\\ \n", max_size=12), st.text("ab-+@\\ \n", max_size=12))
def test_a_block_has_what_was_and_what_will_be(old: str, new: str) -> None:
    lines = max(old.count("\n"), new.count("\n"))
    blocks = diff_content(unified_diff([side("f", old, new)], 10_000), "/w")

    if old == new:
        assert blocks == []
    elif lines < 4:  # one hunk, with all of the file around it
        assert [(it.get("oldText", ""), it["newText"]) for it in blocks] == [(old, new)]
    for block in blocks:
        assert block["path"] == "/w/f"
        assert block.get("oldText", "") in old
        assert block["newText"] in new
