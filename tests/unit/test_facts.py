"""What becomes of events on record: who, what, where and why, and never a secret."""

import json
from dataclasses import replace

import pytest

from shelltie.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Asker,
    CommandAsked,
    CommandJudged,
    CommandRefused,
    ContextOpened,
    ContextRan,
    ContextRefused,
    Event,
    LimitNear,
    RunEnded,
    RunReady,
    RunStarted,
    ShellCommandBegan,
    SilentButWorking,
)
from shelltie.model import (
    Caller,
    ExitStatus,
    Limit,
    Limits,
    Outcome,
    Printed,
    ProcessRow,
    RunId,
    Sighting,
    State,
)
from shelltie.record.facts import Fact, FactMaker, folded
from shelltie.verdict import Code, Decision, Rating, Reason, Span, Verdict

RUN = RunId("01J00000000000000000000000")
AT = 1_700_000_000.5
LIMITS = Limits(30.0, 10.0, "category quick", "quick")
CALLER = Caller("client 1.0", "agent-1", "T-1", "term-T-1-1")
ASKER = Asker("term-T-1-1", "T-1", "agent-1")
GOOD = Outcome(State.FINISHED, ExitStatus(code=0), 1.5)
SECRET = "hunter2-hunter2-hunter2"


def written(*events: Event, scribe: FactMaker | None = None) -> list[Fact]:
    scribe = scribe or FactMaker({"DEPLOY_TOKEN": SECRET})
    return [fact for fact in map(scribe.fact, events) if fact is not None]


def asked(command: str = "make all", **more: object) -> CommandAsked:
    return CommandAsked(RUN, AT, command, "/project", CALLER, **more)  # type: ignore[arg-type]  # as named


def judged(rating: Rating, decision: Decision, message: str = "it deletes") -> CommandJudged:
    reason = Reason(Code.DESTROYS_DATA, rating, message, Span(0, 2))
    return CommandJudged(RUN, AT, "", Verdict(rating, (reason,)), decision)


@pytest.mark.proves("S4-37")
def test_before_a_start_it_is_written_who_wants_what_where_and_how_long() -> None:
    (fact,) = written(
        asked(), judged(Rating.UNKNOWN, Decision.ALLOW), RunReady(RUN, AT, "local", "none", LIMITS)
    )

    assert (fact.run, fact.at, fact.kind) == (RUN, AT, "ready")
    assert fact.body == {
        "command": "make all",
        "cwd": "/project",
        "client": "client 1.0",
        "agent": "agent-1",
        "task": "T-1",
        "session": "term-T-1-1",
        "staysOpen": False,
        "verdict": "unknown",
        "decision": "allow",
        "reasons": ["destroys_data"],
        "provider": "local",
        "isolation": "none",
        "limits": {"total": 30.0, "silence": 10.0, "source": "category quick", "category": "quick"},
    }


def test_what_nobody_proved_is_not_called_safe() -> None:
    ready = RunReady(RUN, AT, "local", "none", LIMITS)

    (fact,) = written(asked("ls"), judged(Rating.SAFE, Decision.ALLOW), ready)

    assert fact.body["verdict"] == "unknown"


def test_who_said_yes_is_written() -> None:
    facts = written(
        asked("rm -r x"),
        judged(Rating.DANGEROUS, Decision.ASK),
        ApprovalAsked(RUN, AT, "q1"),
        ApprovalAnswered(RUN, AT, "q1", True, "somebody at pts/1", "once", ""),
        RunReady(RUN, AT, "local", "none", LIMITS),
    )

    assert [fact.kind for fact in facts] == ["asked", "answered", "ready"]
    assert facts[0].body["why"] == ["it deletes"]
    assert facts[2].body["approvedBy"] == "somebody at pts/1"


@pytest.mark.proves("S4-37", "T4-19")
def test_a_refusal_is_written_with_its_whole_context() -> None:
    (plain,) = written(
        asked("rm -r /"),
        judged(Rating.DANGEROUS, Decision.DENY),
        CommandRefused(RUN, AT, "rm -r /", "COMMAND_DENIED", "the policy refuses it"),
    )
    (task,) = written(
        ContextRefused(RUN, AT, "sh -c x", "COMMAND_NOT_ALLOWED", "no", ASKER, {"allowed": ("ls",)})
    )

    assert plain.kind == task.kind == "refused"
    assert plain.body["cwd"] == "/project"
    assert plain.body["verdict"] == "dangerous"
    assert plain.body["message"] == "the policy refuses it"
    assert (task.body["agent"], task.body["task"]) == ("agent-1", "T-1")
    assert task.body["details"] == {"allowed": ["ls"]}


@pytest.mark.proves("S4-37", "T4-19")
def test_an_end_is_written_with_its_sizes() -> None:
    outcome = Outcome(State.TIMED_OUT, ExitStatus(signal=15), 30.0, limit=Limit.TOTAL)

    (fact,) = written(RunEnded(RUN, AT, outcome, Printed(10, 20, "/out.log", 30)))

    assert (fact.body["state"], fact.body["limit"]) == ("timed_out", "total")
    assert (fact.body["exitCode"], fact.body["signal"]) == (143, "SIGTERM")
    assert fact.body["output"] == {
        "stdout": 10,
        "stderr": 20,
        "file": "/out.log",
        "kept": 30,
        "sha256": None,
    }


