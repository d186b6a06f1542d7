"""Who can be told is told that a command waits: on the desktop, and by a command of theirs."""

import json
from pathlib import Path

import anyio
import pytest

from shelltie import Config
from shelltie.assemble import assemble
from shelltie.assemble_parts import policy_file
from shelltie.errors import ConfirmationRequired
from shelltie.limits.resolve import AskedLimits
from shelltie.model import Command
from shelltie.running.options import RunOptions


async def wait_for(path: Path) -> str:
    with anyio.fail_after(60):
        while not path.exists() or not path.read_text(encoding="utf-8").endswith("\n"):
            await anyio.sleep(0.05)
    return path.read_text(encoding="utf-8")


async def ask(config: Config, *commands: str) -> None:
    async with assemble(config, policy_file(config, Path()), serves=True) as supervisor:
        supervisor.admission.broker.reachable = True
        for command in commands:
            with pytest.raises(ConfirmationRequired):
                await supervisor.start(Command(command), RunOptions())
        heard = Path("heard")
        if config.notify.waiting:
            await wait_for(heard)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    monkeypatch.chdir(tmp_path)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "notify-send").write_text(
        f"#!/bin/sh\nprintf '%s\\n' \"$@\" >> {tmp_path}/desktop\n", encoding="utf-8"
    )
    (programs / "notify-send").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return {
        "state_dir": str(tmp_path / "state"),
        "safety_undelivered_timeout": 0.01,
        "environment_path": "inherit",
        "notify_command": f"cat > {tmp_path}/part; echo >> {tmp_path}/part; "
        f"mv {tmp_path}/part {tmp_path}/heard",
    }


async def test_who_can_be_told_is_told_that_a_limit_ended_a_command(
    settings: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", ":9")
    config = Config.of(**settings)

    async with assemble(config, policy_file(config, Path()), serves=True) as supervisor:
        options = RunOptions(profile=None, limits=AskedLimits(total=0.3))
        run = await supervisor.run(Command("sleep 300 # s3cret-word"), options)
        heard = json.loads(await wait_for(tmp_path / "heard"))
        desktop = await wait_for(tmp_path / "desktop")

    assert (heard["event"], heard["runId"]) == ("killed", run.id)
    assert "a limit ended a command" in desktop
    assert f"shelltie history show {run.id}" in desktop
    assert "s3cret-word" not in f"{heard}{desktop}"


@pytest.mark.proves("D14")
async def test_a_command_of_the_user_and_the_desktop_are_told_once_of_each_question(
    settings: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", ":9")

    await ask(Config.of(**settings), "rm -rf secret-name", "rm -rf secret-name")

    told = json.loads((tmp_path / "heard").read_text(encoding="utf-8"))
    desktop = await wait_for(tmp_path / "desktop")
    assert told["approve"] == f"shelltie approve {told['id']}"
    assert desktop.count("a command waits for your yes") == 1
    assert told["approve"] in desktop
    assert "secret-name" not in desktop + json.dumps(told)


@pytest.mark.proves("D14")
async def test_one_key_switches_it_off_and_without_a_display_no_desktop_is_told(
    settings: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", ":9")
    await ask(Config.of(**settings, notify_waiting=False), "rm -rf a")
    off = [(tmp_path / name).exists() for name in ("heard", "desktop")]
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    await ask(Config.of(**settings), "rm -rf a")

    assert off == [False, False]
    assert (tmp_path / "heard").exists()
    assert not (tmp_path / "desktop").exists()
