"""After a crash: what a dead server left is ended and settled, and nobody else is touched."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from shelltie.events import Event, RunLost
from shelltie.keeper import process_identity
from shelltie.keeper.process_identity import ProcessIdentity
from shelltie.record import queries, recovery
from shelltie.record.append import ChainWriter
from shelltie.record.database import open_for_writing
from shelltie.record.facts import Fact
from shelltie.record.recovery import MARK, recover
from tests.cli import text_of
from tests.conftest import Open
from tests.served import served
from tests.tree import until

ROOT = Path(__file__).resolve().parent.parent.parent
# Processes are found by these on the whole machine, where other tests run.
RUN, OTHER = (f"01J{os.getpid():022d}{number}" for number in (1, 2))
SERVER = """
import anyio, sys
from shelltie import Config, Terminal
from shelltie.record import queries
async def main():
    config = Config.of(state_dir=sys.argv[1])
    async with Terminal(config) as terminal:
        run = await terminal.start("echo it begins; sleep 300")
        while not run.output.total:
            await anyio.sleep(0.01)
        while "started" not in [line.entry.kind for line in queries.entries(config.journal)]:
            await anyio.sleep(0.05)
        print(run.id, run.pid, flush=True)
        await anyio.sleep(300)
anyio.run(main)
"""


class Past:
    """A journal in which a server that is dead now has left something open."""

    def __init__(self, place: Path) -> None:
        self.path = place / "journal.db"
        self.spools = place / "output"
        self.book = ChainWriter(open_for_writing(self.path, durable=False), "dead")
        self.identity = replace(process_identity.of(os.getpid()), pid=1, started="never")

    def died(self, who: ProcessIdentity | None = None) -> None:
        """That server is noted."""
        one = who or self.identity
        row = ("dead", one.pid, one.started, one.boot, one.namespace, 1.0, None, 0)
        with self.book.transaction():
            self.book.connection.execute(f"INSERT INTO servers VALUES ({','.join('?' * 8)})", row)

    def ran(
        self, run: str = RUN, pid: int | None = None, started: str | None = None, cwd: str = "/"
    ) -> None:
        """A run had begun, and its process, if it has one, was noted."""
        limits = {"cwd": cwd, "limits": {"category": None}}
        with self.book.transaction():
            self.book.add(Fact(run, time.time(), "ready", {"command": "sleep 300", **limits}))
            if pid is not None:
                self.book.add(Fact(run, 1.0, "started", {"pid": pid, "pidStarted": started}))

    def recovered(self, inside: str | None = None) -> list[RunLost]:
        self.book.server = "living"
        return recover(self.book, self.spools, inside)


@pytest.fixture
def past(tmp_path: Path) -> Iterator[Past]:
    made = Past(tmp_path)
    yield made
    made.book.connection.close()


@contextmanager
def somebody(mark: str | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own session, with the mark of a run or without."""
    env = {"PATH": "/usr/bin:/bin"} | ({} if mark is None else {MARK: mark})
    process = subprocess.Popen(["sleep", "300"], env=env, start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


def ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        return process.wait(0.3) == -signal.SIGKILL
    except subprocess.TimeoutExpired:
        return False


@pytest.mark.proves("T1-25", "TX-6", "S1-40", "S1-36", "C-48")
def test_a_leftover_is_ended_by_its_mark_and_by_its_identity(past: Past) -> None:
    past.died()
    with somebody(RUN) as marked, somebody() as noted:
        past.ran(RUN)
        past.ran(OTHER, noted.pid, process_identity.started(noted.pid))
        lost = past.recovered()

        assert {one.run: one.ended for one in lost} == {RUN: (marked.pid,), OTHER: (noted.pid,)}
        assert marked.wait(20) == noted.wait(20) == -signal.SIGKILL
    assert queries.verify(past.path).problems == ()


@pytest.mark.proves("T1-25", "C-44")
def test_a_stranger_with_a_reused_pid_is_never_touched(past: Past) -> None:
    past.died()
    with somebody() as stranger, somebody(OTHER) as of_another_run:
        past.ran(RUN, stranger.pid, "12345")
        lost = past.recovered()

        assert [one.ended for one in lost] == [()]
        assert not ended(stranger)
        assert not ended(of_another_run)


@pytest.mark.proves("T1-25")
def test_a_pid_that_becomes_a_strangers_just_before_it_is_killed_is_not_touched() -> None:
    with somebody() as stranger:
        killed = recovery._kill(stranger.pid, "12345")

        assert not killed
        assert not ended(stranger)


def test_after_a_reboot_no_pid_means_anything(past: Past) -> None:
    past.died(replace(past.identity, boot="another boot"))
    with somebody() as stranger:
        past.ran(RUN, stranger.pid, process_identity.started(stranger.pid))
        lost = past.recovered()

        assert [one.run for one in lost] == [RUN]
        assert not ended(stranger)


def test_a_path_that_is_no_text_is_settled_too(past: Past) -> None:
    past.died()
    past.ran(cwd="/\udcff")

    assert [one.cwd for one in past.recovered()] == ["/\udcff"]
    assert past.recovered() == []


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE entries SET body = 'no JSON' WHERE run = ?",
        "UPDATE entries SET body = '[1]', at = 'never' WHERE run = ?",
        "UPDATE entries SET body = CAST(x'ff00' AS TEXT) WHERE run = ?",
        "UPDATE runs SET pid = 'x', began = 'never', command = CAST(x'ff' AS TEXT) WHERE id = ?",
    ],
)
def test_a_damaged_row_keeps_nobody_from_settling_the_rest(past: Past, harm: str) -> None:
    past.died()
    past.ran(RUN, *((1, "never") if "runs" in harm else ()))
    past.ran(OTHER)
    past.book.connection.execute(harm, (RUN,))

    assert {one.run for one in past.recovered()} == {RUN, OTHER}
    assert past.recovered() == []


