"""A terminal in a thread, for adapters of frameworks: any thread, any event loop, any end."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import CancelledError
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from shelltie import CommandDenied, Config, InvalidParameters, Result, Terminal, TerminalError
from shelltie.frontends.terminal_thread import TerminalThread
from tests.tree import new_tag, nobody_left, tagged, until


def new_thread(**settings: object) -> TerminalThread[Terminal]:
    return TerminalThread(Terminal(Config.of(**settings)))


def own_threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name == "shelltie-terminal"]


def test_one_terminal_serves_threads_and_event_loops() -> None:
    thread = new_thread()

    async def run(text: str) -> Result:
        return await thread.call_async(lambda terminal: terminal.run(text))

    first = thread.call(lambda terminal: terminal.run("echo $PPID"))
    second = asyncio.run(run("echo $PPID"))
    third = asyncio.run(run("echo $PPID"))

    assert own_threads() == ["shelltie-terminal"]
    assert {first.status, second.status, third.status} == {"success"}
    thread.close()
    assert own_threads() == []


async def test_who_is_cancelled_has_ended_the_command() -> None:
    thread, tag = new_thread(), new_tag()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(
                thread.call_async, lambda terminal: terminal.run(f"sleep 300.{tag} & wait")
            )
            await until(lambda: bool(tagged(tag, "sleep")))
            group.cancel_scope.cancel()

    assert tagged(tag) == []
    await anyio.to_thread.run_sync(thread.close)


async def test_close_ends_what_still_runs_and_the_next_call_opens_anew() -> None:
    thread, tag, ended = new_thread(), new_tag(), anyio.Event()

    async def endless() -> None:
        with pytest.raises(BaseException):  # noqa: B017, PT011  its terminal is gone
            await thread.call_async(lambda terminal: terminal.run(f"sleep 300.{tag}"))
        ended.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(endless)
            await until(lambda: bool(tagged(tag, "sleep")))
            await anyio.to_thread.run_sync(thread.close)
            await ended.wait()

    assert tagged(tag) == []
    again = await thread.call_async(lambda terminal: terminal.run("echo again"))
    assert again.stdout == "again\n"
    await anyio.to_thread.run_sync(thread.close)


async def test_nothing_is_left_of_one_that_nobody_closed() -> None:
    thread = new_thread()
    await thread.call_async(lambda terminal: terminal.run("true"))

    del thread
    gc.collect()

    await until(lambda: own_threads() == [])


def test_errors_come_back_as_they_are() -> None:
    thread = new_thread(safety_profiles_run_unknown="deny")

    with pytest.raises(CommandDenied):
        thread.call(lambda terminal: terminal.run("./unknown"))
    with pytest.raises(InvalidParameters):
        thread.call(lambda terminal: terminal.run([]))
    thread.close()


async def test_who_calls_while_others_close_has_an_answer_or_is_cancelled() -> None:
    thread, over, seen = new_thread(), threading.Event(), set[str]()

    def call() -> None:
        while not over.is_set():
            try:
                seen.add(thread.call(lambda terminal: terminal.run("echo x")).stdout)
            except CancelledError:
                continue
            except (TerminalError, LookupError, RuntimeError) as error:
                seen.add(repr(error))

    with anyio.fail_after(100):
        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(anyio.to_thread.run_sync, call)
            for _ in range(15):
                await thread.call_async(lambda _: anyio.sleep(0.05))
                await anyio.to_thread.run_sync(thread.close)
            over.set()
    await anyio.to_thread.run_sync(thread.close)

    assert seen <= {"x\n"}
    assert own_threads() == []


async def test_in_its_own_thread_nothing_waits_for_itself() -> None:
    thread = new_thread()

    async def inside(terminal: Terminal) -> str:
        with pytest.raises(InvalidParameters, match="wait for itself"):
            thread.call(lambda terminal: terminal.run("true"))
        told = await thread.call_async(lambda same: terminal.run(f"echo {same is terminal}"))
        thread.close()
        thread.close()
        return told.stdout

    with anyio.fail_after(60):
        assert await thread.call_async(inside) == "True\n"
        await until(lambda: own_threads() == [])


SLOW = """
import asyncio, os, signal, sys, threading
from shelltie.frontends.terminal_thread import TerminalThread

