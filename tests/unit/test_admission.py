"""What decides before a command starts: when safe is doubted, and how long an answer is awaited."""

import pytest

from shelltie.approval.broker import Broker, Channel
from shelltie.approval.question import Answer, Question
from shelltie.model import Command, RunId
from shelltie.running.admission import Gate, Party, Patience, Request
from shelltie.verdict import Decision, Rating, Verdict

RUNS = {
    Rating.SAFE: Decision.ALLOW,
    Rating.UNKNOWN: Decision.ALLOW,
    Rating.DANGEROUS: Decision.ASK,
}
ASKS = {**RUNS, Rating.UNKNOWN: Decision.ASK}


class Doubter:
    """Calls everything safe at first sight, and nothing at the second."""

    async def look(self, _: Command) -> Verdict:
        return Verdict(Rating.SAFE)

    async def confirm(self, _: Command, __: Verdict) -> Verdict:
        return Verdict(Rating.UNKNOWN)

    async def judge(self, _: Command) -> Verdict:
        return Verdict(Rating.UNKNOWN)


class Clock(Broker):
    """Says yes, and remembers how long it might have taken."""

    def __init__(self) -> None:
        super().__init__()
        self.patience: list[float | None] = []

    async def ask(
        self,
        question: Question,  # noqa: ARG002  a broker's name
        patience: float | None = None,
        own: Channel | None = None,  # noqa: ARG002  a broker's name
    ) -> Answer:
        self.patience.append(patience)
        return Answer(allowed=True)


def gate(broker: Broker, patience: Patience = Patience()) -> Gate:  # noqa: B008  frozen
    profiles = {"run": RUNS, "session": ASKS}
    return Gate(Doubter(), profiles, broker, lambda _: None, patience)


@pytest.mark.parametrize(
    ("profile", "doubt", "rating"),
    [
        ("run", False, Rating.SAFE),
        ("run", True, Rating.UNKNOWN),
        ("session", False, Rating.UNKNOWN),
    ],
)
async def test_safe_is_confirmed_where_it_matters_or_is_doubted(
    profile: str, rating: Rating, *, doubt: bool
) -> None:
    verdict = await gate(Broker()).rate(Command("ls"), profile, doubt=doubt)

    assert verdict.rating is rating


@pytest.mark.parametrize(
    ("configured", "own", "held"),
    [(1.0, 5.0, 1.0), (5.0, 1.0, 1.0), (None, 5.0, 5.0), (5.0, None, 5.0), (None, None, None)],
)
async def test_the_shorter_patience_holds(
    configured: float | None, own: float | None, held: float | None
) -> None:
    broker = Clock()
    request = Request("run", "local", Party(patience=own))
    asking = gate(broker, Patience(dangerous=configured))

    await asking.admit(RunId("x"), Command("rm -rf x"), Verdict(Rating.DANGEROUS), request)

    assert broker.patience == [held]
