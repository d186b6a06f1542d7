"""Sessions against those who would confuse them: hostile patterns, stale input, forged places."""

import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from shelltie import Terminal
from shelltie.basics.safe_regex import compile_for_output
from shelltie.sessions.registry import Sessions
from shelltie.sessions.session import Session, SessionReading
from shelltie.sessions.shell import ShellSession, open_shell
from shelltie.settings.all_settings import Waiting
from tests.conftest import Open
from tests.event_loop import turns_during
from tests.scenarios.test_sessions import start

SOON = Waiting(0.0, 0.2, 20.0)


@pytest.fixture
async def terminal(open_terminal: Open) -> AsyncIterator[Terminal]:
    async with open_terminal(safety_profiles_session_unknown="allow") as opened:
        yield opened


@pytest.fixture
def sessions(terminal: Terminal) -> Sessions:
    return Sessions(terminal.supervisor)


@pytest.fixture
async def shell(terminal: Terminal, sessions: Sessions) -> ShellSession:
    opened = await open_shell(sessions, terminal.supervisor, "me", "true")
    await opened.follow(SOON)
    return opened


async def until_printed(session: Session, size: int) -> None:
    with anyio.fail_after(50):
        while session.position < size:
            await anyio.sleep(0.02)


async def test_a_text_is_found_behind_megabytes(sessions: Sessions) -> None:
    flood = "yes abcdefg | head -c {}"
    text = f"{flood.format(2_000_000)}; echo NEEDLE; {flood.format(100_000)}; sleep 60"
    session = await start(sessions, text, pty=False)
    await until_printed(session, 2_100_007)

    assert (await session.read(0, Waiting(0, 0.2, 100), compile_for_output("^NEEDLE$"))).found


@pytest.mark.parametrize("pattern", [r"\s+error", ".*b", r"a+b"])
async def test_others_have_their_turns_while_a_slow_pattern_looks(
    sessions: Sessions, pattern: str
) -> None:
    session = await start(sessions, "printf '%300000s'; sleep 60", pty=False)
    await until_printed(session, 300_000)
    readings: list[SessionReading] = []

    async def look() -> None:
        slow = compile_for_output(pattern)
        readings.append(await session.read(0, Waiting(0, 0, 2), slow))

    turns = await turns_during(look)

    assert readings[0].found is False
    assert turns > 5


# A shell that stays


async def test_input_that_nobody_read_is_not_for_the_next_command(shell: ShellSession) -> None:
    shell.session.send(b"yes-delete\n")  # as a person may, between commands
    shell.begin("read -t 0.5 -p 'Delete everything? ' answer; echo \"<$answer>\"")
    end = await shell.follow(SOON)
    while not end.ended:  # it was seen to ask
        end = await shell.follow(SOON)

    assert end.output.splitlines()[-1].endswith("<>")


async def test_an_interrupt_passes_what_nobody_reads(shell: ShellSession) -> None:
    shell.begin("sleep 60; echo not this")
    await shell.follow(Waiting(0, 0, 0.2))
    shell.type(b"x" * 8000)
    shell.type(b"\x03")
    end = await shell.follow(SOON)

    assert end.ended
    assert "not this" not in end.output


async def test_the_kernel_says_where_a_shell_is(shell: ShellSession, tmp_path: Path) -> None:
    await shell.run(f"cd {tmp_path}; PWD=/harmless", SOON)

    assert shell.cwd == str(tmp_path)


async def test_a_shell_that_lost_its_commands_ends_and_does_not_obey_the_keyboard(
    shell: ShellSession,
) -> None:
    lose = 'for fd in /proc/$$/fd/*; do fd=${fd##*/}; ((fd > 2)) && eval "exec $fd<&-"; done'
    await shell.run(lose, SOON)
    with anyio.fail_after(50):
        await shell.session.run.wait()

    assert shell.session.complete


async def test_what_a_killed_server_left_is_removed(
    terminal: Terminal, sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    left = place / "shelltie-shell-999999999-left"
    left.mkdir()
    kept = place / f"shelltie-shell-{os.getpid()}-kept"
    kept.mkdir()

    await open_shell(sessions, terminal.supervisor, "me", "true")

    assert not left.exists()
    assert kept.exists()
