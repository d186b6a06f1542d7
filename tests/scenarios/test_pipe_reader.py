import fcntl
import os
import pty
import sys
import threading
import tty
from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest

from shelltie.model import Stream
from shelltie.output.reader import PipeReader
from shelltie.output.store import Store


class Listener:
    """Reads one descriptor into a store, and knows when it ended."""

    def __init__(self, fd: int, store: Store | None = None) -> None:
        self.store = store or Store()
        self.ended = anyio.Event()
        self.reader = PipeReader(fd, self.keep, self.ended.set)

    def keep(self, view: memoryview) -> None:
        self.store.add(Stream.STDOUT, view)

    def text(self) -> bytes:
        return self.store.read(0, self.store.total).data

    async def end(self) -> None:
        with anyio.fail_after(50):
            await self.ended.wait()


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(50):
        while not condition():
            await anyio.sleep(0.001)


def write_all(fd: int, data: bytes) -> None:
    with os.fdopen(fd, "wb") as file:
        file.write(data)


@pytest.mark.proves("T0-15")
async def test_every_line_of_a_program_arrives() -> None:
    ours, theirs = os.pipe()
    async with await anyio.open_process(["seq", "1", "5000"], stdin=None, stdout=theirs):
        os.close(theirs)
        listener = Listener(ours)
        await listener.end()

    assert listener.text().split() == [b"%d" % number for number in range(1, 5001)]


@pytest.mark.proves("T0-14")
async def test_both_streams_flood_at_once_and_nothing_is_missing() -> None:
    script = (
        "head -c 200000 /dev/zero | tr '\\0' e >&2 & head -c 200000 /dev/zero | tr '\\0' o; wait"
    )
    out, their_out = os.pipe()
    err, their_err = os.pipe()
    async with await anyio.open_process(
        ["sh", "-c", script], stdin=None, stdout=their_out, stderr=their_err
    ):
        os.close(their_out)
        os.close(their_err)
        both = Listener(out), Listener(err)
        for listener in both:
            await listener.end()

    assert [listener.text() for listener in both] == [b"o" * 200_000, b"e" * 200_000]


@pytest.mark.proves("C-12")
async def test_a_single_byte_without_a_newline_is_seen_at_once() -> None:
    ours, theirs = os.pipe()
    listener = Listener(ours)

    os.write(theirs, b".")
    await until(lambda: listener.store.total == 1)

    assert not listener.ended.is_set()
    os.close(theirs)
    await listener.end()


async def test_the_end_of_a_pty_is_an_end_and_no_error() -> None:
    master, slave = pty.openpty()
    async with await anyio.open_process(
        ["sh", "-c", "echo one; seq 1 20000; echo two"], stdin=slave, stdout=slave, stderr=slave
    ):
        os.close(slave)
        listener = Listener(master)
        await listener.end()

    assert listener.text().startswith(b"one\r\n1\r\n2\r\n")
    assert listener.text().endswith(b"20000\r\ntwo\r\n")


async def test_a_reader_closes_its_descriptor_once() -> None:
    ours, theirs = os.pipe()
    listener = Listener(ours)
    os.close(theirs)
    await listener.end()

    again = os.open(os.devnull, os.O_RDONLY)
    listener.reader.close()
    listener.reader.drain()

    assert again == ours
    os.fstat(again)
    os.close(again)


async def test_close_stops_reading_without_an_end() -> None:
    ours, theirs = os.pipe()
    listener = Listener(ours)

    listener.reader.close()

    with pytest.raises(BrokenPipeError):
        os.write(theirs, b"x")
    os.close(theirs)
    assert not listener.ended.is_set()


async def test_a_reader_may_be_closed_while_it_hands_over_data() -> None:
    ours, theirs = os.pipe()
    got: list[int] = []

    def stop(view: memoryview) -> None:
        got.append(len(view))
        reader.close()

    reader = PipeReader(ours, stop, lambda: got.append(-1))
    os.write(theirs, b"x" * 5000)
    await until(lambda: bool(got))

    assert got == [5000]
    os.close(theirs)


async def test_drain_reads_what_is_there_and_does_not_wait() -> None:
    ours, theirs = os.pipe()
    listener = Listener(ours)
    os.write(theirs, b"x" * 50_000)

    listener.reader.drain()

    assert listener.store.total == 50_000
    assert not listener.ended.is_set()
    os.close(theirs)
    listener.reader.drain()
    assert listener.ended.is_set()


async def test_drain_empties_a_pty() -> None:
    master, slave = pty.openpty()
    tty.setraw(slave)
    listener = Listener(master)
    os.set_blocking(slave, False)
    written = os.write(slave, b"x" * 20_000)

    with anyio.fail_after(50):
        # The kernel carries bytes from one side to the other in its own time.
        while listener.store.total < written:
            listener.reader.drain()
            await anyio.lowlevel.checkpoint()

    assert written > 4096
    listener.reader.close()
    os.close(slave)


async def test_drain_comes_back_from_somebody_who_never_stops() -> None:
    ours, theirs = os.pipe()
    async with await anyio.open_process(["yes"], stdin=None, stdout=theirs) as process:
        os.close(theirs)
        listener = Listener(ours)
        await until(lambda: listener.store.total > 0)

        listener.reader.drain()

        assert not listener.ended.is_set()
        process.kill()
        await listener.end()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can grow a pipe")
async def test_only_a_pipe_that_floods_grows() -> None:
    ours, theirs = os.pipe()
    quiet, quiet_end = os.pipe()
    listener, other = Listener(ours), Listener(quiet)
    os.write(quiet_end, b"hello")
    writer = threading.Thread(target=write_all, args=(os.dup(theirs), b"x" * 20_000_000))

    writer.start()
    await until(lambda: listener.store.total == 20_000_000)
    await until(lambda: other.store.total == 5)

    assert fcntl.fcntl(theirs, fcntl.F_GETPIPE_SZ) == 256 * 1024
    assert fcntl.fcntl(quiet_end, fcntl.F_GETPIPE_SZ) == 64 * 1024
    writer.join()
    for fd, end in ((theirs, listener), (quiet_end, other)):
        os.close(fd)
        await end.end()


async def test_a_flood_does_not_starve_the_others() -> None:
    flooding, quiet = os.pipe(), os.pipe()
    async with await anyio.open_process(["yes"], stdin=None, stdout=flooding[1]) as process:
        os.close(flooding[1])
        flood, other = Listener(flooding[0]), Listener(quiet[0])
        await until(lambda: flood.store.total > 1_000_000)

        os.write(quiet[1], b"hello")
        await until(lambda: other.store.total == 5)

        process.kill()
        await flood.end()
    os.close(quiet[1])
    await other.end()
