"""What a person can find out about what was run: the list, and how long it usually takes."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from shelltie import Terminal, load
from shelltie.errors import NoRecordedRun
from shelltie.frontends.cli.main import main
from shelltie.model import Sample
from shelltie.record.past_runs import find
from tests.scenarios.test_history import remember


@pytest.fixture
async def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Three commands in a project, and their ids."""
    (tmp_path / "project" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    async with Terminal() as terminal:
        results = [
            await terminal.run("sleep 0.01"),
            await terminal.run("exit 3", cwd=tmp_path),
            await terminal.run("sleep 30", timeout=0.3),
        ]
    return [result.run_id for result in results]


def said(capsys: pytest.CaptureFixture[str], *args: str) -> Any:  # noqa: ANN401  JSON
    capsys.readouterr()
    assert main([*args, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


async def test_our_own_question_to_the_login_shell_is_in_no_history(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHELLTIE_ENVIRONMENT_PATH", "login")
    async with Terminal(load(Path())) as terminal:
        result = await terminal.run("echo hello")

    listed = said(capsys, "history")

    assert result.path_source.startswith("login shell")
    assert [one["command"] for one in listed] == ["echo hello"]


async def test_history_lists_what_was_run_the_newest_first(
    ran: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = said(capsys, "history")

    assert [row["runId"] for row in rows] == ran[::-1]
    assert [row["state"] for row in rows] == ["timed_out", "finished", "finished"]
    assert [row["exitCode"] for row in rows][1:] == [3, 0]
    assert [row["runId"] for row in said(capsys, "history", "--bad")] == [ran[2], ran[1]]
    assert [row["runId"] for row in said(capsys, "history", "--here")] == [ran[2], ran[0]]
    assert [row["runId"] for row in said(capsys, "history", "-n", "1")] == [ran[2]]
    assert main(["history"]) == 0
    shown = capsys.readouterr().out
    assert "timeout" in shown
    assert "exit 3" in shown


@pytest.mark.usefixtures("ran")
async def test_stats_say_how_long_commands_take_and_what_would_fit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    remember(load(Path.cwd()).journal, "npm test", Path.cwd(), [Sample(900, 100)] * 30)

    npm, sleep = said(capsys, "stats", "--here")
    assert (npm["shape"], npm["runs"], npm["p50Sec"], npm["p95Sec"]) == ("npm test", 30, 900, 900)
    assert npm["suggested"]["execSec"] > 900 > npm["limits"]["execSec"]
    assert (sleep["shape"], sleep["runs"], sleep["suggested"]) == ("sleep", 1, None)
    assert main(["stats"]) == 0
    assert "npm test" in capsys.readouterr().out


@pytest.mark.usefixtures("ran")
async def test_what_somebody_changed_to_nonsense_is_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    journal = load(Path.cwd()).journal
    with closing(sqlite3.connect(journal, isolation_level=None)) as somebody:
        somebody.execute("UPDATE samples SET duration = 'long', silence = 9e999")
        somebody.execute("UPDATE runs SET duration = 'long', began = 'once', cwd = char(27, 8238)")

    assert said(capsys, "stats") == []
    assert {row["durationSec"] for row in said(capsys, "history")} == {None}
    assert main(["history"]) == main(["report"]) == 0
    assert not {"\033", "\u202e"} & set(capsys.readouterr().out)
    async with Terminal(load(Path.cwd(), {"adaptive.mode": "apply"})) as terminal:
        assert (await terminal.run("sleep 0.01")).exit_code == 0


async def test_a_run_is_found_by_the_beginning_of_its_id(ran: list[str]) -> None:
    journal = load(Path.cwd()).journal

    assert find(journal, ran[1]).exit_code == 3
    assert find(journal, ran[1].lower()).id == ran[1]
    for wrong in ("", "01", "%%%%", "' OR 1=1 --", "ZZZZZZZZ", ran[0][:5], "x" * 10_000):
        with pytest.raises(NoRecordedRun):
            find(journal, wrong)


@pytest.mark.parametrize("command", ["history", "stats"])
def test_without_a_journal_that_is_said(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([command]) == 125
    assert "there is no journal yet" in capsys.readouterr().err

    journal = load(tmp_path).journal
    journal.parent.mkdir(parents=True)
    journal.write_bytes(b"garbage" * 1000)
    assert main([command]) == 125
    assert "no database" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", ["x", "-1", "", "9" * 30, "²"])
def test_a_count_that_is_none_is_refused(wrong: str) -> None:
    assert main(["history", "-n", wrong]) == 2
