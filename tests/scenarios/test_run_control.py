"""What a caller may do with a run: wait, stop, kill; and the states it goes through."""

import itertools
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest

from shelltie import EscalationStep, Terminal
from shelltie.errors import IllegalTransition
from shelltie.events import (
    Alerted,
    CommandAsked,
    CommandJudged,
    Escalated,
    Event,
    Leaked,
    LimitReached,
    RunEnded,
    RunReady,
    RunStarted,
)
from shelltie.frontends.reports import agent_report, state_names
from shelltie.frontends.reports.agent_report import AgentTask
from shelltie.frontends.reports.run_report import report
from shelltie.model import State
from tests.conftest import Open
from tests.tree import QUICK, new_tag, nobody_left, until


@pytest.mark.proves("T1-1", "S1-6", "S1-7", "S1-10", "S1-42", "S1-75")
async def test_a_timeout_ends_the_run_and_says_so(terminal: Terminal) -> None:
    tag = new_tag()
    run = await terminal.start(f"echo out; sleep 300.{tag}", timeout=6, silence=5)

    outcome = await run.wait()

    assert (run.state, outcome.state) == (State.TIMED_OUT, State.TIMED_OUT)
    assert run.output.view(None, 10, 10).head == b"out\n"
    await nobody_left(tag)


@pytest.mark.proves("T1-2", "S1-4", "S1-41", "S1-76")
async def test_a_quick_command_beats_its_timeout(terminal: Terminal) -> None:
    run = await terminal.start("echo quick", timeout=10)

    outcome = await run.wait()

    assert (run.state, outcome.exit.code, outcome.exit.signal) == (State.FINISHED, 0, None)


@pytest.mark.proves("T1-3", "S1-12", "S1-61", "S1-65", "S1-74", "S1-77", "S1-71")
async def test_a_kill_is_reported_with_its_signal(terminal: Terminal) -> None:
    run = await terminal.start("sleep 30", timeout=60)
    await until(lambda: run.state is State.RUNNING)

    outcome = await run.kill("enough")

    assert (run.state, outcome.stop_reason) == (State.KILLED, "enough")
    assert (outcome.exit.code, outcome.exit.signal_name) == (None, "SIGTERM")
    assert await run.wait() == outcome


@pytest.mark.proves("T1-4", "S1-13", "S1-15", "S1-71", "S1-77")
async def test_a_kill_is_forced_after_the_grace(terminal: Terminal) -> None:
    run = await terminal.start("trap '' TERM; echo ready; while :; do sleep 1; done", timeout=60)
    await until(lambda: run.output.total > 0)

    outcome = await run.kill("enough", QUICK)

    assert outcome.exit.signal_name == "SIGKILL"


@pytest.mark.proves("T1-5", "S1-70", "S1-78")
async def test_the_outcome_may_be_asked_for_any_number_of_times(terminal: Terminal) -> None:
    run = await terminal.start("exit 7", timeout=10)
    first = await run.wait()

    later = [await run.wait() for _ in range(5)]

    assert first.exit.code == 7
    assert all(outcome is first for outcome in later)


@pytest.mark.proves("T1-6", "S1-79", "C-19", "S1-71")
async def test_killing_what_has_ended_changes_nothing(terminal: Terminal) -> None:
    run = await terminal.start("exit 3", timeout=10)
    before = await run.wait()

    after = await run.kill("too late")

    assert after is before
    assert (run.state, after.exit.code, after.stop_reason) == (State.FINISHED, 3, None)


@pytest.mark.proves("T1-7", "S1-25")
async def test_everybody_who_waits_gets_the_same_outcome(terminal: Terminal) -> None:
    run = await terminal.start("sleep 0.3; exit 4", timeout=10)
    outcomes = []

    async def wait() -> None:
        outcomes.append(await run.wait())

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(wait)

    assert len(outcomes) == 50
    assert {id(outcome) for outcome in outcomes} == {id(run.outcome)}


@pytest.mark.proves("T1-8", "C-46", "S1-22", "S1-43")
async def test_a_kill_does_not_wait_for_those_who_wait(terminal: Terminal) -> None:
    run = await terminal.start("sleep 300", timeout=600)
    outcomes = []

    async def wait() -> None:
        outcomes.append(await run.wait())

    with anyio.fail_after(50):
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(wait)
            await until(lambda: run.state is State.RUNNING)
            await run.kill("enough")

    assert [outcome.exit.signal_name for outcome in outcomes] == ["SIGTERM"] * 5


