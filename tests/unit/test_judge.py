"""The first look of a judge: what the rules say, remembered, with the caller's variables."""

import threading
from collections.abc import Iterator

import anyio
import pytest

from shelltie.model import Command
from shelltie.safety import judge as judging
from shelltie.safety.command_lists import lists_of
from shelltie.safety.judge import Judge
from shelltie.safety.rating import Examined, Most
from shelltie.safety.rule_set import RuleSet
from shelltie.shell.script import Script
from shelltie.verdict import Code, Rating, Verdict

RULES = RuleSet()


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


class Slow:
    """Takes its time for long texts, and notes in which thread it was asked about which."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, bool]] = []
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self, script: Script, *_: object) -> Examined:
        aside = threading.current_thread() is not threading.main_thread()
        self.seen.append((script.text[:1], aside))
        if aside:
            self.begun.set()
            assert self.go_on.wait(20)
        return Examined(Verdict(Rating.UNKNOWN))


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    slow = Slow()
    monkeypatch.setattr(judging, "examine", slow)
    yield slow
    slow.go_on.set()


@pytest.mark.parametrize(
    ("command", "aside"),
    [
        (Command("a" * 512), False),
        (Command("a" * 513), True),
        (Command("a", argv=("a" * 512,)), True),
        (Command("a", env={"N": "x" * 512}), True),
        (Command("a", env={"N": None}), False),
    ],
)
async def test_what_is_long_is_judged_aside(slow: Slow, command: Command, *, aside: bool) -> None:
    slow.go_on.set()

    await Judge(RULES).look(command)

    assert slow.seen == [("a", aside)]


async def test_long_texts_are_judged_one_at_a_time(slow: Slow) -> None:
    judge = Judge(RULES)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(judge.look, Command("a" * 600))
        tasks.start_soon(judge.look, Command("b" * 600))
        with anyio.fail_after(30):
            await anyio.to_thread.run_sync(slow.begun.wait)
        await judge.look(Command("c"))  # a short one does not wait for them
        before = list(slow.seen)
        slow.go_on.set()

    assert before == [("a", True), ("c", False)]
    assert slow.seen[2:] == [("b", True)]


async def test_a_caller_that_leaves_does_not_wait_for_the_verdict(slow: Slow) -> None:
    judge, left = Judge(RULES), anyio.Event()

    async def look(scope: anyio.CancelScope) -> None:
        with scope:
            await judge.look(Command("a" * 600))
        left.set()

    async with anyio.create_task_group() as tasks:
        scope = anyio.CancelScope()
        tasks.start_soon(look, scope)
        with anyio.fail_after(30):
            await anyio.to_thread.run_sync(slow.begun.wait)
        scope.cancel()
        with anyio.fail_after(30):
            await left.wait()

    assert scope.cancelled_caught
    assert not slow.go_on.is_set()


async def test_too_much_for_the_loop_is_looked_at_again_aside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Most] = []

    def too_much(*given: object) -> Examined:
        most = given[-1]
        assert isinstance(most, Most)
        asked.append(most)
        return Examined(Verdict(Rating.UNKNOWN), complete=len(asked) > 1)

    monkeypatch.setattr(judging, "examine", too_much)

    await Judge(RULES).look(Command("frob"))

    assert len(asked) == 2
    assert asked[0].words < asked[1].words
    assert asked[1] == Most()
