"""Who waits for input is answered for at once, however it waits; and who works is not."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from shelltie import Terminal, TerminalSize
from shelltie.model import Command, Limits
from shelltie.running import procfs
from shelltie.running.options import RunOptions
from shelltie.sessions.registry import Sessions
from shelltie.sessions.session import Session, SessionReading
from shelltie.settings.all_settings import Waiting
from tests.tree import until

NO_LIMIT = RunOptions(None, Limits(None, None, "no limit"))
# Only that it waits for input can end such a wait.
PATIENT = Waiting(least=60, settle=60, most=60)

IN_A_THREAD = """
import threading
thread = threading.Thread(target=lambda: print("got", input("name? ")))
thread.start()
thread.join()
"""
PASSWORD_IN_A_THREAD = """
import getpass, threading
thread = threading.Thread(target=lambda: getpass.getpass())
thread.start()
thread.join()
"""
WITH_ASYNCIO = """
import asyncio, sys
async def main():
    asyncio.get_running_loop().add_reader(sys.stdin, lambda: print(sys.stdin.readline()))
    print("ready", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
WITH_SELECT = """
import select, sys
print("name? ", end="", flush=True)
select.select([sys.stdin], [], [])
"""
WITH_POLL = """
import select
print("name? ", end="", flush=True)
poll = select.poll()
poll.register(0, select.POLLIN)
poll.poll()
"""
A_SERVER = """
import asyncio, sys
async def main():
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    asyncio.get_running_loop().add_reader(sys.stdin, lambda: print(sys.stdin.readline()))
    print("listening", end=" ", flush=True)
    await server.serve_forever()
asyncio.run(main())
"""
PTHREAD = """
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *ask(void *nothing) {
    char line[100];
    printf("name? ");
    fflush(stdout);
    return read(0, line, sizeof line) ? nothing : 0;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, ask, 0);
    pthread_join(thread, 0);
}
"""
READLINE = """
const lines = require('readline').createInterface({input: process.stdin, output: process.stdout});
lines.question('name? ', name => console.log(name));
"""


@pytest.fixture
async def sessions(terminal: Terminal) -> Sessions:
    return Sessions(terminal.supervisor)


async def start(sessions: Sessions, text: str) -> Session:
    command = Command(text, stays_open=True, pty=TerminalSize())
    return await sessions.open(command, NO_LIMIT, "me", Waiting())


async def answer(
    session: Session, typed: bytes = b"", waiting: Waiting = PATIENT
) -> SessionReading:
    with anyio.fail_after(50):
        return await session.exchange(typed, waiting)


def python(tmp_path: Path, text: str) -> str:
    program = tmp_path / "program.py"
    program.write_text(text, encoding="utf-8")
    return f"{sys.executable} {program}"


@pytest.mark.proves("S2-64")
@pytest.mark.parametrize(
    "text", [IN_A_THREAD, WITH_ASYNCIO, WITH_SELECT, WITH_POLL], ids=lambda one: one[8:22]
)
async def test_however_a_program_waits_for_input_it_is_answered_for_at_once(
    sessions: Sessions, tmp_path: Path, text: str
) -> None:
    session = await start(sessions, python(tmp_path, text))

    reading = await answer(session)

    assert reading.text.strip() in ("name?", "ready")
    assert reading.sighting is not None
    assert (reading.sighting.waits_for_input, reading.sighting.password) == (True, False)


async def test_a_password_that_a_thread_asks_for_is_told_as_one(
    sessions: Sessions, tmp_path: Path
) -> None:
    session = await start(sessions, python(tmp_path, PASSWORD_IN_A_THREAD))

    reading = await answer(session)

    assert reading.sighting is not None
    assert (reading.sighting.waits_for_input, reading.sighting.password) == (True, True)


@pytest.mark.needs("cc")
async def test_a_thread_of_a_c_program_is_seen_to_wait(sessions: Sessions, tmp_path: Path) -> None:
    source, program = tmp_path / "ask.c", tmp_path / "ask"
    source.write_text(PTHREAD, encoding="utf-8")
    subprocess.run(["cc", source, "-o", program, "-lpthread"], check=True)
    session = await start(sessions, str(program))

    reading = await answer(session)

    assert reading.text == "name? "


@pytest.mark.needs("node")
async def test_a_question_of_node_is_answered_for_at_once(
    sessions: Sessions, tmp_path: Path
) -> None:
    program = tmp_path / "ask.js"
    program.write_text(READLINE, encoding="utf-8")
    session = await start(sessions, f"node {program}")

    reading = await answer(session)

    assert "name? " in reading.text


async def test_a_silent_reader_is_answered_for_at_once(sessions: Sessions) -> None:
    session = await start(sessions, "cat")

    reading = await answer(session)

    assert reading.text == ""
    assert reading.sighting is not None
    assert reading.sighting.waits_for_input


@pytest.mark.needs("bash", "sqlite3")
@pytest.mark.parametrize(
    ("program", "typed", "printed"),
    [
        (f"{sys.executable} -q", b"print(6 * 7)\n", "42"),
        ("bash --norc -i", b"echo $((6 * 7))\n", "42"),
        ("bash --norc -i", b"sleep 0.5; echo do''ne\n", "done"),
        ("sqlite3", b"select 6 * 7;\n", "42"),
    ],
)
async def test_the_whole_answer_of_a_repl_comes_as_soon_as_it_waits_again(
    sessions: Sessions, program: str, typed: bytes, printed: str
) -> None:
    session = await start(sessions, program)
    await answer(session)

    reading = await answer(session, typed)

    assert printed in reading.text


@pytest.mark.needs("node")
async def test_a_repl_that_awaits_something_is_not_taken_for_one_that_waits(
    sessions: Sessions,
) -> None:
    session = await start(sessions, "node")
    await answer(session)
    typed = b"await new Promise(done => setTimeout(done, 1500)); 6 * 7\n"

    reading = await answer(session, typed)

    assert "42" in reading.text


async def test_who_has_not_read_what_was_typed_is_not_waiting_for_more(
    sessions: Sessions,
) -> None:
    session = await start(sessions, "cat")
    await answer(session)
    pid = session.run.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    await until(lambda: procfs.stat(pid)[0] == b"T")

    session.send(b"typed\n")
    await until(lambda: session.run.output.total > 0)  # the echo
    seen = session.run.look()
    os.kill(pid, signal.SIGCONT)
    reading = await answer(session)

    assert seen is not None
    assert not seen.waits_for_input
    assert reading.text == "typed\r\ntyped\r\n"


async def test_a_server_that_also_listens_to_its_terminal_is_not_waiting_for_it(
    sessions: Sessions, tmp_path: Path
) -> None:
    session = await start(sessions, python(tmp_path, A_SERVER))
    await until(lambda: session.run.output.total > 0)

    reading = await answer(session, waiting=Waiting(least=0, settle=1, most=60))

    assert reading.sighting is not None
    assert not reading.sighting.waits_for_input
