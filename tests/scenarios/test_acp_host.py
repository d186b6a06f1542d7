"""ACP's terminals, directly on the host: what each method promises."""

import os
import signal
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import psutil
import pytest
from acp import RequestError

from shelltie import Answer, CommandDenied, Question, Terminal
from shelltie.errors import (
    CannotStart,
    ConfirmationRequired,
    ForeignTerminal,
    IllegalTransition,
    InvalidParameters,
    KillFailed,
    NoCapability,
    SignalFailed,
    TerminalError,
    TooManyTerminals,
    UnknownAcpSession,
    UnknownTerminal,
    WaitFailed,
)
from shelltie.events import Escalated, Event, Leaked, LimitReached
from shelltie.frontends.acp.methods import problem
from shelltie.frontends.acp.protocol import CreatedTerminal, TerminalExit, TerminalOutput
from shelltie.frontends.acp.terminal import shown
from shelltie.frontends.acp.terminal_host import HostSettings, TerminalHost
from shelltie.frontends.acp.timeouts import TerminalPolicy
from shelltie.frontends.acp.with_timeout import (
    Completed,
    TerminalTimeout,
    TimedOut,
    execute_with_timeout,
)
from shelltie.model import State, Stream
from shelltie.output.store import Store
from tests.conftest import Open
from tests.programs import set_uid_setpriv
from tests.tree import QUICK, new_tag, nobody_left, tagged, until

S = "sess_1"
DEAF = "trap '' TERM; echo ready; while :; do sleep 0.1; done"


@pytest.fixture
async def host(terminal: Terminal, tmp_path: Path) -> AsyncIterator[TerminalHost]:
    async with TerminalHost(terminal.supervisor) as host:
        host.open_session(S, tmp_path)
        yield host


async def start(host: TerminalHost, command: str, *args: str) -> str:
    return (await host.create_terminal(S, command, args)).terminal_id


async def printed(host: TerminalHost, terminal: str, text: str) -> None:
    with anyio.fail_after(50):
        while text not in (await host.terminal_output(S, terminal)).output:
            await anyio.sleep(0.01)


async def output_of(host: TerminalHost, terminal: str) -> tuple[str, bool]:
    await host.wait_for_terminal_exit(S, terminal)
    seen = await host.terminal_output(S, terminal)
    return seen.output, seen.truncated


@pytest.mark.proves("T1-1", "C-31", "S1-62", "S1-7")
async def test_what_takes_too_long_is_timed_out_and_gone(host: TerminalHost) -> None:
    tag = new_tag()
    made = await host.create_terminal(S, "sh", ["-c", f"echo so far; exec sleep 300.{tag}"])
    terminal = host.find(made.terminal_id)
    assert terminal is not None
    await printed(host, made.terminal_id, "so far")

    await host.kill_terminal(S, made.terminal_id, timedOut=True)

    seen = await host.terminal_output(S, made.terminal_id)
    assert (seen.output, terminal.run.state) == ("so far\n", "timed_out")
    assert (seen.field_meta["timedOut"], seen.field_meta["killed"]) == (True, True)
    await nobody_left(tag)


@pytest.mark.proves("S1-8", "S1-37", "S1-72", "S1-1", "S1-6", "S1-9", "S1-10")
@pytest.mark.parametrize(
    ("limit", "output", "truncated"), [(None, "so far\n", False), (4, "far\n", True)]
)
async def test_a_terminal_timeout_ends_the_tree_gives_the_output_and_releases(
    host: TerminalHost, limit: int | None, output: str, truncated: bool
) -> None:
    tag = new_tag()
    script = f"setsid sleep 300.{tag} & echo so far; exec sleep 301.{tag}"
    made = await host.create_terminal(S, "sh", ["-c", script], output_byte_limit=limit)
    await printed(host, made.terminal_id, output)
    await until(lambda: len(tagged(tag, "sleep")) == 2)

    waiting = TerminalTimeout(made.terminal_id, 0.1, S)
    result = await waiting.execute_with_timeout(host)

    assert (waiting.terminal_id, waiting.timeout_duration) == (made.terminal_id, 0.1)
    assert result == TimedOut(output, truncated)
    assert not tagged(tag)
    assert host.find(made.terminal_id) is None


