"""What ACP's terminals say: both streams in order, what was ended or withheld, a real terminal."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from shelltie import InvalidParameters, Terminal
from shelltie.frontends.acp.terminal_host import TerminalHost
from shelltie.model import TerminalSize
from tests.conftest import Open
from tests.tree import new_tag, nobody_left, tagged

S = "sess_1"


@pytest.fixture
async def host(terminal: Terminal, tmp_path: Path) -> AsyncIterator[TerminalHost]:
    async with TerminalHost(terminal.supervisor) as host:
        host.open_session(S, tmp_path)
        yield host


async def told(host: TerminalHost, text: str, **more: object) -> tuple[str, dict[str, object]]:
    """All that a command printed, and the `_meta` of its exit."""
    made = await host.create_terminal(S, "bash", ["-c", text], **more)  # type: ignore[arg-type]  # as named
    ended = await host.wait_for_terminal_exit(S, made.terminal_id)
    seen = await host.terminal_output(S, made.terminal_id)
    await host.release_terminal(S, made.terminal_id)
    assert ended.field_meta is not None
    return seen.output, ended.field_meta


@pytest.mark.timeout(120)
@pytest.mark.proves("C-52", "S1-67")
@pytest.mark.parametrize("pty", [False, True])
async def test_both_streams_are_read_in_the_order_in_which_they_were_written(
    host: TerminalHost, pty: bool
) -> None:
    host.pty = TerminalSize() if pty else None
    script = "echo 1 >&2; echo 2; echo 3 >&2; echo 4; echo 5 >&2"

    said = {(await told(host, script))[0] for _ in range(100)}

    assert said == {"1\n2\n3\n4\n5\n"}


async def test_what_was_left_in_the_background_is_ended_and_told(host: TerminalHost) -> None:
    tag = new_tag()

    said, meta = await told(host, f"sleep 300.{tag} & echo started")

    first, note, rest = said.split("\n")
    assert (first, rest) == ("started", "")
    assert note.startswith("⟨shelltie: 1 process that it left in the background ended with it")
    assert (meta["survivors"], len(meta["warnings"])) == (1, 1)  # type: ignore[arg-type]  # a list
    await nobody_left(tag)


async def test_a_note_begins_a_line_and_stays_within_the_limit(host: TerminalHost) -> None:
    large, _ = await told(host, "sleep 300 & printf '%5000s' x", output_byte_limit=2000)
    small, meta = await told(host, "sleep 300 & printf '%5000s' x", output_byte_limit=100)

    before, newline, note = large.rpartition("\n⟨shelltie: ")
    assert (before[-1], newline != "", note[-2:]) == ("x", True, "⟩\n")
    assert len(large.encode()) <= 2000
    assert (small[-1], len(small), meta["survivors"]) == ("x", 100, 1)


async def test_what_may_stay_is_told_and_stays(open_terminal: Open, tmp_path: Path) -> None:
    tag = new_tag()
    async with (
        open_terminal(run_background_survivors="keep") as opened,
        TerminalHost(opened.supervisor) as host,
    ):
        host.open_session(S, tmp_path)
        made = await host.create_terminal(S, "bash", ["-c", f"sleep 300.{tag} >/dev/null 2>&1 &"])
        await host.wait_for_terminal_exit(S, made.terminal_id)

        said = (await host.terminal_output(S, made.terminal_id)).output

        assert "may still run" in said
        assert tagged(tag)
    await nobody_left(tag)


async def test_a_withheld_variable_of_the_call_is_told(host: TerminalHost) -> None:
    env = {"GITHUB_TOKEN": "x", "MINE": "y"}

    made = await host.create_terminal(S, "bash", ["-c", "echo ${#GITHUB_TOKEN} $MINE"], env)

    await host.wait_for_terminal_exit(S, made.terminal_id)
    seen = await host.terminal_output(S, made.terminal_id)
    assert made.field_meta["withheld"] == ["GITHUB_TOKEN"]
    assert seen.output.startswith("0 y\n⟨shelltie: GITHUB_TOKEN of the call was withheld")
    assert "environment.pass" in seen.output


async def test_what_is_withheld_from_everybody_is_not_told_to_each(
    open_terminal: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "x")
    async with open_terminal() as opened, TerminalHost(opened.supervisor) as host:
        host.open_session(S, tmp_path)

        said, _ = await told(host, "echo ${#GITHUB_TOKEN}")

    assert said == "0\n"


async def test_an_agent_may_hand_on_its_own_environment(
    open_terminal: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    path = f"/tmp/first:{Path(sys.executable).parent}:/usr/bin:/bin"  # to set it would be dangerous
    monkeypatch.setenv("PATH", path)
    monkeypatch.setenv("PAGER", "less -R")
    async with (
        open_terminal(environment_path="inherit") as opened,
        TerminalHost(opened.supervisor) as host,
    ):
        host.open_session(S, tmp_path)
        env = {"PYTHONPATH": "/somewhere", "PATH": path}

        said, _ = await told(
            host, "echo $PYTHONPATH $PAGER", env={**env, "PAGER": "less -R", "GIT_PAGER": ""}
        )

        assert said == "/somewhere cat\n"
        with pytest.raises(InvalidParameters, match="env: PYTHONPATH decides which code"):
            await told(host, "true", env={"PYTHONPATH": "/elsewhere"})


async def test_a_terminal_has_colours_and_a_size_and_its_text_has_neither_escapes(
    host: TerminalHost,
) -> None:
    host.pty = TerminalSize()
    script = (
        "test -t 1 && test -t 2 && ! test -t 0 && stty size <&1; "
        "echo $TERM ${NO_COLOR-unset}; printf '\\033[31mred\\033[0m 10%%\\r'; printf 'red 99%%\\n'"
    )

    said, _ = await told(host, script)

    assert said == "24 80\nxterm-256color unset\nred 99%\n"


async def test_who_reads_in_a_terminal_that_only_shows_waits_for_nobody(
    host: TerminalHost,
) -> None:
    host.pty = TerminalSize()

    with anyio.fail_after(50):
        said, meta = await told(host, "cat; read -r x </dev/tty; echo $?")

    assert said.splitlines()[-1] == "1"
    assert meta["state"] == "finished"


async def test_a_program_that_fills_its_buffer_first_does_not_do_so_in_a_terminal(
    host: TerminalHost,
) -> None:
    host.pty = TerminalSize()
    made = await host.create_terminal(S, "bash", ["-c", "(echo x; sleep 300) | grep x"])

    with anyio.fail_after(50):
        while (await host.terminal_output(S, made.terminal_id)).output != "x\n":
            await anyio.sleep(0.02)
    await host.kill_terminal(S, made.terminal_id)

    assert (await host.terminal_output(S, made.terminal_id)).output == "x\n"
