"""The first look of a judge: what the rules say, remembered, with the caller's variables."""

import pytest

from shelltie.model import Command
from shelltie.policy.safety.judge import Judge
from shelltie.policy.safety.listed import lists_of
from shelltie.policy.safety.rules import Rules
from shelltie.verdict import Code, Rating

RULES = Rules()


def test_a_text_is_looked_at_once() -> None:
    judge = Judge(RULES)

    assert judge.first(Command("rm -r x")) is judge.first(Command("rm -r x"))


def test_a_text_and_an_argument_vector_are_not_confused() -> None:
    judge = Judge(RULES)

    assert judge.first(Command("echo $(rm -r x)")).rating is Rating.DANGEROUS
    assert judge.first(Command("", argv=("echo", "$(rm -r x)"))).rating is Rating.SAFE


def test_only_so_much_is_remembered() -> None:
    judge = Judge(RULES)
    first = judge.first(Command("frob 0"))

    for number in range(1, 1100):
        judge.first(Command(f"frob {number}"))

    assert judge.first(Command("frob 0")) is not first
    assert judge.first(Command("frob 0")) == first


def test_a_very_long_text_is_not_remembered() -> None:
    judge, command = Judge(RULES), Command("echo " + "x" * 5000)

    assert judge.first(command) is not judge.first(command)


@pytest.mark.parametrize(
    ("name", "value", "rating"),
    [
        ("LANG", "C", Rating.SAFE),
        ("NODE_ENV", "test", Rating.UNKNOWN),
        ("FROB", "1", Rating.SAFE),
        ("GIT_DIR", "/x", Rating.UNKNOWN),
        ("PAGER", "x", Rating.UNKNOWN),
        ("LD_PRELOAD", "x", Rating.DANGEROUS),
        ("PATH", "/tmp:/bin", Rating.DANGEROUS),
        ("BASH_ENV", None, Rating.DANGEROUS),
        ("x", "a[$(id)]", Rating.UNKNOWN),
        ("f", "/root/.ssh/id_rsa", Rating.UNKNOWN),
    ],
)
def test_the_callers_variables_are_judged_as_well(
    name: str, value: str | None, rating: Rating
) -> None:
    verdict = Judge(RULES).first(Command("ls", env={name: value}))

    assert verdict.rating is rating
    assert {reason.code for reason in verdict.reasons} <= {Code.ENV_INJECTION}


def test_the_mode_and_the_users_lists_are_used() -> None:
    lists = lists_of(safe=["^frob"], dangerous=["secret"])
    judge = Judge(RULES, mode="listed", lists=lists)

    assert judge.first(Command("npm install")).rating is Rating.SAFE
    assert judge.first(Command("frob x")).rating is Rating.SAFE
    assert judge.first(Command("ls secret")).rating is Rating.DANGEROUS


def test_the_strictest_of_text_and_variables_comes_first() -> None:
    command = Command("ls x; frob", env={"NODE_ENV": "test", "LD_PRELOAD": "x"})

    verdict = Judge(RULES).first(command)

    ratings = [reason.rating for reason in verdict.reasons]
    assert verdict.rating is Rating.DANGEROUS
    assert ratings == sorted(ratings, key=lambda rating: -rating.rank)
    assert set(ratings) == {Rating.DANGEROUS, Rating.UNKNOWN}


@pytest.mark.parametrize("shell", ["/bin/sh", "/usr/bin/zsh", "/bin/dash"])
async def test_no_text_is_safe_for_another_shell(shell: str) -> None:
    verdict = await Judge(RULES, shell=shell).judge(Command("ls"))

    assert verdict.rating is Rating.UNKNOWN
    assert [reason.code for reason in verdict.reasons] == [Code.PARSER_DISAGREEMENT]
    assert (await Judge(RULES, shell="/bin/bash").judge(Command("ls"))).rating is Rating.SAFE