@pytest.mark.proves("T1-1", "T1-2", "S1-9", "S1-52", "S1-72", "C-81", "S1-1", "S1-4", "S1-5")
@pytest.mark.proves("S1-10", "S1-41", "S1-42", "S1-43", "S1-75", "S1-76")
async def test_the_five_steps_end_either_way_and_release(host: TerminalHost) -> None:
    tag = new_tag()

    late = await execute_with_timeout(
        host, S, "sh", ["-c", f"echo so far; sleep 300.{tag}"], timeout=8
    )
    quick = await execute_with_timeout(host, S, "echo", ["quick"], timeout=20)

    assert late == TimedOut("so far\n", truncated=False)
    assert isinstance(quick, Completed)
    assert (quick.exit_status.exit_code, quick.exit_status.signal, quick.output) == (
        0,
        None,
        "quick\n",
    )
    assert quick.exit_status.field_meta is not None
    assert quick.exit_status.field_meta["state"] == "finished"
    await nobody_left(tag)


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), "5", None])
async def test_a_timeout_that_is_none_starts_nothing(host: TerminalHost, wrong: object) -> None:
    with pytest.raises(InvalidParameters, match="timeout"):
        await execute_with_timeout(host, S, "touch", ["made"], timeout=wrong)  # type: ignore[arg-type]  # as a caller may


@pytest.mark.proves("T1-3", "S1-61", "S1-70", "S1-65", "S1-74", "C-25", "C-30", "S1-71")
async def test_a_killed_terminal_still_answers(host: TerminalHost) -> None:
    terminal = await start(host, "sleep", "30")

    await host.kill_terminal(S, terminal)

    ended = await host.wait_for_terminal_exit(S, terminal)
    seen = await host.terminal_output(S, terminal)
    assert (ended.exit_code, ended.signal) == (None, "SIGTERM")
    assert seen.exit_status is not None
    assert (seen.exit_status.signal, seen.field_meta["state"]) == ("SIGTERM", "killed")


@pytest.mark.proves("T1-4", "T1-30", "S1-2", "S1-28", "S1-29", "S1-44", "S1-53", "S1-81", "C-41")
@pytest.mark.proves("S1-15", "S1-70", "S1-69")
async def test_a_deaf_terminal_is_killed_after_its_grace_and_told_of(
    open_terminal: Open, tmp_path: Path
) -> None:
    events: list[Event] = []
    async with open_terminal(events.append) as opened, TerminalHost(opened.supervisor) as host:
        host.open_session(S, tmp_path, TerminalPolicy(escalation=QUICK))
        terminal = await start(host, "sh", "-c", DEAF)
        await printed(host, terminal, "ready")

        await host.kill_terminal(S, terminal)

        assert (await host.wait_for_terminal_exit(S, terminal)).signal == "SIGKILL"
        sent = [event.signal for event in events if isinstance(event, Escalated)]
        assert sent == [signal.SIGTERM, signal.SIGKILL]


@pytest.mark.proves("T1-28", "C-33", "S1-61")
async def test_the_first_signal_may_be_chosen(host: TerminalHost) -> None:
    asked = await start(host, "sleep", "30")
    forced = await start(host, "sh", "-c", "trap '' INT; echo ready; while :; do sleep 0.1; done")
    await printed(host, forced, "ready")

    await host.kill_terminal(S, asked, signal="SIGINT")
    await host.kill_terminal(S, forced, signal="INT", graceMs=200)

    assert (await host.wait_for_terminal_exit(S, asked)).signal == "SIGINT"
    assert (await host.wait_for_terminal_exit(S, forced)).signal == "SIGKILL"


@pytest.mark.parametrize("wrong", ["SIGNONE", "SIGSTOP", 0, -9, 1.5, True, [], "9" * 5000])
async def test_a_signal_that_ends_nobody_is_refused(host: TerminalHost, wrong: object) -> None:
    terminal = await start(host, "sleep", "30")

    with pytest.raises(InvalidParameters, match="signal"):
        await host.kill_terminal(S, terminal, signal=wrong)

    assert (await host.terminal_output(S, terminal)).exit_status is None


@pytest.mark.proves("T1-28", "C-33", "S1-60")
async def test_to_stop_waiting_ends_nothing(host: TerminalHost) -> None:
    terminal = await start(host, "sleep", "30")

    ended = await host.wait_for_terminal_exit(S, terminal, timeoutMs=50)

    assert (ended.exit_code, ended.signal) == (None, None)
    assert ended.field_meta == {"state": "running", "waitTimedOut": True}
    assert (await host.terminal_output(S, terminal)).exit_status is None


