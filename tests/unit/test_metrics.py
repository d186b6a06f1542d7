"""What is counted from what the bus tells, and when somebody is alerted."""

import signal
from collections.abc import Iterator
from itertools import count

import pytest

from shelltie.events import (
    ALERTS,
    Alerted,
    ApprovalAnswered,
    ApprovalAsked,
    Asker,
    CommandAsked,
    CommandJudged,
    CommandRefused,
    ContextClosed,
    ContextOpened,
    ContextRan,
    Escalated,
    Event,
    Leaked,
    LimitNear,
    LimitReached,
    RunEnded,
    RunReady,
    SilentButWorking,
)
from shelltie.model import (
    Caller,
    ExitStatus,
    Limit,
    Limits,
    Outcome,
    Printed,
    RunId,
    State,
)
from shelltie.settings.all_settings import Thresholds
from shelltie.telemetry.alerts import Alerts, Measured, examine
from shelltie.telemetry.metrics import Metrics
from shelltie.verdict import Decision, Rating, Verdict

LIMITS = Limits(60, 15, "category quick", "quick")
OK = Outcome(State.FINISHED, ExitStatus(0), 0.2)
FAILED = Outcome(State.FINISHED, ExitStatus(1), 0.2)
LATE = Outcome(State.TIMED_OUT, ExitStatus(signal=9), 60.0, limit=Limit.TOTAL)
NUMBERS = count()


class Heard:
    """Metrics and alerts that were told something, and what came of it."""

    def __init__(self, **thresholds: float) -> None:
        self.now = 0.0
        self.metrics = Metrics(shown=100, clock=lambda: self.now)
        self.told: list[Alerted] = []
        self.alerts = Alerts(
            self.metrics,
            Thresholds(**thresholds),  # type: ignore[arg-type]  # sessions are a whole number
            ALERTS,
            self.note,
            clock=lambda: self.now,
        )

    def note(self, event: Event) -> None:
        assert isinstance(event, Alerted)
        self.told.append(event)

    def tell(self, *events: Event) -> None:
        for event in events:
            self.metrics.hear(event)
            self.alerts.hear(event)

    def run(self, outcome: Outcome = OK, printed: int = 10, *, stays_open: bool = False) -> None:
        run = RunId(f"R{next(NUMBERS)}")
        self.tell(*began(run, stays_open=stays_open), ended(run, outcome, printed))

    def value(self, start: str) -> float:
        """The one sample whose line begins so."""
        text = Measured(self.metrics, self.alerts).text()
        (line,) = [line for line in text.splitlines() if line.startswith(start)]
        return float(line.rpartition(" ")[2])

    @property
    def wrong(self) -> list[str]:
        return [check.name for check in self.alerts.examine() if not check.ok]


def began(run: RunId, *, stays_open: bool = False) -> Iterator[Event]:
    yield CommandAsked(run, 1.0, "ls", "/", Caller(), stays_open)
    yield CommandJudged(run, 1.0, "ls", Verdict(Rating.UNKNOWN), Decision.ALLOW)
    yield RunReady(run, 1.0, "local", "none", LIMITS)


def ended(run: RunId, outcome: Outcome = OK, printed: int = 10) -> RunEnded:
    return RunEnded(run, 2.0, outcome, Printed(printed, 0))


@pytest.mark.proves("S3-67", "T3-25")
def test_ends_are_counted_by_outcome_reason_category_and_provider() -> None:
    heard = Heard()
    silent = Outcome(State.TIMED_OUT, ExitStatus(signal=15), 15.0, limit=Limit.SILENCE)
    stopped = Outcome(State.KILLED, ExitStatus(signal=15), 1.0, stop_reason="somebody's words")
    for outcome in (OK, OK, FAILED, LATE, silent, stopped):
        heard.run(outcome)

    where = 'category="quick",provider="local"}'
    assert heard.value(f'shelltie_runs_total{{outcome="success",reason="none",{where}') == 2
    assert heard.value(f'shelltie_runs_total{{outcome="error",reason="exit_code",{where}') == 1
    assert heard.value(f'shelltie_runs_total{{outcome="timeout",reason="exec_timeout",{where}') == 1
    late = f'shelltie_runs_total{{outcome="timeout",reason="no_output_timeout",{where}'
    assert heard.value(late) == 1
    assert heard.value(f'shelltie_runs_total{{outcome="killed",reason="stopped",{where}') == 1


