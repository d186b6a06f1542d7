"""What any recent run printed can be read, exported and replayed; history tells the rest."""

import json
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from shelltie import Terminal, load
from shelltie.errors import CommandDenied
from shelltie.frontends.cli.main import main
from shelltie.model import Caller
from tests.cli import on_terminal


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def printed(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(list(args)) == 0
    return capsys.readouterr().out


def said(capsys: pytest.CaptureFixture[str], *args: str) -> Any:  # noqa: ANN401
    return json.loads(printed(capsys, *args, "--json"))


@pytest.fixture
async def ran(tmp_path: Path) -> dict[str, str]:
    """The ids of a few commands, by what they are."""
    settings = load(tmp_path, {"safety.profiles.run.dangerous": "deny"})
    async with Terminal(settings, caller=Caller(client="claude-code 1")) as terminal:
        well = await terminal.run("echo well; echo done")
        failed = await terminal.run("echo wrong >&2; exit 3")
        with pytest.raises(CommandDenied):
            await terminal.run("rm -rf ./nothing")
    async with Terminal(settings, caller=Caller(client="another")) as terminal:
        late = await terminal.run("sleep 60", silence=0.1)
    return {"well": well.run_id, "failed": failed.run_id, "late": late.run_id}


async def test_a_few_lines_are_kept_and_can_be_shown_in_every_way(
    ran: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(capsys, "logs", ran["well"]) == "well\ndone\n"
    assert printed(capsys, "logs", "--tail", "1", ran["well"]) == "done\n"
    assert printed(capsys, "export", ran["failed"]) == "wrong\n"
    assert "<title>echo well; echo done" in printed(capsys, "export", "--html", ran["well"])
    assert printed(capsys, "replay", ran["well"]) == "well\ndone\n"


@pytest.mark.usefixtures("ran")
async def test_history_shows_what_was_refused_and_can_be_filtered(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def commands(*args: str) -> list[str]:
        return [row["command"] for row in said(capsys, "history", *args)]

    well, failed = "echo well; echo done", "echo wrong >&2; exit 3"
    refused, late = "rm -rf ./nothing", "sleep 60"
    assert commands() == [late, refused, failed, well]
    assert commands("--refused") == [refused]
    assert commands("--failed") == [late, failed]
    assert commands("--failed", "--refused") == [late, refused, failed]
    assert commands("--client", "CLAUDE") == [refused, failed, well]
    assert commands("--text", "ECHO w") == [failed, well]
    assert commands("--since", "1h") == commands()
    assert commands("--since", "2100-01-01") == []
    assert commands("-n", "2") == [late, refused]
    assert commands("--here", "--refused") == [refused]


async def test_failures_stand_out_by_a_mark_or_by_colour(ran: dict[str, str]) -> None:
    code, plain = await anyio.to_thread.run_sync(on_terminal, "history", "--color", "never")
    _, coloured = await anyio.to_thread.run_sync(on_terminal, "history")
    _, first = await anyio.to_thread.run_sync(on_terminal, "--color", "never", "history")

    lines = plain.splitlines()
    assert code == 0
    assert ran["late"][:12] in lines[1]
    assert [line[24] for line in lines[1:]] == ["✗", "✗", "✗", " "]
    assert "timeout (silence)" in lines[1]
    assert max(map(len, lines)) <= 80
    assert len({line.index("rm -rf") for line in lines if "rm -rf" in line}) == 1
    assert coloured.count("\033[31m") == 3
    assert first == plain


async def test_all_about_one_command_is_shown(
    ran: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    failed = printed(capsys, "history", "show", ran["failed"].lower())
    late = printed(capsys, "history", "show", ran["late"])
    (row,) = said(capsys, "history", "--refused")
    refused = printed(capsys, "history", "show", row["runId"])
    whole = said(capsys, "history", "show", ran["well"])

    for part in ("exit 3 after", "claude-code 1", "local, isolation none", "wrong\n", "limits"):
        assert part in failed
    assert "timeout (silence)" in late
    assert "refused" in refused
    assert "dangerous" in refused
    assert whole["record"][0]["kind"] == "ready"
    assert whole["exitCode"] == 0


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize("command", ["logs", "kill", "export", "replay", "attach", "send", "show"])
async def test_an_id_that_nothing_has_is_said_alike_everywhere(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = {"show": ["history", "show", "nope"], "send": ["send", "nope", "x"]}
    if command == "attach":
        code, err = await anyio.to_thread.run_sync(on_terminal, "attach", "nope")
    else:
        code = main(words.get(command, [command, "nope"]))
        err = capsys.readouterr().err

    assert code == 1
    assert "no run matches 'nope'" in err


@pytest.mark.usefixtures("ran")
async def test_our_own_probes_are_no_part_of_history(capsys: pytest.CaptureFixture[str]) -> None:
    before = said(capsys, "history")
    await anyio.to_thread.run_sync(main, ["doctor"])
    capsys.readouterr()

    assert said(capsys, "history") == before


async def test_with_redaction_what_is_kept_has_no_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "swordfish-1234")
    own = {"output.redact": True, "environment.pass": ["MY_TOKEN"]}
    settings = load(tmp_path, {**own, "safety.profiles.run.dangerous": "allow"})
    async with Terminal(settings) as terminal:
        result = await terminal.run('echo "it is $MY_TOKEN"')

    kept = printed(capsys, "logs", result.run_id)

    assert "swordfish" not in kept
    assert kept.startswith("it is ")
