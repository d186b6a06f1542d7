"""Promise 3: nothing is lost: output, the reason, and what was dropped is counted."""

import os
import sys
from pathlib import Path

import pytest

from shelltie import Terminal
from shelltie.frontends.api import parse_options
from shelltie.frontends.reports.run_report import report
from shelltie.model import Command, Stream
from shelltie.running.options import RunOptions
from tests.conftest import Open
from tests.tree import until


@pytest.mark.proves("T0-12", "S0-27", "S3-4")
async def test_stderr_alone_keeps_a_command_alive(terminal: Terminal) -> None:
    command = "for i in 1 2 3 4 5 6 7; do echo $i >&2; sleep 1; done"

    result = await terminal.run(command, timeout=60, silence=6)

    assert (result.status, result.stderr) == ("success", "1\n2\n3\n4\n5\n6\n7\n")


@pytest.mark.proves("T0-13", "S0-27", "S3-59")
async def test_dots_without_a_newline_keep_a_command_alive(terminal: Terminal) -> None:
    command = "for i in 1 2 3 4 5 6 7; do printf .; sleep 1; done"

    result = await terminal.run(command, timeout=60, silence=6)

    assert (result.status, result.stdout) == ("success", ".......")


@pytest.mark.proves("T0-14", "C-12")
async def test_both_streams_at_once_do_not_deadlock(terminal: Terminal) -> None:
    program = "import os\nfor i in range(200): os.write(1, b'o' * 1000); os.write(2, b'e' * 1000)"

    result = await terminal.run([sys.executable, "-c", program], timeout=30)

    assert result.stdout == "o" * 200_000
    assert result.stderr == "e" * 200_000


@pytest.mark.proves("T0-15", "C-12")
async def test_every_line_arrives(terminal: Terminal) -> None:
    result = await terminal.run("seq 1 5000", timeout=30)

    assert result.stdout.split() == [str(number) for number in range(1, 5001)]


@pytest.mark.proves("T0-30", "C-51")
async def test_broken_utf8_becomes_replacement_characters(terminal: Terminal) -> None:
    command = r"printf 'A\377\376B\303('; printf '\360\237'; sleep 0.2; printf '\230\200 split'"

    result = await terminal.run(command, timeout=30)

    assert result.stdout == "A\ufffd\ufffdB\ufffd(\N{GRINNING FACE} split"


@pytest.mark.proves("C-49")
async def test_what_does_not_fit_is_counted_and_on_disk(terminal: Terminal) -> None:
    command = "echo start; head -c 5000000 /dev/zero | tr '\\0' x | fold -w 99; echo end"

    run = await terminal.supervisor.run(*_asked(command))
    result = report(run, shown=40_000)

    assert (result.status, result.truncated) == ("success", True)
    assert result.stdout.startswith("start\n")
    assert result.stdout.endswith("end\n")
    assert len(result.stdout) < 41_000
    assert result.output_file is not None
    assert result.output_file in result.stdout
    assert Path(result.output_file).stat().st_size == result.stdout_bytes


async def test_a_flood_is_bounded_and_runs_on(open_terminal: Open) -> None:
    async with open_terminal(output_spool_cap=1_000_000) as terminal:
        result = await terminal.run("head -c 200000000 /dev/zero; echo; echo end", timeout=60)

    assert (result.status, result.stdout_bytes) == ("success", 200_000_005)
    assert result.stdout.endswith("\nend\n")
    assert result.output_file is not None
    assert Path(result.output_file).stat().st_size == 1_000_000


async def test_a_spool_that_cannot_be_written_is_a_warning(
    open_terminal: Open, tmp_path: Path
) -> None:
    (tmp_path / "state").write_text("not a directory", encoding="utf-8")

    async with open_terminal() as terminal:
        result = await terminal.run("seq 1 20000", timeout=30)

    assert result.status == "success"
    assert any("not kept" in warning for warning in result.warnings)


