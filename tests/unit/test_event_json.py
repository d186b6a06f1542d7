import pytest

from shelltie.events import Asker, ContextClosed, ContextOpened, ContextRefused, Event, SessionNamed
from shelltie.frontends.reports.event_report import EventJson
from shelltie.model import RunId

ASKER = Asker("term-BUILD-1", "BUILD", "agent-1")
RUN = RunId("01M7JE0W008QK72VJZ095SES1V")


@pytest.mark.proves("S4-35")
@pytest.mark.parametrize(
    ("event", "seed"),
    [
        (ContextOpened(ASKER, 1.0, "/"), "terminal:session:created"),
        (ContextClosed(ASKER, 1.0, "done", 1), "terminal:session:closed"),
        (
            ContextRefused(RUN, 1.0, "rm", "COMMAND_NOT_ALLOWED", "no", ASKER, {}),
            "terminal:security:violation",
        ),
        (SessionNamed(RUN, 1.0, "term-1"), None),
    ],
)
def test_what_is_told_has_the_name_that_operators_know(event: Event, seed: str | None) -> None:
    told = EventJson({}).of(event)

    assert told is not None
    assert told.get("event") == seed
