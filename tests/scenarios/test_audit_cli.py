"""`shelltie audit`: a person or a script reads the journal and proves that it is whole."""

import json
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

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
            await terminal.run("sh -c 'echo a\033[31m b; exit 3'")
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

    assert cut == (1, 1)  # what was run after that is still in the table of runs
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


def test_an_anchor_that_cannot_be_read_is_said_and_the_rest_is_proved(
    journal: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    main(["audit", "verify", "--json"])
    head = json.loads(capsys.readouterr().out)["head"]
    (tmp_path / "torn").write_text(f"12:abc\n{head}\n", encoding="ascii")
    os.mkfifo(tmp_path / "pipe")

    def said(name: str) -> tuple[int, dict[str, Any]]:
        monkeypatch.setenv("SHELLTIE_AUDIT_ANCHOR", str(tmp_path / name))
        return main(["audit", "verify", "--json"]), json.loads(capsys.readouterr().out)

    assert journal.exists()
    for name in ("no such file", "pipe", "."):
        code, found = said(name)
        assert (code, len(found["problems"])) == (1, 1)
        assert "heads in it cannot be read" in found["problems"][0]
    code, found = said("torn")
    assert (code, found["headsCompared"], len(found["warnings"])) == (0, 1, 1)


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE runs SET exit_code = 0", "exit_code = 0; the chain says 3"),
        ("UPDATE runs SET file = '/etc/shadow'", "file = '/etc/shadow'"),
        ("UPDATE runs SET cwd = '/x', client = 'nobody'", "cwd = '/x'"),
        ("UPDATE runs SET verdict = 'safe'", "verdict = 'safe'"),
        ("UPDATE runs SET ended = NULL, state = 'running'", "state = 'running'"),
        ("UPDATE runs SET began = began + 0.00001", "began"),
        ("DELETE FROM runs", "of which the chain says that it ran"),
        ("UPDATE OR IGNORE runs SET id = '01ZZ'", "has 01ZZ, of which the chain says nothing"),
        ("UPDATE samples SET duration = 0.0", "the table of samples"),
        ("DELETE FROM samples", "the table of samples lacks one"),
        ("INSERT INTO samples VALUES ('a', '/', 1.0, 1.0, 1.0, 1.0, 0)", "samples has one of 'a'"),
        (
            "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END",
            "trigger t, which is not ours",
        ),
        ("DROP INDEX samples_at", "has not index samples_at"),
        ("DROP TABLE samples", "has not table samples"),
        ("UPDATE entries SET body = 'garbage' WHERE kind = 'ready'", "entry 2 was changed"),
        ("UPDATE entries SET body = x'ff00' WHERE seq = 2", "entry 2 does not say"),
        ("UPDATE entries SET body = CAST(x'ff' AS TEXT), at = 'x' WHERE seq = 2", "entry 2 was"),
    ],
)
def test_whatever_was_changed_is_named(
    journal: Path, capsys: Output, statement: str, told: str
) -> None:
    harm(journal, statement)

    assert main(["audit", "verify", "--json"]) == 1
    assert told in "\n".join(json.loads(capsys.readouterr().out)["problems"])
    assert main(["audit", "export"]) == main(["audit", "tail"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 6


def test_a_changed_row_plays_no_tricks(journal: Path, capsys: Output) -> None:
    harm(journal, "UPDATE entries SET kind = char(27) || '[2J', at = char(8238) WHERE seq = 2")

    assert main(["audit", "tail"]) == 0
    assert not {"\033", "\u202e"} & set(capsys.readouterr().out)
