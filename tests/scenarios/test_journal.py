"""What happened is on record: before it starts, when it ends, and so that changes show."""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path

import anyio
import pytest

from shelltie import Config, Terminal
from shelltie.errors import (
    CommandDenied,
    JournalBroken,
    JournalUnreadable,
    JournalUnusable,
    NoRecordedRun,
)
from shelltie.events import Event, RunReady
from shelltie.model import Caller
from shelltie.record import anchor as anchored
from shelltie.record import queries
from shelltie.record.append import ChainWriter
from shelltie.record.database import VERSION, open_for_writing
from shelltie.record.facts import Fact
from shelltie.record.history import last, shapes
from shelltie.record.past_runs import HistoryFilter, find, latest
from shelltie.record.retention import trim
from shelltie.record.tables import plain
from shelltie.running.options import Requester
from shelltie.sessions.registry import Sessions
from shelltie.sessions.shell import Start, open_shell
from shelltie.settings.all_settings import Retention
from tests.conftest import Open
from tests.served import served
from tests.tree import until

MANY = """
import anyio, sys
from shelltie import Config, Terminal
async def main():
    async with Terminal(Config.of(state_dir=sys.argv[1])) as terminal:
        async with anyio.create_task_group() as tasks:
            for number in range(15):
                tasks.start_soon(terminal.run, ["/bin/echo", sys.argv[2], str(number)])
anyio.run(main)
"""
READ_ONLY = """
import os, sys
from pathlib import Path
from shelltie.record.facts import Fact
from shelltie.record.writer import Terms, Writer
os.setuid(int(sys.argv[2]))
writer = Writer(Terms(Path(sys.argv[1]), Path("/nowhere")))
writer.take([Fact("", 1.0, "session_opened", {})])
print(writer.write(patient=False))
writer.close()
"""
READ = """
import os, sys
from pathlib import Path
from shelltie.record import queries
os.setuid(int(sys.argv[2]))
print(queries.tail(Path(sys.argv[1]), 1)[0].entry.kind)
"""
FULL_DISK = """
import anyio, resource, sys
from shelltie import Config, Terminal
async def main():
    async with Terminal(Config.of(state_dir=sys.argv[1])) as terminal:
        first = await terminal.run(["/bin/true"])
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        second = await terminal.run(["/bin/true"])
        third = await terminal.run(["/bin/true"])
    print(first.status, list(first.warnings), second.status, third.status, *third.warnings)
anyio.run(main)
"""

SMALL_DISK = """
import anyio, pathlib, sys
from shelltie import Config, Terminal
from shelltie.record import queries
place = pathlib.Path(sys.argv[1])
async def told():
    async with Terminal(Config.of(state_dir=str(place))) as terminal:
        result = await terminal.run("echo on")
        return " ".join([result.status, *result.warnings])
async def main():
    print(await told())
    with (place / "filler").open("ab", buffering=0) as filler:
        try:
            while filler.write(b"x" * 4096):
                pass
        except OSError:
            pass
    print(await told())
    (place / "filler").unlink()
    print(await told())
    print(queries.verify(place / "journal.db").problems)
anyio.run(main)
"""


