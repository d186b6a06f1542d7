"""Who is asked, whose answer counts, and how long a yes holds."""

import functools
import math
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from shelltie.approval.always import Approved
from shelltie.approval.broker import (
    LATER,
    OPEN_MAX,
    UNREACHED,
    Broker,
    CallbackChannel,
    Later,
)
from shelltie.approval.question import LATE_ANSWER_WINDOW, NOBODY, Answer, Question, Scope
from shelltie.errors import InvalidParameters
from shelltie.model import Command
from shelltie.verdict import Rating, Verdict

YES, NO = Answer(allowed=True), Answer(allowed=False)


def question(text: str = "rm -rf build", rating: Rating = Rating.DANGEROUS) -> Question:
    return Question.about(Command(text, cwd="/"), Verdict(rating), "local")


class Voice:
    """A channel that says one thing, when it is told to."""

    can_ask = True

    def __init__(self, name: str, says: Answer | None = None, *, at_once: bool = False) -> None:
        self.name = name
        self.asked: list[Question] = []
        self.withdrawn = 0
        self.speak = anyio.Event()
        self.heard = anyio.Event()
        self._says = says
        if at_once:
            self.speak.set()

    async def ask(self, question: Question) -> Answer | None:
        self.asked.append(question)
        self.heard.set()
        try:
            await self.speak.wait()
        except anyio.get_cancelled_exc_class():
            self.withdrawn += 1
            raise
        return self._says


class Silent(Voice):
    """Nobody is there."""

    can_ask = False


class Repeating:
    """Whose answer comes with the call, repeated."""

    name = "repeating"
    can_ask = True

    async def ask(self, _: Question) -> Later:
        return LATER


class Unreached:
    """Through which nobody could be asked."""

    name = "unreached"
    can_ask = True

    async def ask(self, _: Question) -> Later:
        return UNREACHED


class Broken(Voice):
    """A channel that fails."""

    async def ask(self, question: Question) -> Answer | None:
        raise RuntimeError(question.id)