@pytest.mark.parametrize("namespace", ["same", "pid:[1]"])
def test_a_server_that_lives_or_may_live_is_left_alone(past: Past, namespace: str) -> None:
    with somebody() as server, somebody(RUN) as working:
        who = process_identity.of(server.pid)
        past.died(who if namespace == "same" else replace(who, pid=1, namespace=namespace))
        past.ran(RUN)

        assert past.recovered() == []
        assert not ended(working)


def test_nobody_ends_the_run_it_is_in(past: Past) -> None:
    past.died()
    past.ran(RUN)
    with somebody(RUN) as ourselves:
        assert past.recovered(inside=RUN) == []
        assert not ended(ourselves)


def test_what_ended_or_never_began_is_not_lost(past: Past) -> None:
    past.died()
    past.ran(RUN)
    past.ran(OTHER)
    end = {"state": "finished", "duration": 1.0, "exitCode": 0, "limit": None}
    with past.book.transaction():
        past.book.add(Fact(RUN, 1.0, "ended", dict(end)))
        past.book.add(Fact(OTHER, 1.0, "refused", {"code": "NOT_STARTED"}))

    assert past.recovered() == []


def test_two_that_come_at_once_settle_it_once(past: Past) -> None:
    past.died()
    past.ran(RUN)
    second = ChainWriter(open_for_writing(past.path, durable=False), "second")

    lost = [*past.recovered(), *recover(second, past.spools)]
    second.connection.close()

    assert len(lost) == 1
    kinds = [line.entry.kind for line in queries.entries(past.path)]
    assert (kinds.count("lost"), kinds.count("server_died")) == (1, 1)


def test_what_comes_late_changes_nothing(past: Past) -> None:
    past.died()
    past.ran(RUN, 1, "never")
    past.recovered()
    end = {"state": "finished", "duration": 1.0, "exitCode": 0, "limit": None}
    with past.book.transaction():
        past.book.add(Fact(RUN, 1.0, "ended", end))

    state = past.book.connection.execute("SELECT state FROM runs").fetchall()
    assert state == [("lost",)]


@pytest.mark.proves("T1-26", "S1-36", "TX-6")
async def test_a_server_that_is_shot_leaves_a_record_that_the_next_one_settles(
    open_terminal: Open, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    command = [sys.executable, "-c", SERVER, str(state)]
    async with await anyio.open_process(command, cwd=ROOT) as server:
        assert server.stdout is not None
        with anyio.fail_after(50):
            said = await BufferedByteReceiveStream(server.stdout).receive_until(b"\n", 200)
        run, pid = said.decode().split()
        server.kill()
    await until(lambda: process_identity.started(int(pid)) is None)

    told: list[Event] = []
    async with open_terminal(told.append) as terminal:
        assert terminal.supervisor.record is not None
        found = await terminal.supervisor.record.lost("")
        await until(lambda: any(isinstance(event, RunLost) for event in told))

    assert [(one.run, one.command) for one in found] == [(run, "echo it begins; sleep 300")]
    journal = state / "journal.db"
    rows = [line.to_json() for line in queries.entries(journal) if line.entry.run == run]
    assert [row["kind"] for row in rows] == ["ready", "started", "lost"]
    assert rows[1]["pid"] == int(pid)
    assert rows[1]["pidStarted"]
    times = [str(row["at"]) for row in rows]
    assert times == sorted(times)
    assert queries.verify(journal).problems == ()


@pytest.mark.proves("TX-6", "T1-26")
@pytest.mark.timeout(120)
async def test_the_sessions_of_a_crashed_server_are_listed_and_can_be_read() -> None:
    async with served() as first:
        session = await first.start("printf 'one\\ntwo\\n'; sleep 300", waitFor="two")
        with anyio.fail_after(50):  # its last line may lack its end
            while (await first.call("terminal_list"))["sessions"][0]["position"] < 10:
                await anyio.sleep(0.05)
        (known,) = (await first.call("terminal_list"))["sessions"]
        first.die()
        with anyio.fail_after(50):
            await first.client.process.wait()
    unsettled = json.loads(text_of("ps", "--json"))
    async with served() as second:
        listed = await second.call("terminal_list")
        (lost,) = [one for one in listed["lost"] if "printf" in one["command"]]
        read = await second.call("terminal_output", sessionId=lost["id"])
        rest = await second.call("terminal_output", **{"sessionId": lost["id"], "from": 5})
        beyond = await second.call("terminal_output", **{"sessionId": lost["id"], "from": 99})
        settled = json.loads(text_of("ps", "--json"))

    assert (session, known["running"]) == ("term-1", True)
    assert lost["id"] in [one["id"] for one in unsettled if one["state"] == "lost"]
    assert lost["id"] in [one["id"] for one in settled if one["state"] == "lost"]
    assert (read["output"], read["running"], read["complete"]) == ("one\ntwo\n", False, True)
    assert rest["output"] == "two\n"
    assert "died" in read["hint"]
    assert beyond["errorCode"] == "INVALID_PARAMETERS"
    assert text_of("logs", lost["id"]) == "one\ntwo\n"
    assert json.loads(text_of("logs", lost["id"], "--json", "--tail", "1"))["text"] == "two\n"