# The disk has room for a little output; what `room` says is what remains of it.
FLOODED_DISK = """
import anyio, os, pathlib, sys
from shelltie import Config, Terminal
from shelltie.record import queries
place, room = pathlib.Path(sys.argv[1]), sys.argv[2]
async def main():
    async with Terminal(Config.of(state_dir=str(place))) as terminal:
        await terminal.run(["/bin/true"])
        script = "head -c 9000000 /dev/zero"
        if room == "none":
            script += f"; cat /dev/zero > {place}/filler"
        result = await terminal.run(script)
    # Only now: to record it, all the output that was kept is read, which the run does not wait for.
    ends = [line.entry.run for line in queries.entries(place / "journal.db")
            if line.entry.kind == "ended"]
    print(result.status, result.run_id in ends, *result.warnings, sep="|")
    (place / "filler").unlink(missing_ok=True)
    async with Terminal(Config.of(state_dir=str(place))) as terminal:
        await terminal.run(["/bin/true"])
    missed = [line.entry.body for line in queries.entries(place / "journal.db")
              if line.entry.kind == "missed"]
    print(missed, queries.verify(place / "journal.db").problems, sep="|")
anyio.run(main)
"""


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Where the terminals of `open_terminal` record."""
    return tmp_path / "state" / "journal.db"


def kinds(journal: Path, run: str) -> list[str]:
    return [line.entry.kind for line in queries.entries(journal) if line.entry.run == run]


def bodies(journal: Path, kind: str) -> list[dict[str, object]]:
    lines = [line for line in queries.entries(journal) if line.entry.kind == kind]
    return [line.to_json() for line in lines]


@contextmanager
def changing(journal: Path) -> Iterator[sqlite3.Connection]:
    """Somebody who can write to the file."""
    with closing(sqlite3.connect(journal, isolation_level=None)) as connection:
        yield connection


async def python(program: str, *arguments: str) -> str:
    """What a program of its own process prints."""
    with anyio.fail_after(50):
        done = await anyio.run_process([sys.executable, "-c", program, *arguments], check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.proves("S4-37", "T4-19", "S1-36", "T1-26")
async def test_a_run_is_on_record_from_before_its_start_to_its_end(
    open_terminal: Open, journal: Path
) -> None:
    async with open_terminal() as terminal:
        result = await terminal.run("echo out; echo err >&2; exit 3")
        run = await terminal.start("sleep 0.4")
        before = kinds(journal, run.id)
        await run.wait()

    assert before[0] == "ready"
    assert kinds(journal, run.id)[-1] == "ended"
    end = next(one for one in bodies(journal, "ended") if one["runId"] == result.run_id)
    assert (end["state"], end["exitCode"]) == ("finished", 3)
    assert isinstance(end["duration"], float)
    printed = sha256(b"out\nerr\n").hexdigest()
    assert isinstance(output := end["output"], dict)
    assert (output["stdout"], output["stderr"], output["sha256"]) == (4, 4, printed)
    assert queries.verify(journal).problems == ()


async def test_a_large_output_has_its_digest_and_its_file(
    open_terminal: Open, journal: Path
) -> None:
    async with open_terminal() as terminal:
        result = await terminal.run("head -c 1000000 /dev/zero")

    (end,) = bodies(journal, "ended")
    assert isinstance(output := end["output"], dict)
    assert output["file"] == result.output_file
    assert (output["kept"], output["sha256"]) == (1000000, sha256(bytes(1000000)).hexdigest())


@pytest.mark.proves("C-57", "T4-19")
async def test_a_secret_in_a_command_does_not_reach_the_file(
    open_terminal: Open, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "sesame-open-sesame")
    async with open_terminal() as terminal:
        await terminal.run("echo sesame-open-sesame --password=swordfish")
        await terminal.run("echo given-by-the-call", env={"MY_API_KEY": "given-by-the-call"})

    whole = b"".join(path.read_bytes() for path in journal.parent.glob("journal.db*"))
    assert b"[REDACTED" in whole
    for secret in (b"sesame-open-sesame", b"swordfish", b"given-by-the-call"):
        assert secret not in whole


async def test_a_refusal_and_who_asked_are_on_record(open_terminal: Open, journal: Path) -> None:
    async with open_terminal(safety_profiles_run_dangerous="deny") as terminal:
        with pytest.raises(CommandDenied):
            await terminal.run("rm -rf /tmp/nothing-of-ours")

    (refused,) = bodies(journal, "refused")
    assert (refused["verdict"], refused["code"]) == ("dangerous", "COMMAND_DENIED")
    assert refused["cwd"] == str(Path.cwd())
    assert bodies(journal, "ready") == []


async def test_every_command_of_a_shell_is_on_record(open_terminal: Open, journal: Path) -> None:
    async with open_terminal(safety_profiles_session_unknown="allow") as terminal:
        sessions = Sessions(terminal.supervisor)
        start = Start(requester=Requester(Caller("client")))
        shell = await open_shell(sessions, terminal.supervisor, "me", "echo one", start)
        with anyio.fail_after(50):
            await shell.follow()
            await shell.run("(exit 7)")

    began = [one["command"] for one in bodies(journal, "shell_began")]
    ended = [one["exitCode"] for one in bodies(journal, "shell_ended")]
    assert (began, ended) == (["echo one", "(exit 7)"], [0, 7])
    assert bodies(journal, "ready")[0]["client"] == "client"


@pytest.mark.proves("S1-35")
async def test_several_servers_share_one_file_and_lose_nothing(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        for name in ("one", "two", "three", "four"):
            tasks.start_soon(python, MANY, str(tmp_path), name)

    journal = tmp_path / "journal.db"
    assert queries.verify(journal).problems == ()
    ready = {str(one["command"]) for one in bodies(journal, "ready")}
    assert len(ready) == len(bodies(journal, "ended")) == 4 * 15
    with changing(journal) as connection:
        states = connection.execute("SELECT state, count(*) FROM runs GROUP BY state").fetchall()
    assert states == [("finished", 60)]


# The chain


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (
            "UPDATE entries SET body = replace(body, 'true', 'false') WHERE kind = 'ready'",
            "changed",
        ),
        ("DELETE FROM entries WHERE seq = 3", "missing"),
        ("UPDATE entries SET seq = 99 WHERE seq = 2", "missing"),
        ("UPDATE runs SET state = 'killed'", "the table of runs"),
        ("UPDATE runs SET command = 'ls'", "the table of runs"),
    ],
)
async def test_a_change_shows_and_is_not_repaired(
    open_terminal: Open, journal: Path, harm: str, told: str
) -> None:
    async with open_terminal() as terminal:
        await terminal.run(["/bin/true"])
        await terminal.run(["/bin/true"])
    with changing(journal) as connection:
        connection.execute(harm)
    found = queries.verify(journal).problems
    async with open_terminal() as terminal:
        await terminal.run(["/bin/true"])

    assert any(told in problem for problem in found)
    assert any(told in problem for problem in queries.verify(journal).problems)


async def test_a_cut_end_shows_against_the_anchor(
    open_terminal: Open, journal: Path, tmp_path: Path
) -> None:
    anchor = tmp_path / "heads"
    async with open_terminal(audit_anchor=str(anchor)) as terminal:
        await terminal.run(["/bin/true"])
    whole = queries.verify(journal, anchored.read(anchor).heads).problems
    with changing(journal) as connection:
        connection.execute("DELETE FROM entries WHERE seq > 3")

    assert whole == ()
    assert queries.verify(journal).problems == ()
    assert "cut off" in queries.verify(journal, anchored.read(anchor).heads).problems[0]


@pytest.mark.parametrize("required", [False, True])
async def test_an_anchor_that_cannot_be_written_is_told_in_results(
    open_terminal: Open, tmp_path: Path, required: bool
) -> None:
    async with open_terminal(audit_anchor=str(tmp_path), audit_required=required) as terminal:
        with anyio.fail_after(50):
            while not (result := await terminal.run(["/bin/true"])).warnings:
                pass  # heads are kept after the first record, and beside it

    assert result.exit_code == 0
    assert result.warnings[0].startswith("recorded, but a rewrite would not show")


@pytest.mark.parametrize("retention", [Retention(days=1), Retention(size=200_000)])
def test_what_is_old_or_too_much_goes_and_the_chain_still_holds(
    tmp_path: Path, retention: Retention
) -> None:
    path = tmp_path / "journal.db"
    book = ChainWriter(open_for_writing(path, durable=False), "server")
    now = 1_800_000_000.0
    with book.transaction():
        for number in range(9000):
            at = now - 5 * 86400 if number < 5000 else now
            book.add(Fact("", at, "ready", {"command": "x" * 50, "limits": {"category": None}}))
    book.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    large = path.stat().st_size

    slices = 0
    while trim(book, retention, now):
        slices += 1
    book.connection.close()

    found = queries.verify(path)
    assert found.problems == ()
    assert slices >= 3
    assert found.first > (4000 if retention.size else 5000)
    assert path.stat().st_size < large


# A file that cannot be used


@pytest.mark.parametrize("content", [b"this is no database at all, but a text", os.urandom(8192)])
async def test_what_is_no_database_stays_as_it_is(
    open_terminal: Open, journal: Path, content: bytes
) -> None:
    journal.parent.mkdir()
    journal.write_bytes(content)

    async with open_terminal() as terminal:
        result = await terminal.run("echo still here")

    assert (result.status, result.stdout) == ("success", "still here\n")
    assert "no database" in " ".join(result.warnings)
    assert journal.read_bytes() == content
    with pytest.raises(JournalUnusable):
        queries.verify(journal)


@pytest.mark.parametrize("kind", ["/dev/null", "/proc/journal.db", "directory", "pipe", "loop"])
async def test_what_can_be_no_journal_holds_nobody_up(
    open_terminal: Open, tmp_path: Path, kind: str
) -> None:
    path = Path(kind) if kind.startswith("/") else tmp_path / kind
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)

    with anyio.fail_after(50):
        async with open_terminal(audit_path=str(path)) as terminal:
            results = [await terminal.run("echo on") for _ in range(2)]

    for result in results:
        assert result.stdout == "on\n"
        assert str(path) in " ".join(result.warnings)
    with pytest.raises((JournalUnusable, JournalUnreadable)):
        queries.tail(path, 1)


async def test_a_journal_may_be_a_link(open_terminal: Open, tmp_path: Path) -> None:
    link, target = tmp_path / "link.db", tmp_path / "target.db"
    link.symlink_to(target)

    async with open_terminal(audit_path=str(link)) as terminal:
        result = await terminal.run(["/bin/true"])

    assert result.warnings == ()
    assert kinds(target, result.run_id)[0] == "ready"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not write")
async def test_a_journal_that_may_only_be_read_is_told_and_stays(public_path: Path) -> None:
    journal = public_path / "journal.db"
    first = await python(READ_ONLY, str(journal), "0")
    journal.chmod(0o644)
    before = journal.read_bytes()

    second = await python(READ_ONLY, str(journal), "65534")

    assert first == "None\n"
    assert second.startswith(f"{journal}: attempt to write a readonly database")
    assert journal.read_bytes() == before
    assert await python(READ, str(journal), "65534") == "server_closed\n"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (f"PRAGMA user_version = {VERSION + 1}", "newer shelltie"),
        ("PRAGMA application_id = 7", "somebody else's"),
    ],
)
async def test_a_newer_or_foreign_database_stays_as_it_is(
    open_terminal: Open, journal: Path, change: str, told: str
) -> None:
    async with open_terminal() as terminal:
        await terminal.run(["/bin/true"])
    with changing(journal) as connection:
        connection.execute(change)
    before = journal.read_bytes()

    async with open_terminal() as terminal:
        result = await terminal.run(["/bin/true"])

    assert result.status == "success"
    assert told in " ".join(result.warnings)
    assert journal.read_bytes() == before


async def test_a_damaged_page_is_told_and_nothing_is_overwritten(
    open_terminal: Open, journal: Path
) -> None:
    async with open_terminal() as terminal:
        for _ in range(30):
            await terminal.run(["/bin/true"])
    whole = bytearray(journal.read_bytes())
    whole[4096:] = os.urandom(len(whole) - 4096)
    journal.write_bytes(whole)

    async with open_terminal() as terminal:
        result = await terminal.run(["/bin/true"])

    assert result.status == "success"
    assert "malformed" in " ".join(result.warnings)
    with pytest.raises(JournalUnreadable):
        queries.verify(journal)


@pytest.mark.proves("T4-19", "S4-58")
async def test_a_locked_journal_holds_nobody_up_and_is_written_later(
    open_terminal: Open, journal: Path
) -> None:
    async with open_terminal() as terminal:
        await terminal.run(["/bin/true"])
        with changing(journal) as somebody:
            somebody.execute("BEGIN IMMEDIATE")
            with anyio.fail_after(50):
                result = await terminal.run("echo on we go")
            somebody.execute("ROLLBACK")
        with anyio.fail_after(50):
            while "ended" not in kinds(journal, result.run_id):
                await anyio.sleep(0.05)
        later = await terminal.run(["/bin/true"])

    assert result.status == "success"
    assert "not recorded" in " ".join(result.warnings)
    assert later.warnings == ()
    assert queries.verify(journal).problems == ()


async def test_who_leaves_does_not_wait_again_for_a_journal_that_is_locked(
    open_terminal: Open, journal: Path
) -> None:
    longer = anyio.Event()

    async def wait_longer() -> None:
        await anyio.sleep(2.5)
        longer.set()

    async with open_terminal() as terminal:
        await terminal.run(["/bin/true"])
    with changing(journal) as somebody:
        somebody.execute("BEGIN EXCLUSIVE")
        async with anyio.create_task_group() as tasks:
            async with open_terminal() as terminal:
                result = await terminal.run("echo on we go")
                tasks.start_soon(wait_longer)
            waited = longer.is_set()
            tasks.cancel_scope.cancel()
        somebody.execute("ROLLBACK")
    async with open_terminal() as terminal:
        await terminal.run(["/bin/true"])

    assert "not recorded" in " ".join(result.warnings)
    assert not waited
    assert bodies(journal, "missed")
    assert queries.verify(journal).problems == ()


async def test_a_full_disk_is_told_and_holds_nobody_up(tmp_path: Path) -> None:
    said = await python(FULL_DISK, str(tmp_path))

    assert said.startswith("success [] success success ")
    assert "not recorded" in said
    assert queries.verify(tmp_path / "journal.db").problems == ()


@pytest.mark.needs("unshare")
def test_a_server_that_starts_on_a_full_disk_says_that_it_is_full(tmp_path: Path) -> None:
    mounted = 'mount -t tmpfs -o size=600k none "$0" && exec "$@"'
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mounted, str(tmp_path)]
    command = [*inside, sys.executable, "-c", SMALL_DISK, str(tmp_path)]

    done = subprocess.run(command, cwd="/", capture_output=True, timeout=50, check=False)

    first, full, again, problems = done.stdout.decode().splitlines()
    assert (first, again, problems) == ("success", "success", "()"), done
    assert full.startswith("success not recorded: ")
    assert full.endswith("the disk is full")


@pytest.mark.needs("unshare")
@pytest.mark.parametrize("room", ["some", "none"])
def test_a_run_whose_own_output_fills_the_disk_is_on_record_or_said_not_to_be(
    tmp_path: Path, room: str
) -> None:
    mounted = 'mount -t tmpfs -o size=4m none "$0" && exec "$@"'
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mounted, str(tmp_path)]
    command = [*inside, sys.executable, "-c", FLOODED_DISK, str(tmp_path), room]

    done = subprocess.run(command, cwd="/", capture_output=True, timeout=100, check=False)

    first, second = done.stdout.decode().splitlines()
    _, recorded, *warnings = first.split("|")
    missed, problems = second.split("|")
    unrecorded = [warning for warning in warnings if warning.startswith("not recorded: ")]
    if room == "some":  # who had no second for it was told that it is not recorded yet
        unrecorded = [warning for warning in unrecorded if "the disk is slow" not in warning]
    assert any("was not kept" in warning for warning in warnings), done
    assert (recorded, bool(unrecorded)) == (str(room == "some"), room == "none")
    assert (missed != "[]", problems) == (room == "none", "()")


async def test_a_journal_that_was_removed_is_begun_anew(open_terminal: Open, journal: Path) -> None:
    async with open_terminal() as terminal:
        await terminal.run(["/bin/true"])
        for path in journal.parent.glob("journal.db*"):
            path.unlink()
        with anyio.fail_after(50):
            result = await terminal.run(["/bin/true"])

    assert kinds(journal, result.run_id)[0] == "ready"
    assert queries.verify(journal).problems == ()


async def test_where_it_must_be_recorded_nothing_runs_without(
    open_terminal: Open, journal: Path, tmp_path: Path
) -> None:
    journal.parent.mkdir()
    journal.write_bytes(b"this is no database at all")

    async with open_terminal(audit_required=True) as terminal:
        with pytest.raises(JournalBroken, match=r"audit\.required"):
            await terminal.run(f"touch {tmp_path}/ran")

    assert not (tmp_path / "ran").exists()


async def test_where_it_must_be_recorded_it_is(open_terminal: Open, journal: Path) -> None:
    async with open_terminal(audit_required=True) as terminal:
        results = [await terminal.run(["/bin/true"]) for _ in range(3)]

    assert [result.warnings for result in results] == [(), (), ()]
    assert len(bodies(journal, "ended")) == 3


async def test_without_a_journal_nothing_is_written(open_terminal: Open, journal: Path) -> None:
    async with open_terminal(audit_enabled=False) as terminal:
        result = await terminal.run(["/bin/true"])

    assert result.warnings == ()
    assert not journal.exists()


async def test_who_leaves_while_the_record_is_awaited_has_started_nothing(
    open_terminal: Open, journal: Path, tmp_path: Path
) -> None:
    events: list[Event] = []

    def awaited() -> int:
        return sum(isinstance(event, RunReady) for event in events)

    async with open_terminal(events.append, audit_required=True) as terminal:
        await terminal.run(["/bin/true"])
        with changing(journal) as somebody:
            somebody.execute("BEGIN IMMEDIATE")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(terminal.run, f"touch {tmp_path}/ran")
                await until(lambda: awaited() == 2)
                tasks.cancel_scope.cancel()
            somebody.execute("ROLLBACK")

    assert not (tmp_path / "ran").exists()
    assert [one["code"] for one in bodies(journal, "refused")] == ["NOT_STARTED"]
    with changing(journal) as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (1,)


async def test_nothing_of_it_blocks_the_loop(open_terminal: Open, journal: Path) -> None:
    """While somebody holds the file, the loop goes on turning."""
    async with open_terminal() as terminal:
        await terminal.run(["/bin/true"])
        with changing(journal) as somebody:
            somebody.execute("BEGIN IMMEDIATE")
            task = asyncio.ensure_future(terminal.run(["/bin/true"]))
            turns = 0
            while not task.done():
                await asyncio.sleep(0)
                turns += 1
            somebody.execute("ROLLBACK")

    assert turns > 100  # it waited a second for the file; a blocked loop turns a few times


def test_an_export_is_json_that_a_program_can_check(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    book = ChainWriter(open_for_writing(path, durable=False), "server")
    with book.transaction():
        book.add(Fact("", 1.25, "session_opened", {"odd": "é \u2028 \ud800 \n"}))
    book.connection.close()

    (line,) = [json.dumps(one.to_json()) for one in queries.entries(path)]

    assert "\n" not in line
    assert json.loads(line)["at"] == "1970-01-01T00:00:01.250000Z"


async def test_for_whom_a_program_runs_something_is_on_record(tmp_path: Path) -> None:
    config = Config.of(state_dir=str(tmp_path))
    async with Terminal(config, caller=Caller("ours", "agent-1", "T-1", "s-1")) as terminal:
        await terminal.run(["/bin/true"])

    (ready,) = bodies(tmp_path / "journal.db", "ready")
    names = ("client", "agent", "task", "session")
    assert [ready[name] for name in names] == ["ours", "agent-1", "T-1", "s-1"]


async def test_where_it_must_be_recorded_a_shell_runs_nothing_without(
    open_terminal: Open, journal: Path, tmp_path: Path
) -> None:
    async with open_terminal(
        audit_required=True, safety_profiles_session_unknown="allow"
    ) as terminal:
        sessions = Sessions(terminal.supervisor)
        shell = await open_shell(sessions, terminal.supervisor, "me", "true")
        with anyio.fail_after(50):
            await shell.follow()
        with changing(journal) as somebody:
            somebody.execute("BEGIN IMMEDIATE")
            with pytest.raises(JournalBroken), anyio.fail_after(50):
                await shell.run(f"touch {tmp_path}/ran")
            somebody.execute("ROLLBACK")
        with anyio.fail_after(50):
            await shell.run("true")

    assert not (tmp_path / "ran").exists()


async def test_what_is_not_recorded_is_told_in_every_answer(tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_bytes(b"this is no database at all")
    settings = {
        "SHELLTIE_AUDIT_PATH": str(tmp_path / "broken.db"),
        "SHELLTIE_SAFETY_PROFILES_SESSION_UNKNOWN": "allow",
        "ENABLE_TERMINAL_ACCESS": "true",
        "TERMINAL_ALLOWLIST_PATH": str(tmp_path / "allowed.json"),
    }
    (tmp_path / "allowed.json").write_text('["echo"]', encoding="utf-8")
    async with served(**settings) as server:
        task = await server.call("terminal_create_session", taskId="T-1", agentId="me")
        echo = {"sessionId": task["sessionId"], "command": "echo", "args": ["on"]}
        answers = [
            await server.call("run", command="echo on"),
            await server.call("bash", command="echo on"),
            await server.call("terminal_start", command="echo on; sleep 60", waitFor="on"),
            await server.call("terminal_execute_command", **echo),
        ]

    for answer in answers:
        assert "on" in str(answer.get("stdout") or answer.get("output"))
        told = answer.get("warnings") or answer.get("warning") or answer.get("hint")
        assert "not recorded" in str(told), answer


async def test_what_cannot_even_start_is_told_to_be_unrecorded(
    open_terminal: Open, journal: Path
) -> None:
    journal.parent.mkdir()
    journal.write_bytes(b"this is no database at all")

    async with open_terminal() as terminal:
        result = await terminal.run(["/no/such/program"])

    assert result.exit_code == 127
    assert "not recorded" in " ".join(result.warnings)


async def test_a_shell_tells_once_that_its_commands_are_not_recorded(
    open_terminal: Open, journal: Path
) -> None:
    async with open_terminal(safety_profiles_session_unknown="allow") as terminal:
        sessions = Sessions(terminal.supervisor)
        shell = await open_shell(sessions, terminal.supervisor, "me", "true")
        with anyio.fail_after(50):
            await shell.follow()
        before = shell.session.run.warnings
        with changing(journal) as somebody:
            somebody.execute("BEGIN IMMEDIATE")
            with anyio.fail_after(50):
                await shell.run("true")
                await shell.run("true")
            somebody.execute("ROLLBACK")

    assert before == ()
    assert len(shell.session.run.warnings) == 1
    assert "not recorded" in shell.session.run.warnings[0]


async def test_a_path_that_is_no_text_is_recorded_all_the_same(
    open_terminal: Open, journal: Path, tmp_path: Path
) -> None:
    place = os.fsdecode(os.fsencode(tmp_path) + b"/not \xff text")
    Path(place).mkdir()

    async with open_terminal() as terminal:
        result = await terminal.run(["/bin/pwd"], cwd=place)
        learned = [await terminal.run("sleep 0.01 # \udcff", cwd=place) for _ in range(2)]
        after = await terminal.run(["/bin/true"])

    assert (result.warnings, after.warnings) == ((), ())
    assert [one.exit_code for one in learned] == [0, 0]
    assert len(last(journal, "sleep", place)) == 2
    assert shapes(journal, place) == [("sleep", plain(place))]
    assert len(latest(journal, 9, HistoryFilter(below=place))) == 3
    assert latest(journal, 9, HistoryFilter(client="\udcff", text="\udcff")) == []
    with pytest.raises(NoRecordedRun):
        find(journal, "\udcff")
    assert queries.lost(journal, "\udcff") == []
    assert kinds(journal, result.run_id)[-1] == "ended"
    assert next(one["cwd"] for one in bodies(journal, "ready")) == place
    assert queries.verify(journal).problems == ()
    with changing(journal) as connection:
        ((known,),) = connection.execute("SELECT cwd FROM runs WHERE id = ?", (result.run_id,))
    assert known.endswith(r"/not \udcff text")
