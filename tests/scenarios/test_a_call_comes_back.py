"""Promise 1: a call always comes back, at its limit plus grace at the latest, and says why."""

import signal
from pathlib import Path
from time import monotonic

import anyio
import pytest

from shelltie import Terminal
from shelltie.events import Escalated, Event, LimitReached, RunEnded
from tests.conftest import Open, write_policy
from tests.tree import QUICK, new_tag, nobody_left, until, zombies


@pytest.mark.proves("T0-1", "S0-32", "S0-35", "S0-37", "S0-40", "S0-49", "S0-33", "S0-34")
async def test_a_quick_command_succeeds(terminal: Terminal) -> None:
    result = await terminal.run("echo 'timeout test 1'", timeout=30)

    assert (result.status, result.exit_code, result.stdout) == ("success", 0, "timeout test 1\n")
    assert (result.stderr, result.timeout_reason, result.termination_mode) == ("", None, None)
    assert 0 <= result.duration_ms < 30_000


@pytest.mark.proves("T0-2", "S0-2", "S0-29", "S0-41", "S0-47", "S0-49", "C-4", "S0-26", "S0-28")
@pytest.mark.proves("S0-32", "S0-33", "S0-34", "S0-35", "S0-46", "D10")
async def test_a_silent_command_is_ended_at_its_silence_limit(
    open_terminal: Open, tmp_path: Path
) -> None:
    tag = new_tag()

    async with open_terminal(policy_path=write_policy(tmp_path, 60, 2)) as terminal:
        result = await terminal.run(f"sleep 600.{tag}")

    assert (result.status, result.exit_code) == ("timeout", -1)
    assert (result.timeout_reason, result.termination_mode) == ("no_output_timeout", "soft")
    assert result.timed_out_at_ms is not None
    assert 2000 <= result.timed_out_at_ms < 60_000
    await nobody_left(tag)


@pytest.mark.proves("D11")
async def test_more_time_never_ends_a_silent_command_sooner(
    open_terminal: Open, tmp_path: Path
) -> None:
    async with open_terminal(policy_path=write_policy(tmp_path, 60, 3)) as terminal:
        patient = await terminal.run("sleep 1.2", timeout=4)  # a quarter of it is 1 s
        ended = await terminal.run("sleep 600", timeout=16)

    assert patient.status == "success"
    assert (patient.limits.exec_sec, patient.limits.silence_sec) == (4, 3)
    assert (ended.limits.silence_sec, ended.timeout_reason) == (4, "no_output_timeout")
    assert ended.limits.source == "timeout"
    assert ended.hint is not None
    assert "pass silence=8" in ended.hint


@pytest.mark.proves(
    "T0-3", "S0-26", "S0-28", "S0-38", "S0-42", "S0-46", "S0-2", "S0-33", "S0-49", "S0-27"
)
async def test_a_chatty_command_is_ended_at_its_total_limit(terminal: Terminal) -> None:
    longer = await terminal.start("sleep 60", timeout=100)

    result = await terminal.run(
        "while :; do echo still running; sleep 0.2; done", timeout=6, silence=5
    )

    assert (result.status, result.timeout_reason) == ("timeout", "exec_timeout")
    assert (result.exit_code, result.termination_mode) == (-1, "soft")
    assert result.stdout.startswith("still running\nstill running\n")
    assert result.timed_out_at_ms is not None
    assert result.timed_out_at_ms >= 6000
    assert longer.outcome is None  # what takes ten times as long still runs
    await longer.kill("enough")


@pytest.mark.proves("T0-4")
async def test_a_command_that_ends_in_time_succeeds(terminal: Terminal) -> None:
    result = await terminal.run("sleep 0.3; echo built", timeout=300)

    assert (result.status, result.stdout) == ("success", "built\n")


@pytest.mark.proves("T0-16", "C-41", "S0-29", "S0-30", "S0-34", "S0-39", "S0-47")
@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"timeout": 60, "silence": 5}, "no_output_timeout"),
        ({"timeout": 5, "silence": 0}, "exec_timeout"),
    ],
)
async def test_who_ignores_sigterm_is_killed_after_the_grace(
    open_terminal: Open, limits: dict[str, float], reason: str
) -> None:
    tag = new_tag()
    command = f"trap '' TERM; echo Starting build...; echo on {tag} >&2; while :; do sleep 1; done"
    events: list[Event] = []

    async with open_terminal(events.append) as terminal:
        result = await terminal.run(command, **limits, escalation=QUICK)  # type: ignore[arg-type]  # as named
        await until(lambda: not zombies())

    assert (result.status, result.timeout_reason, result.exit_code) == ("timeout", reason, -1)
    assert (result.termination_mode, result.signal) == ("hard", "SIGKILL")
    assert (result.stdout, result.stderr) == ("Starting build...\n", f"on {tag}\n")
    steps = [event for event in events if isinstance(event, LimitReached | Escalated | RunEnded)]
    reached, asked, killed, ended = steps
    assert isinstance(reached, LimitReached)
    assert isinstance(asked, Escalated)
    assert isinstance(killed, Escalated)
    assert isinstance(ended, RunEnded)
    assert (asked.signal, killed.signal) == (signal.SIGTERM, signal.SIGKILL)
    assert result.timed_out_at_ms is not None
    assert result.duration_ms >= result.timed_out_at_ms + 300
    await nobody_left(tag)