class Slow:
    inside = 0
    async def __aenter__(self):
        assert not self.inside
        self.inside += 1
        print("opening", flush=True)
        await asyncio.sleep(1)
    async def __aexit__(self, *_):
        self.inside -= 1

thread = TerminalThread(Slow())
def look():
    print(thread.call(lambda _: asyncio.sleep(0, "open")), flush=True)
"""


def test_who_is_forked_while_it_is_opened_opens_one() -> None:
    script = """
threading.Thread(target=look).start()
while not Slow.inside and thread._last is None and not thread._lock.locked():
    pass
if (child := os.fork()) == 0:
    Slow.inside = thread._terminal.inside = 0
    signal.alarm(60)
    look()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    program = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SLOW + script],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert (program.returncode, program.stderr) == (0, "")
    assert program.stdout.split().count("open") == 2


def test_who_is_forked_while_a_module_is_imported_for_it_has_all_of_that(tmp_path: Path) -> None:
    module = "import time\nbegun = True\ntime.sleep(1)\nended = True\n"
    (tmp_path / "slow_module.py").write_text(module, encoding="utf-8")
    script = """
class Importing(Slow):
    async def __aenter__(self):
        import slow_module
        print(slow_module.ended, flush=True)

thread = TerminalThread(Importing())
threading.Thread(target=look).start()
while not hasattr(sys.modules.get("slow_module"), "begun"):
    pass
if (child := os.fork()) == 0:
    signal.alarm(60)
    look()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    program = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SLOW + script],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )

    assert (program.returncode, program.stderr) == (0, "")
    assert program.stdout.count("True") == 2


def test_ctrl_c_while_it_is_opened_leaves_none_open() -> None:
    script = """
try:
    look()
except KeyboardInterrupt:
    print(threading.active_count(), flush=True)
look()
"""
    program = subprocess.Popen(
        [sys.executable, "-c", SLOW + script], stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "opening\n"

    os.kill(program.pid, signal.SIGINT)
    printed, _ = program.communicate(timeout=100)

    assert printed.split() == ["1", "opening", "open"]
    assert program.returncode == 0


def test_whatever_is_raised_in_a_call_ends_its_command(tmp_path: Path) -> None:
    """Programs bound a call by an alarm, whose signal handler raises."""
    tag = new_tag()
    script = f"""
import signal, shelltie
def late(*_): raise TimeoutError
signal.signal(signal.SIGALRM, late)
terminal = shelltie.SyncTerminal()
try:
    terminal.run("sleep 300.{tag} & wait", silence=0)
except TimeoutError:
    print(terminal.run("ps -eo args | grep -c '[s]leep 300.{tag}'").stdout)
terminal.close()
"""
    program = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    anyio.run(until, lambda: bool(tagged(tag, "sleep")))

    os.kill(program.pid, signal.SIGALRM)
    printed, _ = program.communicate(timeout=60)

    assert printed.strip() == "0"


PROGRAM = """
import os, sys
from shelltie import Terminal
from shelltie.frontends.terminal_thread import TerminalThread

thread = TerminalThread(Terminal())
print(thread.call(lambda terminal: terminal.run("echo before")).stdout, end="", flush=True)
child = os.fork()
if child == 0:
    print(thread.call(lambda terminal: terminal.run("echo child")).stdout, end="", flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(thread.call(lambda terminal: terminal.run("echo parent")).stdout, end="", flush=True)
try:
    thread.call(lambda terminal: terminal.run(sys.argv[1]))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_a_program_that_forks_and_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    tag = new_tag()
    program = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, f"sleep 300.{tag} & wait"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    anyio.run(until, lambda: bool(tagged(tag, "sleep")))

    os.kill(program.pid, signal.SIGINT)
    printed, _ = program.communicate(timeout=60)

    assert printed.split() == ["before", "child", "parent", "interrupted"]
    assert program.returncode == 0
    anyio.run(nobody_left, tag)
