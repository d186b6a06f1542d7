"""Sessions as the library sees them, on real programs."""

import random
from pathlib import Path

import anyio
import pytest

from shelltie import Terminal, TerminalSize
from shelltie.basics.safe_regex import compile_pattern
from shelltie.errors import InvalidParameters, TooManySessions, UnknownSession
from shelltie.model import Command, Limits
from shelltie.running.options import RunOptions
from shelltie.sessions.registry import Sessions
from shelltie.sessions.session import Session
from shelltie.sessions.wait_rule import AT_ONCE
from shelltie.settings.all_settings import SessionLimits, Waiting
from tests.conftest import Open
from tests.tree import until

NO_LIMIT = RunOptions(None, Limits(None, None, "no limit"))


@pytest.fixture
async def sessions(terminal: Terminal) -> Sessions:
    return Sessions(terminal.supervisor)


async def start(sessions: Sessions, text: str, *, pty: bool = True, owner: str = "me") -> Session:
    size = TerminalSize() if pty else None
    command = Command(text, stays_open=True, pty=size)
    return await sessions.open(command, NO_LIMIT, owner, Waiting())


@pytest.mark.proves("T2-23", "S2-12", "S2-65")
async def test_a_program_that_pauses_briefly_is_heard_to_the_end(sessions: Sessions) -> None:
    session = await start(sessions, "for i in 1 2 3 4 5; do echo $i; sleep 0.2; done; sleep 60")

    reading = await session.exchange(b"", Waiting(least=0.1, settle=2, most=30))

    assert reading.text.split() == ["1", "2", "3", "4", "5"]
    assert not reading.complete


@pytest.mark.proves("T2-23", "C-54", "S2-66")
async def test_an_endless_printer_is_answered_for_at_the_longest_wait(sessions: Sessions) -> None:
    session = await start(sessions, "while :; do echo tick; sleep 0.05; done")

    await until(lambda: session.position > 0)

    with anyio.fail_after(50):
        reading = await session.exchange(b"", Waiting(least=0, settle=5, most=0.5))

    assert "tick" in reading.text


@pytest.mark.proves("T2-23", "C-54")
async def test_a_program_that_ends_at_once_is_not_waited_for(sessions: Sessions) -> None:
    session = await start(sessions, "echo done; exit 3")

    with anyio.fail_after(50):
        reading = await session.exchange(b"", Waiting(least=60, settle=60, most=None))

    assert reading.complete
    assert (reading.text.strip(), reading.exit and reading.exit.code) == ("done", 3)


async def test_a_program_that_asks_is_answered_for_before_it_settles(sessions: Sessions) -> None:
    session = await start(sessions, "read -p 'Sure? ' answer")

    with anyio.fail_after(50):
        reading = await session.exchange(b"", Waiting(least=0.1, settle=60, most=60))

    assert reading.text == "Sure? "
    assert reading.sighting is not None
    assert reading.sighting.waits_for_input


@pytest.mark.proves("T2-31")
async def test_nobody_sees_the_sessions_of_another(sessions: Sessions) -> None:
    session = await start(sessions, "sleep 60", owner="one")

    assert sessions.owned_by("two") == []
    assert sessions.owned_by("one") == [session]
    with pytest.raises(UnknownSession, match="Session term-1 not found"):
        sessions.get(session.id, "two")


@pytest.mark.proves("T2-29", "S2-71")
async def test_all_sessions_of_one_owner_end_and_no_other(sessions: Sessions) -> None:
    mine = [await start(sessions, "trap '' TERM; sleep 60", owner="me") for _ in range(3)]
    other = await start(sessions, "sleep 60", owner="other")

    await sessions.stop_all("me", "reset")

    assert all(session.complete for session in mine)
    assert sessions.owned_by("me") == []
    assert not other.complete


@pytest.mark.proves("C-75")
async def test_a_finished_session_that_nobody_reads_is_removed_after_its_time(
    terminal: Terminal,
) -> None:
    brief, usual = (
        Sessions(terminal.supervisor, SessionLimits(kept=0.2)),
        Sessions(terminal.supervisor),
    )
    for sessions in (brief, usual):
        session = await start(sessions, "echo unread")
        await session.run.wait()

    await until(lambda: not brief.owned_by("me"))

    assert len(usual.owned_by("me")) == 1
    assert SessionLimits().kept == 600


async def test_finished_sessions_make_room_the_oldest_first(terminal: Terminal) -> None:
    sessions = Sessions(terminal.supervisor, SessionLimits(most=2))
    first = await start(sessions, "true")
    await first.run.wait()
    second = await start(sessions, "sleep 60")

    third = await start(sessions, "sleep 60")

    assert sessions.owned_by("me") == [second, third]
    with pytest.raises(TooManySessions) as caught:
        await start(sessions, "sleep 60")
    assert (caught.value.active, caught.value.most) == (2, 2)


async def test_many_creates_at_once_get_an_id_of_their_own_or_a_clear_no(
    terminal: Terminal,
) -> None:
    sessions = Sessions(terminal.supervisor, SessionLimits(most=20))
    ids: list[str] = []
    refused = 0

    async def create() -> None:
        nonlocal refused
        try:
            ids.append((await start(sessions, "sleep 60")).id)
        except TooManySessions:
            refused += 1

    async with anyio.create_task_group() as tasks:
        for _ in range(200):
            tasks.start_soon(create)

    assert (len(ids), len(set(ids)), refused) == (20, 20, 180)


