"""A person's terminal as the terminal of a session: real terminals on both sides."""

import signal

import pytest

from shelltie.frontends.cli.main import main
from tests.asking import not_on_a_leash
from tests.served import person, served

DETACH = "\x1d"


async def test_whoever_only_watches_types_nothing() -> None:
    async with served() as server:
        await server.start("stty -echo; echo before; cat", waitFor="before")
        async with person("attach", "term-1") as somebody:
            await somebody.sees("attached to term-1 (read-only; --write to type): ctrl-] detaches")
            await somebody.sees("before\r\n")
            somebody.types("hello\r")
            await somebody.sees("\a")
            typed = {"stdin": "from the client", "maxWait": 0}
            await server.call("terminal_continue", sessionId="term-1", **typed)
            await somebody.sees("from the client\r\n")
            somebody.types(DETACH)
            await somebody.sees("detached from term-1; it runs on.")
            code = await somebody.leaves()
            restored = somebody.as_before
        said = await server.call("terminal_output", sessionId="term-1")

    assert (code, restored) == (0, True)
    assert said["output"] == "before\nfrom the client\n"
    assert said["running"]


async def test_ctrl_c_of_a_watcher_is_for_nobody_else() -> None:
    async with served() as server:
        await server.start("echo here; sleep 300")
        async with person("attach", "term-1") as somebody:
            await somebody.sees("here\r\n")
            somebody.types("\x03")
            await somebody.sees("it runs on.")
            code = await somebody.leaves()
        said = await server.call("terminal_output", sessionId="term-1")

    assert (code, said["running"]) == (0, True)


@not_on_a_leash
async def test_with_write_keys_and_size_are_the_sessions() -> None:
    async with served() as server:
        await server.start("bash --norc -i", env={"PS1": "$ "})
        async with person("attach", "term-1", "--write", rows=31, columns=97) as somebody:
            await somebody.sees("what you type goes to it")
            somebody.types("stty size\r")
            await somebody.sees("31 97\r\n")
            somebody.types("until stty size | grep '20 70'; do sleep 0.1; done\r")
            somebody.resizes(20, 70)
            await somebody.sees("\r20 70\r\n")
            # Not by bash itself: between fork and tcsetpgrp a ctrl-c is for bash, and ends nothing.
            somebody.types("sh -c 'printf ready; exec sleep 300'\r")
            await somebody.sees("\rready")
            somebody.types("\x03")
            await somebody.sees("^C")
            somebody.types("echo =$?=\r")
            await somebody.sees("=130=\r\n")
            somebody.types(DETACH)
            code = await somebody.leaves()
            restored = somebody.as_before

    assert (code, restored) == (0, True)


@not_on_a_leash
async def test_the_end_of_the_session_gives_the_terminal_back() -> None:
    async with served() as server:
        await server.start("printf '\\033[?1049h\\033[?25lscreen'; read line; exit 5")
        async with person("attach", "term-1", "--write") as somebody:
            await somebody.sees("screen")
            somebody.types("x\r")
            await somebody.sees("\x1b[?1049l")
            await somebody.sees("\x1b[?25h")
            await somebody.sees("term-1 has ended: exit code 5.")
            code = await somebody.leaves()
            restored = somebody.as_before

    assert (code, restored) == (0, True)


async def test_so_does_the_end_of_the_server() -> None:
    async with served() as server:
        await server.start("echo here; sleep 300")
        async with person("attach", "term-1") as somebody:
            await somebody.sees("here\r\n")
            server.die()
            await somebody.sees(f"the server {server.pid} is gone")
            code = await somebody.leaves()
            restored = somebody.as_before

    assert (code, restored) == (125, True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
async def test_so_does_a_signal(number: signal.Signals) -> None:
    async with served() as server:
        await server.start("echo here; sleep 300")
        async with person("attach", "term-1") as somebody:
            await somebody.sees("here\r\n")
            assert not somebody.as_before
            somebody.process.send_signal(number)
            code = await somebody.leaves()
            restored = somebody.as_before

    assert (code, restored) == (128 + number, True)


@not_on_a_leash
async def test_what_an_old_screen_asked_is_not_answered_by_a_new_terminal() -> None:
    async with served() as server:
        await server.start("printf 'who\\033[c are\\033[6n you'; cat", waitFor="you")
        async with person("attach", "term-1", "--write") as somebody:
            await somebody.sees("who are you")
            somebody.types(DETACH)
            await somebody.leaves()


async def test_a_flood_can_be_left() -> None:
    async with served() as server:
        await server.start("yes 0123456789", waitFor="0123456789")
        async with person("attach", "term-1") as somebody:
            await somebody.sees("0123456789\r\n0123456789")
            somebody.types(DETACH)
            await somebody.sees("detached from term-1")
            code = await somebody.leaves()
            restored = somebody.as_before
        said = await server.call("run", command="echo alive")

    assert (code, restored, said["stdout"]) == (0, True, "alive\n")


async def test_without_a_terminal_on_either_side_it_says_what_to_use() -> None:
    async with served() as server:
        await server.start("cat", pty=False)
        async with person("attach", "term-1") as somebody:
            await somebody.sees("term-1 has no terminal: follow it with shelltie logs -f term-1")
            code = await somebody.leaves()

    assert code == 1


def test_a_pipe_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attach", "term-1"]) == 2
    assert "attach needs a terminal" in capsys.readouterr().err
