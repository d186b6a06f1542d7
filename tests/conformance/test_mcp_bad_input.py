"""Garbage on every wire: a protocol error, or nothing at all; and the server lives on."""

import json
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from tests.conformance.http_mcp import (
    HttpClient,
    HttpServer,
    answer_of,
    http_client,
    http_server,
    shared_server,
)
from tests.conformance.raw_mcp import raw_server, request

NO_IDS = ["null", "true", "1.5", "[]", "{}"]
NO_TOKENS: list[object] = [1.5, None, [], {}]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with shared_server(tmp_path_factory.mktemp("server")) as made:
        yield made


def with_id(number: str) -> bytes:
    return b'{"jsonrpc":"2.0","id":%s,"method":"ping"}' % number.encode()


async def test_an_id_that_is_none_is_told_and_nobody_waits(tmp_path: Path) -> None:
    async with raw_server(tmp_path) as client:
        await client.greet()
        for number in NO_IDS:
            await client.send_bytes(with_id(number) + b"\n")
            refusal = await client.receive()
            assert (refusal["id"], refusal["error"]["code"]) == (None, -32600), number
        await client.send({"jsonrpc": "2.0", "method": "no/such", "params": {"id": 1}})
        await client.send(request("", "ping"), request(10**30, "ping"))
        answers = [await client.receive(), await client.receive()]

    assert [answer["id"] for answer in answers] == ["", 10**30]


async def test_half_a_character_anywhere_ends_nobody(tmp_path: Path) -> None:
    half = b'"\\ud800"'
    lines = [
        with_id(half.decode()),
        b'{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":"x"}}' % half,
        b'{"jsonrpc":"2.0","id":%s,"result":{}}' % half,
        b'{"jsonrpc":"2.0","id":1,"method":%s}' % half,
        b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%s}}' % half,
        b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"run","arguments":{%s:1}}}'
        % half,
    ]
    async with raw_server(tmp_path) as client:
        await client.greet()
        await client.send_bytes(b"".join(line + b"\n" for line in lines))
        await client.send(request("last", "ping"))
        answers = [await client.receive()]
        while answers[-1].get("id") != "last":
            answers.append(await client.receive())

    assert {answer["id"] for answer in answers} <= {None, 1, 2, 3, "last"}


async def test_what_was_wrong_is_not_repeated_at_length(tmp_path: Path) -> None:
    long = "x" * 1_000_000
    async with raw_server(tmp_path) as client:
        await client.greet()
        await client.send(request(1, "tools/call", name="run", arguments={long: 1}))
        await client.send(request(2, "tools/call", name=long, arguments={}))
        await client.send(request(3, "tools/call", name="run", arguments={"comand": "ls"}))
        answers = [await client.receive() for _ in range(3)]

    assert all(len(json.dumps(answer)) < 10_000 for answer in answers)
    assert "did you mean command?" in json.dumps(answers)


