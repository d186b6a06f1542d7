"""What a yes is bound to, and how a question is called."""

from dataclasses import replace

import pytest

from shelltie.approval.question import Question, fingerprint
from shelltie.model import Command, TerminalSize
from shelltie.verdict import Code, Rating, Reason, Span, Verdict

COMMAND = Command("rm -rf build", cwd="/work", env={"A": "1", "B": None}, stdin=b"x")
DANGEROUS = Verdict(Rating.DANGEROUS)


@pytest.mark.parametrize(
    "other",
    [
        replace(COMMAND, text="rm -rf  build"),
        replace(COMMAND, text="rm -rf build\n"),
        replace(COMMAND, argv=("rm", "-rf", "build")),
        replace(COMMAND, argv=("rm -rf build",)),
        replace(COMMAND, cwd="/work/other"),
        replace(COMMAND, env={"A": "1"}),
        replace(COMMAND, env={"A": "1", "B": ""}),
        replace(COMMAND, env={"A": "2", "B": None}),
        replace(COMMAND, stdin=b"y"),
        replace(COMMAND, stdin=None),
        replace(COMMAND, pty=TerminalSize()),
    ],
)
def test_a_yes_to_one_command_is_none_to_another(other: Command) -> None:
    assert fingerprint(other, "local") != fingerprint(COMMAND, "local")


def test_a_yes_to_one_place_is_none_to_another() -> None:
    assert fingerprint(COMMAND, "container") != fingerprint(COMMAND, "local")


def test_a_yes_to_changes_is_none_to_run_their_text() -> None:
    reason = Reason(Code.TRIAL_CHANGES, Rating.DANGEROUS, "guarded", Span(0, 3))
    applied = Question.about(COMMAND, replace(DANGEROUS, reasons=(reason,)), "local")

    assert applied.digest != Question.about(COMMAND, DANGEROUS, "local").digest


def test_the_order_of_variables_does_not_matter() -> None:
    other = replace(COMMAND, env={"B": None, "A": "1"})

    assert fingerprint(other, "local") == fingerprint(COMMAND, "local")


def test_bytes_that_are_no_text_can_be_asked_about() -> None:
    odd = replace(COMMAND, text="rm \udcff")

    assert fingerprint(odd, "local") != fingerprint(replace(odd, text="rm \udcfe"), "local")


def test_no_id_is_used_twice_and_each_can_be_said_aloud() -> None:
    ids = [Question.about(Command("ls", cwd="/"), DANGEROUS, "local").id for _ in range(5000)]

    assert len(set(ids)) == len(ids)
    assert all(len(name) == 6 and not set(name) & set("ILOU") for name in ids)


def test_a_large_input_is_described_and_begins_as_it_does() -> None:
    question = Question.about(Command("sh", cwd="/", stdin=b"a" * 200_000), DANGEROUS, "local")

    assert question.input is not None
    assert (question.input.size, len(question.input.head)) == (200_000, 131_072)
