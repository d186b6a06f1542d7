"""shelltie-sh: to its caller it is the shell, and what it starts is on a leash."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from shelltie.frontends.cli.shelltie_sh import command_of_claude, understand
from tests.cli import carriers, on_terminal, shelltie
from tests.tree import new_tag

PROGRAM = [
    sys.executable,
    "-c",
    "from shelltie.frontends.cli.shelltie_sh import program; program()",
]
# As Claude Code 2.1 was seen to write it.
LINE = (
    "source /home/me/.claude/shell-snapshots/snapshot-bash-1-x.sh 2>/dev/null || true"
    " && {{ shopt -u extglob || setopt NO_EXTENDED_GLOB; }} >/dev/null 2>&1 || true"
    " && eval {} < /dev/null && pwd -P >| {}"
)


def sh(*words: str, stdin: bytes = b"", **env: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [*PROGRAM, *words],
        input=stdin,
        capture_output=True,
        timeout=100,
        check=False,
        env={**os.environ, **env},
    )


def test_directory_variables_input_and_exit_code_are_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PAGER", raising=False)
    text = 'cat; pwd; echo "$0 $1 $MY_TOKEN ${PAGER-none} $TERM"; echo err >&2; exit 7'

    env = {"MY_TOKEN": "s3cr3t-token-0123456789", "TERM": "vt100"}
    done = sh("-c", text, "name", "one", stdin=b"typed\n", **env)

    expected = f"typed\n{tmp_path}\nname one {env['MY_TOKEN']} none vt100\n"
    assert (done.returncode, done.stdout.decode(), done.stderr) == (7, expected, b"err\n")
    recorded = json.loads(shelltie("history", "--json").stdout)
    assert (recorded[0]["command"], recorded[0]["client"]) == (text, "shelltie-sh")
    assert recorded[0]["exitCode"] == 7


def test_the_line_of_claude_code_is_leashed_and_its_servers_are_left_alone(tmp_path: Path) -> None:
    inner = "cd /tmp && echo 'it is' \"$CLAUDE_CODE_SHELL_PREFIX\"."
    quoted = "'" + inner.replace("'", "'\"'\"'") + "'"
    line = LINE.format(quoted, tmp_path / "cwd")

    done = sh(line, CLAUDE_CODE_SHELL_PREFIX="shelltie-sh")
    server = sh("echo server; exit 3")

    assert (done.returncode, done.stdout) == (0, b"it is .\n"), done
    assert (tmp_path / "cwd").read_text() == "/tmp\n"
    assert (server.returncode, server.stdout) == (3, b"server\n")
    recorded = json.loads(shelltie("history", "--json").stdout)
    assert [one["command"] for one in recorded] == [inner]  # the server is none of ours


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-c", "ls"], "ls"),
        (["-l", "-c", "ls"], "ls"),
        (["-lc", "ls", "x"], "ls"),
        (["--login", "-c", "ls"], "ls"),
        (["-eu", "-o", "pipefail", "-c", "ls"], "ls"),
        (["-euo", "pipefail", "-c", "ls"], "ls"),
        (["+O", "extglob", "-c", "ls"], "ls"),
        (["--rcfile", "-c", "-c", "ls"], "ls"),
        (["-init-file", "f", "-c", "ls"], "ls"),
        (["-norc", "-c", "ls"], "ls"),
        (["-c", "--", "ls"], "ls"),
        (["-c", "-", "-x"], "-x"),
        (["-c", "-e", "ls", "-x"], "ls"),
        (["-co", "pipefail", "ls"], "ls"),
        (["-oO", "pipefail", "extglob", "-c", "ls"], "ls"),
        ([], None),
        (["-o", "pipefail"], None),
        (["-c", "-o", "pipefail"], None),
        (["-norc", "script.sh"], None),
        (["--", "script.sh", "-c", "ls"], None),
        (["-i"], None),
        (["script.sh", "-c"], None),
        (["-c"], None),
        (["server.sh 'a b' c"], None),
        (["server.sh " + "x" * 300], None),
    ],
)
def test_what_is_to_be_leashed_is_a_command_and_nothing_else(
    words: list[str], told: str | None
) -> None:
    assert understand(words)[0] == told


def test_options_before_and_after_c_are_the_shells_and_the_command_is_recorded() -> None:
    strict = sh("-euo", "pipefail", "-c", "false | true; echo on")
    late = sh("-c", "-o", "pipefail", "--", "exit 4 | true")

    assert (strict.returncode, strict.stdout, late.returncode) == (1, b"", 4)
    recorded = json.loads(shelltie("history", "--json").stdout)
    assert {one["command"] for one in recorded} == {
        "false | true; echo on",
        "exit 4 | true",
    }


def test_at_a_terminal_a_command_is_leashed_too() -> None:
    code, shown = on_terminal("-c", "test -t 0 && echo typed at a terminal", program=PROGRAM)

    assert (code, shown) == (0, "typed at a terminal\r\n")
    recorded = json.loads(shelltie("history", "--json").stdout)
    assert [one["exitCode"] for one in recorded] == [0]


def test_wrong_settings_stop_only_what_is_to_be_leashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".shelltie.toml").write_text("= broken", encoding="utf-8")

    server, empty, leashed = sh("echo server"), sh("-c", " "), sh("-c", "echo leashed")

    assert (server.returncode, server.stdout) == (0, b"server\n")
    assert (empty.returncode, empty.stderr) == (0, b"")
    assert (leashed.returncode, leashed.stdout) == (125, b"")
    assert b".shelltie.toml" in leashed.stderr


def test_in_a_directory_that_was_deleted_commands_run_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    server, leashed = sh("echo server"), sh("-c", "readlink /proc/self/cwd; exit 6")

    assert (server.returncode, server.stdout) == (0, b"server\n")
    assert (leashed.returncode, leashed.stdout.decode()) == (6, f"{gone} (deleted)\n")
    assert b"Traceback" not in server.stderr + leashed.stderr
    monkeypatch.chdir(tmp_path)
    recorded = json.loads(shelltie("history", "--json").stdout)
    assert [one["exitCode"] for one in recorded] == [6]


def test_a_line_that_is_not_quite_as_known_is_leashed_whole() -> None:
    assert command_of_claude("source x && eval 'a b' \\< /dev/null && pwd -P >| /f") == "a b"
    strange = "run_it 'a b' && pwd -P >| /f"
    assert command_of_claude(strange) == strange
    assert command_of_claude("unbalanced ' quote") is None


def test_both_streams_in_one_file_keep_their_order(tmp_path: Path) -> None:
    text = "for i in 1 2 3; do echo o$i; echo e$i >&2; done"
    with (tmp_path / "both").open("wb") as both:
        subprocess.run([*PROGRAM, "-c", text], stdout=both, stderr=both, timeout=100, check=True)

    assert (tmp_path / "both").read_text().split() == ["o1", "e1", "o2", "e2", "o3", "e3"]


@pytest.mark.parametrize(("trap", "expected"), [("", 128 + signal.SIGTERM), ("exit 3", 3)])
async def test_a_signal_ends_the_whole_tree(trap: str, expected: int) -> None:
    tag = f"TAG_{new_tag()}"
    text = f"trap '{trap}' TERM; " if trap else ""
    text += "setsid sleep 300 & echo started; sleep 300"
    async with await anyio.open_process(
        [*PROGRAM, "-c", text], env={**os.environ, tag: "1"}, stdin=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        with anyio.fail_after(90):
            assert await process.stdout.receive() == b"started\n"
        assert len(carriers(tag)) >= 3
        process.send_signal(signal.SIGTERM)
        with anyio.fail_after(90):
            code = await process.wait()

    assert code == expected
    assert carriers(tag) == []