@pytest.mark.proves("C-57", "T4-19", "S4-37")
def test_no_record_has_a_secret() -> None:
    own = {"CALLS_OWN": "another-secret-value"}
    line = f"curl -H 'X: {SECRET}' --password=swordfish another-secret-value x"
    facts = written(
        asked(line, secrets=own),
        judged(Rating.DANGEROUS, Decision.ASK, f"it sends {SECRET}"),
        ApprovalAsked(RUN, AT, "q"),
        ApprovalAnswered(RUN, AT, "q", False, "me", "once", f"not with {SECRET}"),
        RunReady(RUN, AT, "local", "none", LIMITS),
        ShellCommandBegan(RUN, AT, 1, line),
        RunEnded(
            RUN, AT, Outcome(State.FINISHED, ExitStatus(1), 1.0, error=line, warnings=(line,))
        ),
        ContextRefused(RUN, AT, line, "X", line, ASKER, {"a": {"b": [SECRET]}, SECRET[:3]: 1}),
        ContextRan(ASKER, AT, f"x {SECRET}", None, LIMITS, GOOD, 0, False),
    )

    text = json.dumps([fact.body for fact in facts[:-2]])
    assert len(facts) == 7
    for value in (SECRET, "swordfish", "another-secret-value"):
        assert value not in text
    assert SECRET not in json.dumps([fact.body for fact in facts])


@pytest.mark.proves("C-57")
@pytest.mark.parametrize("place", [f"/srv/{SECRET}", "/srv"])
def test_no_place_and_no_shape_on_record_has_a_secret(place: str) -> None:
    shape = "git" if SECRET in place else f"git {SECRET}"
    facts = written(
        CommandAsked(RUN, AT, "git", place, CALLER),
        RunReady(RUN, AT, "local", "none", LIMITS, shape, place),
        RunEnded(RUN, AT, replace(GOOD, stop_reason=f"because {SECRET}")),
        ContextOpened(ASKER, AT, place),
    )

    assert len(facts) == 3
    assert SECRET not in json.dumps([fact.body for fact in facts])


def test_a_refusal_to_a_living_shell_forgets_nothing_about_the_shell() -> None:
    scribe = FactMaker()
    written(
        asked("bash", secrets={"CALLS_OWN": "another-secret-value"}),
        RunReady(RUN, AT, "local", "none", LIMITS),
        asked("rm -r x"),
        CommandRefused(RUN, AT, "rm -r x", "COMMAND_DENIED", "no"),
        scribe=scribe,
    )

    (fact,) = written(ShellCommandBegan(RUN, AT, 2, "echo another-secret-value"), scribe=scribe)

    assert "another-secret-value" not in str(fact.body)


def test_what_a_context_ran_is_written_once() -> None:
    ran = ContextRan(ASKER, AT, "nope", None, LIMITS, GOOD, 0, False)
    with_run = ContextRan(ASKER, AT, "ls", RUN, LIMITS, GOOD, 0, False)

    assert [fact.kind for fact in written(ContextOpened(ASKER, AT, "/"), ran, with_run)] == [
        "session_opened",
        "ended",
    ]


def test_what_is_of_no_interest_is_not_written() -> None:
    assert written(SilentButWorking(RUN, AT, 1.0, "it works")) == []


def test_a_warning_and_the_processes_before_the_end_are_written() -> None:
    tree = (ProcessRow(7, 6, "make", "S", 0.5), ProcessRow(8, 7, SECRET, "S", 1.0))
    seen = Sighting(2, waits_for_input=True, password=True)
    cut = replace(GOOD, state=State.TIMED_OUT, sighting=seen, tree=tree)

    warned, ended = written(
        LimitNear(RUN, AT, Limit.TOTAL, 1.0, 2.0, "soon"), RunEnded(RUN, AT, cut)
    )
    (well,) = written(RunEnded(RUN, AT, replace(GOOD, sighting=seen, tree=tree)))

    assert (warned.kind, warned.body["left"]) == ("warned", 2.0)
    assert ended.body["waitedFor"] == "password"
    rows = ended.body["tree"]
    assert isinstance(rows, list)
    assert rows[0] == {"pid": 7, "parent": 6, "name": "make", "cpu": 0.5}
    assert SECRET not in str(rows)
    assert "tree" not in well.body


def test_a_start_that_has_its_end_with_it_is_part_of_it() -> None:
    facts = written(RunStarted(RUN, AT, 42, LIMITS), RunEnded(RUN, AT, GOOD))

    (only,) = folded(facts)

    assert (only.kind, only.body["pid"]) == ("ended", 42)


def test_what_is_never_settled_is_forgotten_in_the_end() -> None:
    scribe = FactMaker()
    written(
        asked("bash", secrets={"CALLS_OWN": "another-secret-value"}),
        RunReady(RUN, AT, "local", "none", LIMITS),
        scribe=scribe,
    )
    for number in range(3000):
        scribe.fact(CommandAsked(RunId(str(number)), AT, "x", "/", CALLER))

    (fact,) = written(ShellCommandBegan(RUN, AT, 2, "echo another-secret-value"), scribe=scribe)
    assert len(scribe._cases) == 300
    assert "another-secret-value" not in str(fact.body)  # what runs is not forgotten