class Clock:
    """A clock that goes when it is told to."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def late(broker: Broker, text: str = "rm -rf build") -> Question:
    """A question that nobody answered in time."""
    asked = question(text)
    answer = await broker.ask(asked, 0)
    assert not answer.allowed
    return asked


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reachable(clock: Clock) -> Broker:
    """Whose questions somebody may list and answer."""
    broker = Broker(clock=clock)
    broker.reachable = True
    return broker


async def test_the_first_answer_wins_and_the_others_are_withdrawn() -> None:
    broker, slow, quick = Broker(), Voice("slow", NO), Voice("quick", YES)
    broker.add(slow)
    broker.add(quick)
    quick.speak.set()

    with anyio.fail_after(30):
        answer = await broker.ask(question())

    assert (answer.allowed, answer.by) == (True, "quick")
    assert slow.withdrawn == 1
    assert broker.pending() == []


async def test_an_answer_stays_though_another_comes_in_the_same_moment() -> None:
    broker = Broker()
    broker.add(Voice("first", NO, at_once=True))
    broker.add(Voice("second", YES, at_once=True))

    with anyio.fail_after(30):
        answer = await broker.ask(question())

    assert (answer.allowed, answer.by) == (False, "first")


async def test_a_no_is_as_good_as_a_yes() -> None:
    broker, yes, no = Broker(), Voice("yes", YES), Voice("no", NO)
    broker.add(yes)
    broker.add(no)
    no.speak.set()

    with anyio.fail_after(30):
        assert not (await broker.ask(question())).allowed


async def test_a_channel_that_fails_silences_nobody() -> None:
    broker = Broker()
    broker.add(Broken("broken"))
    broker.add(Voice("works", YES, at_once=True))

    with anyio.fail_after(30):
        assert (await broker.ask(question())).by == "works"


@pytest.mark.proves("D1")
@pytest.mark.parametrize("rating", Rating)
async def test_nobody_to_ask_is_no(rating: Rating) -> None:
    broker = Broker(approve_unknown_on_timeout=True)
    broker.add(Silent("silent"))

    answer = await broker.ask(question(rating=rating), 10)

    assert (answer.allowed, answer.by) == (False, NOBODY)
    assert "nobody can be asked" in answer.reason


async def test_who_says_nothing_at_all_is_waited_for_no_longer() -> None:
    broker = Broker()
    broker.add(Broken("broken"))
    broker.add(Voice("mute", None, at_once=True))

    with anyio.fail_after(30):
        answer = await broker.ask(question())

    assert (answer.allowed, answer.by) == (False, NOBODY)


@pytest.mark.proves("C-59", "D1", "T2-19")
@pytest.mark.parametrize(
    ("rating", "approve", "allowed"),
    [
        (Rating.UNKNOWN, False, False),
        (Rating.UNKNOWN, True, True),
        (Rating.DANGEROUS, False, False),
        (Rating.DANGEROUS, True, False),
    ],
)
async def test_no_answer_in_time_is_no_unless_unknown_ones_are_let_through(
    rating: Rating, approve: bool, allowed: bool
) -> None:
    broker = Broker(approve_unknown_on_timeout=approve)
    broker.add(Voice("slow"))

    answer = await broker.ask(question(rating=rating), 0.01)

    assert answer.allowed is allowed


async def test_who_is_cancelled_takes_the_question_back(reachable: Broker) -> None:
    voice = Voice("slow", YES)
    reachable.add(voice)
    asked = question()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reachable.ask, asked)
        await voice.heard.wait()
        assert [one.question for one in reachable.pending()] == [asked]
        tasks.cancel_scope.cancel()

    assert voice.withdrawn == 1
    assert reachable.pending() == []
    with pytest.raises(InvalidParameters):
        await reachable.answer(asked.id, asked.digest, YES)
    assert not (await reachable.ask(question(), 0)).allowed


async def test_a_question_is_answered_by_its_id(reachable: Broker) -> None:
    asked, answers = question(), []

    async def ask() -> None:
        answers.append(await reachable.ask(asked))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await listed(reachable, 1)
        taken, was_late = await reachable.answer(asked.id, asked.digest, YES)

    assert (taken.allowed, was_late) == (True, False)
    assert answers[0].allowed


async def listed(broker: Broker, count: int) -> None:
    with anyio.fail_after(30):
        while len(broker.pending()) != count:
            await anyio.lowlevel.checkpoint()


async def test_a_yes_must_be_to_what_was_shown(reachable: Broker) -> None:
    asked = await late(reachable)

    with pytest.raises(InvalidParameters, match="not what was shown"):
        await reachable.answer(asked.id, question("ls").digest, YES)

    assert len(reachable.pending()) == 1


@pytest.mark.proves("C-59")
async def test_a_late_yes_lets_the_same_call_run_once(reachable: Broker) -> None:
    asked = await late(reachable)
    _, was_late = await reachable.answer(asked.id, asked.digest, YES)

    other = await reachable.ask(question("rm -rf other"), 0)
    again = await reachable.ask(question(), 0)
    third = await reachable.ask(question(), 0)

    assert was_late
    assert (other.allowed, again.allowed, third.allowed) == (False, True, False)


async def test_of_two_calls_one_yes_lets_one_run(reachable: Broker) -> None:
    asked = await late(reachable)
    await reachable.answer(asked.id, asked.digest, YES)
    answers: list[bool] = []

    async def ask() -> None:
        answers.append((await reachable.ask(question(), 0)).allowed)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        tasks.start_soon(ask)

    assert sorted(answers) == [False, True]


async def test_a_late_no_reaches_whoever_repeats_the_call_once(reachable: Broker) -> None:
    asked = await late(reachable)
    no = Answer(allowed=False, by="a person", reason="use git restore")
    await reachable.answer(asked.id, asked.digest, no)

    assert reachable.pending() == []
    assert await reachable.ask(question(), 0) == no
    assert (await reachable.ask(question(), 0)).by == NOBODY


async def test_who_answers_later_is_not_waited_for_and_others_may_answer(reachable: Broker) -> None:
    asked = question()

    with anyio.fail_after(20):
        answer = await reachable.ask(asked, None, Repeating())
    (waiting,) = reachable.pending()
    await reachable.answer(asked.id, asked.digest, YES)
    again = await reachable.ask(question(), None, Repeating())

    assert (answer.allowed, answer.by) == (False, NOBODY)
    assert waiting.late
    assert again.allowed


async def test_where_nobody_could_be_asked_only_the_others_are_waited_for(
    reachable: Broker,
) -> None:
    with anyio.fail_after(20):
        alone = await reachable.ask(question(), None, Unreached())
    reachable.add(Voice("other", YES, at_once=True))

    with anyio.fail_after(20):
        beside = await reachable.ask(question("other"), None, Unreached())

    assert (alone.allowed, "shelltie approve" in alone.reason) == (False, True)
    assert beside.allowed


async def test_who_answers_later_is_no_silence_that_approves() -> None:
    careless = Broker(approve_unknown_on_timeout=True)

    answer = await careless.ask(question(rating=Rating.UNKNOWN), 20, Repeating())

    assert not answer.allowed


async def test_the_refusal_says_how_to_allow_it_later(reachable: Broker) -> None:
    asked = question()

    answer = await reachable.ask(asked, 0)

    assert f"shelltie approve {asked.id}" in answer.reason
    assert answer.reason.startswith("nobody could be asked now")  # not "answered within 0ms"
    assert [(one.question, one.late) for one in reachable.pending()] == [(asked, True)]


async def test_a_repeated_call_is_one_question_and_its_old_id_still_works(
    reachable: Broker,
) -> None:
    first = await late(reachable)
    second = await late(reachable)

    assert [one.question.id for one in reachable.pending()] == [second.id]
    await reachable.answer(first.id, first.digest, YES)

    assert reachable.pending() == []
    assert (await reachable.ask(question(), 0)).allowed


async def test_a_late_question_and_a_late_yes_expire(reachable: Broker, clock: Clock) -> None:
    asked = await late(reachable)
    other = await late(reachable, "rm -rf other")
    await reachable.answer(other.id, other.digest, YES)

    clock.now += LATE_ANSWER_WINDOW

    assert reachable.pending() == []
    with pytest.raises(InvalidParameters):
        await reachable.answer(asked.id, asked.digest, YES)
    assert not (await reachable.ask(question("rm -rf other"), 0)).allowed


async def test_a_question_is_answered_once(reachable: Broker) -> None:
    asked = await late(reachable)
    await reachable.answer(asked.id, asked.digest, YES)

    with pytest.raises(InvalidParameters):
        await reachable.answer(asked.id, asked.digest, YES)


async def test_a_yes_for_the_session_holds_for_the_same_command_only(reachable: Broker) -> None:
    asked = await late(reachable)
    await reachable.answer(asked.id, asked.digest, Answer(allowed=True, scope=Scope.SESSION))

    same = [await reachable.ask(question(), 0) for _ in range(3)]
    other = await reachable.ask(question("rm -rf build2"), 0)

    assert all(answer.allowed for answer in same)
    assert not other.allowed


async def test_without_a_file_always_is_once(reachable: Broker) -> None:
    asked = await late(reachable)

    taken, _ = await reachable.answer(
        asked.id, asked.digest, Answer(allowed=True, scope=Scope.ALWAYS)
    )

    assert (taken.allowed, taken.scope) == (True, Scope.ONCE)
    assert taken.reason


async def test_late_questions_make_room_for_new_ones(reachable: Broker) -> None:
    for number in range(OPEN_MAX + 5):
        await late(reachable, f"rm -rf {number}")

    texts = [one.question.command.text for one in reachable.pending()]

    assert texts == [f"rm -rf {number}" for number in range(5, OPEN_MAX + 5)]


async def test_more_questions_than_anybody_reads_are_refused(reachable: Broker) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(OPEN_MAX):
            tasks.start_soon(reachable.ask, question(f"rm -rf {number}"))
        await listed(reachable, OPEN_MAX)

        answer = await reachable.ask(question("rm -rf more"))

        assert (answer.allowed, answer.by) == (False, NOBODY)
        tasks.cancel_scope.cancel()
    assert reachable.pending() == []


async def test_what_nobody_can_read_nobody_can_approve(reachable: Broker) -> None:
    reachable.add(Voice("eager", YES, at_once=True))

    answer = await reachable.ask(question("x" * (128 * 1024 + 1)))
    shorter = await reachable.ask(question("x" * (128 * 1024)))

    assert (answer.allowed, answer.by) == (False, NOBODY)
    assert shorter.allowed


@pytest.mark.parametrize("env", [{"A": "x" * 200_000}, {"x" * 200_000: None}])
async def test_variables_that_nobody_can_read_are_none_to_approve(
    reachable: Broker, env: dict[str, str | None]
) -> None:
    reachable.add(Voice("eager", YES, at_once=True))
    asked = Question.about(Command("rm x", cwd="/", env=env), Verdict(Rating.DANGEROUS), "local")

    answer = await reachable.ask(asked)

    assert (answer.allowed, answer.by) == (False, NOBODY)


class Slow(Approved):
    """Takes its time to write."""

    def __init__(self) -> None:
        super().__init__(Path("/no/such/place/approved.toml"))
        self.begun, self.goes_on = threading.Event(), threading.Event()

    def add(self, question: Question) -> None:  # noqa: ARG002  as in Approved
        self.begun.set()
        assert self.goes_on.wait(20)


async def test_while_a_yes_is_written_down_there_is_no_second_answer() -> None:
    approved = Slow()
    broker, other = Broker(approved), Voice("other", NO)
    broker.reachable = True
    broker.add(other)
    asked, answers = question(), []

    async def ask() -> None:
        answers.append(await broker.ask(asked))

    async def always() -> None:
        await broker.answer(asked.id, asked.digest, Answer(allowed=True, scope=Scope.ALWAYS))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await listed(broker, 1)
            tasks.start_soon(always)
            await anyio.to_thread.run_sync(approved.begun.wait)
            other.speak.set()
            with pytest.raises(InvalidParameters, match="waits for an answer"):
                await broker.answer(asked.id, asked.digest, NO)
            await anyio.wait_all_tasks_blocked()
            too_early = list(answers)
            approved.goes_on.set()

    assert too_early == []
    assert [one.allowed for one in answers] == [True]


# Functions


def _raises(_: Question) -> bool:
    raise RuntimeError


async def _yes(_: Question) -> bool:
    await anyio.lowlevel.checkpoint()
    return True


def _later(function: Callable[[Question], Awaitable[bool]], asked: Question) -> Awaitable[bool]:
    return function(asked)


@pytest.mark.proves("C-60")
@pytest.mark.parametrize(
    ("function", "allowed"),
    [
        (lambda _: True, True),
        (_yes, True),
        (functools.partial(_later, _yes), True),
        (lambda _: YES, True),
        (lambda _: NO, False),
        (lambda _: False, False),
        (lambda _: None, False),
        (lambda _: 1, False),
        (lambda _: "yes", False),
        (lambda _: math.nan, False),
        (lambda _: Answer(allowed="yes"), False),  # type: ignore[arg-type]  # as a caller may
        (_raises, False),
    ],
)
async def test_a_function_must_say_true(
    function: Callable[[Question], bool], allowed: bool
) -> None:
    broker = Broker()
    broker.add(CallbackChannel(function))

    with anyio.fail_after(30):
        answer = await broker.ask(question())

    assert answer.allowed is allowed
    assert answer.by == "callback"


async def test_a_function_is_given_all_there_is_to_know() -> None:
    broker, asked = Broker(), question()
    broker.add(CallbackChannel(lambda seen: seen is asked))

    assert (await broker.ask(asked)).allowed


async def test_when_the_server_leaves_whoever_waits_is_told_and_nobody_else_is_asked(
    reachable: Broker,
) -> None:
    voice, answers = Voice("slow", YES), list[Answer]()
    reachable.add(voice)

    async def ask() -> None:
        answers.append(await reachable.ask(question()))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await voice.heard.wait()
        with anyio.fail_after(30):
            await reachable.close()
        waited = list(answers)
        with anyio.fail_after(30):
            late = await reachable.ask(question("rm -rf other"))

    for answer in (*waited, late):
        assert (answer.allowed, answer.by) == (False, NOBODY)
        assert "shelltie is leaving" in answer.reason
    assert (len(waited), len(voice.asked), voice.withdrawn) == (1, 1, 1)
    assert reachable.pending() == []


@pytest.mark.proves("D13")
async def test_what_no_channel_can_put_to_a_person_comes_back_with_the_way_to_say_yes() -> None:
    broker = Broker(undelivered=0.01)
    broker.reachable = True
    broker.add(Silent("nobody's"))
    asked = question()

    with anyio.fail_after(30):
        answer = await broker.ask(asked, 3600)
    await broker.answer(asked.id, asked.digest, YES)
    again = await broker.ask(question(), 3600)

    assert (answer.allowed, answer.by) == (False, NOBODY)
    assert "nobody could be asked" in answer.reason
    assert "answered" not in answer.reason
    assert "refused" not in answer.reason
    assert f"`shelltie approve {asked.id}`" in answer.reason
    assert "repeat the same call (within 10m)" in answer.reason
    assert again.allowed


@pytest.mark.proves("D13")
async def test_a_question_that_can_be_put_waits_as_long_as_the_call_can() -> None:
    broker, person = Broker(undelivered=0.0), Voice("dialogue", YES)
    broker.reachable = True
    broker.add(person)
    answers: list[Answer] = []

    async def ask() -> None:
        answers.append(await broker.ask(question(), 3600))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await person.heard.wait()
            await anyio.wait_all_tasks_blocked()
            assert not answers
            person.speak.set()

    assert answers[0].allowed


@pytest.mark.proves("D13")
async def test_a_dialogue_that_is_closed_and_one_that_fails_are_told_apart() -> None:
    reasons = []
    for channel in (Voice("closes", at_once=True), Broken("fails")):
        broker = Broker(undelivered=0.0)
        broker.reachable = True
        broker.add(channel)
        with anyio.fail_after(30):
            reasons.append((await broker.ask(question(), 3600)).reason)

    assert reasons[0].startswith("nobody answered: the dialogue was closed")
    assert reasons[1].startswith("nobody could be asked")


@pytest.mark.proves("D13")
async def test_while_a_person_watches_what_is_pending_a_question_waits_for_them() -> None:
    broker = Broker(undelivered=0.0)
    broker.reachable = True
    broker.note_watcher()
    asked, answers = question(), list[Answer]()

    async def ask() -> None:
        answers.append(await broker.ask(asked, 3600))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            while not broker.pending():
                await anyio.lowlevel.checkpoint()
            broker.note_watcher()
            await broker.answer(asked.id, asked.digest, YES)

    assert broker.watched
    assert answers[0].allowed
