"""What both keepers promise about one command: how it starts, what it is given, how it is told."""

import errno
import os
import select
import signal
import socket
from pathlib import Path

import anyio
import psutil
import pytest

from shelltie.errors import CannotStart, ConfigWrong
from shelltie.keeper.binaries import KeeperKind, choose
from shelltie.keeper.link import Link, taken_socket
from shelltie.keeper.protocol import Exited, Failed, Gone, Signalled, Started
from shelltie.model import Resources
from tests.leashes import PATH, output_of, printed_ready, read, start, start_printing
from tests.programs import evil
from tests.tree import new_tag, nobody_left, tagged, until


async def test_a_command_tells_its_start_its_exit_and_that_nobody_is_left(any_link: Link) -> None:
    told = start(any_link, "sh", "-c", "exit 3")

    await told.last()

    started, exited, gone = told.words
    assert isinstance(started, Started)
    assert started.pid > 1
    assert started.leash > 1
    assert exited == Exited(3 << 8, 0)
    assert isinstance(gone, Gone)
    assert gone.rounds == 0


async def test_death_by_signal_is_told_as_such(any_link: Link) -> None:
    told = start(any_link, "sh", "-c", "kill -SEGV $$")

    exited = await told.word(Exited)

    assert os.WTERMSIG(exited.wait_status) == signal.SIGSEGV


async def test_the_processor_time_of_the_whole_tree_is_told(link: Link) -> None:
    busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
    told = start(link, "sh", "-c", f"({busy}); exit 0")

    gone = await told.word(Gone)

    assert gone.cpu > 0


@pytest.mark.parametrize(
    ("argv", "cwd", "step", "error"),
    [
        (("no-such-program",), "/", "exec", errno.ENOENT),
        (("/no/such/program",), "/", "exec", errno.ENOENT),
        (("/etc/passwd",), "/", "exec", errno.EACCES),
        (("/etc/passwd/x",), "/", "exec", errno.ENOTDIR),
        (("true",), "/no/such/place", "chdir", errno.ENOENT),
        (("true",), "/etc/passwd", "chdir", errno.ENOTDIR),
    ],
)
@pytest.mark.proves("T0-22")
async def test_what_cannot_be_started_says_at_which_step_and_why(
    any_link: Link, argv: tuple[str, ...], cwd: str, step: str, error: int
) -> None:
    told = start(any_link, *argv, cwd=cwd)

    await told.last()

    failed, gone = told.words
    assert failed == Failed(step, error)
    assert isinstance(gone, Gone)


async def test_a_terminal_that_is_none_fails_at_the_step_tty(link: Link) -> None:
    told = start(link, "true", tty=True)

    assert await told.word(Failed) == Failed("tty", errno.ENOTTY)


async def test_a_limit_that_makes_no_sense_fails_at_the_step_limit(link: Link) -> None:
    told = start(link, "true", resources=Resources(open_files=-5))

    assert await told.word(Failed) == Failed("limit", errno.EINVAL)


async def test_a_file_that_may_not_be_run_is_not_the_same_as_no_file(
    link: Link, tmp_path: Path
) -> None:
    (tmp_path / "plain").write_text("true\n")

    told = start(link, "plain", env={"PATH": f"/nowhere:{tmp_path}:/usr/bin"})

    assert await told.word(Failed) == Failed("exec", errno.EACCES)


async def test_the_program_is_looked_for_in_the_path_of_its_own_environment(
    any_link: Link, tmp_path: Path
) -> None:
    script = tmp_path / "greet"
    script.write_text("#!/bin/sh\necho hello\n")
    script.chmod(0o755)

    printed = await output_of(any_link, "greet", env={"PATH": f"/nowhere:{tmp_path}:/bin"})

    assert printed == b"hello\n"


async def test_a_script_without_a_first_line_is_run_by_the_shell(
    any_link: Link, tmp_path: Path
) -> None:
    script = tmp_path / "greet"
    script.write_text('echo "hello $1"\n')
    script.chmod(0o755)

    by_path = await output_of(any_link, str(script), "you")
    by_name = await output_of(any_link, "greet", "you", env={"PATH": str(tmp_path)})

    assert by_path == by_name == b"hello you\n"


