"""`shelltie top`: a person sees what runs and what waits in a terminal, and steers it by keys."""

import os
import pty
import re
import signal
import struct
import subprocess
import termios
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from fcntl import ioctl
from pathlib import Path

import anyio
import pytest
from textual.pilot import Pilot

import shelltie
from shelltie.frontends.cli.top.app import TopApp
from shelltie.frontends.control import monitor_socket
from shelltie.frontends.control.client import ask, servers
from shelltie.frontends.control.live_rows import LiveRows
from shelltie.frontends.staying_holder import StayingHolder
from shelltie.keeper.stay_folder import stay_folder
from shelltie.output.emulator import Emulator
from shelltie.settings.config import Config
from tests.asking import ROOT, SHELLTIE, not_on_a_leash
from tests.tree import until
from tests.web_page import agent, own_environment

PATIENCE = 60.0
AT_TERMINAL = [SHELLTIE[0], "-m", "tests.programs.at_terminal"]
COLOURED = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-7]|4[0-7]|9[0-7]|38|48)[;m]")


class TopScreen:
    """The app without a terminal, at 80x24 or as it is told."""

    def __init__(self, app: TopApp, pilot: Pilot[None]) -> None:
        self.app, self._pilot = app, pilot

    @property
    def text(self) -> str:
        strips = self.app.screen._compositor.render_strips(self.app.size)
        return "\n".join(strip.text for strip in strips)

    async def shows(self, *texts: str) -> None:
        with anyio.move_on_after(PATIENCE):
            while not all(text in self.text for text in texts):
                await self._pilot.pause(0.05)
        assert all(text in self.text for text in texts), (texts, self.text)

    async def hides(self, text: str) -> None:
        with anyio.move_on_after(PATIENCE):
            while text in self.text:
                await self._pilot.pause(0.05)
        assert text not in self.text, self.text

    async def presses(self, *keys: str) -> None:
        await self._pilot.press(*keys)


