"""Promise 2: nothing survives that should not, whatever the command did to hide."""

import asyncio
import os
import resource
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import anyio
import psutil
import pytest

from shelltie import EscalationStep, Resources, Result, SignalFailed, Terminal
from shelltie.events import Event, Leaked
from shelltie.model import State
from tests.conftest import Open
from tests.programs import DEEDS, evil, set_uid_setpriv
from tests.tree import QUICK, new_tag, nobody_left, own_children, tagged, until

pytestmark = pytest.mark.xdist_group("hundreds of processes")

ROOT = os.geteuid() == 0

HOSTILE = [
    "setsid sleep 300.TAG & sleep 300.TAG",
    "nohup sleep 300.TAG >/dev/null 2>&1 & disown; sleep 300.TAG",
    "(sleep 300.TAG &); sleep 300.TAG",
    "trap '' TERM INT HUP; while :; do sleep 1.TAG; done",
    "sleep 300.TAG & kill -STOP $!; sleep 300.TAG",
    "sleep 300.TAG & kill -STOP $$",
    "kill -9 $PPID; sleep 300.TAG",
    "sleep 300.TAG & kill -STOP $PPID; sleep 300.TAG",
    "kill $PPID; sleep 300.TAG",
    "env -i setsid sleep 300.TAG & sleep 300.TAG",
    "yes TAG",
    "for i in $(seq 50); do sleep 300.TAG & done; wait",
    "exec sleep 300.TAG",
    "sleep 300.TAG | setsid sleep 300.TAG",
    "bash -c 'trap \"sleep 300.TAG\" TERM; sleep 300.TAG'",
    "coproc sleep 300.TAG; sleep 300.TAG",
    "cat < <(sleep 300.TAG)",
    *(f"{{evil}} {deed} 30 TAG" for deed in (*DEEDS, "shoot_leash")),
]


@pytest.mark.timeout(180)
@pytest.mark.proves("S1-19", "S1-20", "S1-45", "S1-54", "S1-82", "C-40", "S3-61")
async def test_thirty_hostile_commands_at_once_leave_nobody(
    open_terminal: Open, keeper: str
) -> None:
    assert len(HOSTILE) >= 25
    tag = new_tag()
    results: dict[str, Result] = {}

    async def one(terminal: Terminal, text: str) -> None:
        command = text.replace("TAG", tag).replace("{evil}", evil())
        results[text] = await terminal.run(command, timeout=1.5, silence=0, escalation=QUICK)

    async with open_terminal(keeper=keeper) as terminal:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for text in HOSTILE:
                    group.start_soon(one, terminal, text)

        await nobody_left(tag)

    assert [text for text, result in results.items() if result.leaked] == []


@pytest.mark.proves("T0-18", "T1-24", "C-12")
async def test_a_tree_of_three_levels_with_an_escapee_is_gone(terminal: Terminal) -> None:
    tag = new_tag()
    tree = f"bash -c 'setsid sleep 300.{tag} & bash -c \"sleep 300.{tag}; :\"; :'; :"

    result = await terminal.run(tree, timeout=1, escalation=QUICK)

    assert (result.status, result.leaked) == ("timeout", False)
    await nobody_left(tag)


SERVER = """
import anyio, sys
from shelltie import Config, Terminal

async def main():
    async with Terminal(Config.of(state_dir=sys.argv[2], keeper=sys.argv[3])) as terminal:
        command = f"setsid sleep 300.{sys.argv[1]} & sleep 300.{sys.argv[1]}; :"
        runs = [await terminal.start(command, timeout=600) for _ in range(int(sys.argv[4]))]
        while any(run.pid is None for run in runs):
            await anyio.sleep(0.01)
        print("ready", flush=True)
        await anyio.sleep(60)

anyio.run(main)
"""


@pytest.mark.timeout(180)
@pytest.mark.proves("TX-6", "C-48")
@pytest.mark.parametrize(("keeper", "commands"), [("auto", 300), ("python", 60)])
async def test_a_server_that_is_shot_takes_everything_with_it(
    tmp_path: Path, keeper: str, commands: int
) -> None:
    tag = new_tag()
    arguments = [tag, str(tmp_path), keeper, str(commands)]
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, *arguments, stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout is not None
    with anyio.fail_after(60):
        assert await server.stdout.readline() == b"ready\n"
    # Each command is a shell and two sleepers, and some may still be about to start theirs.
    await until(lambda: len(tagged(tag)) >= commands * 2)

    server.kill()

    await server.wait()
    server._transport.close()  # type: ignore[attr-defined]  # asyncio leaves its pipe open
    await nobody_left(tag)


STOPPED = """
import anyio, os, sys
from shelltie import Config, Terminal

async def main():
    async with Terminal(Config.of(state_dir=sys.argv[2], keeper=sys.argv[3])) as terminal:
        stop = "read _ _ _ keeper _ < /proc/$PPID/stat; echo $keeper; kill -STOP $keeper $PPID"
        run = await terminal.start(f"{stop}; exec sleep 300.{sys.argv[1]}", timeout=600)
        while not (printed := run.output.read(0, 100).data):
            await anyio.sleep(0.01)
        print(printed.decode().strip(), flush=True)
        os.kill(os.getpid(), 9)

anyio.run(main)
"""


