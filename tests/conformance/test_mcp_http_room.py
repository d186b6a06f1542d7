"""Whoever takes all the sessions there may be takes them from nobody else."""

from pathlib import Path

import pytest

from tests.conformance.http_mcp import HttpClient, http_client, http_server


async def start(client: HttpClient) -> dict[str, object]:
    return await client.call("terminal_start", command="sleep 600", maxWait=0)


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_limit_of_sessions_is_each_clients_own(tmp_path: Path, era: str) -> None:
    room = {"SHELLTIE_SESSIONS_MAX": "2", "SHELLTIE_SESSIONS_TOTAL": "3"}
    async with (
        http_server(tmp_path, **room) as server,
        http_client(server, era, name="greedy") as greedy,
        http_client(server, era, name="modest") as modest,
        http_client(server, era, name="late") as late,
    ):
        taken = [await start(greedy) for _ in range(3)]
        own = [await start(modest) for _ in range(2)]
        refused = await start(late)

    assert [one.get("errorCode") for one in taken] == [None, None, "MAX_SESSIONS_EXCEEDED"]
    assert str(taken[2]["error"]).startswith("2 of your sessions run or are being started, and 2")
    assert taken[2]["details"] == {"active": 2, "max": 2}
    assert [one.get("errorCode") for one in own] == [None, "MAX_SESSIONS_EXCEEDED"]
    assert "stop one of yours with terminal_stop" in str(own[1]["error"])
    assert refused["errorCode"] == "MAX_SESSIONS_EXCEEDED"
    assert "try again later" in str(refused["error"])
    assert "terminal_stop" not in str(refused["error"])


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_limit_of_task_sessions_is_each_clients_own(tmp_path: Path, era: str) -> None:
    room = {"ENABLE_TERMINAL_ACCESS": "true", "TERMINAL_MAX_SESSIONS": "1"}
    async with (
        http_server(tmp_path, **room) as server,
        http_client(server, era, name="greedy") as greedy,
        http_client(server, era, name="modest") as modest,
    ):
        said = [
            await one.call("terminal_create_session", taskId="B-1", agentId="me")
            for one in (greedy, greedy, modest)
        ]

    assert [one["success"] for one in said] == [True, False, True]
