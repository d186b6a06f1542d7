"""Descriptors that are watched beside the event loop: all are called, and nothing is left."""

import asyncio
import os
from pathlib import Path

import pytest

from shelltie.basics.readable import forget, watch


def _open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_each_is_called_until_it_is_forgotten() -> None:
    loop = asyncio.get_running_loop()
    heard: list[str] = []
    both = asyncio.Event()
    before = _open_descriptors()
    pipes = {name: os.pipe() for name in ("one", "other")}

    def hear(name: str) -> None:
        heard.append(os.read(pipes[name][0], 10).decode())
        forget(loop, pipes[name][0])
        if len(heard) == len(pipes):
            both.set()

    for name, (reads, writes) in pipes.items():
        watch(loop, reads, lambda name=name: hear(name))  # type: ignore[misc]  # of this turn
        os.write(writes, name.encode())
    async with asyncio.timeout(50):
        await both.wait()
    for reads, writes in pipes.values():
        forget(loop, reads)  # once more does nothing
        os.close(reads)
        os.close(writes)

    assert sorted(heard) == ["one", "other"]
    assert _open_descriptors() == before


async def test_one_that_fails_keeps_nobody_else_from_being_called() -> None:
    loop = asyncio.get_running_loop()
    reads, writes = os.pipe()
    others, other_writes = os.pipe()
    told: list[object] = []
    called = asyncio.Event()

    def fail() -> None:
        forget(loop, reads)
        raise ZeroDivisionError

    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
    watch(loop, reads, fail)
    watch(loop, others, called.set)
    os.write(writes, b"x")
    os.write(other_writes, b"x")
    async with asyncio.timeout(50):
        await called.wait()
        while not told:
            await asyncio.sleep(0)
    forget(loop, others)
    loop.set_exception_handler(None)
    for fd in (reads, writes, others, other_writes):
        os.close(fd)

    assert [type(error) for error in told] == [ZeroDivisionError]


async def test_the_end_of_a_pipe_is_heard() -> None:
    loop = asyncio.get_running_loop()
    reads, writes = os.pipe()
    ended = asyncio.Event()
    watch(loop, reads, ended.set)

    os.close(writes)

    async with asyncio.timeout(50):
        await ended.wait()
    forget(loop, reads)
    os.close(reads)


async def test_one_that_another_forgets_in_the_same_turn_is_not_called() -> None:
    loop = asyncio.get_running_loop()
    pipes = [os.pipe(), os.pipe()]
    called: list[int] = []
    once = asyncio.Event()

    def forget_all(fd: int) -> None:
        called.append(fd)
        for reads, _ in pipes:
            forget(loop, reads)
        once.set()

    for reads, writes in pipes:
        watch(loop, reads, lambda fd=reads: forget_all(fd))  # type: ignore[misc]  # of this turn
        os.write(writes, b"x")
    async with asyncio.timeout(50):
        await once.wait()
    await asyncio.sleep(0)
    for reads, writes in pipes:
        os.close(reads)
        os.close(writes)

    assert len(called) == 1


async def test_what_cannot_be_watched_is_refused() -> None:
    with pytest.raises(OSError, match=r"Bad file descriptor|Operation not permitted"):
        watch(asyncio.get_running_loop(), 9999, lambda: None)
