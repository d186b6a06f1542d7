"""What a program started to stay outlives it, is held again, listed, bounded, and can be ended."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest

import shelltie
from shelltie.errors import CannotStart, InvalidParameters, RunOver, UnknownRun
from shelltie.events import Event, RunHeld, RunReleased, RunStarted
from shelltie.keeper.stay_folder import stay_folder, staying_runs
from shelltie.model import State, Stream
from shelltie.record.queries import verify
from shelltie.running.run import Run
from shelltie.settings.config import Config
from tests.staying import end_what_stays
from tests.tree import new_tag, nobody_left, tagged, until

_LINES = 60
_SCRIPT = f"i=0; while [ $i -lt {_LINES} ]; do echo line $i; i=$((i+1)); sleep 0.02; done; exit 9"
_PROGRAM = """
import sys, anyio, shelltie
from shelltie.settings.config import Config

async def main():
    async with shelltie.Terminal(Config.of(state_dir=sys.argv[1])) as terminal:
        run = await terminal.start(sys.argv[2], stays=True)
        while not run.output.total:
            await anyio.sleep(0.01)
        print(run.id, flush=True)
        await anyio.sleep(600)

anyio.run(main)
"""


def killed_program(state: Path, command: str) -> str:
    """Starts it to stay, and is killed while it prints; its id."""
    argv = [sys.executable, "-c", _PROGRAM, str(state), command]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        run = program.stdout.readline().strip()
        program.send_signal(signal.SIGKILL)
    assert run
    return run


@pytest.fixture(autouse=True)
def nothing_stays(tmp_path: Path) -> Iterator[None]:
    """Whatever a test that fails has left is ended."""
    yield
    end_what_stays(tmp_path)


async def ended(run: Run) -> shelltie.Outcome:
    with anyio.fail_after(40):
        return await run.wait()


def printed(run: Run) -> list[str]:
    return run.output.read(0, run.output.total).data.decode().splitlines()


async def test_what_stays_outlives_a_killed_program_and_loses_no_line(tmp_path: Path) -> None:
    config = Config.of(state_dir=str(tmp_path))
    name = killed_program(tmp_path, _SCRIPT)

    heard: list[Event] = []
    async with shelltie.Terminal(config, heard.append) as terminal:
        await terminal.run("true")  # it has looked for what dead servers left
        (note,) = terminal.staying()
        run = await terminal.adopt(name)
        outcome = await ended(run)

    assert (note.run, note.command) == (name, _SCRIPT)
    assert (outcome.state, outcome.exit.code) == (State.FINISHED, 9)
    assert printed(run) == [f"line {number}" for number in range(_LINES)]
    assert sum(isinstance(event, RunHeld) for event in heard) == 1
    await until(lambda: not list(stay_folder(config).iterdir()))
    with closing(sqlite3.connect(config.journal)) as journal:
        query = "SELECT kind FROM entries WHERE run = ? ORDER BY seq"
        kinds = [kind for (kind,) in journal.execute(query, (name,))]
        states = journal.execute("SELECT state, exit_code FROM runs WHERE id = ?", (name,))
        assert states.fetchall() == [("finished", 9)]
    assert [kind for kind in kinds if kind in ("held", "ended", "lost")] == ["held", "ended"]
    assert verify(config.journal).problems == ()


async def test_a_program_that_leaves_lets_go_and_the_next_one_types(tmp_path: Path) -> None:
    config, heard = Config.of(state_dir=str(tmp_path)), list[Event]()
    async with shelltie.Terminal(config, heard.append) as terminal:
        run = await terminal.start("read a; echo got $a; read b; echo and $b; exit 3", stays=True)
        run.input.write(b"one\n")
        await until(lambda: run.output.total > 0)
    with pytest.raises(RunOver, match="goes on without"):
        await run.wait()
    with pytest.raises(RunOver, match="goes on without"):
        await run.kill("too late")

    async with shelltie.Terminal(config, heard.append) as terminal:
        again = await terminal.adopt(run.id)
        assert await terminal.adopt(run.id) is again
        again.input.write(b"two\n")
        outcome = await ended(again)

    assert outcome.exit.code == 3
    assert printed(again) == ["got one", "and two"]
    kinds = [type(event) for event in heard]
    assert kinds.count(RunStarted) == 1
    assert kinds.index(RunReleased) < kinds.index(RunHeld)


async def test_one_holds_it_and_another_takes_it(tmp_path: Path) -> None:
    tag, config = new_tag(), Config.of(state_dir=str(tmp_path))
    async with shelltie.Terminal(config) as first, shelltie.Terminal(config) as second:
        run = await first.start(f"sleep 300.{tag}", stays=True)
        await until(lambda: bool(tagged(tag)))
        with pytest.raises(CannotStart, match="another server holds"):
            await second.adopt(run.id)
        taken = await second.adopt(run.id, take=True)
        with pytest.raises(RunOver), anyio.fail_after(40):
            await run.wait()
        with anyio.fail_after(40):
            assert (await taken.kill("enough")).state is State.KILLED
    await nobody_left(tag)
    await until(lambda: not staying_runs(config))


async def test_no_more_stay_than_may_and_a_lease_ends_what_nobody_holds(tmp_path: Path) -> None:
    tag = new_tag()
    config = Config.of(state_dir=str(tmp_path)).changed("stay.max", 1).changed("stay.lease", 6.0)
    async with shelltie.Terminal(config) as terminal:
        held = await terminal.start(f"sleep 300.{tag}", stays=True)
        refused = await terminal.start("sleep 300", stays=True)
        outcome = await ended(refused)
        assert "stay.max" in (outcome.error or "")
        await anyio.sleep(7)  # longer than the lease: whoever holds it says so in time
        assert held.outcome is None
        assert tagged(tag)
    await nobody_left(tag)

    async with shelltie.Terminal(config) as terminal:
        await until(lambda: not terminal.staying())
        await terminal.run("true")
    with closing(sqlite3.connect(config.journal)) as journal:
        states = journal.execute("SELECT state FROM runs WHERE id = ?", (held.id,)).fetchall()
    assert states == [("lost",)]
    assert verify(config.journal).problems == ()


async def test_what_cannot_stay_is_refused_and_nothing_is_started(tmp_path: Path) -> None:
    config = Config.of(state_dir=str(tmp_path))
    async with shelltie.Terminal(config) as terminal:
        for wrong in ({"isolation": "sandbox"}, {"provider": "container"}, {"stdin": "x"}):
            with pytest.raises(InvalidParameters, match="what stays"):
                await terminal.start("sleep 300", stays=True, **wrong)  # type: ignore[arg-type]
        for name in ("", "../output", "01NOSUCH"):
            with pytest.raises(UnknownRun, match="nothing stays as"):
                await terminal.adopt(name)
        with pytest.raises(InvalidParameters, match="no option stays"):
            await terminal.run("true", stays=True)  # type: ignore[call-arg]
        with pytest.raises(InvalidParameters, match="no provider 'staying'"):
            await terminal.run("true", provider="staying")
        assert terminal.staying() == ()


@pytest.mark.parametrize("known", [True, False])
def test_the_command_line_lists_what_stays_and_ends_it(tmp_path: Path, *, known: bool) -> None:
    tag, env = new_tag(), {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    state = tmp_path / "shelltie"
    name = killed_program(state, f"echo on; sleep 300.{tag}")
    if not known:  # as if its program was killed in the moment in which it started it
        (state / "stay" / name / "about").write_bytes(b"")

    def cli(*words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "shelltie", *words]
        return subprocess.run(
            argv, env=env, capture_output=True, text=True, timeout=100, check=False
        )

    looked = cli("doctor", "--json")
    assert f"shelltie kill {name}" in looked.stdout
    assert tagged(tag)
    done = cli("kill", name)
    assert (done.returncode, f"{name} ended" in done.stdout) == (0, True), done.stderr
    anyio.run(nobody_left, tag)
    assert cli("kill", name).returncode != 0


_FLOOD = """
import sys, pathlib
for number in range(50_000):
    print(f"{number:08} of the output, which is long enough for a line", flush=number % 50 == 0)
    if number % 1000 == 0:
        print(f"error {number}", file=sys.stderr, flush=True)