@pytest.mark.proves("C-52", "S0-25")
async def test_the_streams_are_kept_apart_and_in_order(terminal: Terminal, tmp_path: Path) -> None:
    wait = "until [ -e {} ]; do sleep 0.02; done"
    steps = [f"echo {n} >&{2 - n % 2}; {wait.format(tmp_path / str(n))}" for n in (1, 2, 3, 4)]

    run = await terminal.supervisor.start(*_asked("; ".join(steps)))
    for number in (1, 2, 3, 4):
        await until(lambda read=2 * number: run.output.total == read)  # type: ignore[misc]  # now
        (tmp_path / str(number)).touch()
    await run.wait()

    assert run.output.view(None, 100, 100).head == b"1\n2\n3\n4\n"
    assert run.output.view(Stream.STDERR, 100, 100).head == b"2\n4\n"


@pytest.mark.proves("C-56")
async def test_progress_bars_and_colours_are_cleaned_and_raw_stays(terminal: Terminal) -> None:
    command = r"printf '10%%\r50%%\r100%%\n\033[31mred\033[0m\n'"

    run = await terminal.supervisor.run(*_asked(command))

    assert report(run).stdout == "100%\nred\n"
    assert run.output.view(None, 100, 100).head == b"10%\r50%\r100%\n\x1b[31mred\x1b[0m\n"


async def test_python_does_not_buffer(terminal: Terminal) -> None:
    program = "import time\nprint('first')\ntime.sleep(60)"

    run = await terminal.start([sys.executable, "-c", program])
    await until(lambda: run.output.total >= len("first\n"))
    await run.kill("enough")

    assert run.output.view(None, 100, 100).head == b"first\n"


@pytest.mark.proves("C-52")
async def test_a_pty_is_a_terminal(terminal: Terminal) -> None:
    command = "sleep 0.5; test -t 0 && test -t 1 && stty size && cat"

    result = await terminal.run(command, pty=True, stdin="typed\n", timeout=20)

    assert result.status == "success"
    assert "24 80\n" in result.stdout
    assert result.stdout.count("typed\n") == 2  # the terminal's echo, and cat
    assert result.stderr == ""


def _asked(command: str) -> tuple[Command, RunOptions]:
    return parse_options(command, {"timeout": 30})


async def test_a_command_may_close_its_terminal_before_it_ends(terminal: Terminal) -> None:
    command = "echo out; exec </dev/null >/dev/null 2>&1; sleep 0.5; exit 7"

    result = await terminal.run(command, pty=True, timeout=20)

    assert (result.exit_code, result.signal, result.stdout) == (7, None, "out\n")


async def test_input_without_a_last_newline_ends_like_any_other(terminal: Terminal) -> None:
    for _ in range(20):
        result = await terminal.run("cat", pty=True, stdin="no newline", timeout=20)

        assert (result.exit_code, result.signal) == (0, None)


async def test_runs_that_are_over_hold_no_file_open(terminal: Terminal) -> None:
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    await terminal.run("head -c 100000 /dev/zero")
    before = open_files()
    for _ in range(6):
        result = await terminal.run("head -c 100000 /dev/zero")
        assert result.output_file is not None

    await until(lambda: open_files() <= before)


async def test_old_output_leaves_the_disk_but_never_that_of_a_run_that_another_server_has(
    open_terminal: Open, tmp_path: Path
) -> None:
    output = tmp_path / "state" / "output"
    async with open_terminal() as one, open_terminal(output_keep="all") as other:
        session = await one.supervisor.start(
            Command("echo kept; exec sleep 60", stays_open=True), RunOptions("run")
        )
        await until(lambda: bool(session.output.total))
        for number in range(300):
            (output / f"0OLD{number:03}.log").touch()
            os.utime(output / f"0OLD{number:03}.log", (1000 + number, 1000 + number))
        os.utime(output / f"{session.id}.log", (1, 1))

        await other.run("echo new")
        await until(lambda: len(list(output.glob("0OLD*.log"))) < 300)
        await until(lambda: len(list(output.glob("*.log"))) == 191)

        assert session.output.spool is not None
        assert session.output.spool.read(0, 5) == b"kept\n"
        assert not (output / "0OLD110.log").exists()
        assert (output / "0OLD111.log").exists()
        await session.kill("done")