@pytest.mark.proves("T1-5", "T1-6", "S1-78", "S1-79", "S1-2", "S1-65", "S1-70", "S1-74", "S1-71")
@pytest.mark.proves("S1-60")
async def test_what_has_ended_stays_as_it_ended(host: TerminalHost) -> None:
    terminal = await start(host, "sh", "-c", "exit 3")
    first = await host.wait_for_terminal_exit(S, terminal)

    await host.kill_terminal(S, terminal)

    again = [await host.wait_for_terminal_exit(S, terminal) for _ in range(3)]
    seen = await host.terminal_output(S, terminal)
    assert (first.exit_code, first.signal) == (3, None)
    assert again == [first] * 3
    assert seen.field_meta["state"] == "finished"


@pytest.mark.proves("T1-7", "T1-8", "C-46", "S1-22", "S1-25", "S1-35")
async def test_a_kill_does_not_wait_for_fifty_who_wait(host: TerminalHost) -> None:
    terminal = await start(host, "sleep", "30")
    ends: list[str | None] = []

    async def wait() -> None:
        ends.append((await host.wait_for_terminal_exit(S, terminal)).signal)

    with anyio.fail_after(50):
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(wait)
            await anyio.sleep(0.05)
            await host.kill_terminal(S, terminal)

    assert ends == ["SIGTERM"] * 50


@pytest.mark.proves("S1-23", "S1-24", "S1-35", "S1-68")
async def test_a_kill_and_an_exit_at_once_leave_one_truth(host: TerminalHost) -> None:
    ends: set[tuple[object, int | None, str | None]] = set()

    async def end(terminal: str, delay: float) -> None:
        await anyio.sleep(delay)
        await host.kill_terminal(S, terminal)

    for number in range(60):
        terminal = await start(host, "sh", "-c", "exit 3")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(end, terminal, number % 6 * 0.001)
            first = await host.wait_for_terminal_exit(S, terminal)
        assert await host.wait_for_terminal_exit(S, terminal) == first
        assert first.field_meta is not None
        ends.add((first.field_meta["state"], first.exit_code, first.signal))
        await host.release_terminal(S, terminal)

    assert ends <= {("finished", 3, None), ("killed", None, "SIGTERM"), ("killed", 3, None)}


@pytest.mark.proves("C-1")
async def test_a_terminal_has_no_limit_unless_one_is_set(host: TerminalHost) -> None:
    found = host.find(await start(host, "sleep", "30"))

    assert found is not None
    assert (found.run.rules.limits.total, found.run.rules.limits.silence) == (None, None)


@pytest.mark.proves("S1-69", "C-41", "S1-15")
async def test_the_grace_is_five_seconds_unless_said_otherwise(host: TerminalHost) -> None:
    found = host.find(await start(host, "sleep", "30"))

    assert found is not None
    assert [step.pause for step in found.run.rules.escalation] == [5.0, 2.0]


@pytest.mark.proves("T1-9", "S1-66", "S1-67")
async def test_output_grows_while_it_runs(host: TerminalHost, tmp_path: Path) -> None:
    script = "echo one; while [ ! -e go ]; do sleep 0.05; done; echo two"
    terminal = await start(host, "sh", "-c", script)
    await printed(host, terminal, "one")
    early = await host.terminal_output(S, terminal)

    (tmp_path / "go").touch()

    assert (early.output, early.exit_status) == ("one\n", None)
    assert await output_of(host, terminal) == ("one\ntwo\n", False)


@pytest.mark.proves("T1-10", "T1-12", "C-49")
@pytest.mark.parametrize(
    ("limit", "count", "kept", "truncated"),
    [(100, 150, 100, True), (100, 100, 100, False), (100, 101, 100, True), (0, 5, 0, True)],
)
async def test_the_end_of_the_output_is_kept(
    host: TerminalHost, limit: int, count: int, kept: int, truncated: bool
) -> None:
    made = await host.create_terminal(
        S, "printf", [f"%{count}s", "x"], env={"LC_ALL": "C"}, output_byte_limit=limit
    )

    text, cut = await output_of(host, made.terminal_id)

    assert (len(text), cut) == (kept, truncated)
    assert not kept or text.endswith("x")


