"""What decides before a command starts: when safe is doubted, how long an answer is awaited, and
how often a provider is asked whether it is ready.
"""

import pytest

from shelltie.approval.broker import Broker, Channel
from shelltie.approval.question import Answer, Question
from shelltie.errors import CannotStart, CommandDenied, IsolationUnavailable
from shelltie.events import CommandAsked, CommandJudged, CommandRefused, Event
from shelltie.model import Command, Isolation, RunId, Surroundings
from shelltie.providers.local import LocalProvider
from shelltie.running.admission import Admission, Admitted
from shelltie.running.options import Requester, RunOptions
from shelltie.running.placement import Demands, Placement
from shelltie.settings.all_settings import ApprovalTimeouts, SafetyProfile
from shelltie.verdict import Decision, Rating, Verdict

RUNS = SafetyProfile()
ASKS = SafetyProfile(unknown=Decision.ASK)
SURROUNDINGS = Surroundings(None, "inherited", "/")
ISOLATES_UNKNOWN = {Rating.UNKNOWN: "sandbox"}


class Doubter:
    """Calls all but `rm` safe at first sight, and nothing at the second."""

    async def look(self, command: Command) -> Verdict:
        return Verdict(Rating.DANGEROUS if command.text.startswith("rm") else Rating.SAFE)

    async def confirm(self, _: Command, __: Verdict) -> Verdict:
        return Verdict(Rating.UNKNOWN)

    async def judge(self, _: Command) -> Verdict:
        return Verdict(Rating.UNKNOWN)

    async def judge_elsewhere(self, _: Command) -> Verdict:
        return Verdict(Rating.UNKNOWN)

    async def close(self) -> None:
        """It has nothing to close."""


class Believer(Doubter):
    """Calls the same safe at the second sight, too."""

    async def confirm(self, _: Command, verdict: Verdict) -> Verdict:
        return verdict


class Box(LocalProvider):
    """Isolates by its own word, counts who asks for it, and can break."""

    name = "box"
    isolation = Isolation.SANDBOX

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.works = True

    async def ready(self, workspace: str) -> None:
        self.asked += 1
        if not self.works:
            raise CannotStart(f"the box for {workspace} is broken: mend it")


class Clock(Broker):
    """Says yes, and remembers how long it might have taken."""

    def __init__(self) -> None:
        super().__init__()
        self.answer_timeout: list[float | None] = []

    async def ask(
        self,
        question: Question,  # noqa: ARG002  a broker's name
        answer_timeout: float | None = None,
        own: Channel | None = None,  # noqa: ARG002  a broker's name
    ) -> Answer:
        self.answer_timeout.append(answer_timeout)
        return Answer(allowed=True)


class Breaks(Clock):
    """Says yes, and meanwhile the box has broken."""

    def __init__(self, box: Box) -> None:
        super().__init__()
        self._box = box

    async def ask(
        self, question: Question, answer_timeout: float | None = None, own: Channel | None = None
    ) -> Answer:
        self._box.works = False
        return await super().ask(question, answer_timeout, own)


class Decider(Admission):
    """With two profiles, and everything that was published."""

    def __init__(
        self,
        broker: Broker | None = None,
        approval_timeouts: ApprovalTimeouts = ApprovalTimeouts(),  # noqa: B008  frozen
        box: Box | None = None,
        demands: Demands | None = None,
    ) -> None:
        self.published: list[Event] = []
        super().__init__(
            judge=Doubter(),
            profiles={"run": RUNS, "session": ASKS},
            broker=broker or Broker(),
            placement=Placement(
                (LocalProvider(), *([box] if box else ())), {"run": demands or {}}, workspace="/"
            ),
            publish=self.published.append,
            approval_timeouts=approval_timeouts,
        )

    async def about(self, text: str, options: RunOptions = RunOptions()) -> Admitted:  # noqa: B008
        return await self.decide(RunId("x"), Command(text), options, SURROUNDINGS)


@pytest.mark.parametrize(
    ("profile", "demands", "rating"),
    [
        ("run", {}, Rating.SAFE),
        ("run", ISOLATES_UNKNOWN, Rating.UNKNOWN),
        ("session", {}, Rating.UNKNOWN),
    ],
)
async def test_safe_is_confirmed_where_a_decision_or_an_isolation_depends_on_it(
    profile: str, demands: Demands, rating: Rating
) -> None:
    decider = Decider(Clock(), box=Box(), demands=demands)

    admitted = await decider.about("ls", RunOptions(profile))

    assert admitted.verdict is not None
    assert admitted.verdict.rating is rating


async def test_nothing_that_is_given_to_a_live_shell_is_safe() -> None:
    broker = Clock()
    decider = Decider(broker)
    decider.judge = Believer()

    await decider.admit_into(RunId("x"), Command("ls"), Requester(), live_shell=False)
    without = len(broker.answer_timeout)
    await decider.admit_into(RunId("x"), Command("ls"), Requester(), live_shell=True)

    judged = [event.verdict for event in decider.published if isinstance(event, CommandJudged)]
    assert [verdict.rating for verdict in judged] == [Rating.SAFE, Rating.UNKNOWN]
    assert "alias" in judged[1].reasons[0].message
    assert (without, len(broker.answer_timeout)) == (0, 1)


@pytest.mark.parametrize(
    ("configured", "own", "held"),
    [(1.0, 5.0, 1.0), (5.0, 1.0, 1.0), (None, 5.0, 5.0), (5.0, None, 5.0), (None, None, None)],
)
async def test_the_shorter_patience_holds(
    configured: float | None, own: float | None, held: float | None
) -> None:
    broker = Clock()
    decider = Decider(broker, ApprovalTimeouts(dangerous=configured))

    await decider.about("rm -rf x", RunOptions(requester=Requester(answer_timeout=own)))

    assert broker.answer_timeout == [held]


async def test_a_place_is_asked_once_whether_it_is_ready_and_again_after_a_question() -> None:
    box, broker = Box(), Clock()
    decider = Decider(broker, box=box)

    unasked = await decider.about("ls", RunOptions(isolation="sandbox"))
    once = box.asked
    asked = await decider.about("rm -rf x", RunOptions(isolation="sandbox"))

    assert unasked.provider is asked.provider is box
    assert (once, box.asked) == (1, 3)


async def test_a_place_that_breaks_while_a_person_is_asked_is_an_error_and_nothing_weaker() -> None:
    box = Box()
    decider = Decider(Breaks(box), box=box)

    with pytest.raises(IsolationUnavailable, match="mend it"):
        await decider.about("rm -rf x", RunOptions(isolation="sandbox"))

    assert isinstance(decider.published[0], CommandAsked)
    assert isinstance(decider.published[-1], CommandRefused)


async def test_what_is_refused_is_told_once() -> None:
    decider = Decider(Broker(), ApprovalTimeouts(dangerous=0.0))

    with pytest.raises(CommandDenied):
        await decider.about("rm -rf x")

    refusals = [event for event in decider.published if isinstance(event, CommandRefused)]
    assert len(refusals) == 1
