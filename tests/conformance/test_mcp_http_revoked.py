"""A token that is taken from the file: what its client runs, keeps open and listens to ends."""

from pathlib import Path

import anyio
import httpx2
import pytest

from tests.conformance.http_mcp import MODERN, HttpClient, http_client, http_server
from tests.conformance.raw_mcp import ENVELOPE
from tests.tree import new_tag, nobody_left, tagged, until

SECOND = "second-" + "x" * 30
TASKS = {
    **ENVELOPE,
    "io.modelcontextprotocol/clientCapabilities": {
        "extensions": {"io.modelcontextprotocol/tasks": {}}
    },
}


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_revoked_token_ends_its_commands_sessions_and_streams(
    tmp_path: Path, era: str
) -> None:
    run, session, kept, ends = new_tag(), new_tag(), new_tag(), list[int]()
    async with http_server(tmp_path) as server:
        with server.tokens.open("a", encoding="ascii") as file:
            file.write(f"{SECOND}\n")
        first = server.tokens.read_text(encoding="ascii").splitlines()[-2]
        async with (
            http_client(server, era, token=first) as client,
            http_client(server, era, token=SECOND) as other,
            anyio.create_task_group() as tasks,
        ):
            await client.call("terminal_start", command=f"sleep 600.{session}", maxWait=0)
            await other.call("terminal_start", command=f"sleep 600.{kept}", maxWait=0)
            tasks.start_soon(until_cut_off, client, ends, f"sleep 600.{run}")
            tasks.start_soon(listen, client, ends)
            await until(lambda: all(map(tagged, (run, session, kept))))
            server.tokens.write_text(f"{SECOND}\n", encoding="ascii")
            await nobody_left(run)
            await nobody_left(session)
            await until(lambda: len(ends) == 2)
            alive = bool(tagged(kept)), await other.listed()

    assert alive[0]
    assert len(alive[1]) == 1
    assert (tmp_path / "stderr").read_text(encoding="utf-8").count("\n") == 2


async def until_cut_off(client: HttpClient, ends: list[int], command: str) -> None:
    message, headers = client.request("run", command=command, timeout_sec=600)
    try:
        ends.append((await client.post(message, headers)).status_code)
    except httpx2.TransportError:
        ends.append(0)


async def listen(client: HttpClient, ends: list[int]) -> None:
    """On the stream that each era has."""
    if client.session is not None:
        stream = client.http.stream("GET", client.url, headers=client.headers)
    else:
        params = {"_meta": ENVELOPE, "notifications": {"resourcesListChanged": True}}
        message = {"jsonrpc": "2.0", "id": 99, "method": "subscriptions/listen", "params": params}
        headers = client.headers | {"Mcp-Method": "subscriptions/listen"}
        stream = client.http.stream("POST", client.url, json=message, headers=headers)
    async with stream as answer:
        async for _ in answer.aiter_bytes():
            pass
    ends.append(answer.status_code)


async def test_a_revoked_token_ends_its_tasks(tmp_path: Path) -> None:
    tag = new_tag()
    async with http_server(tmp_path) as server, http_client(server, "modern") as client:
        message, headers = client.request("run", command=f"sleep 600.{tag}", timeout_sec=600)
        message["params"]["_meta"] = TASKS
        made = (await client.post(message, headers)).json()["result"]
        alive = bool(tagged(tag))
        server.tokens.write_text(f"{SECOND}\n", encoding="ascii")
        await nobody_left(tag)

    assert (made["resultType"], alive) == ("task", True)
    assert MODERN in headers.values()


async def test_a_file_of_tokens_that_is_written_anew_ends_nothing(tmp_path: Path) -> None:
    tag = new_tag()
    async with http_server(tmp_path) as server, http_client(server, "modern") as client:
        await client.call("terminal_start", command=f"sleep 600.{tag}", maxWait=0)
        tokens = server.tokens.read_text(encoding="ascii")
        # It is empty between open and write, longer on a busy machine; two looks in a row that find
        # it so are a revocation. Hence some writes, and not as many as there can be.
        for _ in range(20):
            server.tokens.write_text(tokens, encoding="ascii")
            await anyio.sleep(0.1)
        listed = await client.listed()

    assert len(listed) == 1