@asynccontextmanager
async def top(
    env: Mapping[str, str], why_not: str | None = None, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[TopScreen]:
    with monitor_socket.listening(env) as listeners:
        app = TopApp(LiveRows(env, None), listeners, why_not=why_not)
        async with app.run_test(size=size, notifications=True) as pilot:
            yield TopScreen(app, pilot)


@not_on_a_leash
async def test_what_waits_is_answered_after_its_card_was_shown() -> None:
    with own_environment() as env, agent(env) as one, agent(env, "codex") as two:
        two.start("sleep 300")
        async with top(env) as screen:
            one.send("run", command="rm -rf build")
            await screen.shows("1 waits for you", "rm -rf build", "no in", "codex", "sleep 300")
            first = screen.text.splitlines()[:4]
            await screen.presses("a")
            await screen.shows("Allow it?", "│ rm -rf build", env["WORK"], "deletes whole trees")
            await screen.presses("escape")
            await screen.hides("Allow it?")
            await screen.presses("a")
            await screen.shows("Allow it?")
            await screen.presses("y")
            await screen.shows("allowed, once")
            allowed = await anyio.to_thread.run_sync(one.answer)

            one.send("run", command="rm -rf other")
            await screen.shows("rm -rf other")
            await screen.presses("d")
            await screen.shows("Deny it?", "│ rm -rf other")
            await screen.presses("y")
            await screen.shows("denied")
            denied = await anyio.to_thread.run_sync(one.answer)
            await screen.hides("for you")

    assert any("rm -rf build" in line for line in first)
    assert allowed["exitCode"] == 0
    assert denied["exitCode"] == 126


@not_on_a_leash
async def test_for_good_shows_the_rule_and_a_long_card_is_read_to_its_end() -> None:
    text = "\n".join([*(f"echo {n}" for n in range(60)), "rm -rf build"])
    with own_environment() as env, agent(env) as one:
        async with top(env) as screen:
            one.send("run", command=text)
            await screen.shows("1 waits for you")
            await screen.presses("a")
            await screen.shows("more below")
            await screen.presses("y", "a")
            await screen.shows("more below")
            while "more below" in screen.text:
                await screen.presses("space")
                await screen._pilot.pause(0.3)
            await screen.presses("a")
            await screen.shows("Keep this rule?", "[[approved]]")
            await screen.presses("escape")
            await screen.shows("Allow it?")
            while "more below" in screen.text:
                await screen.presses("space")
                await screen._pilot.pause(0.3)
            await screen.presses("s")
            await screen.shows("allowed, session")
            answer = await anyio.to_thread.run_sync(one.answer)

    assert answer["exitCode"] == 0


@not_on_a_leash
async def test_on_a_small_screen_all_of_a_card_is_shown_before_a_yes_counts() -> None:
    text = "\n".join([*(f"echo {n}" for n in range(8)), "rm -rf '[red]build[/]' [/] the-end"])
    with own_environment() as env, agent(env) as one:
        async with top(env, size=(40, 10)) as screen:
            one.send("run", command=text)
            await screen.shows("waits for you")
            await screen.presses("a")
            await screen.shows("more below", "echo 0", "no in", "╰")
            seen = screen.text
            while "more below" in screen.text:
                await screen.presses("y", "space")
                await screen._pilot.pause(0.3)
                seen += screen.text
            await screen.shows("Allow it?", "[n] deny", "leave it", "no in")
            await screen.presses("y")
            await screen.shows("allowed, once")
            answer = await anyio.to_thread.run_sync(one.answer)

    assert answer["exitCode"] == 0
    assert all(line in seen for line in ("echo 7", "[red]build[/]", "the-end", "deletes whole"))


@not_on_a_leash
async def test_a_screen_on_which_nothing_can_be_read_gives_no_yes() -> None:
    with own_environment() as env, agent(env) as one:
        async with top(env, size=(2, 2)) as screen:
            one.send("run", command="rm -rf build")
            with anyio.fail_after(PATIENCE):
                while not any(key.startswith("question/") for key in screen.app.live.rows):
                    await screen._pilot.pause(0.05)
            for key in ("a", "y", "escape"):
                await screen.presses(key)
                await screen._pilot.pause(0.1)
            waiting = ask(servers(env)[0].path, "pending")["questions"]

    assert isinstance(waiting, list)
    assert [row["command"] for row in waiting] == ["rm -rf build"]


@not_on_a_leash
async def test_runs_are_ended_after_asking_back_and_limits_are_made_longer() -> None:
    with own_environment() as env, agent(env) as one:
        one.start("trap '' TERM; yes stubborn | (sleep 300)", timeoutSeconds=290)
        async with top(env) as screen:
            await screen.shows("trap", "4:")
            await screen.presses("plus")
            await screen.shows("5 minutes more", "9:")
            await screen.presses("x")
            await screen.shows("with SIGTERM")
            await screen.presses("n")
            await screen.hides("with SIGTERM")
            await screen.presses("X")
            await screen.shows("with SIGKILL, at once", "stubborn")
            await screen.presses("y")
            await screen.shows("nobody is left", "✗ stopped", "0 running")
            await screen.presses("x")
            await screen.shows("Select something that runs")
            await screen.presses("a")
            await screen.shows("Nothing waits for an answer")


@not_on_a_leash
async def test_a_question_settled_elsewhere_and_a_server_that_dies_are_told() -> None:
    with own_environment() as env, agent(env) as one:
        async with top(env) as screen:
            await screen.shows("1 server")
            one.send("run", command="rm -rf build")
            await screen.shows("1 waits for you")
            await screen.presses("a")
            await screen.shows("Allow it?")
            server = servers(env)[0]
            waiting = ask(server.path, "pending")["questions"]
            assert isinstance(waiting, list)
            bound = {name: waiting[0][name] for name in ("id", "digest")}
            ask(server.path, "answer", **bound, allowed=False)
            await screen.shows("settled elsewhere")
            await screen.hides("Allow it?")

            one.start("echo before; sleep 300")
            await screen.shows("echo before")
            await screen.presses("enter")
            await screen.shows("following")
            os.kill(server.pid, signal.SIGKILL)
            await screen.shows("server")
            await screen.presses("escape")
            await screen.shows("✗ lost", "0 servers")
            await screen.presses("x", "y")
            await screen.presses("enter")
            await screen.shows("its server has ended")


async def test_nothing_runs_and_who_may_not_steer_is_told_why() -> None:
    with own_environment() as env:
        async with top(env, why_not="a command of shelltie asks") as screen:
            await screen.shows("Nothing runs.", "0 servers")
            await screen.presses("j", "k", "enter", "x", "plus", "slash", "z", "enter")
            await screen.shows("Nothing that runs has this text")
            await screen.presses("escape", "question_mark")
            await screen.shows("next and previous row")
            await screen.presses("q")
            await screen.hides("next and previous row")
            with agent(env) as one:
                one.start("sleep 300")
                await screen.shows("sleep 300")
                await screen.presses("x")
                await screen.shows("Only a person may do this: a command of shelltie")


async def test_hostile_output_and_commands_are_text() -> None:
    hostile = "printf '[bold]\\033]0;t\\007\\033[31mred\\033[0m a \\342\\200\\256 b\\n'; sleep 300"
    with own_environment() as env, agent(env) as one:
        one.start(f"{hostile} # \u202e [red]\x1b[2J", pty=False)
        async with top(env) as screen:
            await screen.shows("printf '[bold]")
            await screen.presses("slash", *"202e", "enter")
            await screen.shows("printf '[bold]")
            await screen.presses("enter")
            await screen.shows("[bold]red a", "following")
            shown = screen.text

    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown)


