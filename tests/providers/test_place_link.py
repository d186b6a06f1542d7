"""A place whose connection breaks: nothing is lost, nothing is said twice, nothing stays."""

import os
import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from shelltie.errors import CannotStart
from shelltie.keeper import lasting_link
from shelltie.keeper.protocol import Exited, Gone, Lost, Reachable, Unreachable
from shelltie.model import TerminalSize
from shelltie.providers import contract
from shelltie.providers.places.provider import PlaceProvider
from shelltie.settings.places import Place
from tests.near_engine import NearEngine
from tests.place_commands import Seen
from tests.tree import new_tag, nobody_left, tagged


@asynccontextmanager
async def place(
    engine: NearEngine, lease: float = 60.0, most: int = 100
) -> AsyncIterator[PlaceProvider]:
    provider = PlaceProvider("near", Place(lease=lease, commands=most), engine)
    try:
        await provider.ready("/")
        yield provider
    finally:
        with anyio.CancelScope(shield=True):
            await provider.close()


@pytest.fixture(params=["c", "python"])
def engine(request: pytest.FixtureRequest) -> NearEngine:
    """This machine as a far side, with both keepers."""
    if request.param == "c":
        request.getfixturevalue("current_binary")
    return NearEngine(request.param)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A heartbeat with which a loss is noticed in two seconds."""
    monkeypatch.setattr(lasting_link, "HEARTBEAT", 0.4)


@pytest.mark.usefixtures("current_binary")
@pytest.mark.parametrize("check", contract.CHECKS, ids=contract.name_of)
async def test_a_place_with_a_keeper_for_each_command_keeps_the_contract(
    check: contract.ContractCheck, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    engine = NearEngine(shared=False)

    await check(PlaceProvider("near", Place(), engine), tmp_path)

    assert not engine._top.exists()


async def test_output_goes_on_where_the_connection_broke_each_byte_once(engine: NearEngine) -> None:
    script = "i=0; while [ $i -lt 30000 ]; do echo line $i; i=$((i+1)); done; exit 7"
    chance = random.Random(7)

    async with place(engine) as provider:
        seen = Seen(provider, "sh", "-c", script)
        for _ in range(12):
            size = len(seen.printed) + chance.randrange(20000)
            await seen.until(lambda size=size: len(seen.printed) > size or seen.said(Gone))  # type: ignore[misc]
            engine.hang_up()
        await seen.over()

    assert seen.printed == b"".join(b"line %d\n" % number for number in range(30000))
    assert [word for word in seen.words if isinstance(word, Exited)] == [Exited(7 << 8, 0)]
    assert sum(isinstance(word, Gone) for word in seen.words) == 1
    assert engine.streams > 3


async def test_input_goes_on_where_the_connection_broke_each_byte_once(engine: NearEngine) -> None:
    lines = b"".join(b"%06d\n" % number for number in range(30000))
    chance = random.Random(3)

    async with place(engine) as provider:
        seen = Seen(provider, "cat", stdin=lines)
        for _ in range(8):
            size = len(seen.printed) + chance.randrange(15000)
            await seen.until(lambda size=size: len(seen.printed) > size or seen.said(Gone))  # type: ignore[misc]
            engine.hang_up()
        await seen.over()

    assert seen.printed == lines
    assert seen.said(Gone)


@pytest.mark.usefixtures("quick")
async def test_a_link_that_dies_without_a_word_is_noticed_and_picked_up(
    engine: NearEngine,
) -> None:
    async with place(engine) as provider:
        seen = Seen(provider, "sh", "-c", "echo one; read x; echo two $x", stays_open=True)
        await seen.until(lambda: b"one" in seen.printed)
        engine.cut = True
        await seen.until(lambda: seen.said(Unreachable))
        lost = seen.process.reachable
        assert seen.process.stdin is not None
        os.write(seen.process.stdin, b"typed meanwhile\n")
        engine.hang_up()
        engine.cut = False
        await seen.over()
        os.close(seen.process.stdin)

    assert not lost
    assert seen.printed == b"one\ntwo typed meanwhile\n"
    kinds = [type(word) for word in seen.words]
    assert kinds.index(Unreachable) < kinds.index(Reachable)
    assert kinds[-2:] == [Exited, Gone]


async def test_what_has_ended_is_not_started_again_by_a_connection_that_breaks_then(
    engine: NearEngine, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"

    async with place(engine) as provider:
        for _ in range(5):
            seen = Seen(provider, "sh", "-c", f"echo ran >>{runs}")
            await seen.over()
            engine.hang_up()
        last = Seen(provider, "true")
        await last.over()

    assert runs.read_text(encoding="utf-8") == "ran\n" * 5


@pytest.mark.usefixtures("quick")
async def test_a_signal_sent_while_nothing_can_be_heard_arrives_later(
    engine: NearEngine,
) -> None:
    tag = new_tag()

    async with place(engine) as provider:
        seen = Seen(provider, "sh", "-c", f"trap '' TERM; echo on; sleep 300.{tag}")
        await seen.until(lambda: b"on" in seen.printed)
        engine.cut = True
        seen.process.signal(signal.SIGTERM)
        seen.process.signal(signal.SIGKILL)
        await seen.until(lambda: seen.said(Unreachable))
        engine.hang_up()
        engine.cut = False
        await seen.over()

    assert seen.said(Gone)
    await nobody_left(tag)


@pytest.mark.usefixtures("quick")
async def test_the_limit_holds_there_while_nothing_can_be_heard(
    engine: NearEngine,
) -> None:
    tag = new_tag()

    async with place(engine) as provider:
        seen = Seen(provider, "sh", "-c", f"echo on; sleep 300.{tag}")
        seen.process.limit(2.0)
        await seen.until(lambda: b"on" in seen.printed)
        engine.cut = True
        await seen.until(lambda: seen.said(Unreachable))
        await nobody_left(tag)
        engine.hang_up()
        engine.cut = False
        await seen.over()

    assert seen.said(Gone)


@pytest.mark.usefixtures("quick")
async def test_what_is_not_reached_again_is_over_there_when_its_lease_is(
    engine: NearEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lasting_link, "_ENDS_WITHIN", 1.0)
    tag = new_tag()

    async with place(engine, lease=3.0) as provider:
        seen = Seen(
            provider,
            "sh",
            "-c",
            f"setsid sh -c 'trap \"\" TERM; sleep 300.{tag}' & sleep 300.{tag}",
        )
        await seen.until(lambda: len(tagged(tag)) >= 2)
        engine.cut = True
        await seen.over()
        told = (
            "ended there within" in str(seen.words) and "could not be reached again" in seen.notes
        )
        await nobody_left(tag)
        engine.cut = False
        await provider.ready("/")  # with another keeper
        again = Seen(provider, "echo", "again")
        await again.over()

    assert seen.said(Lost)
    assert told
    assert again.printed == b"again\n"


async def test_a_keeper_that_is_killed_there_is_told_at_once_and_the_next_command_has_another(
    engine: NearEngine,
) -> None:
    tag = new_tag()

    async with place(engine) as provider:
        seen = Seen(provider, "sh", "-c", f"echo on; sleep 300.{tag}")
        await seen.until(lambda: b"on" in seen.printed)
        os.kill(provider._fars[0].link.keeper_pid, signal.SIGKILL)
        await seen.over()
        await provider.ready("/")
        again = Seen(provider, "echo", "again")
        await again.over()

    assert seen.said(Lost)
    assert "is not there any more" in seen.notes
    assert again.printed == b"again\n"
    await nobody_left(tag)


@pytest.mark.usefixtures("quick")
async def test_output_that_fell_out_meanwhile_is_counted(engine: NearEngine) -> None:
    script = "echo on; read x; head -c 200000 /dev/zero | tr '\\0' y; echo; echo end"
    provider = PlaceProvider("near", Place(output=64 * 1024), engine)
    try:
        await provider.ready("/")
        seen = Seen(provider, "sh", "-c", script, stays_open=True)
        await seen.until(lambda: b"on" in seen.printed)
        engine.cut = True
        await seen.until(lambda: seen.said(Unreachable))
        engine.hang_up()
        engine.cut = False
        assert seen.process.stdin is not None
        os.write(seen.process.stdin, b"go\n")
        await seen.over()
        os.close(seen.process.stdin)
    finally:
        await provider.close()

    # While it is read along nothing falls out: only what was printed in between can.
    assert seen.printed.endswith(b"y\nend\n")
    missing = 200000 + len(b"on\n\nend\n") - len(seen.printed)
    assert (missing > 0) == ("places.near.output" in seen.notes)


async def test_a_terminal_there_takes_keys_and_its_size(engine: NearEngine) -> None:
    async with place(engine) as provider:
        seen = Seen(
            provider, "sh", "-c", "read x; stty size; echo got $x",
            pty=TerminalSize(30, 90), stays_open=True,
        )  # fmt: skip
        seen.process.resize(TerminalSize(40, 100))
        os.write(seen.process.stdout, b"word\n")
        await seen.over()

    assert b"40 100" in seen.printed
    assert b"got word" in seen.printed


async def test_nothing_is_left_when_a_place_is_closed(engine: NearEngine) -> None:
    tag = new_tag()

    async with place(engine) as provider:
        seen = Seen(provider, "sh", "-c", f"(setsid sleep 300.{tag} &); sleep 300.{tag}")
        await seen.until(lambda: len(tagged(tag)) >= 2)
        names = await provider.keepers()

    assert len(names) == 1
    assert not tagged(tag)
    assert seen.said(Gone)


async def test_more_commands_than_a_place_may_have_are_refused(engine: NearEngine) -> None:
    async with place(engine, most=2) as provider:
        for _ in range(2):
            Seen(provider, "sleep", "300")

        with pytest.raises(CannotStart, match=r"places.near.max"):
            Seen(provider, "sleep", "300")


async def test_a_place_that_cannot_be_had_is_an_error_and_leaves_nothing() -> None:
    engine = NearEngine()
    engine.refuses = "quota of 0 pods"
    provider = PlaceProvider("near", Place(), engine)

    with pytest.raises(CannotStart, match="quota of 0 pods"):
        await provider.ready("/")
    with pytest.raises(CannotStart, match="cannot be reached"):
        Seen(provider, "true")
    await provider.close()
