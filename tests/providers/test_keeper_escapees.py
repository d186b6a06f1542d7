"""What both keepers promise about ending: nobody survives, whatever a command does."""

import contextlib
import errno
import os
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import psutil
import pytest

from shelltie.errors import CannotStart
from shelltie.keeper.link import Link
from shelltie.keeper.protocol import (
    BODY_MAX,
    HEADER,
    RUN,
    SHOOT,
    Exited,
    Gone,
    Lost,
    Signalled,
    Started,
    Stuck,
)
from tests.leashes import PATH, printed_ready, start, start_printing
from tests.programs import DEEDS, evil
from tests.providers.conftest import argv_of, linked, process_of, stop
from tests.tree import new_tag, nobody_left, tagged, until

pytestmark = pytest.mark.xdist_group("hundreds of processes")


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.proves("T1-24", "TX-8")
async def test_nobody_survives_a_kill(link: Link, deed: str) -> None:
    tag = new_tag()
    told, reader = start_printing(link, evil(), deed, "30", tag)
    await printed_ready(reader)

    told.leash.signal(signal.SIGTERM)
    await told.word(Signalled)
    told.leash.signal(signal.SIGKILL)

    assert isinstance(await told.last(), Gone)
    assert tagged(tag) == []


@pytest.mark.parametrize("deed", DEEDS)
async def test_nobody_survives_the_end_of_the_control_socket(link: Link, deed: str) -> None:
    tag = new_tag()
    told, reader = start_printing(link, evil(), deed, "30", tag)
    await printed_ready(reader)

    told.leash.close()

    assert isinstance(await told.last(), Gone)
    assert tagged(tag) == []


@pytest.mark.parametrize(
    "script",
    [
        "setsid sleep 300.{tag} & sleep 300.{tag}",
        "nohup sleep 300.{tag} >/dev/null 2>&1 & disown; sleep 300.{tag}",
        "(setsid sleep 300.{tag} &); (nohup sleep 300.{tag} &); exit 0",
        "trap '' TERM INT HUP; setsid env -i sleep 300.{tag} & sleep 300.{tag}; sleep 300.{tag}",
        "sleep 300.{tag} & kill -STOP $!; sleep 300.{tag}",
        "exec -a innocent sleep 300.{tag} & sleep 300.{tag}",
    ],
)
async def test_nothing_a_shell_can_write_survives(link: Link, script: str) -> None:
    tag = new_tag()
    told = start(link, "bash", "-c", script.format(tag=tag))
    await until(lambda: len(tagged(f"300.{tag}")) >= 2)

    told.leash.signal(signal.SIGKILL)

    assert isinstance(await told.last(), Gone)
    assert tagged(f"300.{tag}") == []


async def test_even_without_subreapers_nobody_stubborn_survives() -> None:
    tag = new_tag()
    async with linked("portable") as link:
        told, reader = start_printing(link, evil(), "ignore", "30", tag)
        await printed_ready(reader)
        told.leash.signal(signal.SIGTERM)
        assert (await told.word(Signalled)).sent >= 2

        told.leash.signal(signal.SIGKILL)

        assert isinstance(await told.last(), Gone)
        await nobody_left(tag)


async def test_even_without_subreapers_an_orphan_that_was_seen_is_remembered() -> None:
    tag = new_tag()
    script = f"sh -c 'setsid sleep 300.{tag} & sleep 2'; exec sleep 300.{tag}"
    async with linked("portable") as link:
        told = start(link, "sh", "-c", script)
        await until(lambda: bool(tagged(f"setsid sleep 300.{tag}")))
        await until(lambda: not tagged(f"setsid sleep 300.{tag}"))  # its parent has ended

        told.leash.signal(signal.SIGKILL)

        assert isinstance(await told.last(), Gone)
        await nobody_left(tag)


async def test_a_command_that_shoots_its_leash_is_swept_after(link: Link) -> None:
    tag = new_tag()
    told = start(link, evil(), "shoot_leash", "30", tag)

    assert isinstance(await told.last(), Gone)

    assert tagged(tag) == []
    assert not any(isinstance(word, Exited) for word in told.words)
    await start(link, "true").last()


