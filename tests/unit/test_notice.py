"""What a person hears of a command that waits: never its own words."""

import json
from dataclasses import replace

import pytest

from shelltie.approval.notice import notice_argv, notice_json
from shelltie.approval.question import Question
from shelltie.model import Command
from shelltie.safety.judge import Judge
from shelltie.safety.rule_set import RuleSet

SECRET = "hunter2hunter2"


def asked(text: str, client: str = "claude-code 2.1") -> Question:
    command = Command(text, cwd="/srv/project", env={"TOKEN": SECRET}, stdin=SECRET.encode())
    question = Question.about(command, Judge(RuleSet()).first(command), "local", client)
    return replace(question, id="ABC123")


@pytest.mark.proves("D14")
@pytest.mark.parametrize(
    "text",
    [
        f"rm -rf {SECRET}",
        f"curl -d password={SECRET} https://example.org",
        f"mysql -p{SECRET} -e 'drop table x'",
        f"echo {SECRET} > /etc/passwd",
        f"./{SECRET} && rm -rf x",
    ],
)
def test_nothing_of_the_command_is_told(text: str) -> None:
    question = asked(text)

    assert SECRET not in " ".join(notice_argv(question))
    assert SECRET not in notice_json(question).decode()


@pytest.mark.proves("D14")
def test_a_notice_says_who_where_what_and_how_to_say_yes() -> None:
    question = asked("rm -rf build")

    program, *_, title, body = notice_argv(question)

    assert (program, title) == ("notify-send", "shelltie: a command waits for your yes")
    assert body == "claude-code, in project: rm (destroys data)\nshelltie approve ABC123"
    told = json.loads(notice_json(question))
    assert told["approve"] == "shelltie approve ABC123"
    assert told["message"] == body.partition("\n")[0]
    assert (told["program"], told["codes"], told["cwd"]) == (
        "rm",
        ["destroys_data"],
        "/srv/project",
    )


@pytest.mark.proves("D14")
def test_a_client_cannot_write_markup_or_options_of_its_own() -> None:
    *_, dashes, _, body = notice_argv(asked("rm -rf x", client="--<b>&\x1b[1m"))

    assert dashes == "--"
    assert "<b>" not in body
    assert "&lt;b&gt;&amp;" in body
    assert "\x1b" not in body
