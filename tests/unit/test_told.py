import pytest

from shelltie.events import Asker, Event, SessionClosed, SessionNamed, SessionOpened, SessionRefused
from shelltie.frontends.wire.events import Teller
from shelltie.model import RunId

ASKER = Asker("term-BUILD-1", "BUILD", "agent-1")
RUN = RunId("01M7JE0W008QK72VJZ095SES1V")


@pytest.mark.proves("S4-35")
@pytest.mark.parametrize(
    ("event", "seed"),
    [
        (SessionOpened(ASKER, 1.0, "/"), "terminal:session:created"),
        (SessionClosed(ASKER, 1.0, "done", 1), "terminal:session:closed"),
        (
            SessionRefused(RUN, 1.0, "rm", "COMMAND_NOT_ALLOWED", "no", ASKER, {}),
            "terminal:security:violation",
        ),
        (SessionNamed(RUN, 1.0, "term-1"), None),
    ],
)
def test_what_is_told_has_the_name_that_operators_know(event: Event, seed: str | None) -> None:
    told = Teller({}).tell(event)

    assert told is not None
    assert told.get("event") == seed