def test_what_runs_is_active_until_it_ends() -> None:
    heard = Heard()
    one, other = RunId("ONE"), RunId("OTHER")
    heard.tell(*began(one, stays_open=True), *began(other))

    assert (heard.value("shelltie_runs_active"), heard.metrics.sessions) == (2, 1)
    heard.tell(ended(one), CommandRefused(other, 2.0, "ls", "NOT_STARTED", "its caller left"))
    assert (heard.value("shelltie_runs_active"), heard.metrics.sessions) == (0, 0)


@pytest.mark.proves("S4-47")
def test_the_number_of_sessions_can_be_watched() -> None:
    heard = Heard()
    asker = Asker("S1", "task", "agent")
    heard.tell(ContextOpened(asker, 1.0, "/"))

    assert heard.value("shelltie_contexts_active ") == 1
    heard.tell(ContextClosed(asker, 2.0, "closed", 0))
    assert heard.value("shelltie_contexts_active ") == 0


def test_judging_and_waiting_for_an_answer_are_timed() -> None:
    heard, run = Heard(), RunId("R")
    asked, judged, ready = began(run)
    heard.tell(asked)
    heard.now += 0.25
    heard.tell(judged, ApprovalAsked(run, 1.0, "Q"))
    assert heard.value("shelltie_approvals_pending") == 1
    heard.now += 20
    heard.tell(ApprovalAnswered(run, 1.0, "Q", True, "ann", "once", ""), ready)

    assert heard.value("shelltie_judge_seconds_sum") == 0.25
    assert heard.value("shelltie_approval_wait_seconds_sum") == 20
    assert heard.value('shelltie_approvals_total{answer="yes"}') == 1
    assert heard.value("shelltie_approvals_pending") == 0


def test_warnings_survivors_leaks_and_signals_are_counted() -> None:
    heard, run = Heard(), RunId("R")
    heard.tell(LimitNear(run, 1.0, Limit.TOTAL, 0.0, 30.0, "soon"))
    heard.tell(SilentButWorking(run, 1.0, 15.0, "it works"))
    heard.tell(Escalated(run, 1.0, signal.SIGTERM), Leaked(run, 1.0, (7,)))
    heard.run(Outcome(State.FINISHED, ExitStatus(0), 0.2, survivors=3))

    assert heard.value('shelltie_warnings_total{kind="limit_near"}') == 1
    assert heard.value('shelltie_warnings_total{kind="silent_but_working"}') == 1
    assert heard.value('shelltie_signals_total{signal="SIGTERM"}') == 1
    assert heard.value("shelltie_survivors_total") == 3
    assert heard.value("shelltie_leaked_runs_total") == 1


def test_a_context_has_its_own_measure_of_too_much() -> None:
    heard, run, asker = Heard(), RunId("R"), Asker("S1", "task", "agent")
    heard.tell(ContextOpened(asker, 1.0, "/"))
    heard.tell(CommandAsked(run, 1.0, "ls", "/", Caller(session="S1")))
    heard.tell(RunReady(run, 1.0, "local", "none", LIMITS), ended(run, OK, printed=5000))
    heard.tell(ContextRan(asker, 1.0, "ls", run, LIMITS, OK, 5000, truncated=False))

    assert heard.value("shelltie_truncated_runs_total") == 0
    assert len(heard.metrics.succeeded) == 1