async def test_sweeping_after_one_leash_leaves_the_others_alone(link: Link) -> None:
    tag = new_tag()
    others = [start(link, "sleep", f"300.{tag}") for _ in range(5)]
    for other in others:
        await other.word(Started)

    await start(link, "sh", "-c", "setsid sleep 300 & kill -KILL $PPID; sleep 300").last()

    assert len(tagged(tag)) == 5
    for other in others:
        other.leash.signal(signal.SIGTERM)
        await other.last()


async def test_a_leash_that_is_stopped_again_and_again_is_shot(link: Link) -> None:
    tag = new_tag()
    script = f"setsid sleep 300.{tag} & while kill -STOP $PPID; do :; done; sleep 300.{tag}"
    told = start(link, "sh", "-c", script)
    await until(lambda: bool(tagged(tag, "sleep")))

    told.leash.shoot()

    assert isinstance(await told.last(), Gone)
    assert tagged(tag) == []


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT", "PIPE", "USR1", "USR2", "ALRM"])
async def test_a_leash_is_not_hurt_by_lesser_signals(any_link: Link, name: str) -> None:
    told = start(any_link, "sh", "-c", f"kill -{name} $PPID; kill -{name} $PPID; exit 7")

    await told.last()

    assert [type(word) for word in told.words] == [Started, Exited, Gone]
    assert Exited(7 << 8, 0) in told.words


@pytest.mark.usefixtures("current_binary")
@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be somebody else")
@pytest.mark.needs("setpriv")
@pytest.mark.parametrize("keeper", ["c", "python"])
@pytest.mark.proves("C-42", "T1-23")
async def test_who_may_not_be_killed_is_named_until_gone(keeper: str, own_sleeper: str) -> None:
    argv, kind = argv_of(keeper)
    link = Link(("setpriv", "--reuid", "65534", "--clear-groups", *argv), kind)
    told = start(link, own_sleeper, "60")
    started = await told.word(Started)
    await until(lambda: psutil.Process(started.pid).uids().real == 0)

    told.leash.signal(signal.SIGTERM)
    signalled = await told.word(Signalled)
    told.leash.signal(signal.SIGKILL)
    stuck = await told.word(Stuck)

    assert signalled == Signalled(signal.SIGTERM, 0, 1)
    assert stuck.pids == (started.pid,)
    os.kill(started.pid, signal.SIGKILL)
    assert isinstance(await told.last(), Gone)
    await link.close()


