"""Commands that were run before: what is remembered of them, and what comes of it."""

import json
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import anyio
import psutil
import pytest

from shelltie import Config, ConfigWrong, load
from shelltie.events import Event, Unusual
from shelltie.frontends.cli.main import main
from shelltie.model import Sample
from shelltie.record.database import open_for_writing
from shelltie.record.history import History, last, project_of
from tests.conftest import Open
from tests.tree import until


def remember(path: Path, shape: str, project: Path, samples: Iterable[Sample]) -> None:
    """Have these been run before."""
    rows = [
        (shape, project_of(str(project)), time.time(), s.duration, s.silence, s.idle, s.by_limit)
        for s in samples
    ]
    with closing(open_for_writing(path, durable=False)) as connection:
        connection.executemany("INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return Config.of(state_dir=str(tmp_path / "state")).journal


async def test_what_ends_by_itself_is_remembered_for_the_next_server(
    open_terminal: Open, journal: Path, tmp_path: Path
) -> None:
    async with open_terminal() as terminal:
        await terminal.run("sleep 0.01", cwd=tmp_path)
        await terminal.run("sleep 30", cwd=tmp_path, timeout=0.3, silence=0)  # the caller's limit
        await terminal.run("echo nothing worth mentioning", cwd=tmp_path)
        await terminal.run("no-such-program", cwd=tmp_path)

    (sample,) = last(journal, "sleep", str(tmp_path))
    assert sample.duration > 0
    assert not sample.by_limit
    assert last(journal, "no-such-program", str(tmp_path)) == []
    assert await History(journal).recall("sleep", str(tmp_path)) == (str(tmp_path), (sample,))


@pytest.mark.proves("T3-25", "S3-70")
async def test_a_command_that_is_slower_than_usual_is_told_of_while_it_runs(
    open_terminal: Open, journal: Path, tmp_path: Path
) -> None:
    remember(journal, "sleep", tmp_path, [Sample(0.1, 0.1)] * 30)
    events: list[Event] = []

    async with open_terminal(events.append) as terminal:
        result = await terminal.run("sleep 12", cwd=tmp_path)

    told = {event.why: event.message for event in events if isinstance(event, Unusual)}
    assert set(told) == {"idle", "slow"}
    assert "95 % took 100ms or less" in told["slow"]
    assert "no output and no work" in told["idle"]
    assert result.status == "success"
    assert set(told.values()) <= set(result.warnings)
    assert result.usual is not None
    assert (result.usual.runs, result.usual.p50_sec, result.usual.p95_sec) == (30, 0.1, 0.1)


async def test_a_command_as_usual_is_not_talked_about(
    open_terminal: Open, journal: Path, tmp_path: Path
) -> None:
    remember(journal, "sleep", tmp_path, [Sample(60, 60, 60)] * 30)
    events: list[Event] = []

    async with open_terminal(events.append) as terminal:
        result = await terminal.run("sleep 4", cwd=tmp_path)

    assert not [event for event in events if isinstance(event, Unusual)]
    assert (result.usual, result.warnings) == (None, ())


@pytest.mark.proves("T3-25", "S3-66")
async def test_after_a_timeout_the_result_says_what_would_have_been_enough(
    open_terminal: Open, journal: Path, tmp_path: Path
) -> None:
    remember(journal, "sleep", tmp_path, [Sample(900, 900)] * 25)

    async with open_terminal() as terminal:
        result = await terminal.run("sleep 30", cwd=tmp_path, timeout=0.3)

    assert result.limits.source == "timeout"
    assert result.usual is not None
    assert result.hint is not None
    assert "Of the last 25 runs of 'sleep' half took 15m or less" in result.hint


@pytest.mark.parametrize(("mode", "expected"), [("off", 0), ("suggest", 0), ("apply", 3600)])
async def test_only_apply_changes_a_limit(
    open_terminal: Open, journal: Path, tmp_path: Path, mode: str, expected: float
) -> None:
    remember(journal, "sleep", tmp_path, [Sample(1000, 1)] * 25)

    async with open_terminal(adaptive_mode=mode) as terminal:
        usual = await terminal.run("sleep 0", cwd=tmp_path)
        given = await terminal.run("sleep 0", cwd=tmp_path, timeout=7)

    assert given.limits.exec_sec == 7
    assert usual.limits.source.startswith("learned from 25 runs") == (mode == "apply")
    if expected:
        assert usual.limits.exec_sec == expected


async def test_a_command_that_waits_for_input_is_told_of(open_terminal: Open) -> None:
    events: list[Event] = []

    def told() -> list[str]:
        return [event.why for event in events if isinstance(event, Unusual)]

    async with open_terminal(events.append, safety_profiles_run_dangerous="allow") as terminal:
        run = await terminal.start("read -r answer", pty=True)
        await until(lambda: bool(told()))
        await run.kill("enough")

    assert told() == ["input"]


async def test_another_project_is_another_history(
    open_terminal: Open, journal: Path, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for place in (here, there):
        (place / ".git").mkdir(parents=True)
        (place / "deep" / "below").mkdir(parents=True)
    remember(journal, "sleep", here, [Sample(1000, 1)] * 25)

    async with open_terminal(adaptive_mode="apply") as terminal:
        inside = await terminal.run("sleep 0", cwd=here / "deep" / "below")
        outside = await terminal.run("sleep 0", cwd=there)

    assert inside.limits.source.startswith("learned")
    assert not outside.limits.source.startswith("learned")


async def test_without_a_journal_a_server_learns_by_itself(
    open_terminal: Open, tmp_path: Path
) -> None:
    async with open_terminal(audit_enabled=False, adaptive_min_samples=2) as terminal:
        for _ in range(3):
            await terminal.run("sleep 0.01", cwd=tmp_path)
        run = await terminal.start("sleep 0.01", cwd=tmp_path)
        await run.wait()

    known = run.rules.experience.usual
    assert known is not None
    assert (known.shape, known.n) == ("sleep", 3)


async def test_a_journal_that_cannot_be_read_is_no_history(tmp_path: Path) -> None:
    broken = tmp_path / "journal.db"
    broken.write_bytes(b"this is no database" * 100)
    old = tmp_path / "old.db"
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("CREATE TABLE runs (id)")

    for path in (broken, old, tmp_path / "missing.db", tmp_path):
        assert await History(path).recall("sleep", "/") == ("/", ())


async def test_what_is_remembered_is_bounded() -> None:
    history = History(None)
    for number in range(2000):
        await history.recall(f"program{number}", f"/nowhere/{number}")

    assert len(history._known) <= 256
    assert len(history._projects) <= 256


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mode", "always"),
        ("mode", ""),
        ("min_samples", "0"),
        ("min_samples", "-3"),
        ("min_samples", "x"),
    ],
)
def test_a_setting_that_is_none_is_refused(tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(ConfigWrong, match=f"adaptive.{key}"):
        load(tmp_path, {f"adaptive.{key}": value})


def test_a_project_that_nobody_trusts_cannot_have_its_limits_made_longer(tmp_path: Path) -> None:
    (tmp_path / ".shelltie.toml").write_text('adaptive.mode = "apply"', encoding="utf-8")
    assert load(tmp_path).adaptive.mode == "suggest"

    (tmp_path / ".shelltie.toml").write_text('adaptive.mode = "off"', encoding="utf-8")
    assert load(tmp_path).adaptive.mode == "off"


@pytest.mark.proves("S3-70", "S3-66", "T3-25")
def test_check_says_what_is_usual_and_which_limits_follow_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*args: str) -> str:
        assert main(["check", *args, "make all"]) == 0
        return capsys.readouterr().out

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHELLTIE_STATE_DIR", str(tmp_path / "state"))
    journal = Config.of(state_dir=str(tmp_path / "state")).journal
    before = json.loads(said("--json"))
    remember(journal, "make all", tmp_path, [Sample(100, 50)] * 24 + [Sample(900, 400)])

    suggested = json.loads(said("--json"))
    shown = said()
    monkeypatch.setenv("SHELLTIE_ADAPTIVE_MODE", "apply")
    applied = json.loads(said("--json"))
    monkeypatch.setenv("SHELLTIE_ADAPTIVE_MODE", "off")
    off = json.loads(said("--json"))
    monkeypatch.setenv("SHELLTIE_ADAPTIVE_MODE", "suggest")
    journal.write_bytes(b"this is no database at all")
    damaged = json.loads(said("--json"))

    usual = suggested["usual"]
    assert (usual["shape"], usual["runs"]) == ("make all", 25)
    assert (usual["p50Sec"], usual["p95Sec"]) == (100, 100)
    assert usual["suggestedExecSec"] == applied["limits"]["execSec"] == 3600
    assert usual["suggestedSilenceSec"] == applied["limits"]["silenceSec"] == 900
    assert "learned from 25 runs" in applied["limits"]["source"]
    assert applied["usual"]["suggestedExecSec"] is None
    assert "1m 40s" in shown
    assert "25 runs of 'make all'" in shown
    assert "total 1h, silence 15m" in shown
    assert suggested["limits"] == before["limits"]
    assert before == off == damaged
    assert "usual" not in before


async def test_however_many_ask_at_once_the_journal_is_opened_once_at_a_time(
    open_terminal: Open, journal: Path, tmp_path: Path
) -> None:
    """SQLite keeps a descriptor of each, as long as somebody else has the file open."""
    async with open_terminal() as terminal:
        await terminal.run(["/bin/true"])
        history = History(journal)
        async with anyio.create_task_group() as tasks:
            for number in range(200):
                tasks.start_soon(history.recall, f"make {number}", str(tmp_path))
        held = [one for one in psutil.Process().open_files() if Path(one.path) == journal]

    assert len(held) <= 3
