"""ACP's permission request: what counts as a yes, and what the text of it cannot break out of."""

import pytest

from shelltie.approval.question import Question, Scope
from shelltie.frontends.acp.permission import fenced, permission_answer, permission_request
from shelltie.model import Command
from shelltie.verdict import Rating, Verdict

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
