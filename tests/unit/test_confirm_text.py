"""What a client's dialogue shows of a command that has secrets in it."""

import time

from shelltie.approval.question import Question
from shelltie.frontends.mcp.confirm import message
from shelltie.frontends.reports.question_report import without_secrets
from shelltie.model import Command
from shelltie.verdict import Code, Rating, Reason, Span, Verdict

TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


def asked(text: str, *about: str) -> Question:
    reasons = tuple(
        Reason(Code.NETWORK, Rating.DANGEROUS, "why", Span(at := text.index(one), at + len(one)))
        for one in about
    )
    return Question.about(
        Command(text, cwd="/"), Verdict(Rating.DANGEROUS, reasons), "local", "\x1b]0;me\x07"
    )


def places(question: Question) -> list[str]:
    text = question.command.text
    return [text[one.span.start : one.span.end] for one in question.verdict.reasons]


def test_reasons_still_point_at_what_they_are_about() -> None:
    question = asked(f"echo {TOKEN}; rm -rf x; echo {TOKEN}", "rm -rf x", "echo")

    shown = without_secrets(question, {})

    assert TOKEN not in shown.command.text
    assert places(shown) == ["rm -rf x", "echo"]


def test_a_reason_about_a_part_of_a_secret_is_about_everything() -> None:
    question = asked(f"echo {TOKEN}", TOKEN[10:20])

    shown = without_secrets(question, {})

    assert places(shown) == [shown.command.text]


def test_what_has_no_secrets_is_shown_as_it_is() -> None:
    question = asked("rm -rf x", "rm")

    assert without_secrets(question, {}) == question


def test_values_that_we_know_are_never_shown() -> None:
    text = message(asked("echo open-sesame-1"), {"MINE": "open-sesame-1"}, time.time()).text

    assert "open-sesame" not in text
    assert "[REDACTED:MINE]" in text
    assert "\x1b" not in text


def test_arguments_without_a_shell_are_redacted_too() -> None:
    command = Command("x", argv=("echo", TOKEN), cwd="/", env={"A": None, "B": TOKEN})
    question = Question.about(command, Verdict(Rating.UNKNOWN), "local")

    shown = message(question, {}, time.time()).text

    assert TOKEN not in shown
    assert "unset   A" in shown
