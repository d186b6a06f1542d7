"""Calls that wait: from threads, beside and inside event loops, after a fork, at an end."""

import asyncio
import doctest
import pickle
import subprocess
import sys
import time
from collections.abc import Coroutine
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import shelltie
from shelltie import FileMissing, InvalidParameters, RunOver, SyncTerminal, Terminal
from shelltie.frontends import sync_terminal
from tests.tree import new_tag, nobody_left, tagged, until


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


def run_python(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_its_documentation_says_is_so() -> None:
    tried = doctest.testmod(sync_terminal)

    assert (tried.failed, tried.attempted) == (0, 2)


def test_many_threads_share_one() -> None:
    with SyncTerminal() as terminal, ThreadPoolExecutor(8) as threads:
        results = list(threads.map(terminal.run, (f"echo {number}" for number in range(16))))

    assert [result.stdout for result in results] == [f"{number}\n" for number in range(16)]


def test_files_and_errors_are_as_with_a_loop(tmp_path: Path, here: Path) -> None:
    with SyncTerminal() as terminal:
        files = terminal.files.at(here, isolation="none")
        files.write("a/b", "text", mode=0o600)
        files.make_directory("c")
        copied = files.download(".", tmp_path / "copy")
        files.upload(tmp_path / "copy", "again")
        files.remove("a", tree=True)

        assert (files.read("again/a/b"), files.stat("again/a/b").mode) == (b"text", 0o600)
        assert [entry.name for entry in files.list()] == ["again", "c"]
        assert copied.files == 1
        with pytest.raises(FileMissing):
            files.read("a/b")
        with pytest.raises(InvalidParameters):
            terminal.run("true", timeout=-1)


def test_what_is_started_goes_on_and_is_waited_for_read_and_ended() -> None:
    tag = new_tag()
    with SyncTerminal() as terminal:
        quick = terminal.start("echo quick; exit 3")
        slow = terminal.start(f"echo slow; exec sleep 600.{tag}", silence=0)

        assert (quick.wait(50).stdout, quick.wait().exit_code) == ("quick\n", 3)
        with pytest.raises(TimeoutError):
            slow.wait(0.1)
        while not slow.read():
            time.sleep(0.01)
        with pytest.raises(RunOver, match="takes none"):
            slow.write("x")
        ended = slow.kill("enough")
        assert (ended.status, ended.stdout, slow.read(1)) == ("error", "slow\n", b"low\n")
    assert tagged(tag) == []


def test_what_stays_is_typed_into_by_the_next_one() -> None:
    with SyncTerminal() as terminal:
        name = terminal.start("read word; echo got $word; exit 5", stays=True).id
    with SyncTerminal() as terminal:
        (note,) = terminal.staying()
        held = terminal.adopt(note.run)
        held.write("this\n")
        result = held.wait(100)

    assert (note.run, result.stdout, result.exit_code) == (name, "got this\n", 5)


async def test_nothing_outlives_it_and_it_opens_again() -> None:
    tag = new_tag()
    terminal = SyncTerminal()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(terminal.run, f"setsid sleep 600.{tag} & sleep 601.{tag}")
        await until(lambda: len(tagged(tag, "sleep")) == 2)
        await asyncio.to_thread(terminal.close)
        await until(waiting.done)

    assert isinstance(waiting.exception(), CancelledError)
    assert tagged(tag) == []
    with terminal:
        assert (await asyncio.to_thread(terminal.run, "echo again")).stdout == "again\n"


async def test_where_an_event_loop_runs() -> None:
    with pytest.raises(InvalidParameters, match=r"await run"):
        shelltie.run_sync("true")
    with SyncTerminal() as terminal:
        result = await asyncio.to_thread(terminal.run, "echo beside")
        assert result.stdout == "beside\n"
        assert terminal.run("echo inside").stdout == "inside\n"


def test_without_asyncio_the_error_says_what_to_do() -> None:
    """As any other event loop would call it."""
    entering: Coroutine[Any, Any, Terminal] = Terminal().__aenter__()

    with pytest.raises(InvalidParameters, match="SyncTerminal"):
        entering.send(None)


def test_a_forked_process_has_a_terminal_of_its_own() -> None:
    script = """
import os, shelltie
terminal = shelltie.SyncTerminal()
print(terminal.run("echo parent").stdout, end="", flush=True)
if (child := os.fork()) == 0:
    print(terminal.run("echo child").stdout, end="", flush=True)
    terminal.close()
    os._exit(0)
os.waitpid(child, 0)
print(terminal.run("echo parent again").stdout, end="", flush=True)
terminal.close()
"""

    assert run_python(script).splitlines() == ["parent", "child", "parent again"]


async def test_an_event_loop_that_dies_takes_nothing_else_with_it() -> None:
    tag = new_tag()
    script = f"""
import asyncio, shelltie
async def begin():
    terminal = await shelltie.Terminal().__aenter__()
    await terminal.start("sleep 600.{tag}", silence=0)
    return terminal
loop = asyncio.new_event_loop()
terminal = loop.run_until_complete(begin())
loop.close()
print(shelltie.run_sync("echo still here").stdout, end="")
"""

    assert run_python(script) == "still here\n"
    await nobody_left(tag)


def test_a_result_can_be_pickled() -> None:
    result = shelltie.run_sync("echo out; echo err >&2; exit 3")

    again = pickle.loads(pickle.dumps(result))

    assert again == result
    assert (again.exit_code, again.stderr) == (3, "err\n")


async def test_a_terminal_is_open_once_at_a_time() -> None:
    terminal = Terminal()
    async with terminal:
        with pytest.raises(InvalidParameters, match="open already"):
            await terminal.__aenter__()
        assert (await terminal.run("echo first")).stdout == "first\n"
    async with terminal:
        assert (await terminal.run("echo second")).stdout == "second\n"
