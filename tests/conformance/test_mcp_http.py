"""The server on HTTP: who comes in, whose sessions they see, and what a lost connection means."""

import itertools
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from prometheus_client.parser import text_string_to_metric_families

from tests.conformance.http_mcp import (
    JSON,
    MODERN,
    HttpServer,
    answer_of,
    http_client,
    http_server,
    shared_server,
)
from tests.conformance.raw_mcp import ENVELOPE, hello
from tests.tree import new_tag, nobody_left, tagged, until

STAYS = "sleep 600.{tag}"
ERAS = ["legacy", "modern"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with shared_server(tmp_path_factory.mktemp("server")) as made:
        yield made


async def start(client: Any, tag: str) -> str:  # noqa: ANN401  whichever client
    """A session that stays; its id."""
    started = await client.call("terminal_start", command=STAYS.format(tag=tag), maxWait=0)
    await until(lambda: bool(tagged(tag)))
    return str(started["id"])


@pytest.mark.proves("TX-4")
async def test_the_sdks_client_works_over_http_in_both_eras(server: HttpServer) -> None:
    answers: dict[str, Any] = {}
    async with anyio.create_task_group() as tasks:
        headers = {"Authorization": f"Bearer {server.token}"}

        async def one(mode: Any) -> None:  # noqa: ANN401  the SDK's literal
            async with httpx2.AsyncClient(headers=headers, timeout=20, trust_env=False) as http:
                transport = streamable_http_client(server.url, http_client=http)
                async with Client(transport, mode=mode) as client:
                    for number in range(3):
                        said = await client.call_tool("run", {"command": f"echo {mode} {number}"})
                        answers[f"{mode} {number}\n"] = said.structured_content

        for mode in ("legacy", MODERN, "auto"):
            tasks.start_soon(one, mode)

    assert len(answers) == 9
    assert all(said["stdout"] == expected for expected, said in answers.items())
    assert all(said["timeoutReason"] is None for said in answers.values())  # nulls arrive


@pytest.mark.parametrize("era", ERAS)
async def test_every_request_is_answered_whatever_its_id(server: HttpServer, era: str) -> None:
    tag = new_tag()
    async with http_client(server, era) as client, anyio.create_task_group() as tasks:
        slow, headers = client.request("run", command=f"sleep 600.{tag}", timeout_sec=30)
        tasks.start_soon(client.post, slow, headers)
        await until(lambda: bool(tagged(tag)))
        said = []
        for number in (slow["id"], str(slow["id"]), 77):
            quick, headers = client.request("run", command="echo hi")
            said.append(await client.post({**quick, "id": number}, headers))
        gone = await client.post({**slow, "params": "{"}, headers)
        if era == "legacy":  # the others cancel by leaving
            told = {"method": "notifications/cancelled", "params": {"requestId": slow["id"]}}
            await client.post({"jsonrpc": "2.0", **told})
        tasks.cancel_scope.cancel()
    await nobody_left(tag)

    codes = [400, 400, 200] if era == "legacy" else [200] * 3
    assert [one.status_code for one in said] == codes
    assert answer_of(said[-1])["result"]["structuredContent"]["stdout"] == "hi\n"
    assert gone.status_code == 400
    if era == "legacy":
        refused = said[0].json()
        assert (refused["id"], refused["error"]["code"]) == (None, -32600)
        assert "use each id once" in refused["error"]["message"]


@pytest.mark.proves("C-83")
async def test_what_happens_after_the_answer_is_told_on_the_open_stream(tmp_path: Path) -> None:
    heard: list[dict[str, Any]] = []
    async with (
        http_server(tmp_path, SHELLTIE_MCP_PATIENCE="0.5") as server,
        http_client(server, "legacy") as client,
        client.http.stream("GET", server.url, headers=client.headers) as stream,
    ):
        limits = {"no_output_timeout_sec": 0, "timeout_sec": 6}
        answer = await client.call("run", command="sleep 60", **limits)
        with anyio.fail_after(50):
            async for line in stream.aiter_lines():
                if line.startswith("data: {"):
                    heard.append(json.loads(line.removeprefix("data: ")))
                if heard and "code" in heard[-1]["params"].get("data", {}):
                    break  # a warning came before

    assert answer["status"] == "running"
    data = heard[-1]["params"]["data"]
    assert (data["sessionId"], data["code"]) == (answer["sessionId"], "ETIMEDOUT")


async def test_nobody_comes_in_without_a_token_or_under_a_strange_name(server: HttpServer) -> None:
    async with httpx2.AsyncClient(timeout=20, trust_env=False) as http:
        port = httpx2.URL(server.url).port
        good = {**JSON, "Authorization": f"Bearer {server.token}"}
        cases: list[tuple[int, dict[str, str]]] = [
            (401, JSON),
            (401, {**JSON, "Authorization": "Bearer"}),
            (401, {**JSON, "Authorization": f"Basic {server.token}"}),
            (401, {**JSON, "Authorization": f"Bearer {server.token}x"}),
            (421, {**good, "Host": "example.com"}),
            (421, {**good, "Host": f"127.0.0.1.example.com:{port}"}),
            (403, {**good, "Origin": "http://example.com"}),
            (403, {**good, "Origin": "null"}),
            (403, {**good, "Origin": "http://localhost:1"}),
            (200, {**good, "Origin": f"http://localhost:{port}"}),
            (200, {**good, "Host": "localhost:9"}),  # forwarded from there
            (200, good),
        ]
        for status, headers in cases:
            answer = await http.post(server.url, json=hello(), headers=headers)
            assert answer.status_code == status, headers
        elsewhere = await http.get(server.url.replace("/mcp", "/.well-known/oauth-protected"))
        refused = await http.post(server.url, json=hello(), headers=JSON)

    assert elsewhere.status_code == 404
    assert "Authorization: Bearer TOKEN" in elsewhere.json()["error_description"]
    # Without the address of an issuer: there is none, and no client shall look for it.
    assert refused.headers["www-authenticate"] == 'Bearer realm="shelltie"'


async def test_whoever_has_a_token_reads_the_figures(server: HttpServer) -> None:
    address = server.url.replace("/mcp", "/metrics")
    good = {"Authorization": f"Bearer {server.token}"}
    async with httpx2.AsyncClient(timeout=20, trust_env=False) as http:
        stranger = await http.get(address)
        wrong = await http.get(address, headers={**good, "Host": "example.com"})
        written = await http.post(address, headers=good, content=b"x")
        figures = await http.get(address, headers=good)

    assert (stranger.status_code, wrong.status_code, written.status_code) == (401, 421, 405)
    assert figures.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    names = {family.name for family in text_string_to_metric_families(figures.text)}
    assert {"shelltie_runs", "shelltie_sessions_active"} <= names


async def test_the_file_of_tokens_is_made_closed_and_obeyed_when_it_changes(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        mode = stat.S_IMODE(server.tokens.stat().st_mode)
        first, second = server.token, "second-" + "x" * 30
        async with http_client(server, "legacy") as client:
            with server.tokens.open("a", encoding="ascii") as file:
                file.write(f"{second}\n")
            async with http_client(server, "legacy", token=second) as other:
                both = [
                    (await one.call("run", command="echo in"))["stdout"] for one in (client, other)
                ]
                server.tokens.write_text(f"{second}\n", encoding="ascii")
                revoked = await client.post(*client.request("run", command="echo in"))
                kept = await other.call("run", command="echo still in")

    assert (mode, both) == (0o600, ["in\n", "in\n"])
    assert first != second
    assert revoked.status_code == 401
    assert kept["stdout"] == "still in\n"


async def test_clients_with_the_same_token_see_only_their_own_sessions(server: HttpServer) -> None:
    for first, second in itertools.product(ERAS, ERAS):
        tag = new_tag()
        async with (
            http_client(server, first, name="one") as one,
            http_client(server, second, name="two") as two,
        ):
            theirs = await start(one, tag)
            seen = [await one.listed(), await two.listed()]
            read = await two.call("terminal_output", sessionId=theirs)
            stopped = await two.call("terminal_stop", sessionId=theirs)
            alive = len(tagged(tag))
            await one.call("terminal_stop", sessionId=theirs)
            await nobody_left(tag)

        assert seen == [[theirs], []], (first, second)
        assert read["errorCode"] == stopped["errorCode"] == "SESSION_NOT_FOUND"
        assert alive


async def test_another_token_is_another_client_whatever_it_says(server: HttpServer) -> None:
    second, name = f"second-{new_tag()}-xxxxxxxxxxxxxxxx", new_tag()
    async with (
        http_client(server, "legacy", name=name) as legacy,
        http_client(server, "modern", name=name) as modern,
    ):
        with server.tokens.open("a", encoding="ascii") as file:
            file.write(f"{second}\n")
        async with http_client(server, "modern", name=name, token=second) as thief:
            for client in (legacy, modern):
                theirs = await start(client, new_tag())
                seen = await thief.listed()
                refused = await thief.call("terminal_stop", sessionId=theirs)
                assert (seen, refused["errorCode"]) == ([], "SESSION_NOT_FOUND")
            thief.session = legacy.session
            stolen = await thief.post(*thief.request("terminal_list"))
        mine = [len(await client.listed()) for client in (legacy, modern)]

    assert stolen.status_code == 404
    assert mine == [1, 1]


async def test_a_lost_connection_cancels_where_the_protocol_says_so_and_only_there(
    tmp_path: Path, server: HttpServer
) -> None:
    tag, go, written = new_tag(), tmp_path / "go", tmp_path / "written"
    modern = f"echo x; sleep 600.{tag}"
    legacy = f": {tag}; until [ -e {go} ]; do sleep 0.05; done; echo done > {written}"
    for era, command in (("modern", modern), ("legacy", legacy)):
        async with http_client(server, era) as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.post, *client.request("run", command=command))
                await until(lambda: bool(tagged(tag)))
                tasks.cancel_scope.cancel()
        if era == "modern":
            await nobody_left(tag)
    go.touch()
    await until(written.exists)


async def test_who_ends_their_session_leaves_nothing_behind_and_takes_nothing_along(
    server: HttpServer,
) -> None:
    ended, stays = new_tag(), new_tag()
    async with (
        http_client(server, "legacy") as one,
        http_client(server, "legacy") as two,
    ):
        await start(one, ended)
        theirs = await start(two, stays)
        deleted = await one.http.delete(one.url, headers=one.headers)
        await nobody_left(ended)
        gone = await one.post(*one.request("terminal_list"))
        seen = await two.listed()

    assert (deleted.status_code, gone.status_code) == (200, 404)
    assert seen == [theirs]


async def test_who_stays_away_has_left(tmp_path: Path) -> None:
    tags, alive = {era: new_tag() for era in ERAS}, {}
    async with http_server(tmp_path, SHELLTIE_HTTP_IDLE="6") as server:

        async def come_and_go(era: str) -> None:
            async with http_client(server, era) as client:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(client.post, *client.request("run", command="sleep 7"))
                    await start(client, tags[era])
                alive[era] = bool(tagged(tags[era]))  # an unanswered call is a presence

        async with anyio.create_task_group() as tasks:
            for era in ERAS:
                tasks.start_soon(come_and_go, era)
        for tag in tags.values():
            await nobody_left(tag)

    assert alive == dict.fromkeys(ERAS, True)


async def test_a_session_that_is_unknown_or_missing_is_refused(server: HttpServer) -> None:
    async with http_client(server, "legacy") as client:
        client.session = "0" * 32
        unknown = await client.post(*client.request("terminal_list"))
        client.session = None
        message, headers = client.request("terminal_list")
        bare = {k: v for k, v in headers.items() if not k.lower().startswith("mcp-")}
        missing = await client.post(message, bare)

    assert unknown.status_code == 404
    assert missing.status_code == 400


async def test_the_version_header_and_the_body_must_agree(server: HttpServer) -> None:
    async with http_client(server, "modern") as client:
        message, headers = client.request("run", command="echo hi")
        agreed = await client.post(message, headers)
        other = await client.post(message, headers | {"Mcp-Name": "bash"})
        unknown = await client.post(message, headers | {"MCP-Protocol-Version": "2099-01-01"})

    assert answer_of(agreed)["result"]["structuredContent"]["stdout"] == "hi\n"
    assert (other.status_code, other.json()["error"]["code"]) == (400, -32020)
    assert unknown.status_code == 400
    assert unknown.json()["error"]["code"] in (-32020, -32022)
    assert MODERN in headers.values()


async def test_a_cancelled_call_is_not_answered_but_its_response_ends(server: HttpServer) -> None:
    tag, ended = new_tag(), list[httpx2.Response]()
    async with http_client(server, "legacy") as client:

        async def ask(message: dict[str, Any], headers: dict[str, str]) -> None:
            ended.append(await client.post(message, headers))

        async with anyio.create_task_group() as tasks:
            slow, headers = client.request("run", command=f"sleep 600.{tag}", timeout_sec=60)
            tasks.start_soon(ask, slow, headers)
            await until(lambda: bool(tagged(tag)))
            told = {"method": "notifications/cancelled", "params": {"requestId": slow["id"]}}
            await client.post({"jsonrpc": "2.0", **told})
        await nobody_left(tag)
        again = await client.post({**client.request("run", command="echo hi")[0], "id": slow["id"]})

    assert ended[0].status_code == 200
    assert "data: {" not in ended[0].text
    assert answer_of(again)["result"]["structuredContent"]["stdout"] == "hi\n"


@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel", "tasks/update"])
async def test_a_request_about_a_task_names_it_in_its_header(
    server: HttpServer, method: str
) -> None:
    declared: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    meta = {**ENVELOPE, "io.modelcontextprotocol/clientCapabilities": declared}
    async with http_client(server, "modern") as client:
        call, headers = client.request("run", command="sleep 600", timeout_sec=600)
        call["params"]["_meta"] = meta
        task = answer_of(await client.post(call, headers))["result"]["taskId"]
        params = {"taskId": task, "inputResponses": {}, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": 90, "method": method, "params": params}
        named = client.headers | {"Mcp-Method": method}
        missing, wrong, right = [
            await client.post(message, named | more)
            for more in ({}, {"Mcp-Name": "other"}, {"Mcp-Name": task})
        ]
        about = {"Mcp-Method": "tasks/cancel", "Mcp-Name": task}
        await client.post({**message, "method": "tasks/cancel"}, client.headers | about)

    for refused in (missing, wrong):
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32020)
    assert right.status_code == 200
