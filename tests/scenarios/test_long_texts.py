"""No text keeps the event loop busy, however it was written. Calls are counted, not seconds."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

import shelltie
from benchmarks.nasty import LONGEST, texts
from shelltie import Terminal
from shelltie.model import Command
from shelltie.safety.judge import Judge, find_shfmt
from shelltie.safety.rating import Most, examine
from shelltie.safety.rule_set import RuleSet
from shelltie.shell.parse import parse
from shelltie.verdict import Code, Rating
from tests.conftest import Open
from tests.event_loop import turns_during

RULES = RuleSet()
OURS = str(Path(shelltie.__file__).parent)
# About 50 ms on a machine of 2020, with rules that are read for the first time.
CALLS_MAX = 100_000
# Short, but with many commands that may be meant.
GUESSES = "timeout --zz " + "'a b' " * 80
SHORT = {**dict(texts(512)), "guesses": GUESSES}
LONG = dict(texts(LONGEST))
# What once took the square of its length, and what is read in many ways.
LINEAR = (
    *("secret files", "the same secret file", "new files", "quoted variables", "bare variables"),
    *("redirects", "redirects of one", "open here-documents", "here-documents", "eval", "sudo"),
    *("nested subshells", "nested arithmetic", "nested substitutions", "open backticks", "lists"),
    *("pipes", "braces", "one pattern", "open here-documents in lines", "unclosed quotes"),
)
# As well, but with more commands than are looked at in a longer text.
FILES = (
    *("sourced files", "substituted files", "fetched files", "written files", "printed files"),
)
# What made the loop busy outside of the judge: where limits and shapes are looked up.
BUSY = (
    *("newlines", "open substitutions", "nested substitutions", "dollars", "lists", "env"),
    *("secret files", "comments", "clauses", "python document"),
)


class Calls:
    """How many functions our own code has called in this thread, and not the event loop."""

    made = 0


@contextmanager
def counted() -> Iterator[Calls]:
    calls = Calls()

    def count(frame: FrameType, event: str, _: object) -> None:
        calls.made += event in ("call", "c_call") and OURS in frame.f_code.co_filename

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def calls_for(text: str) -> int:
    with counted() as calls:
        examine(parse(text), RULES)
    return calls.made


@pytest.mark.parametrize(
    ("name", "size"), [*((name, 1500) for name in LINEAR), *((name, 1000) for name in FILES)]
)
def test_twice_the_text_is_twice_the_work(name: str, size: int) -> None:
    short, long = dict(texts(size))[name], dict(texts(2 * size))[name]
    examine(parse(long), RULES)  # rules are read once, and what paths mean is remembered

    assert calls_for(long) <= 2.5 * calls_for(short)


@pytest.mark.parametrize("name", SHORT)
async def test_the_loop_looks_only_at_what_is_quickly_read(name: str) -> None:
    judge, command = Judge(RULES), Command(SHORT[name])
    await Judge(RULES).look(command)

    with counted() as calls:
        await judge.look(command)

    assert calls.made <= CALLS_MAX


@pytest.mark.parametrize("name", BUSY)
async def test_the_start_of_a_long_text_does_not_hold_up_others(
    name: str, open_terminal: Open, tmp_path: Path
) -> None:
    shell = tmp_path / "bash"
    shell.symlink_to("/bin/true")  # so that nothing of it is done

    async with open_terminal(shell=str(shell), safety_profiles_run_dangerous="allow") as terminal:
        await terminal.run("true")
        with counted() as calls:
            run = await terminal.start(LONG[name])
        await run.wait()

    assert run.verdict is not None
    assert run.verdict.rating is not Rating.SAFE
    assert calls.made <= CALLS_MAX


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("cat " + "x.env " * 1000, id="long"),
        pytest.param(GUESSES, id="short"),
        pytest.param("echo " + "a " * 4000, id="safe"),
    ],
)
async def test_others_have_their_turn_while_a_text_is_judged(text: str) -> None:
    judge, command = Judge(RULES, shfmt=find_shfmt()), Command(text)

    turns = await turns_during(lambda: judge.judge(command))

    assert turns > 10


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("frob " + "x " * 28 + "ls " + "a " * 3000 + ";)", id="words"),
        pytest.param("eval " * 4000 + "'" + "a " * 60_000 + "'", id="characters"),
    ],
)
def test_what_can_be_read_in_too_many_ways_is_not_read_to_its_end(text: str) -> None:
    examined = examine(parse(text), RULES)

    assert not examined.complete
    assert examined.verdict.rating is Rating.DANGEROUS
    assert Code.TOO_LONG in {reason.code for reason in examined.verdict.reasons}


def test_where_the_reading_ends_is_for_the_caller_to_say() -> None:
    script = parse("ls; ls; ls")

    assert examine(script, RULES, most=Most(commands=3)).complete
    assert not examine(script, RULES, most=Most(commands=2)).complete
    assert examine(script, RULES, most=Most(words=3)).complete
    assert not examine(script, RULES, most=Most(words=2)).complete


async def test_a_short_text_with_much_in_it_is_judged_as_a_long_one() -> None:
    judge, command = Judge(RULES), Command(GUESSES)

    assert await judge.look(command) == judge.first(command)


async def test_danger_at_the_beginning_is_told_however_long_the_text_is(terminal: Terminal) -> None:
    text = "rm -rf ~/x; " + "ls; " * 20_000

    verdict = await terminal.supervisor.admission.judge.look(Command(text))

    assert verdict.rating is Rating.DANGEROUS
    assert Code.DESTROYS_DATA in {reason.code for reason in verdict.reasons}