async def test_the_directory_is_the_one_asked_for(any_link: Link, tmp_path: Path) -> None:
    place = tmp_path / "a place\nwith ümlauts"
    place.mkdir()

    printed = await output_of(any_link, "pwd", cwd=str(place))

    assert printed == os.fsencode(place.resolve()) + b"\n"


async def test_the_environment_is_exactly_what_was_given(any_link: Link) -> None:
    env = {"PATH": "/usr/bin:/bin", "ODD": "a=b\nc", "EMPTY": "", "RAW": "\udcff", "Ü": "ü"}

    printed = await output_of(any_link, "env", "-0", env=env)

    given = {f"{name}={value}".encode("utf-8", "surrogateescape") for name, value in env.items()}
    assert set(printed.split(b"\0")) - {b""} == given


async def test_arguments_arrive_byte_for_byte(any_link: Link) -> None:
    every_byte = bytes(range(1, 256)).decode("utf-8", "surrogateescape")
    odd = ["", " ", "$HOME", "*", "`id`", "a\nb", every_byte, "-n"]

    printed = await output_of(any_link, "printf", "%s\\0", *odd)

    assert printed.split(b"\0")[:-1] == [word.encode("utf-8", "surrogateescape") for word in odd]


async def test_a_megabyte_of_arguments_and_environment_arrives(link: Link) -> None:
    arguments = ["x" * 1000] * 500
    env = PATH | {f"V{i}": "y" * 1000 for i in range(500)}

    printed = await output_of(link, "sh", "-c", 'echo $# "${#V499}"', "sh", *arguments, env=env)

    assert printed == b"500 1000\n"


async def test_more_than_the_kernel_takes_is_a_clear_answer(link: Link) -> None:
    told = start(link, "true", "x" * 1_000_000)

    assert await told.word(Failed) == Failed("exec", errno.E2BIG)


async def test_more_than_a_frame_holds_is_refused_before_it_is_sent(link: Link) -> None:
    with pytest.raises(CannotStart, match="too long"):
        start(link, "true", "x" * 9_000_000)


async def test_a_nul_byte_cannot_smuggle_arguments_or_variables(link: Link) -> None:
    for argv, env in ((("echo", "a\0b"), PATH), (("true",), {"A": "1\0B=2"})):
        with pytest.raises(CannotStart, match="NUL"):
            start(link, *argv, env=env)


