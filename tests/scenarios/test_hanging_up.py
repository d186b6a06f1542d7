"""Stopping an interactive shell hangs up its terminal, as closing a window does."""

import signal
import sys

import anyio
import pytest

from shelltie import TerminalSize
from shelltie.events import Escalated, Event
from shelltie.model import Command, Ended, Limits
from shelltie.running.options import RunOptions
from shelltie.sessions.registry import Sessions
from shelltie.settings.all_settings import Waiting
from tests.conftest import Open

NO_LIMIT = RunOptions(None, Limits(None, None, "no limit"))
PATIENT = Waiting(least=60, settle=60, most=60)
DEAF = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    " signal.signal(signal.SIGHUP, signal.SIG_IGN); input('deaf ')"
)


async def stopped(open_terminal: Open, text: str) -> tuple[list[int], Ended | None, int | None]:
    """Which signals were sent to end it, how it was ended, and with which exit code."""
    events: list[Event] = []
    async with open_terminal(events.append) as terminal:
        sessions = Sessions(terminal.supervisor)
        command = Command(text, stays_open=True, pty=TerminalSize())
        session = await sessions.open(command, NO_LIMIT, "me", Waiting())
        with anyio.fail_after(50):
            await session.exchange(b"", PATIENT)
            await sessions.stop(session.id, "me")
        outcome = session.run.outcome
    assert outcome is not None
    sent = [event.signal for event in events if isinstance(event, Escalated)]
    return sent, outcome.ended, outcome.exit.number


@pytest.mark.needs("bash", "dash")
@pytest.mark.parametrize("shell", ["bash --norc -i", "dash -i", "bash --norc -i -c 'dash -i; :'"])
async def test_an_interactive_shell_is_ended_by_hanging_up(open_terminal: Open, shell: str) -> None:
    sent, ended, code = await stopped(open_terminal, shell)

    assert sent == [signal.SIGHUP]
    assert (ended, code) == (Ended.SOFT, 128 + signal.SIGHUP)


async def test_who_does_not_ignore_it_is_asked_to_end_as_usual(open_terminal: Open) -> None:
    sent, ended, code = await stopped(open_terminal, f"{sys.executable} -q")

    assert sent == [signal.SIGTERM]
    assert (ended, code) == (Ended.SOFT, 128 + signal.SIGTERM)


async def test_who_ignores_that_too_is_killed_in_the_end(open_terminal: Open) -> None:
    sent, ended, code = await stopped(open_terminal, f'{sys.executable} -c "{DEAF}"')

    assert sent == [signal.SIGHUP, signal.SIGTERM, signal.SIGKILL]
    assert (ended, code) == (Ended.HARD, 128 + signal.SIGKILL)
