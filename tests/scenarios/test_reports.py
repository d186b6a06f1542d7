"""Runs of the past, for somebody who was not there: as text, as a page, as a recording."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import anyio
import pytest

from shelltie import Terminal, load
from shelltie.frontends.cli.main import main
from shelltie.record.past_runs import latest
from tests.tree import until

EVIL = "<script>alert(1)</script>"


class Tags(HTMLParser):
    """Every tag of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        assert not {name for name, _ in attrs} & {"src", "href", "onclick", "onload"}


@pytest.fixture
async def spoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of a run that printed something, in pieces and colours."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHELLTIE_OUTPUT_KEEP", "all")
    later = f"printf '\\033[31mtwo\\033[0m é\\n'; echo '{EVIL}'; exit 4"
    async with Terminal(load(tmp_path)) as terminal:
        run = await terminal.start(f"echo one; until [ -e go ]; do sleep 0.05; done; {later}")
        await until(lambda: run.output.total > 0)
        (tmp_path / "go").touch()
        await run.wait()
    return run.id


def printed(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    capsys.readouterr()
    assert main(args) == 0
    return capsys.readouterr().out


async def test_a_run_is_exported_as_text(spoke: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "export", spoke) == f"one\ntwo é\n{EVIL}\n"
    assert printed(capsys, "export", spoke[:20].lower(), "--txt") == f"one\ntwo é\n{EVIL}\n"


async def test_a_run_is_exported_for_asciinema(
    spoke: str, capsys: pytest.CaptureFixture[str]
) -> None:
    head, *events = map(json.loads, printed(capsys, "export", spoke, "--cast").splitlines())

    assert (head["version"], head["width"], head["height"]) == (2, 80, 24)
    assert all(kind == "o" for _, kind, _ in events)
    assert "".join(text for *_, text in events) == f"one\r\n\x1b[31mtwo\x1b[0m é\r\n{EVIL}\r\n"
    times = [at for at, *_ in events]
    assert times == sorted(times)
    assert times[0] < times[-1]


async def test_asciinema_itself_plays_what_was_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also when it is no text, ends in half a character, or has a name that is none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHELLTIE_OUTPUT_KEEP", "all")
    async with Terminal(load(tmp_path)) as terminal:
        result = await terminal.run("printf 'one\\n\\033[1mtwo\\377\\n\\0\\303' # \u2028 \"'")
        silent = await terminal.run("true")
    for run in (result, silent):
        recording = printed(capsys, "export", run.run_id, "--cast")
        (tmp_path / f"{run.run_id}.cast").write_text(recording, encoding="utf-8")

    played = [
        subprocess.run(
            [sys.executable, "-m", "asciinema", "cat", f"{run.run_id}.cast"],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=40,
            check=False,
        )
        for run in (result, silent)
    ]

    assert [(one.returncode, one.stderr) for one in played] == [(0, b"")] * 2
    assert played[0].stdout == "one\r\n\x1b[1mtwo\ufffd\r\n\0\ufffd".encode()
    assert played[1].stdout == b""


async def test_a_page_holds_nothing_that_runs_or_is_fetched(
    spoke: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for args in (("export", spoke, "--html"), ("report", "--html"), ("report", "--here")):
        page = printed(capsys, *args)

        assert not Tags(page).found & {"script", "link", "img", "iframe"}
        assert "exit 4" in page
        assert "alert(1)" in page
        assert not re.search(r"https?://", page)


async def test_a_replay_is_what_was_printed(
    spoke: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["replay", spoke, "--speed", "100"]) == 0

    expected = f"one\n\x1b[31mtwo\x1b[0m é\n{EVIL}\n".encode()
    assert capfdbinary.readouterr().out == expected


async def test_output_that_was_not_kept_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    async with Terminal(load(tmp_path, {"output.keep": "long"})) as terminal:
        short = await terminal.run("echo short")
        silent = await terminal.run("true")

    for command in ("export", "logs", "replay"):
        assert main([command, short.run_id]) == 1
        assert "was not kept" in capsys.readouterr().err
    assert printed(capsys, "export", silent.run_id) == ""
    assert main(["logs", silent.run_id]) == 0
    assert "printed nothing" in capsys.readouterr().err


async def test_of_what_still_runs_it_is_said_where_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    async with Terminal(load(tmp_path)) as terminal:
        run = await terminal.start("echo here; sleep 300")
        journal = load(tmp_path).journal
        with anyio.fail_after(50):
            while not any(one.running for one in latest(journal, 5)):
                await anyio.sleep(0.02)
        code = main(["export", run.id]), main(["replay", run.id])
        await run.kill("seen enough")

    assert code == (1, 1)
    assert capsys.readouterr().err.count(f"still runs: shelltie logs {run.id}") == 2


@pytest.mark.parametrize(
    "args",
    [
        ("export", "X", "--cast", "--html"),
        ("export", "X", "--columns", "0"),
        ("export", "X", "--rows", "99999999999999999999"),
        ("replay", "X", "--speed", "0"),
        ("replay", "X", "--speed", "nan"),
        ("replay",),
        ("report", "-n", "many"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(args: tuple[str, ...]) -> None:
    assert main(args) == 2