@pytest.mark.proves("S4-36", "T4-20")
def test_each_figure_has_its_threshold() -> None:
    heard = Heard()
    for _ in range(100):
        heard.run()
    assert heard.wrong == []

    for _ in range(5):
        heard.run(FAILED)
    assert heard.wrong == ["success"]  # 95 % is not more than 95 %
    for _ in range(100):
        heard.run(Outcome(State.FINISHED, ExitStatus(0), 5.0))
    assert heard.wrong == ["duration"]
    for _ in range(100):
        heard.run()
    heard.run(printed=101)
    assert heard.wrong == ["truncated"]
    heard.tell(CommandRefused(RunId("X"), 1.0, "rm", "COMMAND_DENIED", "no"))
    assert heard.wrong == ["violations", "truncated"]
    for number in range(50):
        heard.tell(ContextOpened(Asker(f"S{number}", "t", "a"), 1.0, "/"))
    assert heard.wrong == ["violations", "truncated"]
    heard.tell(ContextOpened(Asker("S50", "t", "a"), 1.0, "/"))
    assert heard.wrong == ["sessions", "violations", "truncated"]


@pytest.mark.proves("T4-20")
def test_a_threshold_alerts_once_when_it_is_passed_and_once_when_it_is_over() -> None:
    heard = Heard(sessions=2)
    askers = [Asker(f"S{number}", "t", "a") for number in range(4)]
    heard.tell(*(ContextOpened(asker, 1.0, "/") for asker in askers))
    heard.tell(*(ContextClosed(asker, 2.0, "closed", 0) for asker in askers))

    assert [(one.alert, one.value, one.threshold, one.over) for one in heard.told] == [
        ("sessions", 3, 2, False),
        ("sessions", 2, 2, True),
    ]


def test_a_few_commands_make_no_rate() -> None:
    heard = Heard()
    for _ in range(19):
        heard.run(FAILED)

    assert heard.wrong == []
    heard.run(FAILED)
    assert heard.wrong == ["success"]


def test_sessions_and_our_own_commands_are_no_part_of_a_rate() -> None:
    heard = Heard()
    heard.run(LATE, stays_open=True)
    own = CommandAsked(RunId("OWN"), 1.0, "env", "/", Caller(client="shelltie"))
    heard.tell(own, RunReady(RunId("OWN"), 1.0, "local", "none", LIMITS), ended(RunId("OWN")))

    assert not len(heard.metrics.succeeded)


def test_a_question_that_nobody_answers_is_no_violation() -> None:
    heard = Heard()
    for code in ("CONFIRMATION_REQUIRED", "NOT_STARTED", "JOURNAL_BROKEN"):
        heard.tell(CommandRefused(RunId("X"), 1.0, "rm", code, "no"))

    assert examine(heard.metrics, Thresholds())[2].value == 0


@pytest.mark.proves("T1-30", "S1-29")
def test_a_timeout_a_sigkill_and_a_leak_alert() -> None:
    heard, run = Heard(), RunId("R")
    heard.tell(LimitReached(run, 1.0, Limit.TOTAL, 0.0, "60s are over"))
    heard.tell(Escalated(run, 1.0, signal.SIGTERM), Escalated(run, 2.0, signal.SIGKILL))
    heard.tell(Leaked(run, 3.0, (7, 8)))

    assert [(one.alert, one.run) for one in heard.told] == [
        ("timeout", run),
        ("sigkill", run),
        ("leak", run),
    ]


@pytest.mark.proves("S1-32")
def test_only_what_somebody_wants_to_know_is_told() -> None:
    heard = Heard()
    picky = Alerts(heard.metrics, Thresholds(), ("leak",), heard.note)
    picky.hear(LimitReached(RunId("R"), 1.0, Limit.TOTAL, 0.0, "60s are over"))
    picky.hear(Leaked(RunId("R"), 1.0, ()))

    assert [one.alert for one in heard.told] == ["leak"]


def test_a_command_that_is_told_of_alerts_does_not_call_itself() -> None:
    heard, calls = Heard(), list[bytes]()

    def notify(said: bytes) -> RunId:
        calls.append(said)
        return RunId("OWN")

    heard.alerts.notify = notify
    late = LimitReached(RunId("R"), 1.0, Limit.TOTAL, 0.0, "60s are over")
    heard.tell(late)
    heard.now += 60
    heard.tell(LimitReached(RunId("OWN"), 1.0, Limit.TOTAL, 0.0, "60s are over"))
    heard.tell(ended(RunId("OWN"), LATE))
    assert len(calls) == 1

    heard.tell(late, late)
    assert len(calls) == 2  # and the same is not told twice at once