async def test_a_token_for_progress_that_is_none_is_told_and_nothing_runs(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    arguments = {"command": f"touch {touched}"}
    async with raw_server(tmp_path) as client:
        await client.greet()
        for token in NO_TOKENS:
            meta = {"progressToken": token}
            await client.send(request(1, "tools/call", name="run", arguments=arguments, _meta=meta))
            refusal = await client.receive()
            assert refusal["error"]["code"] == -32602, token

    assert not touched.exists()


GARBAGE: list[tuple[bytes, int, int]] = [
    (b"", 400, -32700),
    (b"not json", 400, -32700),
    (b"\xff\xfe", 400, -32700),
    (b"[" * 100_000, 400, -32700),
    (b"[]", 400, -32600),
    (b"null", 400, -32600),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', 400, -32600),
    (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 400, -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":7}', 400, -32600),
]
# The SDK's transport with sessions has its own word for what is no message.
LEGACY = {-32600: -32602}


async def test_garbage_over_http_is_refused_and_the_server_lives_on(server: HttpServer) -> None:
    async with (
        http_client(server, "legacy") as legacy,
        http_client(server, "modern") as modern,
    ):
        for body, status, code in GARBAGE:
            answer = await modern.http.post(modern.url, content=body, headers=modern.headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), body[:50]
            answer = await legacy.http.post(legacy.url, content=body, headers=legacy.headers)
            told = answer.json()["error"]["code"]
            assert (answer.status_code, told) == (status, LEGACY.get(code, code)), body[:50]
        for client in (legacy, modern):
            for number in NO_IDS:
                answer = await client.http.post(
                    client.url, content=with_id(number), headers=client.headers
                )
                told = answer.json()["error"]["code"]
                assert (answer.status_code, told) == (400, -32600), number
            await refused_headers(client)
            assert (await client.call("run", command="echo alive"))["stdout"] == "alive\n"


async def refused_headers(client: HttpClient) -> None:
    message, headers = client.request("run", command="echo hi")
    for changed, status in (
        ({"Content-Type": "text/plain"}, 400),
        ({"Accept": "text/html"}, 406),
        ({"MCP-Protocol-Version": "2099-01-01"}, 400),
        ({"MCP-Protocol-Version": "garbage"}, 400),
    ):
        answer = await client.post(message, headers | changed)
        assert answer.status_code == status, changed
    for method in ("PUT", "PATCH", "OPTIONS", "HEAD"):
        answer = await client.http.request(method, client.url, headers=client.headers)
        assert answer.status_code == 405, method


async def test_three_megabytes_are_taken_and_more_than_the_limit_is_not(server: HttpServer) -> None:
    large = "x" * 3_000_000
    async with http_client(server, "modern") as client:
        said = await client.call("run", command="wc -c", stdin=large)
        too_large = await client.http.post(
            client.url, content=b"x" * (4 * 1024 * 1024 + 1), headers=client.headers
        )
        wrong = await client.call("run", command=large)

    assert said["stdout"].strip() == "3000000"
    assert too_large.status_code == 413
    assert wrong["errorCode"] == "INVALID_PARAMETERS"


async def test_a_request_that_never_ends_holds_nobody(tmp_path: Path) -> None:
    async with (
        http_server(tmp_path, SHELLTIE_HTTP_DRAIN="0.5") as server,
        http_client(server, "modern") as client,
    ):
        _, _, host, port = client.url.replace("/mcp", "").replace("//", ":").split(":")
        head = "".join(f"{name}: {value}\r\n" for name, value in client.headers.items())
        async with await anyio.connect_tcp(host, int(port)) as slow:
            await slow.send(f"POST /mcp HTTP/1.1\r\nHost: {host}:{port}\r\n{head}".encode())
            await slow.send(b"Content-Length: 1000\r\n\r\n{")
            said = answer_of(await client.post(*client.request("run", command="echo quick")))
            server.process.terminate()
            code = await server.exit_code()

    assert json.dumps(said).count("quick") >= 1
    assert code == 0


async def test_a_body_that_is_too_long_is_refused_with_the_limit(server: HttpServer) -> None:
    async with (
        http_client(server, "legacy") as legacy,
        http_client(server, "modern") as modern,
    ):
        for client in (legacy, modern):
            message, headers = client.request("run", command="true", stdin="x" * 4 * 1024 * 1024)
            answer = await client.http.post(client.url, json=message, headers=headers)

            assert answer.status_code == 413
            assert "4 MiB" in answer.json()["error"]
            assert (await client.call("run", command="echo alive"))["stdout"] == "alive\n"


async def test_a_long_name_of_a_method_is_not_sent_back(server: HttpServer) -> None:
    async with (
        http_client(server, "legacy") as legacy,
        http_client(server, "modern") as modern,
    ):
        for client in (legacy, modern):
            body = json.dumps({"jsonrpc": "2.0", "id": 77, "method": "x" * 1_000_000})
            answer = await client.http.post(client.url, content=body, headers=client.headers)

            assert len(answer.content) < 1000
            assert answer_of(answer)["id"] == 77
            assert answer_of(answer)["error"]["code"] == -32601
            assert (await client.call("run", command="echo alive"))["stdout"] == "alive\n"