async def test_to_give_up_waiting_ends_nothing(terminal: Terminal, tmp_path: Path) -> None:
    command = "until [ -e ended ]; do sleep 0.1; done"
    run = await terminal.start(command, timeout=60, silence=0, cwd=tmp_path)

    with anyio.move_on_after(0.1):
        await run.wait()

    assert run.outcome is None
    (tmp_path / "ended").touch()
    assert (await run.wait()).ok


# Written out here, not taken from the code: a wrong table there must not prove itself.
LEGAL = {
    "created": {"running", "spawn_failed", "killed", "released"},
    "running": {"finished", "timed_out", "killed"},
    "finished": {"released"},
    "timed_out": {"released"},
    "killed": {"released"},
    "spawn_failed": {"released"},
    "released": set(),
}


def test_every_state_is_in_the_table() -> None:
    assert set(LEGAL) == set(map(str, State))


@pytest.mark.proves("S1-33", "S1-64")
def test_a_terminals_state_has_the_name_that_acp_users_know() -> None:
    names = [
        state_names.terminal_state(state) for state in State if state is not State.SPAWN_FAILED
    ]

    assert sorted(names) == ["Created", "Finished", "Killed", "Released", "Running", "TimedOut"]


@pytest.mark.proves("T1-21", "S1-33", "S1-34", "S1-64", "S1-80", "C-31")
@pytest.mark.parametrize(("before", "after"), list(itertools.product(State, State)))
async def test_only_the_legal_ways_lead_from_state_to_state(
    terminal: Terminal, before: State, after: State
) -> None:
    run = await terminal.start("true", timeout=10)
    await run.wait()
    run.state = before

    if after in LEGAL[before]:
        run.move(after)
        assert run.state is after
    else:
        with pytest.raises(IllegalTransition):
            run.move(after)
        assert run.state is before


@pytest.mark.proves("S1-28", "S1-56", "C-41")
async def test_the_escalation_may_be_chosen(open_terminal: Open) -> None:
    events: list[Event] = []
    steps = (EscalationStep(signal.SIGINT, 0.2), EscalationStep(signal.SIGHUP, 0.2))

    async with open_terminal(events.append) as terminal:
        command = "trap '' INT HUP TERM; echo; while :; do sleep 1; done"
        result = await terminal.run(command, timeout=60, silence=5, escalation=steps)

    sent = [event.signal for event in events if isinstance(event, Escalated)]
    assert sent == [signal.SIGINT, signal.SIGHUP, signal.SIGKILL]  # the last one is always added
    assert result.termination_mode == "hard"


@pytest.mark.proves("C-43")
async def test_soft_means_that_everybody_left_in_the_grace(terminal: Terminal) -> None:
    stubborn = "bash -c 'trap \"\" TERM; echo; while :; do sleep 1; done' & wait"

    result = await terminal.run(stubborn, timeout=60, silence=5, escalation=QUICK)

    assert (result.signal, result.termination_mode) == ("SIGTERM", "hard")


async def test_what_happens_is_told_in_order(open_terminal: Open) -> None:
    events: list[Event] = []

    async with open_terminal(events.append) as terminal:
        await terminal.run("sleep 60", timeout=1)

    assert [type(event) for event in events] == [
        CommandAsked,
        CommandJudged,
        RunReady,
        RunStarted,
        LimitReached,
        Alerted,
        Escalated,
        RunEnded,
    ]
    assert not [event for event in events if isinstance(event, Leaked)]


@pytest.mark.proves("TX-1", "C-30")
async def test_every_face_names_the_same_end_in_its_own_words(terminal: Terminal) -> None:
    run = await terminal.start("sleep 60", silence=2)
    task = AgentTask("task-1", run)

    outcome = await run.wait()

    assert outcome.limit == "silence"
    told = report(run).to_json()
    assert (told["status"], told["timeoutReason"]) == ("timeout", "no_output_timeout")
    assert (told["exitCode"], told["terminationMode"]) == (-1, "soft")
    agents: dict[str, Any] = {**agent_report.answer(task)}
    assert (agents["success"], agents["error"]["code"]) == (False, "EIDLE")
    assert agents["error"]["kind"] == "inactivity"
    assert state_names.terminal_state(run.state) == "TimedOut"
    assert state_names.timeout_code(outcome) == ("EIDLE", "inactivity")
    assert state_names.context_error(outcome) == "TIMEOUT_EXCEEDED"
    assert state_names.context_state(outcome, run.state) == "failed"
    assert not outcome.ok


async def test_a_run_whose_keeper_never_answers_still_comes_back(terminal: Terminal) -> None:
    await terminal.run("K=$(ps -o ppid= -p $PPID); kill -STOP $K", timeout=3, silence=1)

    with anyio.fail_after(50):
        result = await terminal.run("sleep 5", timeout=2, escalation=QUICK)

    assert result.status == "timeout"