@pytest.mark.proves("T0-17", "C-19", "T3-13", "C-43")
async def test_a_clean_exit_after_our_signal_is_still_a_timeout(terminal: Terminal) -> None:
    command = "trap 'echo last words; exit 0' TERM; echo go; while :; do sleep 0.05; done"

    result = await terminal.run(command, timeout=60, silence=5)

    assert (result.status, result.exit_code) == ("timeout", -1)
    assert result.termination_mode == "soft"
    assert result.stdout == "go\nlast words\n"


@pytest.mark.proves("T0-19", "C-45", "D2")
@pytest.mark.parametrize("start", ["", "setsid ", "nohup "])
async def test_a_background_child_does_not_delay_the_answer(terminal: Terminal, start: str) -> None:
    tag = new_tag()

    with anyio.fail_after(50):
        result = await terminal.run(f"{start}sleep 300.{tag} & echo done", timeout=60)

    assert (result.status, result.exit_code) == ("success", 0)
    assert "done\n" in result.stdout
    assert result.survivors == 1
    assert result.hint is not None
    assert "session" in result.hint
    await nobody_left(tag)


@pytest.mark.proves("C-45")
async def test_a_background_child_that_floods_the_pipe_does_not_delay_the_answer(
    terminal: Terminal,
) -> None:
    with anyio.fail_after(50):
        result = await terminal.run("yes & echo $! >/dev/null", timeout=60)

    assert (result.exit_code, result.survivors) == (0, 1)


@pytest.mark.proves("C-45")
@pytest.mark.parametrize("policy", ["keep", "report"])
async def test_background_children_may_be_kept_until_the_terminal_closes(
    open_terminal: Open, policy: str
) -> None:
    tag = new_tag()

    async with open_terminal(run_background_survivors=policy) as terminal:
        result = await terminal.run(f"sleep 300.{tag} & echo done", timeout=60)
        still_there = len(terminal.supervisor.runs)

    assert (result.stdout, result.survivors, still_there) == ("done\n", 1, 1)
    await nobody_left(tag)


@pytest.mark.proves("T0-20", "C-12")
async def test_a_timeout_keeps_what_was_printed(terminal: Terminal) -> None:
    result = await terminal.run("echo Starting build...; sleep 60", timeout=60, silence=5)

    assert result.stdout == "Starting build...\n"
    assert result.timeout_reason == "no_output_timeout"


@pytest.mark.proves("T0-26", "C-18")
async def test_when_both_limits_end_together_the_total_one_is_named(terminal: Terminal) -> None:
    result = await terminal.run("sleep 60", timeout=1, silence=1)

    assert result.timeout_reason == "exec_timeout"


@pytest.mark.proves("T0-27", "C-19")
async def test_dying_at_the_limit_is_a_clean_success_or_a_clean_timeout(
    terminal: Terminal,
) -> None:
    statuses, limit = set(), 0.03
    for _ in range(200):
        result = await terminal.run(["sleep", "0.03"], timeout=limit, silence=limit)

        clean = (result.status, result.timeout_reason is None, result.exit_code)
        assert clean in {("success", True, 0), ("timeout", False, -1)}
        statuses.add(result.status)
        limit *= 0.97 if result.status == "success" else 1.03  # however slow this machine is
    assert statuses == {"success", "timeout"}


@pytest.mark.proves("T0-28")
async def test_reading_stdin_finds_the_end_at_once(terminal: Terminal) -> None:
    result = await terminal.run("cat; read line || echo nothing to read", timeout=10)

    assert (result.status, result.stdout) == ("success", "nothing to read\n")


async def test_stdin_that_nobody_reads_blocks_nobody(terminal: Terminal) -> None:
    result = await terminal.run("echo ignored", stdin="x" * 5_000_000, timeout=10)

    assert (result.status, result.stdout) == ("success", "ignored\n")


@pytest.mark.proves("T0-29", "S0-24", "S0-45")
async def test_runs_in_parallel_share_neither_clocks_nor_output(terminal: Terminal) -> None:
    async with anyio.create_task_group() as group:
        results = {}

        async def one(number: int) -> None:
            limit = 8 if number % 2 else 60
            command = f"echo {number}; sleep 10; echo {number} again"
            results[number] = await terminal.run(command, timeout=limit, silence=limit)

        for number in range(20):
            group.start_soon(one, number)

    for number, result in results.items():
        if number % 2:
            assert (result.status, result.stdout) == ("timeout", f"{number}\n")
        else:
            assert (result.status, result.stdout) == ("success", f"{number}\n{number} again\n")


@pytest.mark.proves("C-48")
async def test_whoever_is_cancelled_ends_the_command(terminal: Terminal) -> None:
    tag = new_tag()

    with anyio.move_on_after(0.5) as scope:
        await terminal.run(f"setsid sleep 300.{tag} & sleep 300.{tag}", timeout=60)

    assert scope.cancelled_caught
    assert not terminal.supervisor.runs
    await nobody_left(tag)


@pytest.mark.proves("S0-36", "C-20")
async def test_the_duration_includes_the_end(terminal: Terminal) -> None:
    command = "trap '' TERM; while :; do sleep 1; done"

    began = monotonic()
    result = await terminal.run(command, timeout=5, silence=0, escalation=QUICK)
    waited = (monotonic() - began) * 1000

    assert result.timed_out_at_ms is not None
    assert result.timed_out_at_ms >= 5000
    assert result.timed_out_at_ms + 300 <= result.duration_ms <= waited + 1  # what we waited
    assert isinstance(result.duration_ms, int)