async def test_who_stops_its_leash_and_keeper_does_not_outlive_a_shot_server(
    tmp_path: Path, keeper: str
) -> None:
    """Who is stopped sees no end of file; the kernel continues it when its parent dies."""
    tag = new_tag()
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", STOPPED, tag, str(tmp_path), keeper), stdout=asyncio.subprocess.PIPE
    )

    with anyio.fail_after(60):
        printed, _ = await server.communicate()

    await nobody_left(tag)
    await until(lambda: not psutil.pid_exists(int(printed)))


@pytest.mark.alone  # its limit counts every process of the user
@pytest.mark.needs("setpriv")
@pytest.mark.proves("TX-8")
async def test_a_fork_bomb_is_held_by_its_limit_and_ended(open_terminal: Open) -> None:
    tag = new_tag()
    # The limit of processes does not hold root. The bomb ends by itself if nobody else can end it.
    bomb = f"bomb() {{ [ $SECONDS -lt 90 ] || exit; sleep 90.{tag} & bomb | bomb; }}; bomb"
    command = ["bash", "-c", bomb]
    if ROOT:
        command = ["setpriv", "--reuid", "65534", "--clear-groups", *command]

    async with open_terminal(safety_profiles_run_dangerous="allow") as terminal:
        result = await terminal.run(
            command, timeout=2, silence=0, escalation=QUICK, resources=Resources(processes=1500)
        )
        await nobody_left(tag)
        alive = await terminal.run("echo alive")

    assert (result.status, result.leaked) == ("timeout", False)
    assert alive.stdout == "alive\n"


async def test_a_thousand_short_runs_leave_no_descriptor_and_no_zombie(terminal: Terminal) -> None:
    await terminal.run("true")
    us = psutil.Process()
    before = us.num_fds()

    for _ in range(10):
        async with anyio.create_task_group() as group:
            for _ in range(100):
                group.start_soon(terminal.run, ["true"])

    await until(lambda: us.num_fds() == before)
    # The keeper of the read-only view, in which `true` runs, is bubblewrap's child.
    keepers = [child for child in us.children(recursive=True) if "keeper" in child.name()]
    assert keepers
    await until(lambda: not any(keeper.children() for keeper in keepers))


@pytest.mark.skipif(
    sys.version_info < (3, 11, 4),
    reason="subprocess.Popen of this Python leaves its pipes open when it fails (gh-87474)",
)
async def test_without_descriptors_a_run_fails_and_the_next_one_works(terminal: Terminal) -> None:
    await terminal.run("true")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = psutil.Process().num_fds()
    lowest_free = os.dup(0)  # the limit is one of numbers, and there may be gaps
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + 3, hard))
    try:
        result = await terminal.run("echo x")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert (result.status, result.exit_code) == ("error", 126)
    await until(lambda: psutil.Process().num_fds() == open_now)
    assert (await terminal.run("echo x")).stdout == "x\n"


async def test_when_the_keeper_is_shot_commands_go_on_and_new_ones_start(
    open_terminal: Open,
) -> None:
    async with open_terminal(safety_enforce="off") as terminal:
        run = await terminal.start("sleep 0.5; echo done", timeout=30)
        await until(lambda: run.state is State.RUNNING)
        for child in own_children():
            child.kill()

        outcome = await run.wait()
        after = await terminal.run("echo again")

    assert outcome.ok
    assert run.output.view(None, 10, 10).head == b"done\n"
    assert after.stdout == "again\n"


async def test_a_command_that_stops_the_keeper_holds_up_no_other(
    open_terminal: Open, keeper: str
) -> None:
    async with open_terminal(keeper=keeper) as terminal:
        stopped = await terminal.run("kill -STOP $(ps -o ppid= -p $PPID) && echo stopped")
        after = await terminal.run("echo after", timeout=30)
        await until(lambda: not terminal.supervisor.runs)

    assert (stopped.status, stopped.stdout) == ("success", "stopped\n")
    assert (after.status, after.stdout, after.leaked) == ("success", "after\n", False)


async def test_a_command_that_stops_its_leash_comes_back_with_its_own_exit_code(
    open_terminal: Open, keeper: str
) -> None:
    async with open_terminal(keeper=keeper) as terminal:
        result = await terminal.run("kill -STOP $PPID; exit 3", timeout=30)

    assert (result.status, result.exit_code) == ("error", 3)


