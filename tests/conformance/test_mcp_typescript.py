"""The TypeScript SDK's client, which gives up after 60 s, here after 8: it never has to."""

import json
import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.conformance.raw_mcp import SERVER, server_environment
from tests.node_tools import NODE, node_environment, node_package

CLIENT = Path(__file__).parent.parent / "programs" / "waiting_client.mjs"
HEARING = CLIENT.with_name("hearing_client.mjs")
# Not 50 to 60 as the real ones: a busy machine does not become faster when we wait less.
GIVES_UP_AFTER, WINDOW = "8000", "2.5"
LONG = "echo on; sleep 11; echo done; exit 3"

pytestmark = pytest.mark.timeout(600)


async def wait_for(command: str, mode: str, patience: str) -> dict[str, Any]:
    """What the client says in the end."""
    package = node_package("@modelcontextprotocol/client", "2.4.0")
    environ = {
        **server_environment(),
        "PATH": node_environment()["PATH"],
        "SHELLTIE_MCP_PATIENCE": patience,
        "SHELLTIE_NOTIFY_FIRST_PROGRESS": "0.5",
        "SHELLTIE_NOTIFY_PROGRESS_INTERVAL": "1",
    }
    argv = [NODE, CLIENT, package, mode, GIVES_UP_AFTER, command, *SERVER]
    with anyio.fail_after(120):
        ended = await anyio.run_process(
            [str(word) for word in argv],
            env=environ,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
    said: dict[str, Any] = json.loads(ended.stdout)
    return said


@pytest.mark.proves("S3-71")
async def test_it_hears_that_a_command_hangs_and_that_it_was_ended() -> None:
    package = node_package("@modelcontextprotocol/client", "2.4.0")
    environ = server_environment()
    argv = [NODE, HEARING, package, "echo on; sleep 600", *SERVER]

    with anyio.fail_after(120):
        ended = await anyio.run_process(
            [str(word) for word in argv],
            env={**environ, "PATH": node_environment()["PATH"]},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    said: dict[str, Any] = json.loads(ended.stdout)
    assert said["status"] == "timeout"
    assert [one["level"] for one in said["heard"]] == ["warning", "error"]
    assert {one["logger"] for one in said["heard"]} == {"codex-timeout-watchdog"}
    assert "Will abort in" in said["heard"][0]["message"]
    assert "no output within" in said["heard"][1]["message"]


@pytest.mark.proves("C-23", "S3-2")
async def test_it_gets_its_answers_in_time_in_both_eras_with_and_without_progress() -> None:
    said: dict[tuple[str, str], dict[str, Any]] = {}

    async def one(mode: str, patience: str) -> None:
        said[mode, patience] = await wait_for(LONG, mode, patience)

    async with anyio.create_task_group() as tasks:
        for mode, patience in (("legacy", WINDOW), ("auto", WINDOW), ("legacy", "0")):
            tasks.start_soon(one, mode, patience)

    without = said.pop(("legacy", "0"))
    assert all("timed out" in end["gaveUp"].lower() for end in without["ends"])
    for told in said.values():
        end = {"status": "running", "printed": "on\ndone\n", "exitCode": 3}
        assert told["ends"] == [end, end]
        assert told["reports"]