async def test_the_three_streams_stay_apart(any_link: Link, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("asked\n")
    opened = [os.open(tmp_path / "in", os.O_RDONLY)]
    opened += [os.open(tmp_path / name, os.O_WRONLY | os.O_CREAT) for name in ("out", "err")]
    script = "read line; echo to-out $line; echo to-err >&2"

    told = start(any_link, "sh", "-c", script, stdio=(opened[0], opened[1], opened[2]))
    for descriptor in opened:
        os.close(descriptor)
    await told.last()

    assert (tmp_path / "out").read_text() == "to-out asked\n"
    assert (tmp_path / "err").read_text() == "to-err\n"


async def test_only_the_three_streams_are_open(any_link: Link) -> None:
    printed = await output_of(any_link, "ls", "/proc/self/fd")

    assert printed.split() == [b"0", b"1", b"2", b"3"]  # 3 is what ls reads


async def test_no_signal_is_blocked_or_ignored(any_link: Link) -> None:
    printed = await output_of(any_link, "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status")

    assert printed.split()[1::2] == [b"0000000000000000"] * 2


@pytest.mark.proves("S1-18", "C-40", "C-12")
async def test_the_command_has_a_session_of_its_own(any_link: Link) -> None:
    printed = await output_of(any_link, "sh", "-c", "echo $$; ps -o pgid=,sid=,tty= -p $$")

    pid, group, session, tty = printed.split()
    assert pid == group == session
    assert tty == b"?"


async def test_a_terminal_controls_and_control_c_interrupts(any_link: Link) -> None:
    master, slave = os.openpty()
    told = start(
        any_link,
        "sh",
        "-c",
        "echo ready >/dev/tty; exec sleep 60",
        tty=True,
        stdio=(slave, slave, slave),
    )
    os.close(slave)
    shown = b""
    while b"ready" not in shown:
        shown += await read(master)

    os.write(master, b"\x03")
    exited = await told.word(Exited)

    assert os.WTERMSIG(exited.wait_status) == signal.SIGINT
    await told.last()
    os.close(master)


async def test_resources_are_limited_softly_and_hard(link: Link) -> None:
    resources = Resources(
        open_files=64, core=0, processes=5000, address_space=2**32, cpu_seconds=100
    )
    asked = "".join(f"ulimit -S{letter}; ulimit -H{letter};" for letter in "ncuvt")

    printed = await output_of(link, "bash", "-c", asked, resources=resources)

    limits = ["64", "0", "5000", str(2**32 // 1024), "100"]
    assert printed.decode().split() == [limit for limit in limits for _ in "SH"]


async def test_a_limit_above_the_hard_one_is_the_hard_one(link: Link) -> None:
    hard = await output_of(link, "bash", "-c", "ulimit -Hn")

    printed = await output_of(
        link, "bash", "-c", "ulimit -Sn; ulimit -Hn", resources=Resources(open_files=2**40)
    )

    assert printed.split() == [hard.strip()] * 2


@pytest.mark.proves("T0-18", "T3-20", "C-40", "S1-14")
async def test_a_signal_reaches_everybody_in_the_tree(any_link: Link) -> None:
    tag = new_tag()
    nest = f"sleep 300.{tag} & (sleep 300.{tag}; :) & sleep 300.{tag}; :"
    told = start(any_link, "sh", "-c", f"sh -c '{nest}'; :")
    await until(lambda: len(tagged(f"sleep 300.{tag}")) >= 6)

    told.leash.signal(signal.SIGTERM)
    signalled = await told.word(Signalled)
    gone = await told.last()

    # Six, but a shell may have ended with its sleeper before its own turn came.
    assert signalled.sent in (4, 5, 6)
    assert signalled.refused == 0
    assert isinstance(gone, Gone)
    assert gone.rounds == 0  # nobody had to be killed
    await nobody_left(tag)


@pytest.mark.proves("S1-14", "C-40")
async def test_who_left_the_process_group_is_signalled_too(link: Link) -> None:
    tag = new_tag()
    told = start(link, "sh", "-c", f"setsid sleep 300.{tag} & exec sleep 300.{tag}")
    await until(lambda: len(tagged(tag)) == 2)

    told.leash.signal(signal.SIGHUP)

    assert await told.word(Signalled) == Signalled(signal.SIGHUP, 2, 0)
    await told.last()
    await nobody_left(tag)


async def test_the_children_of_every_thread_are_signalled(link: Link) -> None:
    tag = new_tag()
    told, reader = start_printing(link, evil(), "headless", "30", tag)
    await printed_ready(reader)

    told.leash.signal(signal.SIGTERM)

    assert await told.word(Signalled) == Signalled(signal.SIGTERM, 2, 0)
    await told.last()
    await nobody_left(tag)


async def test_nobody_gets_a_signal_twice(any_link: Link) -> None:
    reader, writer = os.pipe()
    null = os.open(os.devnull, os.O_RDWR)
    script = "trap 'echo got' USR1; trap 'exit 0' USR2; echo ready; while :; do sleep 0.01; done"
    told = start(any_link, "sh", "-c", script, stdio=(null, writer, null))
    os.close(writer)
    os.close(null)
    assert await read(reader) == b"ready\n"

    told.leash.signal(signal.SIGUSR1)
    assert await read(reader) == b"got\n"
    told.leash.signal(signal.SIGUSR2)
    await told.word(Exited)
    told.leash.signal(signal.SIGKILL)
    await told.last()

    assert await read(reader) == b""
    os.close(reader)


@pytest.mark.proves("C-41")
async def test_a_stopped_tree_is_continued_so_that_it_can_end(any_link: Link) -> None:
    tag = new_tag()
    told = start(any_link, "sh", "-c", f"sleep 300.{tag} & kill -STOP $!; kill -STOP $$")
    await until(lambda: [p.info["status"] for p in tagged(tag)] == [psutil.STATUS_STOPPED] * 2)

    told.leash.signal(signal.SIGTERM)
    gone = await told.last()

    assert isinstance(gone, Gone)
    assert gone.rounds == 0
    await nobody_left(tag)


@pytest.mark.proves("C-45", "T0-19")
async def test_who_outlives_the_command_is_counted_and_held(any_link: Link) -> None:
    tag = new_tag()
    told = start(any_link, "sh", "-c", f"sleep 300.{tag} & sleep 300.{tag} & sleep 0.3")

    exited = await told.word(Exited)
    assert exited == Exited(0, 2)
    assert len(tagged(f"sleep 300.{tag}")) == 2
    assert not isinstance(told.words[-1], Gone)

    told.leash.signal(signal.SIGKILL)
    gone = await told.last()
    assert isinstance(gone, Gone)
    assert gone.rounds >= 1
    await nobody_left(tag)


async def test_who_outlives_the_command_may_end_by_itself(any_link: Link) -> None:
    told = start(any_link, "sh", "-c", "sleep 0.5 & exit 0")

    gone = await told.last()

    assert isinstance(gone, Gone)
    assert gone.rounds == 0


async def test_the_end_of_the_control_socket_means_kill(any_link: Link) -> None:
    tag = new_tag()
    told = start(any_link, "sh", "-c", f"trap '' TERM HUP INT; sleep 300.{tag} & wait; :")
    await told.word(Started)

    told.leash.close()

    assert isinstance(await told.last(), Gone)
    await nobody_left(tag)


async def test_words_that_have_come_can_be_heard_without_the_loop(any_link: Link) -> None:
    told = start(any_link, "true")

    while not any(isinstance(word, Gone) for word in told.words):
        ready, _, _ = select.select([told.leash._control], [], [], 20)
        assert ready
        told.leash.poll()

    assert [type(word) for word in told.words] == [Started, Exited, Gone]


async def test_nothing_is_heard_or_sent_after_the_last_word(link: Link) -> None:
    told = start(link, "true")
    await told.last()

    told.leash.signal(signal.SIGTERM)
    told.leash.poll()
    told.leash.shoot()
    told.leash.close()
    await start(link, "true").last()

    assert len(told.words) == 3


def test_the_keeper_in_python_can_be_asked_for() -> None:
    argv, kind = choose("python")

    assert kind is KeeperKind.PYTHON
    assert argv[-1].endswith("pykeeper.py")


@pytest.mark.usefixtures("current_binary")
def test_the_keeper_in_c_is_the_first_choice() -> None:
    assert choose(None) == choose("c")
    assert choose("c")[1] is KeeperKind.C


def test_a_keeper_we_do_not_have_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigWrong):
        choose("rust")


async def test_a_keeper_that_cannot_be_started_says_so() -> None:
    with pytest.raises(CannotStart):
        Link(("/no/such/keeper",), KeeperKind.C)


@pytest.mark.proves("D16")
@pytest.mark.parametrize(("version", "address"), [(4, "127.0.0.1"), (6, "::1")])
async def test_a_socket_of_the_keepers_network_is_lent(
    any_link: Link, version: int, address: str
) -> None:
    family = socket.AF_INET6 if version == 6 else socket.AF_INET
    with socket.create_server((address, 0), family=family) as server:
        with any_link.ask_socket(version) as answer, anyio.fail_after(30):
            await anyio.wait_readable(answer)
            lent = taken_socket(answer)
        assert lent is not None
        with lent:
            lent.setblocking(True)
            lent.connect(server.getsockname())

    assert lent.family == family
    assert await output_of(any_link, "echo", "goes on") == b"goes on\n"