async def test_who_keeps_the_keeper_stopped_is_outlived_by_the_next_one(
    open_terminal: Open, keeper: str
) -> None:
    tag = new_tag()
    async with open_terminal(keeper=keeper, safety_enforce="off") as terminal:
        run = await terminal.start(f"sleep 300.{tag}", timeout=600)
        await until(lambda: run.state is State.RUNNING)
        (process,) = own_children()
        provider = terminal.supervisor.placement.default
        link = provider._links[-1]  # type: ignore[attr-defined]
        link._watch._keeper = NeverContinued(process.pid)
        process.suspend()

        refused = await terminal.run("echo refused", timeout=60)
        after = await terminal.run("echo after")
        still = run.outcome
        outcome = await run.kill("enough")

    assert (refused.status, refused.exit_code, refused.leaked) == ("error", 126, False)
    assert "keeper" in (refused.error or "")
    assert after.stdout == "after\n"
    assert still is None
    assert not outcome.leaked
    await nobody_left(tag)


@dataclass
class NeverContinued:
    """A keeper that somebody stops again whenever it is continued."""

    pid: int

    def send_signal(self, number: int, /) -> None:
        assert number == signal.SIGCONT


async def test_a_command_that_shoots_its_leash_is_told_to_be_ended_by_force(
    terminal: Terminal,
) -> None:
    result = await terminal.run("kill -KILL $PPID; sleep 300")

    assert (result.status, result.termination_mode) == ("error", "hard")
    assert result.hint is not None
    assert result.hint.startswith("Ended with SIGKILL: its leash was killed")


@pytest.mark.skipif(not ROOT, reason="needs root, to make a pid namespace")
@pytest.mark.needs("unshare")
async def test_a_keeper_that_cannot_work_says_why(open_terminal: Open, keeper: str) -> None:
    async with open_terminal(keeper=keeper, safety_enforce="off") as terminal:
        provider = terminal.supervisor.placement.default
        elsewhere = ("unshare", "--pid", "--fork")  # with the /proc of this side
        provider._argv = (*elsewhere, *provider._argv)  # type: ignore[attr-defined]
        results = [await terminal.run("echo x") for _ in range(3)]

    for result in results:
        assert (result.exit_code, result.leaked) == (126, False)
        assert "/proc is missing, or of another pid namespace" in (result.error or "")


# Processes that cannot be ended: the call returns all the same, and says so.

FREEZER = Path("/sys/fs/cgroup/freezer")


@pytest.fixture
def ice() -> Iterator[Path]:
    """A v1 freezer: who is in it sleeps uninterruptibly, and SIGKILL has to wait."""
    group = FREEZER / f"shelltie-{new_tag()}"
    group.mkdir()
    yield group
    (group / "freezer.state").write_text("THAWED", encoding="ascii")
    while (group / "tasks").read_text(encoding="ascii"):
        os.sched_yield()
    group.rmdir()


@pytest.mark.skipif(not (ROOT and FREEZER.exists()), reason="needs root and a v1 freezer cgroup")
@pytest.mark.proves("TX-9", "C-42", "S1-38")
async def test_a_process_that_sleeps_uninterruptibly_does_not_hold_the_call(
    open_terminal: Open, ice: Path
) -> None:
    tag = new_tag()
    events: list[Event] = []
    command = f"echo $BASHPID > {ice}/tasks; echo FROZEN > {ice}/freezer.state; sleep 300.{tag}"

    async with open_terminal(events.append, safety_profiles_run_dangerous="allow") as terminal:
        with anyio.fail_after(50):
            result = await terminal.run(
                command, timeout=5, silence=0, escalation=(EscalationStep(signal.SIGKILL, 2),)
            )
        (ice / "freezer.state").write_text("THAWED", encoding="ascii")
        await until(lambda: not terminal.supervisor.runs)  # the leash has gone on trying

    assert (result.status, result.termination_mode, result.leaked) == ("timeout", "hard", True)
    assert result.leaked_pids
    assert result.hint is not None
    assert str(result.leaked_pids[0]) in result.hint
    assert [event.pids for event in events if isinstance(event, Leaked)] == [result.leaked_pids]


@pytest.mark.skipif(not ROOT, reason="needs root, to make a set-uid program and be another user")
@pytest.mark.needs("setpriv")
@pytest.mark.proves("T1-23", "S1-17", "S1-39", "S1-57")
async def test_who_may_not_be_signalled_is_reported_and_not_called_killed(
    open_terminal: Open, public_path: Path
) -> None:
    tag = new_tag()
    become_root = set_uid_setpriv(public_path)

    async with open_terminal() as terminal:
        provider = terminal.supervisor.placement.default
        as_nobody = ("setpriv", "--reuid", "65534", "--clear-groups")
        binary = public_path / "keeper"
        binary.write_bytes(Path(provider._argv[0]).read_bytes())  # type: ignore[attr-defined]
        binary.chmod(0o755)
        provider._argv = (*as_nobody, str(binary))  # type: ignore[attr-defined]
        command = [str(become_root), "--reuid", "0", "sleep", f"60.{tag}"]
        run = await terminal.start(command, cwd="/", timeout=60)
        await until(lambda: bool(tagged(tag, "sleep")))

        with pytest.raises(SignalFailed, match="does not let us signal"):
            await run.kill("enough", QUICK)

        assert run.state is State.RUNNING
        for process in tagged(tag):
            process.kill()
        outcome = await run.wait()

    assert outcome.exit.signal_name == "SIGKILL"
