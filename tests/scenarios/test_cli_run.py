"""`shelltie run`: what DESIGN 6 promises to scripts and people, with real processes."""

import json
import os
import re
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.cli import SHELLTIE, carriers, on_terminal, shelltie, start, text_of

# Two levels below the shell: one who ignores SIGTERM, and one who left the session.
HIDING_TREE = "echo ready; sh -c 'trap \"\" TERM; setsid sleep 600 & sleep 600; wait'; echo never"
CONTRACT = (
    *("status", "stdout", "stderr", "exitCode", "timeoutReason", "terminationMode", "durationMs"),
    *("signal", "limits", "truncated", "survivors", "leaked", "provider", "isolation"),
    *("verdict", "warnings", "hint", "runId"),
)


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture
def tag() -> str:
    return f"TAG_{uuid.uuid4().hex}"


# run: exit codes and output


def test_a_command_that_is_not_recorded_says_so_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.db").write_bytes(b"this is no database at all")
    monkeypatch.setenv("SHELLTIE_AUDIT_PATH", str(tmp_path / "broken.db"))

    done = shelltie("run", "--", "echo on; exit 3")

    assert (done.returncode, done.stdout) == (3, b"on\n")
    assert b"not recorded" in done.stderr
    assert b"broken.db" in done.stderr


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["--", "exit 0"], 0),
        (["--", "exit 3"], 3),
        (["--", "sh", "-c", "exit 4"], 4),
        (["--", "kill -KILL $$"], 137),
        (["--", "no-such-program-here"], 127),
        (["--", "no-such-program-here", "x"], 127),
        (["--", "/etc/passwd", "x"], 126),
        (["--cwd", "/no/such/directory", "--", "ls"], 126),
        (["--total", "300ms", "--", "sleep 600"], 124),
        (["--total", "0.3", "sleep", "600"], 124),
    ],
)
def test_run_exits_like_gnu_timeout(args: list[str], code: int) -> None:
    done = shelltie("run", *args)

    assert done.returncode == code
    assert b"Traceback" not in done.stderr


def test_one_argument_is_a_shell_text_and_several_are_an_argument_vector() -> None:
    assert text_of("run", "--", "echo $((20 + 3)) | tr 3 4") == "24\n"
    assert text_of("run", "--", "echo", "$((20 + 3)) | tr 3 4") == "$((20 + 3)) | tr 3 4\n"
    assert text_of("run", "echo", "--json", "--", "-n") == "--json -- -n\n"


def test_both_streams_pass_byte_for_byte_and_nothing_is_added() -> None:
    done = shelltie("run", "--", r"printf '\377\000\r\nx'; printf '\376y' >&2")

    assert done.stdout == b"\xff\0\r\nx"
    assert done.stderr == b"\xfey"


def test_a_flood_arrives_whole() -> None:
    done = shelltie("run", "--", "seq 1 200000; seq 1 1000 >&2")

    assert done.stdout == b"".join(b"%d\n" % n for n in range(1, 200_001))
    assert done.stderr.count(b"\n") == 1000


def test_output_is_live() -> None:
    go_on = Path("go-on")
    with start("run", "--", f"echo first; until [ -e {go_on} ]; do sleep 0.05; done") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"first\n"
        assert process.poll() is None
        go_on.touch()
        assert process.wait(40) == 0


@pytest.mark.proves("T0-28")
def test_a_command_finds_the_end_of_its_input_unless_input_is_given() -> None:
    Path("input").write_bytes(b"from a file")

    assert text_of("run", "--", "cat", stdin=b"not for it") == ""
    assert text_of("run", "--stdin", "input", "--", "cat") == "from a file"
    assert text_of("run", "--stdin", "-", "--", "cat", stdin=b"ours") == "ours"


def test_directory_and_variables_are_the_given_ones() -> None:
    Path("inside").mkdir()

    shown = text_of(
        "run", "--cwd", "inside", "--env", "A=1=2", "--env", "B=", "--", 'pwd; echo "$A$B."'
    )

    assert shown == f"{Path('inside').resolve()}\n1=2.\n"


def test_a_pty_has_the_size_of_our_terminal() -> None:
    code, shown = on_terminal("run", "--pty", "--", "tty -s && stty size", rows=33, columns=101)

    assert (code, shown.strip()) == (0, "33 101")
    assert text_of("run", "--pty", "--", "stty size").strip() == "24 80"


# run --json


@pytest.mark.proves("S0-31", "T0-1", "T0-25")
def test_json_is_one_object_with_the_fields_of_the_contract_first() -> None:
    answer = json.loads(text_of("run", "--json", "--", "echo 'timeout test 1'"))

    assert tuple(answer)[: len(CONTRACT)] == CONTRACT
    assert list(answer["limits"])[:4] == ["execSec", "silenceSec", "source", "category"]
    assert (answer["status"], answer["stdout"], answer["exitCode"]) == (
        "success",
        "timeout test 1\n",
        0,
    )
    assert (answer["timeoutReason"], answer["terminationMode"]) == (None, None)


@pytest.mark.proves("T0-20")
def test_json_of_a_silent_command_says_which_limit_and_what_was_printed() -> None:
    done = shelltie("run", "--json", "--silence", "2s", "--", "echo 'Starting build...'; sleep 60")

    answer = json.loads(done.stdout)
    assert done.returncode == 124
    assert (answer["status"], answer["timeoutReason"]) == ("timeout", "no_output_timeout")
    assert (answer["stdout"], answer["exitCode"]) == ("Starting build...\n", -1)
    assert done.stderr == b""