PRINTER = r"""
import os, random, sys, time
chance = random.Random(int(sys.argv[1]))
pieces = [b"plain\n", "größer €\n".encode(), b"\xff\xfe", b"\xe2\x82", b"\xac", b"x" * 5000, b"\n"]
for _ in range(400):
    os.write(1, chance.choice(pieces))
    if chance.random() < 0.02:
        time.sleep(0.005)
"""


@pytest.mark.parametrize("seed", range(4))
async def test_what_any_reader_got_is_what_was_printed(
    sessions: Sessions, tmp_path: Path, seed: int
) -> None:
    program = tmp_path / "printer.py"
    program.write_text(PRINTER, encoding="utf-8")
    session = await start(sessions, f"python3 {program} {seed}", pty=False)
    chance = random.Random(seed)
    got = ["", ""]

    async def follow(number: int) -> None:
        place = 0
        while True:
            await anyio.sleep(chance.random() * 0.01)
            reading = await session.read(place, AT_ONCE)
            assert reading.skipped == 0
            assert reading.start == place
            got[number] += reading.text
            place = reading.end
            if reading.complete:
                return

    with anyio.fail_after(50):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow, 0)
            tasks.start_soon(follow, 1)

    whole = session.run.output.read(0, 2**31).data.decode("utf-8", "replace")
    assert got == [whole, whole]
    assert session.position == len(whole)


@pytest.mark.parametrize("tail", [131_072, 3001])
@pytest.mark.parametrize(
    "line", [b"0123456789abcde\n", "größer €\n".encode() + b"\xe2\x82\x80\x80\xff\n"]
)
async def test_a_gap_is_reported_exactly_and_is_no_larger_than_it_must_be(
    open_terminal: Open, tmp_path: Path, line: bytes, tail: int
) -> None:
    (tmp_path / "printed").write_bytes(line * 70_000)
    sizes = {
        "output_kept_head": 65_536,
        "output_kept_tail": tail,
        "output_spool_cap": 0,
        "output_shown": 1000,
    }
    async with open_terminal(**sizes) as terminal:
        sessions = Sessions(terminal.supervisor)
        session = await start(sessions, f"cat {tmp_path}/printed", pty=False)
        await session.run.wait()

        readings = [await session.read(0)]
        while not readings[-1].complete:
            readings.append(await session.read(readings[-1].end))

    whole = (line * 70_000).decode("utf-8", "replace")
    place = 0
    for reading in readings:
        place += reading.skipped
        assert reading.start == place
        assert reading.text == whole[reading.start : reading.end]
        place = reading.end
    assert place == len(whole)
    assert sum(reading.skipped for reading in readings) > 500_000
    assert len(readings[-1].text.encode()) >= tail - len(line)


@pytest.mark.parametrize("place", [-1, 10_000])
async def test_a_place_that_is_not_there_is_refused(sessions: Sessions, place: int) -> None:
    session = await start(sessions, "echo hello; sleep 60")

    with pytest.raises(InvalidParameters, match="position must be between"):
        await session.read(place)


async def test_a_pattern_is_found_across_chunks_and_old_output(sessions: Sessions) -> None:
    session = await start(sessions, "printf 'liste'; sleep 0.3; printf 'ning on 80'; sleep 60")
    pattern = compile_pattern(r"listening on \d+")

    with anyio.fail_after(50):
        first = await session.read(0, Waiting(most=8), pattern)
        again = await session.read(0, Waiting(most=8), pattern)

    assert (first.found, again.found) == (True, True)


async def test_a_run_that_has_begun_goes_on_as_a_session(
    terminal: Terminal, tmp_path: Path
) -> None:
    supervisor = terminal.supervisor
    go = tmp_path / "go"
    text = f"printf 'äö\\n'; until [ -e {go} ]; do sleep 0.05; done; echo more"
    run = await supervisor.start(Command(text), NO_LIMIT)
    await until(lambda: run.output.total > 0)
    before = anyio.current_time() - 1

    await supervisor.attend(run, before)
    session = Sessions(supervisor).adopt(run, "me", Waiting())
    so_far = session.reading(0)
    go.touch()
    rest = await session.read(so_far.position, Waiting(0, 60, 60))

    assert (so_far.text, so_far.position, so_far.complete) == ("äö\n", 3, False)
    assert (rest.text, rest.position, rest.complete) == ("more\n", 8, True)


async def test_what_was_lost_before_there_was_a_session_is_counted(open_terminal: Open) -> None:
    small = {
        "output_kept_head": 1000,
        "output_kept_tail": 1000,
        "output_spool_cap": 0,
        "output_shown": 100,
    }
    async with open_terminal(**small) as terminal:
        run = await terminal.start(["seq", "1", "100000"])
        await run.wait()

        session = Sessions(terminal.supervisor).adopt(run, "me", Waiting())
        first, rest = session.reading(0), session.reading(1000)

    assert session.position == run.output.total == 588_895
    assert (first.text[:4], first.complete) == ("1\n2\n", False)
    assert rest.text.endswith("\n100000\n")
    assert (rest.skipped, rest.complete) == (588_895 - 2000, True)
