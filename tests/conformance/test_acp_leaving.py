"""`shelltie acp` when somebody leaves, dies, floods or was called wrongly: nothing is left."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import psutil
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.acp_pair import DEVNULL, HELLO, LIMIT, PROGRAM, SESSION, Pair, leave, pair
from tests.tree import new_tag, nobody_left, tagged, until


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[Pair]:
    async with pair(tmp_path) as both:
        await both.begin(tmp_path)
        yield both


@pytest.mark.proves("T1-25", "S1-20", "S1-40", "S1-55")
@pytest.mark.parametrize("how", ["close", "SIGTERM", "SIGKILL", "agent"])
async def test_whoever_leaves_nobody_is_left(tmp_path: Path, how: str) -> None:
    tag = new_tag()
    async with pair(tmp_path) as both:
        await both.begin(tmp_path)
        await both.agent.terminal("sh", "-c", f"setsid sleep 300.{tag} & exec sleep 301.{tag}")
        puppet = [one for one in psutil.process_iter(["cmdline"]) if _is_puppet(one, tmp_path)]
        await until(lambda: len(tagged(tag)) >= 2)

        if how == "close":
            await leave(both.process)
        elif how == "agent":
            puppet[0].kill()
        else:
            os.kill(both.process.pid, signal.Signals[how])

        with anyio.fail_after(LIMIT):
            code = await both.process.wait()
        await nobody_left(tag, LIMIT)
        await until(lambda: not any(one.is_running() for one in puppet), LIMIT)
    assert len(puppet) == 1
    in_time_or_not = (0, 143)  # on a busy machine the puppet may need to be told twice
    wanted = {"close": in_time_or_not, "SIGTERM": in_time_or_not}
    assert code in wanted.get(how, (-9, 137))


def _is_puppet(process: psutil.Process, place: Path) -> bool:
    words = process.info["cmdline"] or []
    return "-I" in words and str(place / "strings") in words and "acp" not in words


async def test_an_agent_that_dies_in_the_middle_of_a_call_leaves_nobody(tmp_path: Path) -> None:
    tag = new_tag()
    agent = tmp_path / "agent.py"
    agent.write_text(_DIES.replace("TAG", tag))
    process = await anyio.open_process([*PROGRAM, "--", sys.executable, str(agent)])
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None

    await process.stdin.send(HELLO)

    with anyio.fail_after(LIMIT):
        said = b"".join([chunk async for chunk in process.stdout])
        complained = b"".join([chunk async for chunk in process.stderr])
        assert await process.wait() == 7
    assert (b"last words" in said, b"ouch" in complained) == (True, True)
    await nobody_left(tag, LIMIT)
    await process.aclose()


_DIES = """
import json, os, sys
sys.stdin.readline(), sys.stdin.readline()
say = lambda **m: print(json.dumps({"jsonrpc": "2.0", **m}), flush=True)
say(id=1, result={"sessionId": "s"})
params = {"sessionId": "s", "command": "sleep", "args": ["300.TAG"]}
say(id=5, method="terminal/create", params=params)
terminal = json.loads(sys.stdin.readline())["result"]["terminalId"]
say(id=6, method="terminal/wait_for_exit", params={"sessionId": "s", "terminalId": terminal})
say(method="session/x", params="x" * 1_000_000 + "last words")
os.write(2, b"ouch")
os._exit(7)
"""


@pytest.mark.parametrize(("grace", "code"), [(None, 7), ("0.2", 143)])
async def test_an_agent_has_some_seconds_to_leave_by_itself(
    tmp_path: Path, grace: str | None, code: int
) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text("import sys, time\nsys.stdin.read()\ntime.sleep(3.5)\nsys.exit(7)\n")
    env = {**os.environ, **({} if grace is None else {"SHELLTIE_ACP_AGENT_GRACE": grace})}
    argv = [*PROGRAM, "--", sys.executable, "-I", str(agent)]

    with anyio.fail_after(LIMIT):
        done = await anyio.run_process(argv, input=b"", env=env, check=False)

    assert done.returncode == code


@pytest.mark.parametrize("read", [True, False])
async def test_an_agent_may_flood_its_stderr(tmp_path: Path, read: bool) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(
        "import sys\n"
        "sys.stderr.write('e' * 3_000_000)\nsys.stderr.flush()\n"
        'print(\'{"jsonrpc":"2.0","method":"done"}\', flush=True)\nsys.stdin.read()\n'
    )
    process = await anyio.open_process([*PROGRAM, "--", sys.executable, str(agent)])
    assert process.stdout is not None
    assert process.stderr is not None
    errors = process.stderr

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            if read:
                tasks.start_soon(_drain, errors)
            said = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 1000)
            assert b"done" in said
            tasks.cancel_scope.cancel()

    assert await leave(process) in (0, 143)
    await process.aclose()


async def _drain(stream: anyio.abc.ByteReceiveStream) -> None:
    async for _ in stream:
        pass


async def test_an_editor_that_reads_nothing_holds_nobody_at_the_end(tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text('while True: print(\'{"jsonrpc":"2.0"}\' * 1)\n')
    env = {**os.environ, "SHELLTIE_ACP_AGENT_GRACE": "0.2"}
    argv = [*PROGRAM, "--", sys.executable, str(agent)]
    process = await anyio.open_process(argv, stderr=DEVNULL, env=env)
    await anyio.sleep(1)

    process.terminate()

    with anyio.fail_after(LIMIT):
        await process.wait()
    await process.aclose()


async def test_a_thousand_questions_at_once_are_bounded(both: Pair) -> None:
    terminal = await both.agent.terminal("sleep", "300")
    ids = {"sessionId": SESSION, "terminalId": terminal}

    numbers = [await both.agent.request("terminal/wait_for_exit", **ids) for _ in range(1001)]

    assert "too many" in (await both.agent.answer_to(numbers[-1]))["error"]["message"]
    await both.agent.say(
        {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": numbers[0]}}
    )
    assert (await both.agent.answer_to(numbers[0]))["error"]["code"] == -32800
    assert await both.agent.of(terminal, "kill") == {}
    assert (await both.agent.answer_to(numbers[1]))["result"]["signal"] == "SIGTERM"


def test_the_program_needs_no_sdk() -> None:
    look = "import sys, shelltie.frontends.cli.commands.acp; sys.exit('acp' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", look], check=False).returncode == 0


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        ([], 2, "name the agent"),
        (["--", "no-such-agent"], 127, "not found"),
        (["--terminals", "never", "--", "x"], 2, "--terminals"),
        (["--display", "v3", "--", "x"], 2, "--display"),
        (["--total", "soon", "--", "x"], 2, "duration"),
    ],
)
async def test_a_wrong_command_line_says_what_is_wrong(
    argv: list[str], code: int, message: str
) -> None:
    done = await anyio.run_process(
        [*PROGRAM, *argv], check=False, stdin=DEVNULL, stderr=subprocess.PIPE
    )

    assert (done.returncode, message in done.stderr.decode()) == (code, True)


async def test_wrong_seconds_in_the_settings_start_no_agent(tmp_path: Path) -> None:
    env = {**os.environ, "SHELLTIE_ACP_COMMAND_TIMEOUTS": "cargo"}
    made = tmp_path / "made"

    done = await anyio.run_process(
        [*PROGRAM, "--", "touch", str(made)], check=False, stdin=DEVNULL, env=env
    )

    assert done.returncode == 125
    assert re.search(r"acp\.command_timeouts.*cargo=600", done.stderr.decode())
    assert not made.exists()