@pytest.mark.proves("T0-25")
@pytest.mark.parametrize(("command", "code"), [("", 2), ("  ", 2)])
def test_json_has_all_seven_fields_when_nothing_was_run(command: str, code: int) -> None:
    done = shelltie("run", "--json", "--", command)

    answer = json.loads(done.stdout)
    assert done.returncode == code
    assert tuple(answer)[:7] == CONTRACT[:7]
    assert (answer["status"], answer["errorCode"]) == ("error", "INVALID_PARAMETERS")


# run: limits, ends and signals


@pytest.mark.proves("T0-16", "T0-18", "S0-47")
def test_a_silent_tree_is_warned_about_ended_and_explained(tag: str) -> None:
    done = shelltie(
        "run", "--silence", "5s", "--grace", "300ms", "--env", f"{tag}=1", "--", HIDING_TREE
    )

    said = done.stderr.decode()
    assert done.returncode == 124
    assert done.stdout == b"ready\n"
    assert carriers(tag) == []
    assert re.match(r"shelltie: ⚠ No output for \d", said)
    assert "timeout (silence): no output for 5s; limit from --silence" in said
    assert "0 left · SIGKILL was needed" in said
    assert "--silence 10s" in said
    assert all(len(line) <= 80 for line in said.splitlines())


@pytest.mark.proves("T0-19")
def test_what_stays_in_the_background_is_mentioned_and_ends_with_us(tag: str) -> None:
    text = "sleep 600 > /dev/null 2>&1 & echo done"

    done = shelltie("run", "--env", f"{tag}=1", "--", text)

    assert (done.returncode, done.stdout) == (0, b"done\n")
    assert b"left in the background: 1 process" in done.stderr
    assert carriers(tag) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_us_ends_the_tree(tag: str, number: int, code: int) -> None:
    options = ("--total", "60", "--grace", "300ms", "--env", f"{tag}=1")
    with start("run", *options, "--", HIDING_TREE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        output, said = process.communicate(timeout=40)

    assert process.returncode == code
    assert (output, carriers(tag)) == (b"", [])
    assert b"0 left" in said


def test_a_second_interrupt_does_not_wait_for_the_grace(tag: str) -> None:
    options = ("--total", "60", "--grace", "1h", "--env", f"{tag}=1")
    text = 'trap "echo heard" TERM; echo ready; while :; do sleep 0.05; done'
    with start("run", *options, "--", text) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == b"heard\n"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=40)

    assert process.returncode == 130
    assert carriers(tag) == []


def test_a_reader_who_leaves_ends_the_run_quietly(tag: str) -> None:
    with start("run", "--env", f"{tag}=1", "--", "yes") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"y\n"
        process.stdout.close()
        assert process.wait(40) == 141
        assert process.stderr is not None
        assert process.stderr.read() == b""

    assert carriers(tag) == []


@pytest.mark.proves("S0-46")
def test_a_reader_who_does_not_read_cannot_stop_the_clock(tag: str) -> None:
    with start("run", "--total", "3s", "--env", f"{tag}=1", "--", "yes") as process:
        assert process.wait(40) == 124
        assert process.stderr is not None
        assert b"nobody read them" in process.stderr.read()

    assert carriers(tag) == []


def test_an_interrupt_is_heard_while_nobody_reads(tag: str) -> None:
    with start("run", "--total", "1h", "--env", f"{tag}=1", "--", "yes; echo end >&2") as process:
        assert process.stdout is not None
        os.read(process.stdout.fileno(), 1)
        process.send_signal(signal.SIGINT)
        assert process.wait(40) == 130

    assert carriers(tag) == []


def test_closed_descriptors_are_no_trap() -> None:
    script = f'{" ".join(SHELLTIE)} run -- "echo hi" <&- >&-; echo $? >&2'

    done = subprocess.run(["sh", "-c", script], capture_output=True, timeout=40, check=False)

    assert done.stderr == b"0\n"


# All is loaded as root, for whom the limit does not hold; then it is somebody who has no processes.
FEW_PROCESSES = """
import os, resource, sys
from shelltie.basics.lazy_module import import_now
from shelltie.frontends.cli.main import main
main(["run", "--", "/bin/true"])
import_now()
for name in ("STATE_HOME", "CONFIG_HOME", "RUNTIME_DIR"):
    os.environ[f"XDG_{name}"] = sys.argv[1]
limit, uid = int(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
os.setgid(uid)
os.setuid(uid)
os.chdir("/")
sys.exit(main(["run", "--", "/bin/echo", "x"]))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be somebody without processes")
@pytest.mark.parametrize(("limit", "code"), [(1, 125), (2, 125), (3, 126), (4, 126)])
def test_where_no_process_can_be_made_it_says_so(public_path: Path, limit: int, code: int) -> None:
    public_path.chmod(0o777)
    uid = str(60_000_000 + os.getpid() * 10 + limit)  # nobody's

    command = [sys.executable, "-c", FEW_PROCESSES, str(public_path), str(limit), uid]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)

    said = " ".join(done.stderr.decode().split())
    assert done.returncode == code, said
    assert "Traceback" not in said
    assert "try again" in said
