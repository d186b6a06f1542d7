"""Commands that an agent runs by itself come to us: through MCP, and through its shell."""

import json
import os
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.acp_pair import HELLO, LIMIT, PROGRAM, SESSION, Message, leave, pair

CALLS: list[Message] = [
    {
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "some-agent", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {
        "id": 2,
        "method": "tools/call",
        "params": {"name": "run", "arguments": {"command": "echo from-mcp"}},
    },
]


def called(server: Message, cwd: Path) -> Message:
    """The answer of an MCP server to a `run`, started as an agent starts it: with a bare env."""
    env = {"PATH": os.environ["PATH"], **{one["name"]: one["value"] for one in server["env"]}}
    argv = [server["command"], *server["args"]]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, env=env, cwd=cwd, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for call in CALLS:
            print(json.dumps({"jsonrpc": "2.0", **call}), file=process.stdin, flush=True)
        answers = (json.loads(line) for line in process.stdout)
        return next(dict(one) for one in answers if one.get("id") == 2)


@pytest.mark.timeout(120)
async def test_a_session_gets_our_mcp_server_and_the_end_says_what_came_through_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "shelltie.py").write_text("raise SystemExit('this is the project, not shelltie')")
    with (tmp_path / "stderr").open("wb") as complaints:
        async with pair(tmp_path, "--mcp", complaints=complaints) as both:
            await both.begin(tmp_path)
            number = await both.editor.request("session/new", cwd=str(tmp_path), mcpServers=[])
            (server,) = (await both.agent.hear())["params"]["mcpServers"]
            await both.agent.say({"jsonrpc": "2.0", "id": number, "result": {"sessionId": "s2"}})
            ids = {"sessionId": "s2", "cwd": str(tmp_path)}
            await both.editor.request("session/load", **ids, mcpServers=[server])
            loaded = (await both.agent.hear())["params"]["mcpServers"]
            terminal = await both.agent.terminal("echo", "hello")
            await both.agent.of(terminal, "wait_for_exit")

            answer = await anyio.to_thread.run_sync(called, server, tmp_path)
            await leave(both.process)

    assert loaded == [server]
    assert "from-mcp" in json.dumps(answer)
    said = (tmp_path / "stderr").read_text()
    assert "shelltie: 1 command of the agent through terminals, 1 through MCP; it may have" in said


async def test_without_the_option_sessions_pass_to_the_byte(tmp_path: Path) -> None:
    odd = {"jsonrpc": "2.0", "id": 9, "method": "session/load", "params": {"sessionId": SESSION}}
    line = json.dumps(odd, indent=None, separators=(" ,", ": ")).encode()
    async with pair(tmp_path) as both:
        await both.begin(tmp_path)

        await both.editor.say_bytes(line + b"\n")

        assert await both.agent.hear_bytes() == line


RUNS_ITSELF = """
import json, os, shlex, subprocess, sys
sys.stdin.readline(), sys.stdin.readline()
say = lambda **m: print(json.dumps({"jsonrpc": "2.0", **m}), flush=True)
say(id=1, result={"sessionId": "s"})
prefix = os.environ["CLAUDE_CODE_SHELL_PREFIX"]
def shell(line, **more):
    argv = ["bash", "-c", prefix + " " + shlex.quote(line)]
    done = subprocess.run(argv, capture_output=True, text=True, **more)
    return [done.returncode, done.stdout, done.stderr]
def tool(command):
    left = " && pwd -P >| " + shlex.quote(os.getcwd() + "/left")
    snapshot = "source /none/snapshot.sh 2>/dev/null || true"
    return shell(snapshot + " && eval " + shlex.quote(command) + " < /dev/null" + left)
said = {
    "code": tool("echo 'a b' \\"$0\\" >&2; exit 3"),
    "moved": tool("mkdir in\\\\ side; cd in\\\\ side; echo $CLAUDE_CODE_SHELL_PREFIX"),
    "left": open("left").read(),
    "refused": tool("touch made; git push --force"),
    "server": shell("cat; exit 5", input="to a server"),
}
say(method="session/x", params=said)
"""


@pytest.mark.timeout(120)
async def test_the_shell_of_claude_code_runs_through_us_and_its_servers_do_not(
    tmp_path: Path,
) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(RUNS_ITSELF)
    argv = [*PROGRAM, "--wrap-shell", "--", sys.executable, str(agent)]
    patient = {"SHELLTIE_ENVIRONMENT_PATH": "inherit", "SHELLTIE_ACP_AGENT_GRACE": "100"}
    env = {**os.environ, **patient}

    done = await anyio.run_process(argv, input=HELLO, env=env, cwd=tmp_path, check=False)

    lines = [json.loads(line) for line in done.stdout.splitlines()]
    said = next(line["params"] for line in lines if line.get("method") == "session/x")
    assert said["code"][:2] == [3, ""]
    assert said["code"][2].startswith("a b ")
    assert said["moved"] == [0, "\n", ""]
    assert said["left"] == f"{tmp_path}/in side\n"
    assert (said["refused"][0], "a person must approve" in said["refused"][2]) == (126, True)
    assert not (tmp_path / "made").exists()
    assert said["server"] == [5, "to a server", ""]
    assert b"2 through its shell" in done.stderr
    assert not list((tmp_path / "xdg-state" / "shelltie").glob("acp-*"))


async def test_a_prefix_that_somebody_has_set_stays(tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text("import os, sys\nsys.exit(os.environ['CLAUDE_CODE_SHELL_PREFIX'] != 'mine')")
    argv = [*PROGRAM, "--wrap-shell", "--", sys.executable, str(agent)]
    env = {**os.environ, "CLAUDE_CODE_SHELL_PREFIX": "mine"}

    with anyio.fail_after(LIMIT):
        done = await anyio.run_process(argv, input=b"", env=env, check=False)

    assert done.returncode == 0
    assert b"CLAUDE_CODE_SHELL_PREFIX is set already" in done.stderr