@pytest.mark.proves("T1-12")
async def test_without_a_limit_there_is_one_of_a_mebibyte(host: TerminalHost) -> None:
    terminal = await start(host, "sh", "-c", "yes abcdefg | head -c 1100000")
    silent = (await host.create_terminal(S, "true", output_byte_limit=0)).terminal_id

    text, truncated = await output_of(host, terminal)

    assert (len(text), truncated) == (1024 * 1024, True)
    assert await output_of(host, silent) == ("", False)


@pytest.mark.proves("T1-11", "C-51")
@pytest.mark.parametrize("character", ["é", "€", "🙂"])
def test_no_character_is_cut_in_two(character: str) -> None:
    output = Store()
    output.add(Stream.STDOUT, memoryview((character * 40).encode()))
    size = len(character.encode())

    for limit in range(121):
        text, truncated = shown(output, limit, ended=True)

        assert text == character * min(40, limit // size)
        assert truncated == (limit < 40 * size)


@pytest.mark.proves("T1-11")
async def test_a_character_in_two_pieces_is_whole(host: TerminalHost, tmp_path: Path) -> None:
    script = r"printf 'a\342\202'; while [ ! -e go ]; do sleep 0.05; done; printf '\254z'"
    terminal = await start(host, "sh", "-c", script)
    await printed(host, terminal, "a")
    early = (await host.terminal_output(S, terminal)).output

    (tmp_path / "go").touch()

    assert early == "a"
    assert await output_of(host, terminal) == ("a€z", False)


def test_what_is_no_text_stays_within_the_limit() -> None:
    output = Store()
    output.add(Stream.STDOUT, memoryview(bytes(range(128, 256)) * 10))

    text, truncated = shown(output, 100, ended=True)

    assert (len(text.encode()) <= 100, truncated) == (True, True)


@pytest.mark.proves("T1-13", "T1-14", "C-80", "S1-50", "S1-81")
async def test_a_released_terminal_is_gone_and_who_waits_is_told(host: TerminalHost) -> None:
    tag = new_tag()
    terminal = await start(host, "sh", "-c", f"sleep 300.{tag} & sleep 301.{tag}")
    run = host.find(terminal)
    assert run is not None
    ends: list[str | None] = []

    async def wait() -> None:
        ends.append((await host.wait_for_terminal_exit(S, terminal)).signal)

    with anyio.fail_after(50):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.sleep(0.05)
            await host.release_terminal(S, terminal)

    assert (ends, run.run.state) == (["SIGTERM"], "released")
    assert not tagged(tag)
    for method in (
        host.release_terminal,
        host.terminal_output,
        host.kill_terminal,
        host.wait_for_terminal_exit,
    ):
        with pytest.raises(UnknownTerminal, match="Terminal not found"):
            await method(S, terminal)


@pytest.mark.proves("T1-21", "S1-34")
async def test_nothing_leads_out_of_released(host: TerminalHost) -> None:
    terminal = await start(host, "true")
    found = host.find(terminal)
    assert found is not None
    await host.wait_for_terminal_exit(S, terminal)

    with pytest.raises(IllegalTransition):
        found.run.move(State.RUNNING)
    await host.release_terminal(S, terminal)

    for state in State:
        with pytest.raises(IllegalTransition):
            found.run.move(state)


@pytest.mark.proves("T1-15", "S1-47")
async def test_every_wrong_id_has_its_own_error(host: TerminalHost) -> None:
    host.open_session("other", "/")
    terminal = await start(host, "sleep", "30")

    with pytest.raises(UnknownTerminal, match="Terminal not found: term_none"):
        await host.terminal_output(S, "term_none")
    with pytest.raises(ForeignTerminal, match="another session"):
        await host.kill_terminal("other", terminal)
    with pytest.raises(UnknownAcpSession, match="Session not found: sess_none"):
        await host.create_terminal("sess_none", "true")
    assert (await host.terminal_output(S, terminal)).exit_status is None


@pytest.mark.proves("T1-16")
async def test_the_directory_is_absolute_and_exists(host: TerminalHost, tmp_path: Path) -> None:
    inside = tmp_path / "in side"
    inside.mkdir()

    own = await host.create_terminal(S, "pwd")
    given = await host.create_terminal(S, "pwd", cwd=str(inside))

    assert await output_of(host, own.terminal_id) == (f"{tmp_path}\n", False)
    assert await output_of(host, given.terminal_id) == (f"{inside}\n", False)
    with pytest.raises(InvalidParameters, match="absolute"):
        await host.create_terminal(S, "pwd", cwd="in side")
    with pytest.raises(CannotStart, match="no such file"):
        await host.create_terminal(S, "pwd", cwd=str(tmp_path / "none"))


@pytest.mark.proves("T1-17")
async def test_variables_are_added_and_replace(
    host: TerminalHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/tmp")
    env = [{"name": "HOME", "value": "/nowhere"}, {"name": "MINE", "value": "a b"}]

    made = await host.create_terminal(S, "sh", ["-c", "echo $HOME $MINE ${PATH:+path}"], env)

    assert await output_of(host, made.terminal_id) == ("/nowhere a b path\n", False)
    with pytest.raises(InvalidParameters, match="env"):
        await host.create_terminal(S, "true", env=[{"name": "", "value": "x"}])


@pytest.mark.proves("T1-18")
async def test_arguments_are_taken_to_the_letter(host: TerminalHost) -> None:
    words = ["a b", "$HOME", "*", "'", '"', ";", "`id`", ""]

    terminal = await start(host, "printf", "<%s>", *words)

    assert await output_of(host, terminal) == ("".join(f"<{word}>" for word in words), False)


async def test_a_text_without_arguments_goes_to_a_shell(host: TerminalHost) -> None:
    terminal = await start(host, "echo one && echo two | tr t T")

    assert await output_of(host, terminal) == ("one\nTwo\n", False)


@pytest.mark.proves("T1-19")
async def test_a_program_that_is_not_there_makes_no_terminal(host: TerminalHost) -> None:
    with pytest.raises(CannotStart, match="not found"):
        await host.create_terminal(S, "no-such-program-anywhere", ["x"])


@pytest.mark.proves("T1-20")
async def test_without_the_capability_everything_is_refused(host: TerminalHost) -> None:
    terminal = await start(host, "sleep", "30")

    host.offered = False

    with pytest.raises(NoCapability, match="terminal") as refused:
        await host.create_terminal(S, "true")
    assert problem(refused.value).code == -32601
    for method in (host.terminal_output, host.kill_terminal, host.release_terminal):
        with pytest.raises(NoCapability, match="terminal"):
            await method(S, terminal)


@pytest.mark.proves("T1-22", "T1-30", "S1-26", "S1-27", "S1-31", "S1-46", "S1-63", "S1-56", "S1-7")
@pytest.mark.proves("S1-51")
async def test_the_call_beats_the_session_and_that_beats_the_rule(
    open_terminal: Open, tmp_path: Path
) -> None:
    events: list[Event] = []
    usual = TerminalPolicy(timeout=100, commands={"cargo": 600, "sleep": 700})
    async with (
        open_terminal(events.append) as opened,
        TerminalHost(opened.supervisor, HostSettings(usual)) as host,
    ):
        host.open_session(S, tmp_path)
        host.open_session("strict", tmp_path, TerminalPolicy(commands={"sleep": 0.2}))

        async def limit(session: str, command: str, *args: str, **meta: object) -> object:
            made = await host.create_terminal(session, command, args, **meta)  # type: ignore[arg-type]  # no channel
            return made.field_meta["limits"]

        assert await limit(S, "true") == {
            "execSec": 100,
            "source": "terminal policy, for every command",
        }
        assert await limit(S, "env X=1 sleep 1 && echo") == {
            "execSec": 700,
            "source": "terminal policy, for sleep",
        }
        assert await limit(S, "sleep", "1", timeoutMs=9000) == {
            "execSec": 9.0,
            "source": "timeoutMs of the call",
        }
        strict = await host.create_terminal("strict", "sleep", ["30"])
        ended = await host.wait_for_terminal_exit("strict", strict.terminal_id)

    assert ended.field_meta is not None
    assert (ended.signal, ended.field_meta["timedOut"]) == ("SIGTERM", True)
    assert ended.field_meta["timeoutReason"] == "exec_timeout"
    assert [event.limit for event in events if isinstance(event, LimitReached)] == ["total"]


@pytest.mark.timeout(240)
@pytest.mark.proves("T1-27", "S1-82")
async def test_a_thousand_terminals_leave_nothing_behind(host: TerminalHost) -> None:
    me = psutil.Process()
    await execute_with_timeout(host, S, "true", timeout=20)
    threads, files = threading.active_count(), me.num_fds()
    before = {*me.children(recursive=True)}  # the keeper

    for _ in range(1000):
        terminal = await start(host, "true")
        await host.wait_for_terminal_exit(S, terminal)
        await host.release_terminal(S, terminal)
    async with anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(_once, host)

    await until(lambda: me.num_fds() <= files)
    await until(lambda: {*me.children(recursive=True)} <= before)  # zombies count, too
    assert threading.active_count() <= threads + 5  # as many may wait for more to do


async def _once(host: TerminalHost) -> None:
    result = await execute_with_timeout(host, S, "echo", ["one"], timeout=60)
    assert isinstance(result, Completed)
    assert result.output == "one\n"


@pytest.mark.proves("S1-59")
async def test_fifty_terminals_run_at_the_same_time(host: TerminalHost, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    held = os.open(tmp_path / "go", os.O_RDWR)
    script = "exec 3<go; : >up.$0; read -r x <&3; exit 0"  # none ends before all have begun

    terminals = [await start(host, "sh", "-c", script, str(number)) for number in range(50)]
    await until(lambda: len(list(tmp_path.glob("up.*"))) == 50)
    running = [(await host.terminal_output(S, one)).exit_status for one in terminals]
    os.close(held)
    ended = [await host.wait_for_terminal_exit(S, one) for one in terminals]

    assert running == [None] * 50
    assert {one.exit_code for one in ended} == {0}


async def test_too_many_that_nobody_released_are_refused(
    terminal: Terminal, tmp_path: Path
) -> None:
    async with TerminalHost(terminal.supervisor, HostSettings(most=3)) as host:
        host.open_session(S, tmp_path)
        held = [await start(host, "true") for _ in range(3)]

        with pytest.raises(TooManyTerminals, match="release"):
            await start(host, "true")

        await host.release_terminal(S, held[0])
        await start(host, "true")


@pytest.mark.proves("S1-51")
async def test_a_closed_session_leaves_nobody(host: TerminalHost) -> None:
    tag = new_tag()
    terminals = [await start(host, "sleep", f"300.{tag}") for _ in range(3)]

    assert await host.close_session(S) == 3

    assert not tagged(tag)
    assert await host.close_session(S) == 0
    with pytest.raises(UnknownAcpSession):
        await host.terminal_output(S, terminals[0])


async def test_who_gives_up_creating_leaves_nothing(host: TerminalHost) -> None:
    tag = new_tag()

    for delay in (0, 0.0005, 0.001, 0.002):
        with anyio.move_on_after(delay):
            await host.create_terminal(S, "sleep", [f"300.{tag}"])
    await host.close_session(S)

    await nobody_left(tag)


class _Asked:
    """A person who says what the test wants."""

    name = "somebody"
    can_ask = True

    def __init__(self, answer: Answer | None) -> None:
        self.questions: list[Question] = []
        self._answer = answer

    async def ask(self, question: Question) -> Answer | None:
        self.questions.append(question)
        return self._answer


@pytest.mark.proves("C-58")
async def test_a_dangerous_command_needs_a_yes(host: TerminalHost) -> None:
    yes, no = _Asked(Answer(allowed=True)), _Asked(Answer(allowed=False))
    asked = ("git", ["push", "--force"])

    made = await host.create_terminal(S, *asked, channel=yes)
    with pytest.raises(CommandDenied, match="somebody refused"):
        await host.create_terminal(S, *asked, channel=no)
    with pytest.raises(ConfirmationRequired, match="nobody"):
        await host.create_terminal(S, *asked)

    assert made.field_meta["verdict"] == "dangerous"
    assert [question.command.argv for question in yes.questions] == [("git", "push", "--force")]


async def test_the_verdict_on_what_is_harmless_is_proved(host: TerminalHost) -> None:
    cases = {"ls": "safe", "touch": "unknown", "echo a; ls": "safe", "echo $(touch)": "unknown"}

    made = {text: await host.create_terminal(S, text) for text in cases}

    assert {text: one.field_meta["verdict"] for text, one in made.items()} == cases


class _Connection:
    """A connection to a client that breaks, or cannot end what it started."""

    def __init__(self, wait: Exception | None, kill: Exception | None = None) -> None:
        self.done: list[str] = []
        self._wait = wait
        self._kill = kill

    async def create_terminal(self, **_: object) -> CreatedTerminal:
        return CreatedTerminal("term_1", {})

    async def wait_for_terminal_exit(self, *_: object) -> TerminalExit:
        if self._wait is None:
            await anyio.sleep_forever()
        raise self._wait or AssertionError

    async def terminal_output(self, *_: object) -> TerminalOutput:
        return TerminalOutput("", truncated=False, exit_status=None, field_meta={})

    async def kill_terminal(self, *_: object, **meta: object) -> None:
        self.done.append(f"kill {meta}")
        if self._kill is not None:
            raise self._kill

    async def release_terminal(self, *_: object) -> None:
        self.done.append("release")


@pytest.mark.proves("T1-23", "S1-17", "S1-38", "S1-39", "S1-57", "S1-1")
@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (SignalFailed("the kernel does not let us"), SignalFailed),
        (KillFailed("some are left", (7,)), KillFailed),
        (ConnectionError("gone"), KillFailed),
    ],
)
async def test_a_terminal_that_cannot_be_ended_has_a_name_for_it(
    raised: Exception, told: type[Exception]
) -> None:
    direct, over_the_wire = _Connection(None, raised), _Connection(None, _as_told(raised))

    for connection in (direct, over_the_wire):
        with pytest.raises(told):
            await execute_with_timeout(connection, S, "true", timeout=0.01)

        assert connection.done == ["kill {'timedOut': True}", "release"]


def _as_told(error: Exception) -> Exception:
    """What an agent gets of it over a connection."""
    if not isinstance(error, TerminalError):
        return error
    said = problem(error)
    return RequestError(said.code, said.message, said.data)


@pytest.mark.proves("S1-17", "S1-47")
async def test_an_end_that_is_not_told_has_a_name_and_is_released() -> None:
    connection = _Connection(ConnectionError("gone"))

    with pytest.raises(WaitFailed, match="gone"):
        await execute_with_timeout(connection, S, "true", timeout=20)

    assert connection.done == ["release"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make a set-uid program")
@pytest.mark.needs("setpriv")
@pytest.mark.proves("T1-23", "T1-30", "S1-39")
async def test_who_may_not_be_signalled_is_not_called_killed(
    open_terminal: Open, public_path: Path
) -> None:
    tag = new_tag()
    become_root = set_uid_setpriv(public_path)

    events: list[Event] = []
    async with open_terminal(events.append) as opened, TerminalHost(opened.supervisor) as host:
        host.open_session(S, "/", TerminalPolicy(escalation=QUICK))
        provider = opened.supervisor.placement.default
        binary = public_path / "keeper"
        binary.write_bytes(Path(provider._argv[0]).read_bytes())  # type: ignore[attr-defined]
        binary.chmod(0o755)
        as_nobody = ("setpriv", "--reuid", "65534", "--clear-groups")
        provider._argv = (*as_nobody, str(binary))  # type: ignore[attr-defined]
        terminal = await start(host, str(become_root), "--reuid", "0", "sleep", f"60.{tag}")
        await until(lambda: bool(tagged(tag, "sleep")))

        with pytest.raises(SignalFailed, match="does not let us signal"):
            await host.kill_terminal(S, terminal)

        assert (await host.terminal_output(S, terminal)).field_meta == {"state": "running"}
        assert [event for event in events if isinstance(event, Leaked)]
        for process in tagged(tag):
            process.kill()
        assert (await host.wait_for_terminal_exit(S, terminal)).signal == "SIGKILL"


@pytest.mark.proves("T1-24", "S1-2", "S1-14", "S1-18", "S1-19", "S1-21", "S1-54")
async def test_a_kill_reaches_three_levels_and_who_left_the_session(host: TerminalHost) -> None:
    tag = new_tag()
    deep = f"sh -c 'sleep 300.{tag} & setsid sleep 301.{tag} & wait' & sleep 302.{tag}"
    terminal = await start(host, "sh", "-c", deep)
    await until(lambda: len(tagged(tag, "sleep")) == 3)

    await host.kill_terminal(S, terminal)

    assert not tagged(tag)
    assert (await host.wait_for_terminal_exit(S, terminal)).signal == "SIGTERM"