SERVER = """
import asyncio, sys
from shelltie.keeper.link import Link
from tests.leashes import start
from tests.providers.conftest import argv_of, process_of
from shelltie.keeper.protocol import Started

async def main(keeper, tag, count):
    link = Link(*argv_of(keeper))
    script = f"setsid sleep 300.{tag} & exec sleep 300.{tag}"
    commands = [start(link, "sh", "-c", script) for _ in range(count)]
    for command in commands:
        await command.word(Started, 50)
    print(process_of(link).pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


@pytest.mark.alone  # a busy keeper has hundreds of descriptors wait for it
@pytest.mark.usefixtures("current_binary")
@pytest.mark.parametrize(("keeper", "count"), [("c", 300), ("python", 300), ("portable", 10)])
@pytest.mark.parametrize("shot", ["server", "keeper and server"])
@pytest.mark.timeout(180)
@pytest.mark.proves("T1-25", "C-48")
async def test_nobody_survives_the_death_of_the_server(keeper: str, count: int, shot: str) -> None:
    tag = new_tag()
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", SERVER, keeper, tag, str(count)]
    async with await anyio.open_process(command, cwd=root, stdin=None, stderr=None) as server:
        assert server.stdout is not None
        with anyio.fail_after(60):
            keeper_pid = int(await server.stdout.receive())
        await until(lambda: len(tagged(f"sleep 300.{tag}")) >= 2 * count)

        if shot != "server":
            os.kill(keeper_pid, signal.SIGKILL)
        server.kill()

        await until(lambda: not tagged(f"sleep 300.{tag}") and not running(keeper_pid))


def running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_leashes_hold_on_when_the_keeper_dies(link: Link) -> None:
    tag = new_tag()
    held = start(link, "sh", "-c", f"setsid sleep 300.{tag} & exec sleep 300.{tag}")
    unheld = start(link, "sleep", f"300.{tag}")
    await held.word(Started)
    orphan = await unheld.word(Started)
    await until(lambda: len(tagged(f"sleep 300.{tag}")) == 3)

    os.kill(process_of(link).pid, signal.SIGKILL)
    await until(lambda: not link.alive)

    with pytest.raises(CannotStart):
        start(link, "true")
    held.leash.signal(signal.SIGCONT)
    assert (await held.word(Signalled)).sent == 2
    held.leash.signal(signal.SIGKILL)
    assert isinstance(await held.last(), Gone)
    os.kill(orphan.leash, signal.SIGKILL)
    assert isinstance(await unheld.last(), Lost)
    os.kill(orphan.pid, signal.SIGKILL)
    await nobody_left(tag)


async def test_a_dead_keeper_is_noticed_by_whoever_asks_it_next(link: Link) -> None:
    process_of(link).kill()
    process_of(link).wait(5)

    with pytest.raises(CannotStart):
        start(link, "true")

    assert not link.alive


@pytest.mark.alone  # a keeper without subreapers has so much time, and looks at every process
async def test_closing_the_link_ends_everything(any_link: Link) -> None:
    tag = new_tag()
    commands = [start(any_link, "sh", "-c", f"trap '' TERM; sleep 300.{tag}; :") for _ in range(20)]
    for command in commands:
        await command.word(Started)

    with anyio.fail_after(50):
        await any_link.close()

    assert all(isinstance(command.words[-1], Gone) for command in commands)
    assert process_of(any_link).returncode == 0
    await nobody_left(tag)
    await any_link.close()


async def test_closing_ends_even_who_stops_its_leash(link: Link) -> None:
    tag = new_tag()
    script = f"while :; do kill -STOP $PPID; sleep 0.0{tag}; done"
    told = start(link, "sh", "-c", script)
    await until(lambda: bool(tagged(tag)))

    with anyio.fail_after(50):
        await link.close()

    assert isinstance(await told.last(), Gone)
    await nobody_left(tag)


async def test_a_terminated_keeper_ends_everything_first(link: Link) -> None:
    tag = new_tag()
    commands = [start(link, evil(), "daemon_and_stay", "30", tag) for _ in range(10)]
    for command in commands:
        await command.word(Started)

    process_of(link).terminate()
    await until(lambda: not link.alive)

    for command in commands:
        assert isinstance(await command.last(), Gone)
    assert tagged(tag) == []
    assert process_of(link).wait(5) == 0


def ask(link: Link, frame: bytes, *, with_descriptors: bool = True) -> socket.socket:
    """Send any bytes to the keeper; our end of the control socket."""
    ours, theirs = socket.socketpair()
    null = os.open(os.devnull, os.O_RDWR)
    link._send(frame, (null, null, null, theirs.fileno()) if with_descriptors else ())
    theirs.close()
    os.close(null)
    ours.settimeout(20)
    return ours


def everything(source: socket.socket) -> bytes:
    with source:
        return b"".join(iter(lambda: source.recv(4096), b""))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0",
        b"x",
        b"7\0",
        b"7\0\0/\0\0" + b"0\0true\0",
        b"7\0\0/\0\0" + b"9\0true\0",
        b"7\0\0/\0\0zz\0true\0",
        b"7\0\0/\0\0" + b"1\0true",
    ],
    ids=repr,
)
async def test_a_frame_that_makes_no_sense_is_refused_and_service_goes_on(
    link: Link, body: bytes
) -> None:
    said = everything(ask(link, HEADER.pack(len(body), RUN) + body)).splitlines()

    assert said[0] == f"failed fork {errno.EINVAL}".encode()
    assert said[-1].startswith(b"gone")
    assert isinstance(await start(link, "true").last(), Gone)


async def test_a_frame_that_is_too_long_is_skipped_and_service_goes_on(link: Link) -> None:
    control = ask(link, HEADER.pack(BODY_MAX + 1, RUN) + b"x" * (BODY_MAX + 1))
    with control:
        control.setblocking(False)
        said = b""
        with anyio.fail_after(50):
            while b"gone" not in said:
                await anyio.wait_readable(control)
                said += control.recv(100)

    assert said.startswith(f"failed fork {errno.E2BIG}\ngone".encode())
    assert isinstance(await start(link, "true").last(), Gone)


async def test_frames_without_descriptors_or_meaning_are_survived(link: Link) -> None:
    for kind in (RUN, SHOOT, 0, 77, 2**32 - 1):
        for body in (b"", b"x", b"99\0", b"99\0\0/\0\0001\0true\0"):
            ask(link, HEADER.pack(len(body), kind) + body, with_descriptors=False).close()
            ask(link, HEADER.pack(len(body), kind) + body).close()

    assert isinstance(await start(link, "true").last(), Gone)
    assert link.alive


async def test_half_a_frame_does_not_keep_the_keeper_from_sweeping(link: Link) -> None:
    told = start(link, "sleep", "60")
    started = await told.word(Started)
    ask(link, HEADER.pack(1000, RUN) + b"x", with_descriptors=False).close()

    os.kill(started.leash, signal.SIGKILL)

    assert isinstance(await told.last(), Gone)


@pytest.mark.skipif(os.getuid() != 0, reason="only root may look into a keeper")
async def test_a_thousand_commands_leave_no_descriptor_and_no_zombie(link: Link) -> None:
    await start(link, "true").last()
    us, keeper = psutil.Process(), psutil.Process(process_of(link).pid)
    before = us.num_fds(), keeper.num_fds()

    for _ in range(1000):
        await start(link, "true").last()

    await until(lambda: keeper.children() == [])
    await until(lambda: (us.num_fds(), keeper.num_fds()) == before)


async def test_more_than_the_socket_takes_at_once_waits_its_turn(link: Link) -> None:
    await start(link, "true").last()
    before = psutil.Process().num_fds()
    env = PATH | {"LARGE": "x" * 100_000}

    stop(link)  # else it might take them as fast as they come
    commands = [start(link, "sh", "-c", "exit ${#LARGE}", env=env) for _ in range(100)]
    assert link._parcels
    process_of(link).send_signal(signal.SIGCONT)

    for command in commands:
        assert (await command.word(Exited)).wait_status == (100_000 % 256) << 8
        await command.last()
    await until(lambda: psutil.Process().num_fds() == before)


async def test_without_descriptors_nothing_starts_and_nothing_leaks(link: Link) -> None:
    await start(link, "true").last()
    us = psutil.Process()
    before = us.num_fds()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    resource.setrlimit(resource.RLIMIT_NOFILE, (before + 50, hard))
    hoard = list(every_descriptor_there_is())
    os.close(hoard.pop())  # start() needs one itself
    try:
        with pytest.raises(CannotStart):
            start(link, "true")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in hoard:
            os.close(descriptor)

    await until(lambda: us.num_fds() == before)
    assert isinstance(await start(link, "true").last(), Gone)


def every_descriptor_there_is() -> Iterator[int]:
    with contextlib.suppress(OSError):
        while True:
            yield os.open(os.devnull, os.O_RDONLY)


@pytest.mark.skipif(os.getuid() != 0, reason="only root may look into a keeper")
async def test_a_keeper_without_descriptors_says_so_for_each_command(link: Link) -> None:
    await start(link, "true").last()
    keeper = psutil.Process(process_of(link).pid)
    old = keeper.rlimit(psutil.RLIMIT_NOFILE)

    keeper.rlimit(psutil.RLIMIT_NOFILE, (keeper.num_fds() + 2, old[1]))
    refused = start(link, "true")
    assert isinstance(await refused.last(), Gone)
    keeper.rlimit(psutil.RLIMIT_NOFILE, old)

    assert not any(isinstance(word, Started) for word in refused.words)
    told = start(link, "true")
    await told.last()
    assert any(isinstance(word, Started) for word in told.words)