@contextmanager
def at_terminal(env: Mapping[str, str], *command: str) -> Iterator["TerminalScreen"]:
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    argv = [*AT_TERMINAL, *command]
    env = {**env, "TERM": "xterm-256color"}
    with subprocess.Popen(
        argv, env=env, stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, start_new_session=True
    ) as process:
        os.close(slave)
        try:
            yield TerminalScreen(master, process)
        finally:
            process.kill()
            os.close(master)


class TerminalScreen:
    """A terminal of 80x24 that a person looks at."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self.master, self.process = master, process
        self.raw = b""
        self._emulator = Emulator(24, 80)

    async def shows(self, text: str) -> str:
        with anyio.fail_after(PATIENCE):
            while text not in (shown := "\n".join(self._emulator.display)):
                await self._read()
        return shown

    async def _read(self) -> None:
        await anyio.wait_readable(self.master)
        try:
            piece = os.read(self.master, 65536)
        except OSError:  # everybody has closed it
            await anyio.sleep(0.05)
            return
        self.raw += piece
        self._emulator.take(piece)

    async def leaves(self) -> int:
        with anyio.fail_after(PATIENCE):
            while self.process.poll() is None:
                with anyio.move_on_after(0.1):
                    await self._read()
        return self.process.returncode


@pytest.mark.parametrize("leave", ["q", "SIGTERM"])
async def test_at_a_terminal_it_fits_and_leaves_it_as_it_was(leave: str) -> None:
    with own_environment() as env, agent(env) as one:
        one.start("sleep 300", timeoutSeconds=200)
        plain = {**env, "NO_COLOR": "1"} if leave == "q" else env
        with at_terminal(plain, *SHELLTIE, "top") as screen:
            shown = await screen.shows("q quit")
            shown = await screen.shows("sleep 300")
            if leave == "q":
                os.write(screen.master, b"q")
            else:
                screen.process.terminate()
            code = await screen.leaves()

    assert code == 0
    assert "claude-code" in shown
    assert "█" in shown
    assert screen.raw.rindex(b"\x1b[?1049l") > screen.raw.rindex(b"\x1b[?1049h")
    assert bool(COLOURED.search(screen.raw.decode())) is (leave != "q")


async def test_without_its_extra_it_says_how_to_get_it_and_lists() -> None:
    program = "import sys; sys.modules['textual'] = None; from shelltie.frontends.entry import *"
    with own_environment() as env, agent(env) as one:
        one.start("sleep 300")
        command = (SHELLTIE[0], "-c", f"{program}; program()", "top")
        with at_terminal(env, *command) as screen:
            await screen.shows("sleep 300")
            said = screen.raw.decode()

    assert "shelltie[top]" in said
    assert "ps --watch" in said


@pytest.mark.parametrize("argument", [(), ("--frobnicate",), ("word",)])
def test_without_a_terminal_or_with_wrong_arguments_it_says_so(argument: tuple[str]) -> None:
    command = [*SHELLTIE, "top", *argument]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, text=True, check=False)

    assert done.returncode == 2
    assert ("needs a terminal" if not argument else "unknown") in done.stderr
    assert "Traceback" not in done.stderr


@not_on_a_leash
async def test_what_stays_is_seen_followed_and_ended_though_no_server_has_it(
    tmp_path: Path,
) -> None:
    config = Config.of(state_dir=str(tmp_path / "state"))
    async with shelltie.Terminal(config) as terminal:
        run = await terminal.start("echo out $((6*7)); read a; sleep 300", stays=True, silence=0)
        await until(lambda: run.output.total > 0)
    holder = StayingHolder(config, "shelltie top")
    live = LiveRows(dict(os.environ), config.journal, holder)
    with closing(holder), monitor_socket.listening(dict(os.environ)) as listeners:
        app = TopApp(live, listeners)
        async with app.run_test(size=(100, 24), notifications=True) as pilot:
            screen = TopScreen(app, pilot)
            await screen.shows("echo out $((6*7))", "stays", "0 servers")
            await screen.presses("enter")
            await screen.shows("out 42", "following")
            await screen.presses("escape", "x")
            await screen.shows("End it and all its processes")
            await screen.presses("y")
            await screen.shows("has ended, nobody is left")
            await screen.shows("✗ stopped")
    await until(lambda: not list(stay_folder(config).iterdir()))