sys.stdout.flush()
pathlib.Path(sys.argv[1]).touch()
print(input(), flush=True)
"""
_FLOOD_LINES = 50_000
_ERRORS = sum(len(f"error {number}\n") for number in range(0, _FLOOD_LINES, 1000))
_SIZE = _ERRORS + _FLOOD_LINES * 56
_SMALL = "stay.output", 65536  # far less than it prints


def flood(done: Path) -> list[str]:
    return [sys.executable, "-c", _FLOOD, str(done)]


def numbers(run: Run) -> list[int]:
    return [int(line[:8]) for line in printed(run) if line[:8].isdigit()]


@pytest.mark.timeout(240)
async def test_what_is_on_record_is_not_lost_where_the_keeper_has_less(tmp_path: Path) -> None:
    config = Config.of(state_dir=str(tmp_path)).changed(*_SMALL)
    async with shelltie.Terminal(config) as terminal:
        run = await terminal.start(flood(tmp_path / "done"), stays=True, silence=0)
        await until((tmp_path / "done").exists)
        await until(lambda: run.output.total == _SIZE)
    before = printed(run)

    async with shelltie.Terminal(config) as terminal:
        again = await terminal.adopt(run.id)
        assert printed(again) == before  # both streams, in the order in which they came
        again.input.write(b"go on\n")
        outcome = await ended(again)

    assert outcome.exit.code == 0
    assert not outcome.warnings
    assert printed(again) == [*before, "go on"]
    assert again.output.total_of(Stream.STDERR) == _ERRORS
    left = {path.suffix for path in (tmp_path / "output").iterdir()}
    assert left <= {".log", ".times"}


@pytest.mark.timeout(240)
async def test_what_nobody_held_and_was_too_much_is_counted_at_its_place(tmp_path: Path) -> None:
    config = Config.of(state_dir=str(tmp_path)).changed(*_SMALL)
    go = "import sys; print('ready', flush=True); input()\n"
    argv = [sys.executable, "-c", go + _FLOOD, str(tmp_path / "done")]
    async with shelltie.Terminal(config) as terminal:
        run = await terminal.start(argv, stays=True, silence=0, one_output=True)
        await until(lambda: run.output.total > 0)
        run.input.write(b"go\n")
        await until(lambda: run.output.total > 10_000)
    await until((tmp_path / "done").exists)

    async with shelltie.Terminal(config) as terminal:
        again = await terminal.adopt(run.id)
        await until(lambda: numbers(again)[-1] == _FLOOD_LINES - 1)
    shown = printed(again)
    async with shelltie.Terminal(config) as terminal:
        third = await terminal.adopt(run.id)
        assert printed(third) == shown
        third.input.write(b"end\n")
        await ended(third)

    (told,) = [line for line in shown if "are missing here" in line]
    missing = int(told.removeprefix("[").partition(" ")[0])
    whole = len("ready\n") + _SIZE
    kept = sum(len(line) + 1 for line in shown if line and line != told)
    # A line may be cut where the gap is, and has no end of its own there.
    assert whole - 2 <= kept + missing <= whole + 2
    assert numbers(third)[-1] == _FLOOD_LINES - 1
    assert printed(third)[-1] == "end"
