"""Silent is not hung: what a tree is doing decides, where the policy chose the limit."""

import sys
from collections.abc import Iterable
from pathlib import Path

import anyio
import pytest

from shelltie import Result, Terminal
from shelltie.events import Event, SilentButWorking
from shelltie.running.activity import Observer
from tests.conftest import Open, write_policy
from tests.tree import until

SPIN = "import time; end = time.monotonic() + {0}\nwhile time.monotonic() < end: pass"
COPY = (
    "import time; end = time.monotonic() + {0}\n"
    "while time.monotonic() < end: open('/proc/version').read(); time.sleep(0.002)"
)


@pytest.mark.proves("C-14", "D10", "D11")
async def test_a_silent_tree_that_works_is_warned_about_and_not_ended(
    open_terminal: Open, tmp_path: Path
) -> None:
    events: list[Event] = []
    results: list[Result] = []
    policy = write_policy(tmp_path, 60, 4)

    async with (
        open_terminal(events.append, policy_path=policy) as terminal,
        anyio.create_task_group() as tasks,
    ):

        async def run(work: str) -> None:
            program = [sys.executable, "-c", work.format(6)]
            results.append(await terminal.run(program, timeout=20))  # silence: 5 s, of the policy

        for work in (SPIN, COPY):
            tasks.start_soon(run, work)

    told = {event.run for event in events if isinstance(event, SilentButWorking)}
    assert told == {result.run_id for result in results}
    for result in results:
        assert result.status == "success", result
        assert any("but it works" in warning for warning in result.warnings)


@pytest.mark.proves("D10", "C-14")
async def test_the_total_limit_ends_a_silent_tree_that_works(
    open_terminal: Open, tmp_path: Path
) -> None:
    async with open_terminal(policy_path=write_policy(tmp_path, 4, 1)) as terminal:
        result = await terminal.run([sys.executable, "-c", SPIN.format(60)])

    assert (result.status, result.timeout_reason) == ("timeout", "exec_timeout")
    assert result.cpu_ms_while_silent


@pytest.mark.proves("D10")
async def test_a_silence_limit_of_the_caller_is_literal(terminal: Terminal) -> None:
    program = [sys.executable, "-c", SPIN.format(60)]

    result = await terminal.run(program, timeout=60, silence=1)

    assert result.timeout_reason == "no_output_timeout"


@pytest.mark.proves("D10")
async def test_evidence_may_be_switched_off(open_terminal: Open, tmp_path: Path) -> None:
    policy = write_policy(tmp_path, 60, 1)

    async with open_terminal(limits_idle_evidence="none", policy_path=policy) as terminal:
        result = await terminal.run([sys.executable, "-c", SPIN.format(60)])

    assert result.timeout_reason == "no_output_timeout"


# Whether it waits for a password.
WAIT_FOR_TYPING = {
    "cat": False,
    "read line": False,
    "read -s line": True,
    "read -p 'Continue? [Y/n] ' line": False,
    f"{sys.executable} -c 'input()'": False,
    f"{sys.executable} -c 'import getpass; getpass.getpass()'": True,
    f"{sys.executable} -q": False,
    "vi -u NONE": False,
    "less /etc/passwd": False,
}
WAIT_FOR_SOMETHING_ELSE = [
    "sleep 60",
    "while :; do sleep 0.2; done",
    "sleep 60 | cat",
    f"{sys.executable} -c 'import socket; s = socket.create_server((\"\", 0)); s.accept()'",
    f"{sys.executable} -c 'import threading; l = threading.Lock(); l.acquire(); l.acquire()'",
]


async def silent(terminal: Terminal, commands: Iterable[str]) -> dict[str, Result]:
    """How they end, at once; a busy machine has time to start them before they are silent."""
    results: dict[str, Result] = {}

    async def run(command: str) -> None:
        results[command] = await terminal.run(command, pty=True, timeout=60, silence=12)

    async with anyio.create_task_group() as tasks:
        for command in commands:
            tasks.start_soon(run, command)
    return results


@pytest.mark.needs("vi", "less")
async def test_a_program_that_waits_for_typing_is_recognised(terminal: Terminal) -> None:
    results = await silent(terminal, WAIT_FOR_TYPING)

    for command, result in results.items():
        assert result.waits_for_input, command
        assert result.hint is not None
        assert ("password" in result.hint) is WAIT_FOR_TYPING[command], command


async def test_a_program_that_waits_for_something_else_is_not_taken_for_one(
    terminal: Terminal,
) -> None:
    results = await silent(terminal, WAIT_FOR_SOMETHING_ELSE)

    for command, result in results.items():
        assert (result.status, result.waits_for_input) == ("timeout", False), command


async def test_somebody_who_left_is_seen_as_nobody(terminal: Terminal) -> None:
    run = await terminal.start("true", timeout=10)
    await run.wait()
    await until(lambda: run.settled)
    observer = Observer(2**22 - 1, None)

    observer.observe(0.0)

    assert observer.works(10.0) is None
    assert observer.cpu_used is None
