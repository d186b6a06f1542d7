"""What the record says about a task: who did what in which session, and how it ended."""

import json
from pathlib import Path
from typing import Any

import pytest

from shelltie.record import queries
from tests.conftest import Open
from tests.task_project import Project


def recorded(tmp_path: Path) -> list[dict[str, Any]]:
    """Every entry, as `shelltie audit export` prints it; starts may be part of their ends."""
    lines = [line.to_json() for line in queries.entries(tmp_path / "state" / "journal.db")]
    return [line for line in lines if line["kind"] not in ("started", "server_opened")]


@pytest.mark.proves("S4-2", "S4-37", "S4-53", "T4-19")
async def test_every_operation_of_a_task_is_on_record(
    open_terminal: Open, project: Project, tmp_path: Path
) -> None:
    async with open_terminal() as terminal, project.contexts(terminal) as call:
        session = await call.create("T-1")
        await call.execute(session, "echo", "hello", "--token=abcdefgh")
        await call.execute(session, "cat", "no such file")
        await call.execute(session, "rm", "-rf", "/")
        await call.execute(session, "echo", "$(id) --password=swordfish")
        await call.close(session)

    opened, ready, good, _, bad, refused, unsafe, closed, _ = lines = recorded(tmp_path)
    kinds = ["session_opened", "ready", "ended", "ready", "ended", "refused", "refused"]
    assert [line["kind"] for line in lines] == [*kinds, "session_closed", "server_closed"]
    for line in (opened, ready, refused, unsafe, closed):
        assert (line["session"], line["task"], line["agent"]) == (session, "T-1", "agent-1")
    assert all(line["at"] for line in lines)
    assert good["runId"] == ready["runId"]
    assert ready["command"].startswith("echo hello --token=")
    assert (good["exitCode"], bad["exitCode"]) == (0, 1)
    assert (good["output"]["stdout"], bad["output"]["stdout"]) == (23, 0)
    assert bad["output"]["stderr"] > 0
    assert good["duration"] > 0
    assert (refused["command"], refused["code"]) == ("rm -rf /", "COMMAND_NOT_ALLOWED")
    assert refused["details"]["allowedCommands"]
    assert unsafe["code"] == "UNSAFE_ARGUMENTS"
    assert unsafe["details"]
    assert closed["commands"] == 2
    for secret in ("abcdefgh", "swordfish"):
        assert secret not in json.dumps(lines)
