"""Silent is not hung: what a tree is doing decides, where the policy chose the limit."""

import sys

import pytest

from shelltie import Terminal
from shelltie.events import Event, SilentButWorking
from shelltie.running.evidence import Observer
from tests.conftest import Open
from tests.tree import until

SPIN = "import time; end = time.monotonic() + {0}\nwhile time.monotonic() < end: pass"
COPY = (
    "import time; end = time.monotonic() + {0}\n"
    "while time.monotonic() < end: open('/proc/version').read(); time.sleep(0.002)"
)


@pytest.mark.proves("C-14", "D10")
@pytest.mark.parametrize("work", [SPIN, COPY], ids=["cpu", "bytes"])
async def test_a_silent_tree_that_works_is_warned_about_and_not_ended(
    open_terminal: Open, work: str
) -> None:
    events: list[Event] = []

    async with open_terminal(events.append) as terminal:
        program = [sys.executable, "-c", work.format(3)]
        result = await terminal.run(program, timeout=5)  # silence: a quarter of that

    assert result.status == "success"
    assert [event for event in events if isinstance(event, SilentButWorking)]
    assert any("but it works" in warning for warning in result.warnings)


@pytest.mark.proves("D10")
async def test_the_total_limit_ends_a_silent_tree_that_works(terminal: Terminal) -> None:
    result = await terminal.run([sys.executable, "-c", SPIN.format(60)], timeout=4)

    assert (result.status, result.timeout_reason) == ("timeout", "exec_timeout")
    assert result.cpu_ms_while_silent


@pytest.mark.proves("D10")
async def test_a_silence_limit_of_the_caller_is_literal(terminal: Terminal) -> None:
    program = [sys.executable, "-c", SPIN.format(60)]

    result = await terminal.run(program, timeout=60, silence=1)

    assert result.timeout_reason == "no_output_timeout"


@pytest.mark.proves("D10")
async def test_evidence_may_be_switched_off(open_terminal: Open) -> None:
    async with open_terminal(idle_evidence="none") as terminal:
        result = await terminal.run([sys.executable, "-c", SPIN.format(60)], timeout=4)

    assert result.timeout_reason == "no_output_timeout"


@pytest.mark.needs("vi", "less")
@pytest.mark.parametrize(
    ("command", "password"),
    [
        ("cat", False),
        ("read line", False),
        ("read -s line", True),
        ("read -p 'Continue? [Y/n] ' line", False),
        (f"{sys.executable} -c 'input()'", False),
        (f"{sys.executable} -c 'import getpass; getpass.getpass()'", True),
        (f"{sys.executable} -q", False),
        ("vi -u NONE", False),
        ("less /etc/passwd", False),
    ],
)
async def test_a_program_that_waits_for_typing_is_recognised(
    terminal: Terminal, command: str, password: bool
) -> None:
    result = await terminal.run(command, pty=True, timeout=30, silence=2)

    assert result.waits_for_input
    assert result.hint is not None
    assert ("password" in result.hint) is password


@pytest.mark.parametrize(
    "command",
    [
        "sleep 60",
        "while :; do sleep 0.2; done",
        "sleep 60 | cat",
        f"{sys.executable} -c 'import socket; s = socket.create_server((\"\", 0)); s.accept()'",
        f"{sys.executable} -c 'import threading; l = threading.Lock(); l.acquire(); l.acquire()'",
    ],
)
async def test_a_program_that_waits_for_something_else_is_not_taken_for_one(
    terminal: Terminal, command: str
) -> None:
    result = await terminal.run(command, pty=True, timeout=30, silence=1.5)

    assert result.status == "timeout"
    assert not result.waits_for_input


async def test_somebody_who_left_is_seen_as_nobody(terminal: Terminal) -> None:
    run = await terminal.start("true", timeout=10)
    await run.wait()
    await until(lambda: run.settled)
    observer = Observer(2**22 - 1, None)

    observer.observe(0.0)

    assert observer.works(10.0) is None
    assert observer.cpu_used is None
