"""Blocking work beside the event loop, and coroutines without one."""

import asyncio
import threading
from collections.abc import Generator

import anyio
import pytest

from shelltie.basics.worker_threads import CallersThread, WorkerThreads, without_loop


async def test_a_hundred_calls_at_once_take_few_threads() -> None:
    workers, inside, all_in, go_on = WorkerThreads(), set[int](), anyio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work() -> int:
        inside.add(threading.get_ident())
        if len(inside) == 4:
            loop.call_soon_threadsafe(all_in.set)
        go_on.wait(60)
        return threading.get_ident()

    used = list[int]()

    async def call() -> None:
        used.append(await workers.run(work))

    async with anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(call)
        with anyio.fail_after(60):
            await all_in.wait()
        go_on.set()

    assert (len(used), len(set(used))) == (100, 4)


async def test_what_keeps_a_processor_busy_has_its_turn_one_after_the_other() -> None:
    workers, busy, most = WorkerThreads(), 0, 0

    def work() -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        busy -= 1

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(workers.run_in_turn, work)

    assert most == 1


def test_without_a_loop_all_is_done_in_the_thread_of_the_caller() -> None:
    threads = CallersThread()

    async def both() -> tuple[int, int]:
        first = await threads.run(threading.get_ident)
        return first, await threads.run_in_turn(threading.get_ident)

    assert without_loop(both()) == (threading.get_ident(), threading.get_ident())


def test_without_a_loop_an_error_of_the_work_arrives() -> None:
    with pytest.raises(ZeroDivisionError):
        without_loop(CallersThread().run(lambda: 1 // 0))


def test_without_a_loop_a_coroutine_that_would_wait_is_ended_with_an_error() -> None:
    ended = list[str]()

    async def waits() -> None:
        try:
            await _NeverOver()
        finally:
            ended.append("its clean-up ran")

    with pytest.raises(RuntimeError, match="no event loop runs"):
        without_loop(waits())

    assert ended == ["its clean-up ran"]


class _NeverOver:
    def __await__(self) -> Generator[None, None, None]:
        yield
