"""`shelltie audit`: a person or a script reads the journal and proves that it is whole."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from shelltie.frontends.cli.main import main
from tests.conftest import Open

Output = pytest.CaptureFixture[str]


@pytest.fixture
def journal(open_terminal: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One in which something is recorded."""
    monkeypatch.setenv("SHELLTIE_STATE_DIR", str(tmp_path / "state"))

    async def record() -> None:
        async with open_terminal() as terminal:
            await terminal.run("echo 'a\033[31m b'; exit 3")
            await terminal.run(["/bin/true"])

    anyio.run(record)
    return tmp_path / "state" / "journal.db"


def harm(journal: Path, statement: str) -> None:
    with closing(sqlite3.connect(journal, isolation_level=None)) as connection:
        connection.execute(statement)


def test_a_whole_journal_is_proved_and_its_head_printed(journal: Path, capsys: Output) -> None:
    assert journal.exists()
    assert main(["audit", "verify"]) == 0
    shown = capsys.readouterr()
    head = shown.out.split()[-1]

    assert re.match(r"✓ \d+ entries are as they were written\n", shown.out)
    assert "Keep this one elsewhere" in shown.err
    assert main(["audit", "verify", "--head", head]) == 0
    assert capsys.readouterr().err == ""


def test_damage_is_an_exit_code_and_a_sentence(journal: Path, capsys: Output) -> None:
    main(["audit", "verify", "--json"])
    head = json.loads(capsys.readouterr().out)["head"]
    harm(journal, "DELETE FROM entries WHERE seq > 4")
    cut = main(["audit", "verify"]), main(["audit", "verify", "--head", head])
    told = capsys.readouterr().out
    harm(journal, "UPDATE entries SET body = '{}' WHERE seq = 2")
    changed = main(["audit", "verify", "--json"])

    assert cut == (0, 1)
    assert "the end is cut off" in told
    assert changed == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["ok"], "entry 2 was changed" in said["problems"][0]) == (False, True)


def test_the_last_entries_are_printed_without_tricks(journal: Path, capsys: Output) -> None:
    assert main(["audit", "tail", "-n", "5"]) == 0
    text = capsys.readouterr().out
    assert main(["audit", "tail", "-n", "2", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert journal.exists()
    assert "\033" not in text
    assert len(text.splitlines()) == 6
    assert re.search(r"ended +\w+ +exit \d", text)
    assert [line["seq"] - lines[0]["seq"] for line in lines] == [0, 1]


@pytest.mark.proves("T4-19")
def test_an_export_has_one_line_for_each_entry(journal: Path, capsys: Output) -> None:
    assert main(["audit", "export", "--jsonl"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert main(["audit", "export", "--after", "4"]) == 0
    rest = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert journal.exists()
    # A start may have been written by itself, or with its end.
    kept = [line for line in lines if line["kind"] != "started"]
    assert [line["kind"] for line in kept] == [
        "server_opened",
        "ready",
        "ended",
        "ready",
        "ended",
        "server_closed",
    ]
    assert rest == lines[4:]
    assert kept[2]["exitCode"] == 3


def test_without_a_journal_it_is_said(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELLTIE_STATE_DIR", str(tmp_path / "nothing"))

    for words in (["verify"], ["tail"], ["export"]):
        assert main(["audit", *words]) == 125
        assert "there is no journal yet" in capsys.readouterr().err


def test_what_is_no_journal_is_said(journal: Path, capsys: Output) -> None:
    journal.write_bytes(b"not a database, but long enough to be taken for one by its size" * 99)

    assert main(["audit", "verify"]) == 125
    assert "no database" in capsys.readouterr().err


def test_an_anchor_that_cannot_be_read_is_said(
    journal: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SHELLTIE_AUDIT_ANCHOR", str(tmp_path / "no such file"))
    missing = main(["audit", "verify"])
    (tmp_path / "heads").write_text("garbage\n", encoding="utf-8")
    monkeypatch.setenv("SHELLTIE_AUDIT_ANCHOR", str(tmp_path / "heads"))

    assert journal.exists()
    assert missing == 125
    assert main(["audit", "verify"]) == 125
    assert "heads in it cannot be read" in capsys.readouterr().err
